"""Compare variants of one method, paired: every prompt by greedy decoding and by each variant, in one process.

python -m scripts.compare OUT.csv method=sense dataset.num_samples=8 -- verifier.border=match "verifier.w=4 verifier.k=2"

What stands before `--` are settings as for run.py. Each word after it is one variant: settings that change drafter,
verifier or connector only. The variant "default" is always among them.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.paired import compare
from corpora.loading import load_corpus
from methods.pipeline import assemble
from methods.settings import compose, validate


def main() -> int:
    """Write the table as CSV and print its main columns."""
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    if split < 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    out, base = Path(sys.argv[1]), sys.argv[2:split]
    variants = {"default": compose(base)}
    for words in sys.argv[split + 1 :]:
        variants[words] = compose([*base, *words.split()])
    for settings in variants.values():
        validate(settings)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = variants["default"]
    table = compare(assemble(settings), variants, load_corpus(settings.dataset, "test"))
    table.to_csv(out, index=False, float_format="%.4f")
    shown = ["variant", "speedup", "tau", "quality", "distinct_4_ratio", "identical_share", "mean_common_prefix"]
    Console(width=160).print(table[[*shown, "nodes_per_pass", "overhead"]].to_string(index=False, float_format="%.3f"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare variants of one method, paired: every prompt by greedy decoding and by each variant, in one process.

python -m scripts.compare OUT.csv method=sense -- verifier.border=match "verifier.w=4 verifier.k=2"

What stands before `--` are settings as for run.py. Each word after it is one variant: settings that change drafter,
verifier or connector only, in the place of those before it. The variant "default" is always among them.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from benchmarks.paired import compare
from corpora.loading import load_corpus
from methods.pipeline import assemble
from methods.settings import Settings, compose, validate

FREE = {"drafter", "verifier", "connector", "method"}
SHOWN = ["variant", "speedup", "tau", "quality", "distinct_4_ratio", "identical_share", "mean_common_prefix"]


def main() -> int:
    """Write the table as CSV and print its main columns; exit code 2 for words that cannot work."""
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    if split < 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        variants = _variants(sys.argv[2:split], sys.argv[split + 1 :])
        settings = variants["default"]
        corpus = load_corpus(settings.dataset, "test")
        table = compare(assemble(settings), variants, corpus)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    table.to_csv(Path(sys.argv[1]), index=False, float_format="%.4f")
    shown = table[[*SHOWN, "nodes_per_pass", "overhead"]]
    Console(width=160).print(shown.to_string(index=False, float_format="%.3f"))
    return 0


def _variants(base: list[str], words: list[str]) -> dict[str, Settings]:
    """Return the settings of each variant by its words; ValueError if one changes what all must share."""
    variants = {"default": compose(base)} | {variant: compose(_changed(base, variant.split())) for variant in words}
    common = asdict(variants["default"])
    for name, settings in variants.items():
        validate(settings)
        changed = [key for key, value in asdict(settings).items() if value != common[key] and key not in FREE]
        if changed:
            raise ValueError(
                f"variant '{name}' changes {', '.join(changed)}, which all variants share: set it before the --"
            )
    return variants


def _changed(base: list[str], words: list[str]) -> list[str]:
    """Return the words of the base whose settings others do not set, and then those."""
    own = {word.partition("=")[0] for word in words}
    return [*(word for word in base if word.partition("=")[0] not in own), *words]


if __name__ == "__main__":
    sys.exit(main())

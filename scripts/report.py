"""Turn runs into one HTML file: comparison table, plots, and a viewer of how each text was made.

python -m scripts.report RUNS... [out=report.html]

RUNS are run folders, or folders that hold some at any depth. The file needs no network and nothing beside itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report.loading import load_runs
from benchmarks.report.page import page


def main(words: Sequence[str]) -> int:
    """Write the report and say where it is; exit code 2 for words that cannot work."""
    if {"--help", "-h"} & {*words}:
        sys.stdout.write(f"{__doc__}\n")
        return 0
    places = [word for word in words if not word.startswith("out=")]
    outs = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    if not places or len(outs) > 1 or "" in outs:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    out = Path(outs[0] if outs else "report.html")
    try:
        runs = load_runs([Path(place) for place in places])
        content = page(runs).encode()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(content)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    samples = sum(len(run.samples) for run in runs)
    sys.stdout.write(f"{out}: runs: {len(runs)}, samples: {samples}, {len(content) / 2**20:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

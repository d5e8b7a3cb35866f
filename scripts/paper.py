"""The SENSE paper's tables and figures in its layout, from result files alone; no model is loaded.

python -m scripts.paper NAME|all [runs=FOLDER,...] [out=FOLDER] [published=true]
python -m scripts.paper collect RUNS... out=results/<study>

NAME is table1 to table11, figure4 to figure8, acceptance, pareto or pareto_best. Without runs= every study under
results/ is redone, each into its own folder paper/; with it, out= is the folder paper/ within the first of them unless
it is given. published=true sets the paper's value and the ratio to it beside each cell. Tables become .md, .tex and
.csv (one line a cell, with interval and n), figures .png, .svg and the .csv of what they draw.

collect writes the runs found under some folders (results/runs, say) in a form small enough to be committed: manifest,
summary and the figures of each prompt, without texts and without paths.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.paper.items import ITEMS, write
from benchmarks.paper.runs import Runs
from benchmarks.paper.study import collect, studies
from benchmarks.paper.table import Table
from primitives.registry import nearest

RESULTS: Final = Path("results")
FOLDER: Final = "paper"
SWITCH: Final = {"true": True, "false": False}


def main() -> int:
    """Do what the command line says; exit code 2 for words that cannot work."""
    if {"--help", "-h"} & {*sys.argv[1:]}:
        sys.stdout.write(f"{__doc__}\n")
        return 0
    words = [word for word in sys.argv[1:] if "=" not in word]
    options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    if not words:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        if words[0] == "collect":
            _collect(words[1:], options)
        else:
            _draw(words, options)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _collect(roots: Sequence[str], options: dict[str, str]) -> None:
    _only(options, {"out"})
    if not roots or "out" not in options:
        raise ValueError(
            "collect needs folders with runs and out=<folder>, as in: collect results/runs out=results/mine"
        )
    folders = collect([Path(root) for root in roots], Path(options["out"]))
    _say(f"{len(folders)} runs written to {options['out']}")


def _draw(names: Sequence[str], options: dict[str, str]) -> None:
    _only(options, {"runs", "out", "published"})
    for name in names:
        if name not in {*ITEMS, "all"}:
            raise ValueError(f"unknown name '{name}': {nearest(name, [*ITEMS, 'all', 'collect'])}")
    published = options.get("published", "false")
    if published not in SWITCH:
        raise ValueError(f"published is '{published}'; it must be true or false")
    wanted = list(ITEMS) if "all" in names else list(names)
    for roots, out in _places(options):
        runs = Runs.load(roots)
        if not runs.runs:
            raise ValueError(f"there is no finished run under {', '.join(map(str, roots))}; run.py makes them")
        tables = {name: write(name, runs, out, SWITCH[published]) for name in wanted}
        _say(f"{len(runs.runs)} runs, {len(wanted)} tables and figures: {out}")
        for line in (*_unfinished(runs), *_missing(tables)):
            _say(line)


def _places(options: dict[str, str]) -> Iterator[tuple[list[Path], Path]]:
    """Yield the folders of runs that belong together, and where their tables go."""
    if "runs" in options:
        roots = [Path(root).expanduser() for root in options["runs"].split(",")]
        yield roots, Path(options.get("out", roots[0] / FOLDER)).expanduser()
        return
    found = studies(RESULTS)
    if not found:
        raise ValueError(f"there is no study under {RESULTS}/; name runs with runs=<folder>, such as runs=results/runs")
    if "out" in options and len(found) > 1:
        raise ValueError(f"out={options['out']} is one folder for {len(found)} studies; name one of them with runs=")
    yield from (([study], Path(options.get("out", study / FOLDER))) for study in found)


def _only(options: dict[str, str], allowed: set[str]) -> None:
    for key in options.keys() - allowed:
        raise ValueError(f"unknown option '{key}': {nearest(key, sorted(allowed))}")


def _unfinished(runs: Runs) -> Iterator[str]:
    if runs.unfinished:
        yield f"left out, not finished: {', '.join(map(str, runs.unfinished))}"


def _missing(tables: Mapping[str, Table]) -> Iterator[str]:
    for name, table in tables.items():
        rows = len(list(table.missing())) if table.complete else 0
        if rows:
            yield f"{name}: {rows} of {len(table.rows)} rows have empty cells, named below the table"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())

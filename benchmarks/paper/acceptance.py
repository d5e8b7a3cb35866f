"""Which drafted tokens are accepted: by how deep they lie in the tree, and by the pathway that let them in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from benchmarks.paper.cells import Cell, of_estimate
from benchmarks.paper.comparison import circumstances
from benchmarks.paper.names import method_name, set_name
from benchmarks.paper.pareto import planes
from benchmarks.paper.runs import Run, Runs
from benchmarks.paper.table import Cells, Labels, Table
from benchmarks.statistics import Floats, ratio_of_totals
from primitives.contract import Pathway

DEPTHS: Final = 8
DEPTH: Final = "accepted at depth"
PATHWAY: Final = "committed by"
WAYS: Final = {Pathway.EXACT: "exact", Pathway.TOP_K: "top-k", Pathway.WINDOW: "window", Pathway.RELAXED: "relaxed"}


def acceptance(runs: Runs) -> Table:
    """Return, for each method at its defaults, the share accepted at each depth and the share of each pathway."""
    rows = {(run.model, set_name(run.dataset), _label(run)): run for run in default_runs(runs)}
    cells: Cells = {(labels, column): cell for labels, run in rows.items() for column, cell in _row(run)}
    columns: list[Labels] = [(DEPTH, str(depth)) for depth in range(2, DEPTHS + 1)]
    columns += [(PATHWAY, way) for way in WAYS.values()]
    return Table(
        "acceptance",
        "Acceptance by depth and by pathway",
        ("Model", "Set", "Method"),
        list(rows),
        columns,
        cells,
        notes=[
            "Accepted at depth d: of the passes whose verified tree is at least d deep, the share that commits d "
            "tokens or more; depth 1 is the target's own next token, which every pass commits. Committed by: share of "
            "all tokens that passes commit. An empty cell is a depth that no tree of the method reaches.",
            *circumstances(list(rows.values())),
        ],
        complete=False,
    )


def default_runs(runs: Runs) -> list[Run]:
    """Return, for each model, set and method, the best run at the defaults that drafts anything."""
    found: dict[tuple[str, str, str], Run] = {}
    for model, dataset in planes(runs):
        own = [run for run in runs.runs if (run.model, run.dataset) == (model, dataset)]
        for run in sorted(own, key=lambda run: run.rank):
            if not run.variant and run.manifest["drafter"] != "none" and run.prompts:
                found[(model, dataset, method_name(run))] = run
    return [found[key] for key in sorted(found, key=lambda key: (planes(runs).index(key[:2]), key[2]))]


def _label(run: Run) -> str:
    return f"{method_name(run)}, replay" if run.replayed else method_name(run)


def _row(run: Run) -> Iterator[tuple[Labels, Cell]]:
    prompts = run.prompts
    for depth in range(2, DEPTHS + 1):
        deep, hit = (_column(prompts, name, depth - 1) for name in ("deep", "hit"))
        yield (DEPTH, str(depth)), of_estimate(ratio_of_totals(hit, deep), len(prompts), [run.hash])
    whole = np.array([sum(prompt["pathways"]) for prompt in prompts], np.float64)
    for way, name in WAYS.items():
        share = ratio_of_totals(_column(prompts, "pathways", int(way)), whole)
        yield (PATHWAY, name), of_estimate(share, len(prompts), [run.hash])


def _column(prompts: Sequence[dict[str, Any]], name: str, place: int) -> Floats:
    """Return float[n], one entry of a list of each prompt; 0 past its end."""
    return np.array([(prompt[name][place : place + 1] or [0])[0] for prompt in prompts], np.float64)

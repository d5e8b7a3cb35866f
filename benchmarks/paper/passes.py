"""What Figures 7 and 8 draw: where the time of a pass goes, and what merging candidates into a tree saves."""

from __future__ import annotations

from typing import Final

from benchmarks.paper.acceptance import default_runs
from benchmarks.paper.cells import read
from benchmarks.paper.comparison import Comparison, circumstances, without_times
from benchmarks.paper.names import method_name, set_name
from benchmarks.paper.runs import Runs
from benchmarks.paper.speed import SENSE_ID, SENSE_OOD
from benchmarks.paper.table import Cells, Table

PARTS: Final = ("draft", "verify", "judge", "commit")

FIGURE_8: Final = Comparison(
    "figure8",
    "Share of the candidates' tokens that one tree saves, before any cut to connector.max_nodes",
    ("Method",),
    [SENSE_OOD, SENSE_ID],
    figures={"saved": "saved"},
    formats={"saved": "{:.3f}"},
    notes=[
        "1 - nodes of the tree / tokens of the candidates, totals over all passes. The paper states 73.4 % on average."
    ],
)


def figure_7(runs: Runs) -> Table:
    """Return the milliseconds of each part of a pass, for each method at its defaults; a replay has none."""
    found = default_runs(runs)
    rows = {(run.model, set_name(run.dataset), method_name(run)): run for run in found if not run.replayed}
    cells: Cells = {(labels, (part,)): read(run, part) for labels, run in rows.items() for part in PARTS}
    return Table(
        "figure7",
        "Milliseconds of a pass by its parts",
        ("Model", "Set", "Method"),
        list(rows),
        [(part,) for part in PARTS],
        cells,
        notes=[
            "draft: from the context to the tree; verify: the target's forward; judge: which nodes hold; commit: the "
            "KV cache, the text and what the drafter learns of the pass.",
            *circumstances(list(rows.values())),
        ],
    ).noting(without_times([run for run in found if run.replayed]))

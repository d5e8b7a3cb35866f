"""Table 6, the quality of the outputs, and what Figure 5 draws of it: quality relative to plain decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.paper.cells import EMPTY, Cell, read
from benchmarks.paper.comparison import Comparison, circumstances, models_of
from benchmarks.paper.published import beside
from benchmarks.paper.runs import Pick, Run, Runs
from benchmarks.paper.table import Cells, Labels, Table

COLUMNS: Final = {
    "gsm8k": ("GSM8K", "accuracy"),
    "codealpaca": ("CodeAlpaca", "ROUGE-L"),
    "ultrachat": ("UltraChat", "ROUGE-L"),
    "triviaqa": ("TriviaQA", "accuracy"),
}
VANILLA: Final = "Vanilla"
PICKS: Final = (Pick(("SENSE-OOD",), "sen", "soft_gated", "ood"), Pick(("SENSE-ID",), "sen", "soft_gated", "id"))
PLAIN: Final = Pick((VANILLA,), "none")

FIGURE_5: Final = Comparison(
    "figure5",
    "Quality of SENSE relative to plain decoding of the same prompts",
    ("Method",),
    PICKS,
    figures={"quality / plain": "quality_ratio"},
    formats={"quality / plain": "{:.3f}"},
    notes=["A set on which plain decoding scores nothing has no ratio."],
)


def table_6(runs: Runs, published: bool = False) -> Table:
    """Return accuracy or ROUGE-L of plain decoding and of SENSE with both kinds of stores."""
    models = models_of(runs, "table6")
    labels = (VANILLA, *(pick.labels[0] for pick in PICKS))
    rows: list[Labels] = [(model, label) for model in models for label in labels]
    cells: Cells = {}
    used: list[Run] = []
    for model in models:
        for name, column in COLUMNS.items():
            found = [runs.pick(model, name, pick) for pick in PICKS]
            used += [run for run in found if run is not None]
            cells[(model, VANILLA), column] = _plain([*found, runs.pick(model, name, PLAIN)])
            for pick, run in zip(PICKS, found, strict=True):
                cells[(model, *pick.labels), column] = read(run, "quality")
    formats = {"accuracy": "{:.3f}", "ROUGE-L": "{:.3f}"}
    notes = ["Vanilla: plain decoding of the prompts that the runs of SENSE have.", *circumstances(used)]
    caption = "Quality of the outputs: accuracy, or ROUGE-L against the set's own answer"
    table = Table("table6", caption, ("Model", "Method"), rows, list(COLUMNS.values()), cells, formats, notes)
    table = table.noting(_cut(table))
    return beside(table) if published else table


def _plain(runs: Sequence[Run | None]) -> Cell:
    """Return plain decoding's quality, as the first of the runs has it as its baseline."""
    there = [read(run, "baseline_quality") for run in runs if run is not None]
    return next(iter(there), EMPTY)


def _cut(table: Table) -> str:
    """Return a sentence on the outputs that the budget cut, empty where it cut none."""
    cells = {(row, column): table.cell(row, column) for row in table.rows for column in table.columns}
    words = [f"{', '.join(row)}, {column[0]}: {cell.cut}" for (row, column), cell in cells.items() if cell.cut]
    return f"Outputs cut at the token budget, and scored as they are: {'; '.join(words)}." if words else ""

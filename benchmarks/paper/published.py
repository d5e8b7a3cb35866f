"""The numbers that the SENSE paper has published, by table, row and column, with what is odd about them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from omegaconf import OmegaConf

from benchmarks.paper.runs import model_rank
from benchmarks.paper.table import Labels, Table

FILE: Final = Path(__file__).with_name("published.yaml")


@cache
def _content() -> dict[str, Any]:
    content: Any = OmegaConf.to_container(OmegaConf.load(FILE))
    return {str(name): table for name, table in content.items()}


def published_models(name: str) -> list[str]:
    """Return the models in the paper's table of that name."""
    return list(dict.fromkeys(row[0] for row, _ in published_cells(name)))


def published_cells(name: str) -> dict[tuple[Labels, Labels], float]:
    """Return the published values of a table by row and column; empty for a table that has none."""
    table = _content().get(name)
    if table is None:
        return {}
    columns = [tuple(str(column).split("|")) for column in table["columns"]]
    heads = table["heads"]
    cells: dict[tuple[Labels, Labels], Any] = {}
    for entry in table["rows"]:
        row = tuple(map(str, entry[:heads]))
        cells |= {(row, column): value for column, value in zip(columns, entry[heads:], strict=True)}
    return {place: float(value) for place, value in cells.items() if value is not None}


def beside(table: Table) -> Table:
    """Return the table with the paper's values beside its cells, and the rows that only the paper has.

    Rows are added model by model, in the order of the paper's models; what is odd about the values becomes a note.
    """
    cells = published_cells(table.name)
    if not cells:
        return table
    extra = [row for row in dict.fromkeys(row for row, _ in cells) if row not in table.rows]
    rows = [*table.rows, *extra]
    if table.heads[0] == "Model":
        rows = sorted(rows, key=lambda row: model_rank(row[0]))
    notes = [f"On the paper's values: {flag}" for flag in _content()[table.name].get("flags", [])]
    return replace(table, rows=rows, published=cells).noting(*notes)

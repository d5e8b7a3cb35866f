"""A table: rows, columns, a cell for each pair, and what is said below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from benchmarks.paper.cells import EMPTY, Cell

Labels = tuple[str, ...]
Cells = dict[tuple[Labels, Labels], Cell]

MEAN: Final = "Mean"


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: of its files.
        caption: one sentence on what it shows, without a full stop.
        heads: names of the row labels.
        rows: labels of each row.
        columns: labels of each column, group first.
        cells: by row and column; a pair that is not there is empty.
        formats: how the last label of a column writes its numbers; "{:.2f}" where it is not named.
        notes: sentences below the table.
        published: the paper's value of cells, by row and column; shown beside them where it is not None.
        with_interval: whether Markdown and LaTeX show intervals, too.
        complete: whether an empty cell is one that nobody measured, and so to be listed.
    """

    name: str
    caption: str
    heads: Labels
    rows: Sequence[Labels]
    columns: Sequence[Labels]
    cells: Mapping[tuple[Labels, Labels], Cell]
    formats: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    published: Mapping[tuple[Labels, Labels], float] | None = None
    with_interval: bool = False
    complete: bool = True

    def cell(self, row: Labels, column: Labels) -> Cell:
        """Return a cell."""
        return self.cells.get((row, column), EMPTY)

    def published_value(self, row: Labels, column: Labels) -> float | None:
        """Return what the paper has in a cell, None if nothing, or if it is not asked for."""
        return None if self.published is None else self.published.get((row, column))

    def format(self, column: Labels, value: float | str) -> str:
        """Return a value in the format of its column."""
        return value if isinstance(value, str) else self.formats.get(column[-1], "{:.2f}").format(value)

    def missing(self) -> Iterator[tuple[Labels, list[str]]]:
        """Yield the rows that lack cells, with the names of the columns, or of whole groups of them.

        Neighbours that begin alike and have no cell at all are one, by what they have in common.
        """
        lacking = {
            row: [column for column in self.columns if self.cell(row, column).value is None] for row in self.rows
        }
        empty = {row for row, columns in lacking.items() if len(columns) == len(self.columns)}
        for row, columns in lacking.items():
            above = (row[:width] for width in range(1, len(row)))
            prefix = next((prefix for prefix in above if self._below(prefix) <= empty), row)
            if row not in empty and columns:
                yield row, self._names(columns)
            elif row in empty and row == min(self._below(prefix), key=self.rows.index):
                yield prefix, ["all"]

    def _lacks(self, row: Labels, column: Labels) -> bool:
        return self.cell(row, column).value is None

    def _below(self, prefix: Labels) -> set[Labels]:
        return {row for row in self.rows if row[: len(prefix)] == prefix}

    def _names(self, lacking: Sequence[Labels]) -> list[str]:
        names = []
        for column in lacking:
            group = [other for other in self.columns if other[0] == column[0]]
            names.append(column[0] if all(other in lacking for other in group) else " ".join(column))
        return list(dict.fromkeys(names))

    def noting(self, *sentences: str) -> Table:
        """Return the table with more sentences below it."""
        return replace(self, notes=[*self.notes, *(sentence for sentence in sentences if sentence)])

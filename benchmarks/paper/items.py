"""Every table and figure by name, and the files that each of them becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from benchmarks.paper.acceptance import acceptance
from benchmarks.paper.bars import figure_of_latency, figure_of_quality, figure_of_saving, figure_of_table_4
from benchmarks.paper.draw import save, style
from benchmarks.paper.grid import figure_6, table_5
from benchmarks.paper.heat import figure_of_grid, figure_of_windows
from benchmarks.paper.pareto import lossless_enough, pareto
from benchmarks.paper.passes import FIGURE_8, figure_7
from benchmarks.paper.planes import figure_of_acceptance, figure_of_planes
from benchmarks.paper.quality import FIGURE_5, table_6
from benchmarks.paper.render import csv, latex, markdown
from benchmarks.paper.resources import table_7, table_8, table_9
from benchmarks.paper.runs import Runs
from benchmarks.paper.sources import table_10, table_11
from benchmarks.paper.speed import TABLE_1, TABLE_2, TABLE_3, TABLE_4
from benchmarks.paper.table import Table

Build = Callable[[Runs, bool], Table]
Draw = Callable[[Runs, Table], Figure]


@dataclass(frozen=True)
class Item:
    """A table, a figure, or both.

    Attributes:
        build: the table of some runs, with the paper's values on request; a figure's is the data that it draws.
        draw: the figure of runs and table, if there is one.
        texts: whether the table is written as Markdown and LaTeX, too, and not as CSV alone.
    """

    build: Build
    draw: Draw | None = None
    texts: bool = True


def _from_table(draw: Callable[[Table], Figure]) -> Draw:
    return lambda _, table: draw(table)


def _unpublished(build: Callable[[Runs], Table]) -> Build:
    return lambda runs, _: build(runs)


def _figure_4(runs: Runs, published: bool) -> Table:
    return TABLE_4(runs, published)


ITEMS: Final[Mapping[str, Item]] = {
    "table1": Item(TABLE_1),
    "table2": Item(TABLE_2),
    "table3": Item(TABLE_3),
    "table4": Item(TABLE_4),
    "table5": Item(table_5, _from_table(figure_of_grid)),
    "table6": Item(table_6),
    "table7": Item(table_7),
    "table8": Item(table_8),
    "table9": Item(table_9),
    "table10": Item(_unpublished(table_10)),
    "table11": Item(_unpublished(table_11)),
    "figure4": Item(_figure_4, _from_table(figure_of_table_4), texts=False),
    "figure5": Item(FIGURE_5, _from_table(figure_of_quality)),
    "figure6": Item(figure_6, _from_table(figure_of_windows)),
    "figure7": Item(_unpublished(figure_7), _from_table(figure_of_latency)),
    "figure8": Item(FIGURE_8, _from_table(figure_of_saving)),
    "acceptance": Item(_unpublished(acceptance), _from_table(figure_of_acceptance)),
    "pareto": Item(_unpublished(pareto), lambda runs, _: figure_of_planes(runs)),
    "pareto_best": Item(_unpublished(lossless_enough)),
}


def write(name: str, runs: Runs, out: Path, published: bool = False) -> Table:
    """Write a table and its figure into a folder, and return the table.

    Files: `<name>.csv`, `.md`, `.tex`, and `.png`, `.svg` of a figure.
    """
    item = ITEMS[name]
    table = write_texts(name, runs, out, published)
    if item.draw is not None:
        measured = item.build(runs, False) if published else table
        with style():
            save(item.draw(runs, measured), out, name)
    return table


def write_texts(name: str, runs: Runs, out: Path, published: bool = False) -> Table:
    """Write a table into a folder without its figure, and return it."""
    item = ITEMS[name]
    table = item.build(runs, published)
    texts = {"csv": csv(table)} | ({"md": markdown(table), "tex": latex(table)} if item.texts else {})
    out.mkdir(parents=True, exist_ok=True)
    for ending, text in texts.items():
        (out / f"{name}.{ending}").write_text(text, encoding="utf-8", newline="\n")
    return table

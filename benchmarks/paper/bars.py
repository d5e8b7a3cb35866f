"""Figures 4, 5, 7 and 8: bars, drawn from their tables."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from benchmarks.paper.draw import grouped_bars, legend_of, nothing, panels
from benchmarks.paper.passes import PARTS
from benchmarks.paper.table import Labels, Table


def figure_of_table_4(table: Table) -> Figure:
    """Draw Table 4: for each model the speedups and the taus of the verifiers on each set."""
    return _bars_by_set(table, {"Speed": "speedup", "τ": "τ"})


def figure_of_quality(table: Table) -> Figure:
    """Draw the quality relative to plain decoding on each set, with plain decoding as a line."""
    figure = _bars_by_set(table, {"quality / plain": "quality / plain"})
    for axes in figure.axes:
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
    return figure


def figure_of_saving(table: Table) -> Figure:
    """Draw the share of candidate tokens that the tree saves on each set."""
    return _bars_by_set(table, {"saved": "share of tokens saved"})


def figure_of_latency(table: Table) -> Figure:
    """Draw milliseconds of a pass by part: linear up to 1 ms and logarithmic above, so that every part can be read."""
    models, sets = (list(dict.fromkeys(row[place] for row in table.rows)) for place in (0, 1))
    figure, grid = panels(len(models), len(sets), (4.2, 2.8))
    for model, line in zip(models, grid, strict=False):
        for name, axes in zip(sets, line, strict=False):
            rows = [row for row in table.rows if row[:2] == (model, name)]
            axes.set_title(f"{model}, {name}")
            if not rows:
                nothing(axes)
                continue
            grouped_bars(
                axes,
                [row[2].replace(" (", "\n(") for row in rows],
                [(part, [table.cell(row, (part,)) for row in rows]) for part in PARTS],
            )
            axes.set_yscale("symlog", linthresh=1)
            axes.set_ylim(0, axes.get_ylim()[1] * 1.5)
            axes.set_ylabel("ms a pass")
            axes.tick_params(axis="x", rotation=90)
    if not table.rows:
        nothing(grid[0][0])
    legend_of(figure, [axes for line in grid for axes in line], "outside upper center", len(PARTS))
    return figure


def _bars_by_set(table: Table, figures: dict[str, str]) -> Figure:
    models = list(dict.fromkeys(row[0] for row in table.rows))
    groups = list(dict.fromkeys(column[0] for column in table.columns))
    figure, grid = panels(len(models), len(figures), (4.6, 2.5))
    for model, line in zip(models, grid, strict=False):
        rows = [row for row in table.rows if row[0] == model]
        for (label, words), axes in zip(figures.items(), line, strict=True):
            axes.set_title(model)
            if not _measured(table, rows, label):
                nothing(axes)
                continue
            series = [(", ".join(row[1:]), [table.cell(row, (group, label)) for group in groups]) for row in rows]
            grouped_bars(axes, groups, series)
            axes.set_ylabel(words)
    legend_of(figure, [axes for line in grid for axes in line], "outside upper center", 4)
    return figure


def _measured(table: Table, rows: Sequence[Labels], label: str) -> bool:
    return any(
        table.cell(row, column).number is not None for row in rows for column in table.columns if column[-1] == label
    )

"""The figures of the speed-quality plane and of acceptance: a panel for each model and set."""

from __future__ import annotations

from itertools import pairwise
from textwrap import fill
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.paper.acceptance import DEPTH, DEPTHS, PATHWAY, WAYS
from benchmarks.paper.cells import Cell
from benchmarks.paper.draw import COLOURS, MARKERS, errors, legend_of, nothing, numbers, panels
from benchmarks.paper.names import method_name, set_name, setting_name
from benchmarks.paper.pareto import MOST_LOST, Point, chosen, planes, points
from benchmarks.paper.runs import Runs
from benchmarks.paper.table import Table
from benchmarks.table import loops

_LEGEND_WIDTH: Final = 46


def figure_of_planes(runs: Runs) -> Figure:
    """Draw each run at its speedup and quality ratio, the front as a line, and where 2 % of the quality is lost.

    The legend of a panel says of each lossy method at which setting it stays above that line; that point has a ring.
    """
    pairs = planes(runs)
    figure, grid = panels(len(pairs), 1, (7.6, 3.4))
    names = sorted({method_name(run) for run in runs.runs})
    for (model, dataset), (axes,) in zip(pairs, grid, strict=False):
        axes.set_title(f"{model}, {set_name(dataset)}")
        timed = points(runs, model, dataset)
        plane = [point for point in timed if point.place is not None]
        if plane:
            _plane(axes, plane, names)
        else:
            nothing(axes, "no quality ratio: plain decoding scores nothing here" if timed else "no run has times")
    if not pairs:
        nothing(grid[0][0])
    return figure


def _plane(axes: Axes, plane: list[Point], names: list[str]) -> None:
    axes.axhline(1 - MOST_LOST, color="grey", linewidth=0.8, linestyle=":", label="2 % of the quality lost")
    axes.axhline(1, color="grey", linewidth=0.5)
    front = sorted(point.place for point in plane if point.front and point.place is not None)
    steps = [front[0], *(step for a, b in pairwise(front) for step in ((a[0], b[1]), b))]
    axes.plot(*zip(*steps, strict=True), color="black", linewidth=1, zorder=1, label="front of all methods")
    for name in dict.fromkeys(method_name(point.run) for point in plane):
        own = [point for point in plane if method_name(point.run) == name]
        place = names.index(name)
        _points(
            axes,
            own,
            COLOURS[place % len(COLOURS)],
            MARKERS[place % len(MARKERS)],
            fill(f"{name}{_kept(own)}", _LEGEND_WIDTH),
        )
    heights = [point.quality.number for point in plane if point.quality.number is not None]
    room = 0.1 + (max(heights) - min(heights)) / 10
    axes.set(xlabel="speedup", ylabel="quality / plain decoding", ylim=(min(heights) - room, max(heights) + room))
    axes.grid(visible=True, alpha=0.2)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=6)


def _kept(own: list[Point]) -> str:
    best = chosen(own)
    if not best.run.lossy:
        return ""
    return f": under 2 % lost at {setting_name(best.run)}" if best.keeps else ": 2 % or more lost at every setting"


def _points(axes: Axes, own: list[Point], colour: str, marker: str, label: str) -> None:
    """Draw the points of a method with their intervals; a hollow one is text that repeats itself."""
    x, y = (numbers(cells) for cells in _coordinates(own))
    down, across = (errors(cells) for cells in reversed(_coordinates(own)))
    axes.errorbar(x, y, down, across, fmt="none", ecolor=colour, elinewidth=0.5, alpha=0.6)
    faces = ["white" if loops(point.run.summary) else colour for point in own]
    axes.scatter(x, y, 22, c=faces, edgecolors=colour, marker=marker, label=label, zorder=3)
    best = chosen(own)
    if best.run.lossy and best.keeps:
        x, y = (numbers(cells) for cells in _coordinates([best]))
        axes.scatter(x, y, 80, facecolors="none", edgecolors="black", linewidths=0.8)


def _coordinates(own: list[Point]) -> tuple[list[Cell], list[Cell]]:
    return [point.speed for point in own], [point.quality for point in own]


def figure_of_acceptance(table: Table) -> Figure:
    """Draw, for each model and set, the share accepted by depth, and the pathways of the committed tokens."""
    pairs = list(dict.fromkeys(row[:2] for row in table.rows))
    names = sorted({row[2] for row in table.rows})
    figure, grid = panels(len(pairs), 2, (4.6, 2.9))
    for pair, (left, right) in zip(pairs, grid, strict=False):
        rows = [row for row in table.rows if row[:2] == pair]
        depths = np.arange(2, DEPTHS + 1)
        for row in rows:
            cells = [table.cell(row, (DEPTH, str(depth))) for depth in depths]
            place = names.index(row[2])
            colour, marker = COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)]
            spread = errors(cells)
            left.plot(depths, numbers(cells), marker=marker, markersize=3, linewidth=0.9, color=colour, label=row[2])
            left.fill_between(depths, numbers(cells) - spread[0], numbers(cells) + spread[1], color=colour, alpha=0.08)
        left.set(title=", ".join(pair), xlabel="depth", ylabel="share of passes that accept", ylim=(0, 1.02))
        left.grid(visible=True, alpha=0.3)
        base = np.zeros(len(rows))
        for way, colour in zip(WAYS.values(), COLOURS, strict=False):
            share = np.nan_to_num(numbers([table.cell(row, (PATHWAY, way)) for row in rows]))
            right.barh([row[2] for row in rows], share, left=base, label=way, color=colour)
            base += share
        right.set(title=", ".join(pair), xlabel="share of committed tokens")
        right.invert_yaxis()
    if not pairs:
        for axes in grid[0]:
            nothing(axes)
    for column, corner in enumerate(("left", "right")):
        legend_of(figure, [line[column] for line in grid], f"outside lower {corner}", 3 + column)
    return figure

"""The figures of the speed-quality plane and of acceptance: a panel for each model and set."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.paper.acceptance import DEPTH, DEPTHS, PATHWAY, WAYS
from benchmarks.paper.draw import COLOURS, MARKERS, errors, nothing, numbers, panels
from benchmarks.paper.names import method_name, set_name, setting_name
from benchmarks.paper.pareto import MOST_LOST, Point, chosen, planes, points
from benchmarks.paper.runs import Runs
from benchmarks.paper.table import Table
from benchmarks.table import loops


def figure_of_planes(runs: Runs) -> Figure:
    """Draw each run at its speedup and quality ratio, the front as a line, and where 2 % of the quality is lost."""
    pairs = planes(runs)
    columns = min(max(len(pairs), 1), 2)
    figure, grid = panels(-(-len(pairs) // columns), columns, (5.4, 3.8))
    places = [axes for line in grid for axes in line]
    names = sorted({method_name(run) for run in runs.runs})
    for axes in places[len(pairs) :]:
        nothing(axes) if not pairs else axes.set_visible(False)
    for (model, dataset), axes in zip(pairs, places, strict=False):
        axes.set_title(f"{model}, {set_name(dataset)}")
        plane = [point for point in points(runs, model, dataset) if point.place is not None]
        if not plane:
            nothing(axes)
            continue
        _plane(axes, plane, names)
    handles = {label: handle for axes in places for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4)
    return figure


def _plane(axes: Axes, plane: list[Point], names: list[str]) -> None:
    axes.axhline(1 - MOST_LOST, color="grey", linewidth=0.8, linestyle=":", label=f"{MOST_LOST:.0%} of the quality lost")
    axes.axhline(1, color="grey", linewidth=0.5)
    front = sorted(point.place for point in plane if point.front and point.place is not None)
    steps = [front[0], *(step for a, b in pairwise(front) for step in ((a[0], b[1]), b))]
    axes.plot(*zip(*steps, strict=True), color="black", linewidth=1, zorder=1, label="front")
    for name in dict.fromkeys(method_name(point.run) for point in plane):
        own = [point for point in plane if method_name(point.run) == name]
        colour = COLOURS[names.index(name) % len(COLOURS)]
        marker = MARKERS[names.index(name) % len(MARKERS)]
        for point in own:
            _point(axes, point, colour, marker, name)
        best = chosen(own)
        if best.run.lossy and best.keeps and best.place is not None:
            axes.annotate(setting_name(best.run), best.place, xytext=(4, 4), textcoords="offset points", fontsize=6)
    axes.set(xlabel="speedup", ylabel="quality / plain decoding")
    axes.grid(visible=True, alpha=0.2)


def _point(axes: Axes, point: Point, colour: str, marker: str, name: str) -> None:
    """Draw a point with its intervals; a hollow one is text that repeats itself."""
    speed, quality = ([cell] for cell in (point.speed, point.quality))
    axes.errorbar(
        numbers(speed),
        numbers(quality),
        xerr=errors(speed),
        yerr=errors(quality),
        fmt=marker,
        markersize=5,
        color=colour,
        markerfacecolor="white" if loops(point.run.summary) else colour,
        elinewidth=0.5,
        label=name,
    )


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
            shift = (place - (len(names) - 1) / 2) * 0.06
            left.errorbar(
                depths + shift, numbers(cells), errors(cells), marker=marker, markersize=3, lw=0.9, color=colour, label=row[2]
            )
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
    else:
        grid[0][0].legend(fontsize=6)
        grid[0][1].legend(fontsize=6, loc="lower left")
    return figure

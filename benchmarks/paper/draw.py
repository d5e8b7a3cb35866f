"""How figures look, and how they are written so that the same runs give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.paper.cells import Cell
from benchmarks.statistics import Floats

# Okabe and Ito's colours, which stay apart for colour-blind readers.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
MARKERS: Final = "osD^vP*X<>hd"
_STYLE: Final[dict[Any, Any]] = {
    "svg.hashsalt": "atomsd",
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
}
_DPI: Final = 150
# Of bars that stand 0.4 to both sides of a group's place.
_MARGIN: Final = 0.6


@contextmanager
def style() -> Iterator[None]:
    """Draw and save within this, whatever the user's own settings of matplotlib are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def save(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG, without date and version."""
    # Laying out takes longer than drawing, and both files can have the same layout; savefig would go through all
    # artists once more for it before it draws either.
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    figure.set_layout_engine("none")
    figure.set_dpi(_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(folder / f"{name}.png", metadata={"Software": None})
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


def panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure of so many panels, each of a size in inches."""
    rows, columns = max(rows, 1), max(columns, 1)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    return figure, [list(row) for row in figure.subplots(rows, columns, squeeze=False)]


def numbers(cells: Sequence[Cell]) -> Floats:
    """Return float[n], nan for empty cells."""
    return np.array([np.nan if cell.number is None else cell.number for cell in cells], np.float64)


def errors(cells: Sequence[Cell]) -> Floats:
    """Return float[2, n], how far each interval reaches below and above its value; 0 where there is none."""
    pairs = [
        (0.0, 0.0)
        if cell.number is None or cell.low is None or cell.high is None
        else (cell.number - cell.low, cell.high - cell.number)
        for cell in cells
    ]
    return np.array(pairs, np.float64).reshape(-1, 2).T.clip(0)


def grouped_bars(axes: Axes, groups: Sequence[str], series: Sequence[tuple[str, Sequence[Cell]]]) -> None:
    """Draw a bar with its interval for each group and series; an empty cell leaves its place free."""
    width = 0.8 / max(len(series), 1)
    places = np.arange(len(groups))
    for index, (label, cells) in enumerate(series):
        axes.bar(
            places + (index - (len(series) - 1) / 2) * width,
            numbers(cells),
            width,
            yerr=errors(cells),
            label=label,
            color=COLOURS[index % len(COLOURS)],
            error_kw={"linewidth": 0.8},
        )
    axes.set_xticks(places, groups)
    # Groups without a bar keep their place, too.
    axes.set_xlim(-_MARGIN, len(groups) - 1 + _MARGIN)
    axes.grid(visible=True, axis="y", alpha=0.3)


def heat_map(
    axes: Axes, values: Floats, ticks: tuple[Sequence[str], Sequence[str]], limits: tuple[float, float]
) -> None:
    """Draw float[rows, columns] as colours with the numbers in them; nan stays white.

    Args:
        axes: where to.
        values: what to draw.
        ticks: labels of the columns, and of the rows.
        limits: values of the darkest and the brightest colour.
    """
    axes.imshow(values, vmin=limits[0], vmax=limits[1], cmap="viridis", aspect="auto", origin="lower")
    for row, column in np.argwhere(np.isfinite(values)).tolist():
        bright = (values[row, column] - limits[0]) > 0.6 * (limits[1] - limits[0])
        text = f"{values[row, column]:.2f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="black" if bright else "white")
    axes.set_xticks(range(len(ticks[0])), ticks[0])
    axes.set_yticks(range(len(ticks[1])), ticks[1])
    axes.spines[:].set_visible(False)


def limits_of(values: Floats) -> tuple[float, float]:
    """Return the least and the largest finite value, (0, 1) if there is none."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)


def nothing(axes: Axes, why: str = "not measured") -> None:
    """Say that a panel has no data."""
    axes.text(0.5, 0.5, why, ha="center", va="center", transform=axes.transAxes, color="grey")
    axes.set_xticks([])
    axes.set_yticks([])


def legend_of(figure: Figure, panels: Sequence[Axes], place: Any, columns: int) -> None:
    """Give a figure one legend for some of its panels, each label once; none where nothing was drawn."""
    pairs = [pair for axes in panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in pairs}
    if handles:
        figure.legend(list(handles.values()), list(handles), loc=place, ncols=columns)

"""The heat maps of Table 5: every setting of SE, and averaged over the windows (Figure 6)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from benchmarks.paper.draw import heat_map, limits_of, nothing, numbers, panels
from benchmarks.paper.grid import FIGURES, THETAS, TOP_KS, WINDOWS
from benchmarks.paper.table import Table
from benchmarks.statistics import Floats

_THETAS = [f"{theta:.2f}" for theta in THETAS]
_WINDOWS = [str(window) for window in WINDOWS]
_TOP_KS = [str(k) for k in TOP_KS]


def figure_of_grid(table: Table) -> Figure:
    """Draw Table 5: a line of maps for each model and figure, one map of window and k for each entropy gate."""
    models = _measured(table)
    lines = [(model, name) for model in models for name in FIGURES]
    figure, grid = panels(len(lines), len(THETAS) if lines else 1, (2.2, 1.9))
    if not lines:
        nothing(grid[0][0])
    for (model, name), line in zip(lines, grid, strict=False):
        maps = [_by_window(table, model, theta, name) for theta in _THETAS]
        limits = limits_of(np.stack(maps))
        for theta, values, axes in zip(_THETAS, maps, line, strict=True):
            axes.set_title(f"{model}\n{name}, θ_e = {theta}")
            if not np.isfinite(values).any():
                nothing(axes)
                continue
            heat_map(axes, values, (_TOP_KS, _WINDOWS), limits)
            axes.set(xlabel="k", ylabel="w")
    return figure


def figure_of_windows(table: Table) -> Figure:
    """Draw Figure 6: for each model a map of entropy gate and k for each figure, averaged over the windows."""
    models = _measured(table)
    figure, grid = panels(len(models), len(FIGURES) if models else 1, (2.9, 2.3))
    if not models:
        nothing(grid[0][0])
    for model, line in zip(models, grid, strict=False):
        for name, axes in zip(FIGURES, line, strict=True):
            values = np.stack([numbers([table.cell((model, theta, k), (name,)) for k in _TOP_KS]) for theta in _THETAS])
            axes.set_title(f"{model}\n{name}, mean over w")
            if not np.isfinite(values).any():
                nothing(axes)
                continue
            heat_map(axes, values, (_TOP_KS, _THETAS), limits_of(values))
            axes.set(xlabel="k", ylabel="θ_e")
    return figure


def _measured(table: Table) -> list[str]:
    """Return the models that have a cell."""
    rows = [row for row in table.rows if any(table.cell(row, column).number is not None for column in table.columns)]
    return list(dict.fromkeys(row[0] for row in rows))


def _by_window(table: Table, model: str, theta: str, name: str) -> Floats:
    """Return float[windows, ks]."""
    lines = [[table.cell((model, theta, window), (f"k = {k}", name)) for k in _TOP_KS] for window in _WINDOWS]
    return np.stack([numbers(line) for line in lines])

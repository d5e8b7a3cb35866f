"""Table 5, SE over its three settings, and the means of it over the windows that Figure 6 draws."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from benchmarks.paper.cells import mean_of_settings, read
from benchmarks.paper.comparison import circumstances, models_of, others_note
from benchmarks.paper.published import beside
from benchmarks.paper.runs import Pick, Run, Runs
from benchmarks.paper.table import Cells, Table

DATASET: Final = "gsm8k"
THETAS: Final = (0.01, 0.05, 0.1, 0.3)
WINDOWS: Final = (5, 6, 7, 8, 9)
TOP_KS: Final = (2, 3, 4, 10)
FIGURES: Final = {"Accuracy": "quality", "Speed": "speedup", "τ": "tau"}


def grid_pick(theta: float, window: int, k: int) -> Pick:
    """Return what a run of one setting is."""
    knobs = {"verifier.theta_e": theta, "verifier.w": window, "verifier.k": k}
    return Pick((f"{theta:.2f}", str(window), str(k)), "sen", "soft_gated", "id", knobs)


def table_5(runs: Runs, published: bool = False) -> Table:
    """Return accuracy, speedup and tau for each entropy gate, window and k, on GSM8K with an ID store."""
    models = models_of(runs, "table5")
    picks = [grid_pick(*setting) for setting in product(THETAS, WINDOWS, TOP_KS)]
    cells: Cells = {}
    used: list[Run] = []
    for model, pick in product(models, picks):
        theta, window, k = pick.labels
        run = runs.pick(model, DATASET, pick)
        used += [] if run is None else [run]
        cells |= {((model, theta, window), (f"k = {k}", name)): read(run, key) for name, key in FIGURES.items()}
    table = Table(
        "table5",
        "Settings of SE on GSM8K, ID store: entropy gate θ_e, window w and k",
        ("Model", "θ_e", "w"),
        [(model, f"{theta:.2f}", str(window)) for model, theta, window in product(models, THETAS, WINDOWS)],
        [(f"k = {k}", name) for k, name in product(TOP_KS, FIGURES)],
        cells,
        notes=[*circumstances(used), *_others(runs, models, picks)],
    )
    return beside(table) if published else table


def figure_6(runs: Runs, published: bool = False) -> Table:
    """Return Table 5 averaged over the windows measured, by entropy gate and k."""
    grid = table_5(runs)
    models = list(dict.fromkeys(row[0] for row in grid.rows))
    rows = [(model, f"{theta:.2f}", str(k)) for model, theta, k in product(models, THETAS, TOP_KS)]
    cells: Cells = {}
    for (model, theta, k), name in product(rows, FIGURES):
        windows = [grid.cell((model, theta, str(window)), (f"k = {k}", name)) for window in WINDOWS]
        cells[(model, theta, k), (name,)] = mean_of_settings(windows)
    table = Table(
        "figure6",
        "Settings of SE on GSM8K, ID store, averaged over the windows that were measured",
        ("Model", "θ_e", "k"),
        rows,
        [(name,) for name in FIGURES],
        cells,
        notes=["All windows see the same prompts, so the interval of a mean is the mean of the intervals."],
    )
    return beside(table) if published else table


def _others(runs: Runs, models: list[str], picks: list[Pick]) -> Iterator[str]:
    yield from others_note(runs.all_for(model, DATASET, pick) for model, pick in product(models, picks))

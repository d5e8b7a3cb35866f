"""Tables 7 to 9: what datastores take, on the disk and of memory, as the offline stage measured it.

The paper does not define its columns. Here, for the stores that SEN searches: total RAM is all that is memory-mapped or
held, metadata the token store, cache the projection; baseline is the process before it opens the store, delta what it
holds more after opening and a hundred queries, and peak = baseline + delta (docs/fidelity.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from benchmarks.paper.cells import EMPTY, Cell
from benchmarks.paper.comparison import models_of
from benchmarks.paper.published import beside
from benchmarks.paper.runs import SETS, Pick, Run, Runs
from benchmarks.paper.table import MEAN, Cells, Labels, Table

Sizes = Mapping[str, float | None]
Size = Callable[[Sizes], float | None]

STORES: Final = tuple(Pick((), "sen", verifier, "id") for verifier in ("soft_gated", "exact"))
TABLE_8_SETS: Final = ("gsm8k", "codealpaca", "triviaqa", "ultrachat")


def _named(key: str) -> Size:
    return lambda sizes: sizes[key]


def _sum(sizes: Sizes) -> float | None:
    before, more = sizes["rss_baseline"], sizes["rss_delta"]
    return None if before is None or more is None else before + more


def _middle(sizes: Sizes) -> float | None:
    before, more = sizes["rss_baseline"], sizes["rss_delta"]
    return None if before is None or more is None else before + more / 2


TABLE_7_ROWS: Final[Mapping[str, Size]] = {
    "Total RAM": _named("ram"),
    "Index on disk": _named("index_on_disk"),
    "Metadata memory": _named("metadata"),
    "Cache storage": _named("cache"),
    "Peak RSS": _sum,
    "RSS delta mean": _named("rss_delta"),
}
TABLE_7_COLUMNS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "Mean": lambda values: float(np.mean(values)),
    "Min": min,
    "Max": max,
    "Std": lambda values: float(np.std(values)),
}
TABLE_9_COLUMNS: Final[Mapping[str, tuple[Size, Callable[[Sequence[float]], float]]]] = {
    "RSS mean": (_sum, TABLE_7_COLUMNS["Mean"]),
    "Baseline": (_named("rss_baseline"), TABLE_7_COLUMNS["Mean"]),
    "Peak": (_sum, TABLE_7_COLUMNS["Mean"]),
    "Peak max": (_sum, max),
    "Delta mean": (_named("rss_delta"), TABLE_7_COLUMNS["Mean"]),
    "Delta max": (_named("rss_delta"), max),
    "Avg": (_middle, TABLE_7_COLUMNS["Mean"]),
}


def table_7(runs: Runs, published: bool = False) -> Table:
    """Return mean, least, most and standard deviation over the stores of all models and sets."""
    stores = [run for model in runs.models for run in _stores(runs, model).values()]
    rows: list[Labels] = [(name,) for name in TABLE_7_ROWS]
    cells: Cells = {
        ((name,), (column,)): _figure(stores, size, fold)
        for name, size in TABLE_7_ROWS.items()
        for column, fold in TABLE_7_COLUMNS.items()
    }
    caption = f"What a datastore takes, in MB, over {len(stores)} configurations"
    return _table("table7", caption, ("Metric",), rows, list(TABLE_7_COLUMNS), cells, published)


def table_8(runs: Runs, published: bool = False) -> Table:
    """Return the total RAM of each store, and the mean over the four sets."""
    cells: Cells = {}
    models = models_of(runs, "table8")
    for model in models:
        stores = _stores(runs, model)
        for name in TABLE_8_SETS:
            cells[(model,), (SETS[name],)] = _figure([stores[name]] if name in stores else [], _named("ram"), max)
        whole = list(stores.values()) if len(stores) == len(TABLE_8_SETS) else []
        cells[(model,), (MEAN,)] = _figure(whole, _named("ram"), TABLE_7_COLUMNS["Mean"])
    columns = [*(SETS[name] for name in TABLE_8_SETS), MEAN]
    caption = "Total RAM of datastores, in MB, by model and set"
    return _table("table8", caption, ("Model",), [(model,) for model in models], columns, cells, published)


def table_9(runs: Runs, published: bool = False) -> Table:
    """Return the resident memory around opening and searching a store, by model, over the four sets."""
    cells: Cells = {}
    models = models_of(runs, "table9")
    for model in models:
        stores = _stores(runs, model)
        whole = list(stores.values()) if len(stores) == len(TABLE_8_SETS) else []
        for column, (size, fold) in TABLE_9_COLUMNS.items():
            cells[(model,), (column,)] = _figure(whole, size, fold)
    caption = "Resident memory of the process that opens and searches a datastore, in MB, over the four sets"
    return _table(
        "table9", caption, ("Model",), [(model,) for model in models], list(TABLE_9_COLUMNS), cells, published
    )


def _table(
    name: str,
    caption: str,
    heads: Labels,
    rows: Sequence[Labels],
    columns: Sequence[str],
    cells: Cells,
    published: bool,
) -> Table:
    note = "ID stores of SEN, as measured when they were built; sizes depend on how many prompts went in."
    table = Table(name, caption, heads, rows, [(column,) for column in columns], cells, notes=[note])
    return beside(table) if published else table


def _stores(runs: Runs, model: str) -> dict[str, Run]:
    """Return, for each set, a run that tells the sizes of its store."""
    found = {}
    for name in SETS:
        fitting = [run for pick in STORES for run in runs.all_for(model, name, pick)]
        telling = [run for run in fitting if run.manifest["datastore"].get("sizes_mb")]
        if telling:
            found[name] = telling[0]
    return found


def _figure(stores: Sequence[Run], size: Size, fold: Callable[[Sequence[float]], float]) -> Cell:
    values = [size(run.manifest["datastore"]["sizes_mb"]) for run in stores]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(stores):
        return EMPTY
    return Cell(float(fold(known)), n=len(known), runs=tuple(run.hash for run in stores))

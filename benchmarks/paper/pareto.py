"""The speed-quality plane: every run of a model on a set as a point, the front of all methods, and both in words.

A point's quality is its score divided by plain decoding's on the same prompts, so plain decoding is (1, 1). The front
is made of the points that no other one equals in both and beats in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.paper.cells import EMPTY, Cell, read
from benchmarks.paper.comparison import circumstances, without_times
from benchmarks.paper.names import method_name, set_name, setting_name
from benchmarks.paper.runs import Run, Runs
from benchmarks.paper.table import Cells, Labels, Table
from benchmarks.table import LOOPING, loops, overlaps

MOST_LOST: Final = 0.02
FIGURES: Final = {
    "speedup": "speedup",
    "τ": "tau",
    "quality / plain": "quality_ratio",
    "distinct-4 / plain": "distinct_ratio",
}
FRONT: Final = "on the front"
KEEPS: Final = "loses under 2 %"
SETTING: Final = "setting"


@dataclass(frozen=True, eq=False)
class Point:
    """A run in the plane.

    Attributes:
        run: what was measured.
        speed: the speedup.
        quality: the quality ratio; empty where plain decoding scores nothing.
        front: whether it is on the front of its model and set.
    """

    run: Run
    speed: Cell
    quality: Cell
    front: bool = False

    @property
    def place(self) -> tuple[float, float] | None:
        """Speedup and quality ratio; None without a quality ratio."""
        speed, quality = self.speed.number, self.quality.number
        return None if speed is None or quality is None else (speed, quality)

    @property
    def keeps(self) -> bool:
        """Whether it loses less than `MOST_LOST` of the quality: by its rule, or else by the value alone."""
        return not self.run.lossy or (self.quality.number is not None and self.quality.number > 1 - MOST_LOST)

    @property
    def verdict(self) -> str:
        """Whether it loses less than `MOST_LOST`: yes (by rule or whole interval), by value, no, or - (no ratio)."""
        if not self.run.lossy:
            return "yes"
        if self.place is None:
            return "-"
        certain = self.quality.low is not None and self.quality.low > 1 - MOST_LOST
        return "no" if not self.keeps else "yes" if certain else "by value"


def planes(runs: Runs) -> list[tuple[str, str]]:
    """Return the pairs of model and data set that have runs."""
    return list(dict.fromkeys((run.model, run.dataset) for run in runs.runs))


def points(runs: Runs, model: str, dataset: str) -> list[Point]:
    """Return the timed runs of a model on a set, one for each method and setting, the fastest first."""
    own = [run for run in runs.runs if (run.model, run.dataset) == (model, dataset)]
    best = {(method_name(run), setting_name(run)): run for run in sorted(own, key=lambda run: run.rank)}
    plane = [Point(run, read(run, "speedup"), read(run, "quality_ratio")) for run in best.values()]
    timed = sorted(
        (point for point in plane if point.speed.number is not None),
        key=lambda point: (-(point.speed.number or 0.0), point.run.hash),
    )
    places = [point.place for point in timed if point.place is not None]
    return [replace(point, front=_undominated(point.place, places)) for point in timed]


def pareto(runs: Runs) -> Table:
    """Return a row for each method and setting, with its place in the plane."""
    rows: dict[Labels, Point] = {
        (model, set_name(dataset), method_name(point.run), setting_name(point.run)): point
        for model, dataset in planes(runs)
        for point in points(runs, model, dataset)
    }
    return _table(
        "pareto",
        "Speed against quality: every method and setting, beside plain decoding of the same prompts",
        ("Model", "Set", "Method", "Setting"),
        rows,
        (*FIGURES, FRONT, KEEPS),
    ).noting(without_times(_replays(runs)))


def lossless_enough(runs: Runs) -> Table:
    """Return a row for each method: at the fastest setting that loses under 2 %, else at the best one."""
    rows: dict[Labels, Point] = {}
    for model, dataset in planes(runs):
        plane = points(runs, model, dataset)
        for name in dict.fromkeys(method_name(point.run) for point in plane):
            own = [point for point in plane if method_name(point.run) == name]
            rows[(model, set_name(dataset), name)] = chosen(own)
    return _table(
        "pareto_best",
        "Each method at the fastest setting measured that loses less than 2 % of plain decoding's quality, or, where "
        "none does, at the one that loses least",
        ("Model", "Set", "Method"),
        rows,
        (SETTING, *FIGURES, FRONT, KEEPS),
    ).noting(without_times(_replays(runs)))


def chosen(own: Sequence[Point]) -> Point:
    """Return the fastest point that keeps the quality, else the best one; `own` is sorted by speed."""
    keeping = [point for point in own if point.keeps]
    return keeping[0] if keeping else max(own, key=lambda point: point.quality.number or 0.0)


def _replays(runs: Runs) -> list[Run]:
    return [run for run in runs.runs if run.replayed]


def _table(name: str, caption: str, heads: Labels, rows: dict[Labels, Point], columns: Iterable[str]) -> Table:
    cells: Cells = {(labels, (column,)): cell for labels, point in rows.items() for column, cell in _row(point)}
    notes = [*_notes(list(rows.values())), *circumstances([point.run for point in rows.values()])]
    return Table(
        name,
        caption,
        heads,
        list(rows),
        [(column,) for column in columns],
        cells,
        notes=notes,
        with_interval=True,
        complete=False,
    )


def _row(point: Point) -> Iterator[tuple[str, Cell]]:
    run = point.run
    yield SETTING, Cell(setting_name(run), runs=(run.hash,))
    for name, figure in FIGURES.items():
        yield name, read(run, figure)
    yield FRONT, EMPTY if point.place is None else Cell("yes" if point.front else "no", runs=(run.hash,))
    yield KEEPS, Cell(point.verdict, runs=(run.hash,))


def _notes(rows: Sequence[Point]) -> Iterator[str]:
    yield (
        f"Brackets are 95 % intervals over prompts. {KEEPS}: yes where the whole interval of quality / plain lies "
        f"above {1 - MOST_LOST:.2f}, or where verification is lossless by its rule; by value where only the value does."
    )
    if any(point.place is None for point in rows):
        yield "Without a quality ratio, so without a place on the front: where plain decoding scores nothing."
    looping = [f"{method_name(p.run)} ({setting_name(p.run)})" for p in rows if loops(p.run.summary)]
    if looping:
        yield (
            f"Fewer than {LOOPING:g} of plain decoding's different 4-grams, so that the text repeats itself and looks "
            f"faster than it is: {'; '.join(dict.fromkeys(looping))}."
        )
    if any(overlaps(point.run.manifest) for point in rows):
        yield "Some stores hold documents that repeat the test split (datastore.leaks=keep)."


def _undominated(place: tuple[float, float] | None, places: Sequence[tuple[float, float]]) -> bool:
    return place is not None and not any(
        speed >= place[0] and quality >= place[1] and (speed, quality) != place for speed, quality in places
    )

"""A cell of a table, and how figures of several runs become one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final

import numpy as np

from benchmarks.paper.runs import Run
from benchmarks.statistics import Estimate, ratio_of_totals


@dataclass(frozen=True)
class Cell:
    """A figure with its 95 % interval.

    Attributes:
        value: None where nothing was measured; a text where the table holds texts.
        low: lower end of the interval; None where there is none.
        high: upper end.
        n: prompts, or builds of stores, behind it.
        runs: hashes of the runs that it was read from.
        cut: of a quality, how many of the outputs behind it ended at the token budget.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    runs: tuple[str, ...] = ()
    cut: int | None = None

    @property
    def number(self) -> float | None:
        """The value, unless it is a text."""
        return self.value if isinstance(self.value, int | float) else None


EMPTY: Final = Cell()

Reader = Callable[[Run], Cell]


def _interval(name: str) -> Reader:
    def read(run: Run) -> Cell:
        figure = run.summary[name]
        return Cell(figure["value"], figure["low"], figure["high"], run.summary["n"], (run.hash,))

    return read


def _quality(side: str) -> Reader:
    def read(run: Run) -> Cell:
        quality: Mapping[str, Any] | None = run.summary["quality"]
        if quality is None:
            return EMPTY
        low, high = quality[f"{side}_interval"]
        cut = run.summary["cut"].get(side)
        return Cell(quality[side], low, high, quality["n"], (run.hash,), cut)

    return read


def _distinct(run: Run) -> Cell:
    """Return the share of different 4-grams in an output / in plain decoding's, where both are long enough for one."""
    pairs = [(prompt["distinct_4"], prompt["baseline"]["distinct_4"]) for prompt in run.prompts]
    known = np.array([pair for pair in pairs if None not in pair], np.float64).reshape(-1, 2)
    return of_estimate(ratio_of_totals(known[:, 0], known[:, 1]), len(known), [run.hash])


def _of_prompts(above: str, below: str) -> Reader:
    """Return a reader of total / total over the passes of all prompts."""

    def read(run: Run) -> Cell:
        totals = (np.array([prompt[name] for prompt in run.prompts], np.float64) for name in (above, below))
        return of_estimate(ratio_of_totals(*totals), len(run.prompts), [run.hash])

    return read


def _saved(run: Run) -> Cell:
    """Return the share of the candidates' tokens that the tree saves."""
    left = _of_prompts("proposed_nodes", "candidate_tokens")(run)
    value, low, high = (None if part is None else 1 - part for part in (left.number, left.high, left.low))
    return Cell(value, low, high, left.n, left.runs)


def of_estimate(figure: Estimate, n: int, runs: Sequence[str]) -> Cell:
    """Return a figure over prompts as a cell."""
    return EMPTY if figure.value is None else Cell(figure.value, figure.low, figure.high, n, tuple(runs))


# What a cell may hold of one run.
READERS: Final[Mapping[str, Reader]] = {
    "speedup": _interval("speedup"),
    "tau": _interval("tau"),
    "quality": _quality("method"),
    "baseline_quality": _quality("baseline"),
    "quality_ratio": _quality("ratio"),
    "distinct_ratio": _distinct,
    "saved": _saved,
    **{part: _of_prompts(f"{part}_ms", "passes") for part in ("draft", "verify", "judge", "commit")},
}


def read(run: Run | None, figure: str) -> Cell:
    """Return a figure of a run; EMPTY without a run, or where the run has no such figure."""
    if run is None:
        return EMPTY
    cell = READERS[figure](run)
    return EMPTY if cell.value is None else cell


def mean_of_sets(cells: Sequence[Cell]) -> Cell:
    """Return the mean over different prompts, so with their errors in quadrature; EMPTY unless all cells are there."""
    numbers = [cell.number for cell in cells if cell.number is not None]
    if not cells or len(numbers) < len(cells):
        return EMPTY
    value = float(np.mean(numbers))
    downs = [number - cell.low for cell, number in zip(cells, numbers, strict=True) if cell.low is not None]
    ups = [cell.high - number for cell, number in zip(cells, numbers, strict=True) if cell.high is not None]
    whole = len(downs) == len(ups) == len(cells)
    low = value - sqrt(sum(down**2 for down in downs)) / len(cells) if whole else None
    high = value + sqrt(sum(up**2 for up in ups)) / len(cells) if whole else None
    return _joined(value, low, high, cells)


def mean_of_settings(cells: Sequence[Cell]) -> Cell:
    """Return the mean of settings measured on the same prompts, whose errors go together; EMPTY cells are left out."""
    there = [cell for cell in cells if cell.number is not None]
    if not there:
        return EMPTY
    value = float(np.mean([cell.number for cell in there]))
    lows = [cell.low for cell in there if cell.low is not None]
    highs = [cell.high for cell in there if cell.high is not None]
    whole = len(lows) == len(highs) == len(there)
    low, high = (float(np.mean(lows)), float(np.mean(highs))) if whole else (None, None)
    same = _joined(value, low, high, there)
    return Cell(same.value, same.low, same.high, max((cell.n or 0 for cell in there), default=None), same.runs)


def _joined(value: float, low: float | None, high: float | None, cells: Sequence[Cell]) -> Cell:
    runs = tuple(dict.fromkeys(name for cell in cells for name in cell.runs))
    return Cell(value, low, high, sum(cell.n or 0 for cell in cells), runs)

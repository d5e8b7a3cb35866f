"""Figures over prompts with bootstrap intervals, and comparisons of token sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEVEL = 0.95
_RESAMPLES = 10_000
_SEED = 0
# Draws are made in blocks, so that memory does not grow with the number of prompts times the number of resamples.
_BLOCK_CELLS = 2_000_000


@dataclass(frozen=True)
class Estimate:
    """A figure with the ends of its 95 % interval; None where there is none (no prompt, or one and no interval)."""

    value: float | None
    low: float | None = None
    high: float | None = None


def estimate(columns: Floats, figure: Callable[[Floats], Floats]) -> Estimate:
    """Return a figure of the totals over prompts, with its paired percentile bootstrap interval.

    Whole prompts are drawn, so that what belongs together (method and baseline) stays together. Resamples in which
    the figure is undefined (a total of zero below the line) are left out.

    Args:
        columns: [n, k], k quantities of each prompt.
        figure: vectorised function of the totals: [..., k] -> [...]; a mean is total / n with a column of ones.
    """
    n = len(columns)
    if n == 0:
        return Estimate(None)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = finite(figure(columns.sum(axis=0)))
        if value is None or n == 1:
            return Estimate(value)
        draws = figure(_resampled_totals(columns))
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return Estimate(value)
    low, high = np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Estimate(value, float(low), float(high))


def _resampled_totals(columns: Floats) -> Floats:
    """Return [resamples, k]; drawing n prompts with replacement is a multinomial draw of how often each one occurs."""
    n = len(columns)
    if n * _RESAMPLES <= _BLOCK_CELLS:
        return _counts(n) @ columns
    rng = np.random.default_rng(_SEED)
    block = max(1, _BLOCK_CELLS // n)
    sizes = [min(block, _RESAMPLES - start) for start in range(0, _RESAMPLES, block)]
    return np.concatenate([rng.multinomial(n, np.full(n, 1 / n), size=size) @ columns for size in sizes])


@lru_cache(maxsize=4)
def _counts(n: int) -> NDArray[np.int64]:
    """Return int[resamples, n]; a table needs the same draws for each of its cells."""
    return np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), size=_RESAMPLES)


def ratio_of_totals(above: Floats, below: Floats) -> Estimate:
    """Return sum(above) / sum(below) of two float[n]."""
    return estimate(np.stack([above, below], axis=1), lambda totals: totals[..., 0] / totals[..., 1])


def mean(values: Floats) -> Estimate:
    """Return the mean of float[n]; undefined entries (nan) are left out."""
    values = values[np.isfinite(values)]
    return ratio_of_totals(values, np.ones_like(values))


def finite(value: Any) -> float | None:
    """Return a number that is one; None for nan, which is what becomes of a figure without times."""
    number = float(value)
    return number if np.isfinite(number) else None


def distinct_n(tokens: Sequence[int], n: int = 4) -> float | None:
    """Return the share of different n-grams among all n-grams of a sequence; None if it is too short to hold one."""
    if len(tokens) < n:
        return None
    grams = np.lib.stride_tricks.sliding_window_view(np.asarray(tokens), n)
    return len(np.unique(grams, axis=0)) / len(grams)


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two sequences share from their start."""
    n = min(len(left), len(right))
    differ = np.flatnonzero(np.asarray(left[:n]) != np.asarray(right[:n]))
    return int(differ[0]) if len(differ) else n

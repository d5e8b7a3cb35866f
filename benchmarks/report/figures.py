"""Every figure that a report shows, with its interval and the number of prompts behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.report.loading import Run
from benchmarks.statistics import Estimate, common_prefix, distinct_n, mean, ratio_of_totals

Sample = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure with the ends of its 95 % interval and the number of prompts behind it; None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0

    def text(self, digits: int = 2, percent: bool = False) -> str:
        """Return the value as it is shown."""
        return _number(self.value, digits, percent)

    def interval(self, digits: int = 2, percent: bool = False) -> str:
        """Return the interval as it is shown, "" without one."""
        if self.low is None or self.high is None:
            return ""
        return f"[{_number(self.low, digits, percent)}, {_number(self.high, digits, percent)}]"

    def full(self, digits: int = 2, percent: bool = False) -> str:
        """Return value and interval."""
        return f"{self.text(digits, percent)} {self.interval(digits, percent)}".rstrip()


def of_summary(run: Run, key: str) -> Figure:
    """Return a figure that summary.json holds with its interval."""
    entry = run.summary.get(key) or {}
    return Figure(entry.get("value"), entry.get("low"), entry.get("high"), run.summary["n"])


def quality(run: Run, side: str) -> Figure:
    """Return the quality of "method" or "baseline", or their "ratio"."""
    entry = run.summary.get("quality") or {}
    low, high = entry.get(f"{side}_interval") or (None, None)
    return Figure(entry.get(side), low, high, entry.get("n") or 0)


def identical(run: Run) -> Figure:
    """Return the share of outputs that equal plain decoding's."""
    return _mean(run, lambda s: float(s["output_ids"] == s["baseline"]["output_ids"]))


def prefix(run: Run) -> Figure:
    """Return the mean number of tokens before an output leaves plain decoding's."""
    return _mean(run, lambda s: common_prefix(s["output_ids"], s["baseline"]["output_ids"]))


def distinct_ratio(run: Run) -> Figure:
    """Return distinct-4 of the outputs / distinct-4 of plain decoding's; below 1 the text repeats itself more."""

    def both(sample: Sample) -> tuple[float, float] | None:
        ours, plain = distinct_n(sample["output_ids"]), distinct_n(sample["baseline"]["output_ids"])
        return None if ours is None or plain is None else (ours, plain)

    return _ratio(run, both)


def cut(run: Run, side: str = "method") -> Figure:
    """Return how many outputs of "method" or "baseline" ended at the token budget; a count has no interval."""
    return Figure((run.summary.get("cut") or {}).get(side), n=run.summary["n"])


def nodes_per_pass(run: Run) -> Figure:
    """Return the nodes of a forward, the pending token's included."""
    return _ratio(run, lambda s: (sum(s["nodes"]), s["passes"]))


def acceptance(run: Run) -> Figure:
    """Return drafted tokens committed / drafted nodes verified."""
    return _ratio(run, lambda s: (sum(s["accepted"]), sum(s["proposed"])))


def ms_per_token(run: Run) -> Figure:
    """Return decoding time per token of the output."""
    return _ratio(run, lambda s: (s["decode_ms"], len(s["output_ids"])))


def _mean(run: Run, value: Callable[[Sample], float]) -> Figure:
    values = np.array([value(sample) for sample in run.ok], np.float64)
    return _figure(mean(values), len(values))


def _ratio(run: Run, parts: Callable[[Sample], Sequence[float] | None]) -> Figure:
    found = [pair for sample in run.ok if (pair := parts(sample)) is not None]
    above, below = np.array(found, np.float64).reshape(-1, 2).T
    return _figure(ratio_of_totals(above, below), len(found))


def _figure(found: Estimate, n: int) -> Figure:
    return Figure(found.value, found.low, found.high, n)


def _number(value: float | None, digits: int, percent: bool) -> str:
    if value is None:
        return "\N{EN DASH}"
    return f"{value:.0%}" if percent else f"{value:.{digits}f}"

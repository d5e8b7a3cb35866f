"""The one clock: laps that leave no time between them."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter


class Clock:
    """A stop-watch whose laps add up to the whole time.

    Args:
        synchronize: waits for the device, so that a lap holds the work that it started; called at each lap's edge.
    """

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self._synchronize = synchronize
        self._mark = 0.0
        self.restart()

    def restart(self) -> None:
        """Start the first lap now."""
        self._synchronize()
        self._mark = perf_counter()

    def lap(self) -> float:
        """End the running lap, start the next one, and return the ended one's milliseconds."""
        self._synchronize()
        now = perf_counter()
        elapsed, self._mark = (now - self._mark) * 1e3, now
        return elapsed

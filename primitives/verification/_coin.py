"""The only source of chance of a verifier."""

from __future__ import annotations

import torch


class Coin:
    """Turns chances into decisions. Tests put one in its place that takes every decision in turn.

    Args:
        rng: generator on the host.
    """

    def __init__(self, rng: torch.Generator) -> None:
        self._rng = rng

    def flip(self, chance: float) -> bool:
        """Return True with this chance: never at 0, always at 1."""
        return float(torch.rand((), generator=self._rng, dtype=torch.float64)) < chance

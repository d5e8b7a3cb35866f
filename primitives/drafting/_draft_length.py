"""How many tokens a draft model drafts: the schedules of transformers' assisted generation."""

from __future__ import annotations

from typing import Final

import numpy as np

from primitives.contract import Ints, Outcome

SCHEDULES: Final = ("constant", "heuristic", "heuristic_transient")


class DraftLength:
    """Two tokens more after a draft that was accepted whole, one less after any other, never less than one.

    A pass that shows nothing of the length leaves it as it is: nothing was drafted, or what was drafted did not go
    through the forward whole.

    Args:
        first: tokens drafted at first.
        schedule: "constant" keeps it; "heuristic" adapts it over all texts, "heuristic_transient" within each.
    """

    def __init__(self, first: int, schedule: str) -> None:
        self.first = self.value = first
        self.schedule = schedule

    def start(self) -> None:
        """Begin a text."""
        if self.schedule == "heuristic_transient":
            self.value = self.first

    def learn(self, draft: Ints, outcome: Outcome) -> None:
        """Adapt to a pass.

        Args:
            draft: int64[l], the drafted chain, the pending token first; empty if nothing was drafted.
            outcome: of the pass; its tree may hold what others have drafted, too.
        """
        if self.schedule == "constant" or len(draft) < 2 or not _went_through(draft, outcome):
            return
        whole = np.array_equal(outcome.committed[: len(draft)], draft)
        self.value = self.value + 2 if whole else max(1, self.value - 1)


def _went_through(draft: Ints, outcome: Outcome) -> bool:
    node = -1
    for token in draft:
        below = np.flatnonzero((outcome.tree.parents == node) & (outcome.tree.tokens == token))
        if not len(below):
            return False
        node = int(below[0])
    return True

"""How many tokens a draft model drafts: the schedules of transformers' assisted generation."""

from __future__ import annotations

from math import inf
from typing import Final

import numpy as np

from primitives.contract import Ints, Outcome

SCHEDULES: Final = ("constant", "heuristic", "heuristic_transient")


class DraftLength:
    """Two tokens more after a draft that was accepted whole, one less after any other, never less than one.

    What did not go through the forward is not judged. So a pass that shows nothing of the length leaves it as it is:
    nothing was drafted or sent, or a draft was cut and accepted as far as it went.

    Args:
        first: tokens drafted at first.
        schedule: "constant" keeps it; "heuristic" adapts it over all texts, "heuristic_transient" within each.
        most: most tokens of a draft, at least 0.
    """

    def __init__(self, first: int, schedule: str, most: float = inf) -> None:
        self.most = most
        self.first = self.value = int(min(first, most))
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
        if self.schedule == "constant" or len(draft) < 2:
            return
        sent = draft[: _went_through(draft, outcome)]
        if not np.array_equal(outcome.committed[: len(sent)], sent):
            self.value = max(1, self.value - 1)
        elif len(sent) == len(draft):
            self.value = int(min(self.most, self.value + 2))


def _went_through(draft: Ints, outcome: Outcome) -> int:
    """Return how many tokens of a chain are in the tree that went through the forward."""
    node = -1
    for done, token in enumerate(draft):
        below = np.flatnonzero((outcome.tree.parents == node) & (outcome.tree.tokens == token))
        if not len(below):
            return done
        node = int(below[0])
    return len(draft)

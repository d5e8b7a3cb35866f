"""Plain autoregressive decoding, written as a drafter that proposes nothing."""

from __future__ import annotations

from primitives.contract import Context, Drafter, DraftTree
from primitives.registry import DRAFTERS


@DRAFTERS.register("none")
class EmptyDrafter(Drafter):
    """Proposes nothing, so that every pass commits the pending token alone: the baseline of every ratio."""

    provides = frozenset({"chain"})

    def propose(self, context: Context) -> DraftTree:
        """Return an empty tree."""
        return DraftTree.empty()

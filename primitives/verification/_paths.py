"""Choosing one accepted path of a tree."""

from __future__ import annotations

import numpy as np

from primitives.contract import Bools, DraftTree, Ints


def longest_accepted(tree: DraftTree, accepted: Bools) -> Ints:
    """Return the ids of the deepest node that is accepted with all its ancestors, and of these; ties go to the first.

    Args:
        tree: n nodes.
        accepted: bool[n], whether each node passes on its own.
    """
    if tree.is_chain:
        return np.arange(np.logical_and.accumulate(accepted).sum())
    reached = ~(tree.ancestor_mask & ~accepted).any(1)
    if not reached.any():
        return np.empty(0, np.int64)
    return tree.path_to(int(np.argmax(np.where(reached, tree.depths, 0))))

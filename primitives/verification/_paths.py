"""Choosing one accepted path of a tree."""

from __future__ import annotations

import numpy as np

from primitives.contract import Bools, DraftTree, Ints, Pathway, Verdict


def longest_accepted(tree: DraftTree, accepted: Bools) -> Ints:
    """Return the ids of the deepest node that is accepted with all its ancestors, and of these; ties go to the first.

    Args:
        tree: n nodes.
        accepted: bool[n], whether each node passes on its own.
    """
    if tree.is_chain:
        return np.arange(np.logical_and.accumulate(accepted).sum())
    reached = tree.with_ancestors(accepted)
    if not reached.any():
        return np.empty(0, np.int64)
    return tree.path_to(int(np.argmax(np.where(reached, tree.depths, 0))))


def verdict_of(path: Ints, exact: Bools, relaxed: Pathway = Pathway.RELAXED) -> Verdict:
    """Return the verdict of a path.

    Args:
        path: int64[l], the accepted nodes.
        exact: bool[l], which of them are the target's own choice.
        relaxed: how the others got in.
    """
    return Verdict(path, np.where(exact, Pathway.EXACT, relaxed).astype(np.uint8))

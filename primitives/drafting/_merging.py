"""Trees of several origins as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from primitives.contract import PAD, DraftTree, Ints


def merge(trees: Sequence[DraftTree]) -> tuple[DraftTree, list[Ints]]:
    """Return the prefix tree of all paths of at least one tree, and for each tree the ids of its nodes in it.

    Nodes stand level by level; nodes of two trees are one where the tokens from the root down to them are the same.
    """
    first = np.cumsum([0, *map(len, trees)])
    parents = [np.where(tree.parents < 0, PAD, tree.parents + start) for tree, start in zip(trees, first, strict=False)]
    forest = DraftTree(np.concatenate([tree.tokens for tree in trees]), np.concatenate(parents))
    # One cell more than there are nodes: PAD, as an index, finds the root there.
    ids = np.full(len(forest) + 1, PAD, np.int64)
    levels = [np.empty(0, np.int64)]
    for depth in range(1, int(forest.depths.max(initial=0)) + 1):
        nodes = np.flatnonzero(forest.depths == depth)
        words, place = np.unique((ids[forest.parents[nodes]] << 32) + forest.tokens[nodes], return_inverse=True)
        ids[nodes] = sum(map(len, levels)) + place
        levels.append(words)
    words = np.concatenate(levels)
    return DraftTree(words & 0xFFFFFFFF, words >> 32), np.split(ids[:-1], first[1:-1])

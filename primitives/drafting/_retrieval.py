"""What retrieval drafters share: the states that they search by, and the tree of the continuations that they find."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import PAD, Bools, Context, DraftTree, Floats, Ints, TargetView
from primitives.datastores.projection import Keys
from primitives.datastores.vector_store import VectorStore


def layers_of(store: VectorStore) -> tuple[int, ...]:
    """Return the inner layers of the target that the keys of a store are made of: one, or none."""
    return () if store.layer is None else (store.layer,)


def states_for(store: VectorStore, seen: TargetView | Context) -> torch.Tensor:
    """Return the states that the keys of a store are made of, out of what a drafter sees of the target."""
    if store.layer is None:
        return seen.hidden
    if seen.features is None:
        raise RuntimeError(f"the store's keys are made of layer {store.layer}, which the target does not show")
    return seen.features


def key_of(store: VectorStore, context: Context) -> Keys:
    """Return float32[d], the key of the state that chose the pending token."""
    key: Keys = store.projection(states_for(store, context)[None].float().cpu().numpy())[0]
    return key


def within_text(levels: Ints, eos_ids: Ints) -> Bools:
    """Return bool[L, m]: the tokens of candidates that could be committed, those behind the first EOS and padding not.

    Args:
        levels: int64[L, m], candidates in the columns, padded at the end with -1.
        eos_ids: int64[e].
    """
    ended = np.zeros(levels.shape, bool)
    # One comparison for each of the few EOS ids costs a fraction of what np.isin does.
    for eos in eos_ids:
        ended |= levels == eos
    np.logical_or.accumulate(ended, axis=0, out=ended)
    within: Bools = levels != PAD
    within[1:] &= ~ended[:-1]
    return within


def up_to_eos(grid: Ints, eos_ids: Ints) -> Ints:
    """Return int64[m, length] candidates cut after their first EOS: nothing behind it can be committed."""
    return np.where(within_text(grid.T, eos_ids).T, grid, PAD)


def best_candidates(grid: Ints, score: Floats, weights: Floats, count: int) -> DraftTree:
    """Return the tree of the best distinct candidates; each node scores the weight of those that agree on it.

    Args:
        grid: int64[m, length], candidates padded at the end with -1.
        score: float[m], the higher the better; of equals the first in the order of their tokens wins.
        weights: float[m], not negative.
        count: how many distinct ones to keep, proper prefixes of others not counted.
    """
    if not len(grid):
        return DraftTree.empty()
    grid, score, weights = _distinct(grid, score, weights)
    best = np.argsort(-score, kind="stable")[:count]
    return DraftTree.from_grid(grid[best], weights[best])


def nearness(similarity: Floats, copies: Ints, sharpness: float) -> Floats:
    """Return float[m] weights: how often the corpus has each neighbour, times ``exp(sharpness * similarity)``.

    Relative to the nearest neighbour, so that no weight overflows.
    """
    return copies * np.exp(sharpness * (similarity - similarity.max(initial=-np.inf)))


def best_nodes(tree: DraftTree, count: int | None) -> DraftTree:
    """Return the tree of the nodes with the best scores, of equals the shallower, then the earlier; None keeps all.

    Args:
        tree: each node scores at least as much as its children, so that the best are closed under prefixes.
        count: how many to keep.
    """
    if count is None or len(tree) <= count:
        return tree
    assert tree.scores is not None
    chosen: Bools = np.zeros(len(tree), bool)
    chosen[np.lexsort((tree.depths, -tree.scores))[:count]] = True
    return tree.keep(chosen)


def _distinct(grid: Ints, score: Floats, weights: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the candidates without duplicates and proper prefixes of others: best score of each, weights added up."""
    order = np.lexsort(grid.T[::-1])
    grid, score, weights = grid[order], score[order], weights[order]
    # In sorted order a prefix stands right before one of its extensions, so neighbours tell all.
    covered = ((grid[:-1] == grid[1:]) | (grid[:-1] == PAD)).all(1)
    group = np.concatenate([[0], np.cumsum(~covered)])
    last = np.flatnonzero(np.concatenate([~covered, [True]]))
    best: Floats = np.full(len(last), -np.inf)
    np.maximum.at(best, group, score)
    return grid[last], best, np.bincount(group, weights=weights).astype(np.float64)

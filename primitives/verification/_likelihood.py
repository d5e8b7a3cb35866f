"""Choosing among accepted paths by their probability under the target."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Ints
from primitives.verification._look import Asked, Look


def log_probability(asked: Asked) -> tuple[torch.Tensor]:
    """Return float64[m], ln p of each token under the row that judges it; a row is normalised once."""
    return ((asked.own.float() - torch.logsumexp(asked.logits.float(), -1)[asked.rows]).double(),)


def deepest(tree: DraftTree, accepted: Bools) -> Ints:
    """Return the deepest nodes that are accepted with all their ancestors; accepted is bool[n]."""
    reached = np.flatnonzero(tree.with_ancestors(accepted))
    depths = tree.depths[reached]
    return reached[depths == depths.max(initial=0)]


def unextendable(tree: DraftTree, accepted: Bools) -> Ints:
    """Return the nodes that are accepted with all their ancestors, and none of whose children is accepted."""
    ends = tree.with_ancestors(accepted)
    parents = tree.parents[ends]
    ends[parents[parents >= 0]] = False
    return np.flatnonzero(ends)


def likeliest(look: Look, ends: Ints) -> Ints:
    """Return the path to that one of some nodes with the largest sum of ln p; ties go to the first.

    Args:
        look: at a tree, with the question for `log_probability`.
        ends: int64[k], the nodes; without any the path is empty.
    """
    if not len(ends):
        return np.empty(0, np.int64)
    tree = look.tree
    if len(ends) == 1:
        return tree.path_to(int(ends[0]))
    paths = tree.ancestor_mask[ends]
    # What all paths share decides nothing.
    apart = paths.any(0) & ~paths.all(0)
    # A row's sum over the vocabulary is dear. Until it is known, ln p is at most what the likeliest token leaves of it,
    # and the path that leads by such bounds is summed up until it leads with none.
    log_p = np.where(apart, look.own - look.best, 0)
    unsure = apart.copy()
    while True:
        leader = np.where(paths, log_p, 0).sum(1).argmax()
        nodes = np.flatnonzero(paths[leader] & unsure)
        if not len(nodes):
            return tree.path_to(int(ends[leader]))
        (log_p[nodes],) = look(log_probability, nodes)
        unsure[nodes] = False

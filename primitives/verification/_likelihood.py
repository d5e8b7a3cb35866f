"""Choosing among accepted paths by their probability under the target."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Floats, Ints
from primitives.verification._rows import values


def log_probability(logits: torch.Tensor, rows: Ints, tokens: Ints) -> Floats:
    """Return float[m], ln p of each of int64[m] tokens under its row of [r, V] logits; a row is normalised once."""
    used, place = np.unique(rows, return_inverse=True)
    normaliser = torch.logsumexp(logits[torch.from_numpy(used).to(logits.device)].float(), -1)
    row, token, of = (torch.from_numpy(ids).to(logits.device) for ids in (rows, tokens, place))
    return (logits[row, token].float() - normaliser[of]).double().cpu().numpy()


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


def likeliest(tree: DraftTree, logits: torch.Tensor, ends: Ints, choice: Ints) -> Ints:
    """Return the path to that one of some nodes with the largest sum of ln p; ties go to the first.

    Args:
        tree: n nodes.
        logits: [n+1, V], the target's rows.
        ends: int64[k], the nodes; without any the path is empty.
        choice: int64[n], a likely token of the row that judges each node.
    """
    if not len(ends):
        return np.empty(0, np.int64)
    if len(ends) == 1:
        return tree.path_to(int(ends[0]))
    paths = tree.ancestor_mask[ends]
    # What all paths share decides nothing.
    apart = paths.any(0) & ~paths.all(0)
    own, other = values(logits, tree.rows, np.stack([tree.tokens, choice]))
    # A row's sum over the vocabulary is dear. Until it is known, ln p is at most what another token leaves of it, and
    # the path that leads by such bounds is summed up until it leads with none.
    log_p = np.where(apart, np.minimum(own - other, 0), 0)
    unsure = apart.copy()
    while True:
        leader = np.where(paths, log_p, 0).sum(1).argmax()
        nodes = np.flatnonzero(paths[leader] & unsure)
        if not len(nodes):
            return tree.path_to(int(ends[leader]))
        log_p[nodes] = log_probability(logits, tree.rows[nodes], tree.tokens[nodes])
        unsure[nodes] = False

"""From a drafter's proposal to the tree that goes through the forward."""

from __future__ import annotations

import numpy as np

from primitives.contract import Bools, Context, DraftTree, Floats, TargetView, Verifier


def fit(
    tree: DraftTree, context: Context, verifier: Verifier, max_nodes: int, judged: TargetView | None = None
) -> DraftTree:
    """Return the tree that is worth a forward: pending token in, hopeless nodes out, at most `max_nodes` nodes.

    Level-1 nodes that the verifier cannot accept are cut with all below them, since the logits that judge them are
    known already; so are nodes deeper than the tokens that can still be committed.

    A verifier of drawn tokens (`DraftTree.q`) keeps the distribution only if whether a node stays does not hang on
    which token was drawn for it. Cutting by depth does not ask for tokens. The node budget does not either: of drawn
    nodes the first ones stay, in the order in which they were drawn, whatever their scores. In greedy decoding q is no
    law of draws, and scores count.

    Args:
        tree: what the drafter proposes.
        context: what it was proposed for.
        verifier: who will judge it.
        max_nodes: most nodes of the tree that is returned.
        judged: the view of one row by which level 1 is judged: the context's logits, processed. None: the pending token
            was drawn from it, so that it has no rivals.
    """
    hopeful = tree.depths <= context.budget
    rivals = np.flatnonzero((tree.parents < 0) & (tree.tokens != context.pending))
    if len(rivals):
        if judged is not None and verifier.guarantee == "lossy":
            rivals = rivals[~verifier.admits(tree.tokens[rivals], judged.logits[0])]
        hopeful &= ~tree.ancestor_mask[:, rivals].any(1)
    fitted = _with_pending(tree.keep(hopeful), context.pending)
    return _within(fitted, context.pending, max_nodes, drawn=fitted.q is not None and not context.decoding.greedy)


def _with_pending(tree: DraftTree, pending: int) -> DraftTree:
    """Return the tree with a level-1 node for the pending token: the target's own choice is always a candidate."""
    if ((tree.parents < 0) & (tree.tokens == pending)).any():
        return tree
    if tree.q is not None or tree.log_q is not None or tree.hidden is not None:
        raise ValueError(
            "a drafter that gives q or hidden states must propose the pending token itself, as the root of its draft"
        )
    return DraftTree(
        np.concatenate([[pending], tree.tokens]),
        np.concatenate([[-1], np.where(tree.parents < 0, -1, tree.parents + 1)]),
        scores=None if tree.scores is None else np.concatenate([[np.inf], tree.scores]),
        sources=None if tree.sources is None else np.concatenate([[0], tree.sources]),
    )


def _within(tree: DraftTree, pending: int, max_nodes: int, drawn: bool) -> DraftTree:
    """Keep the pending token and the best nodes, each with its ancestors; of equals the shallower, then the earlier."""
    if len(tree) <= max_nodes:
        return tree
    worth = _worth(tree, drawn)
    worth[(tree.parents < 0) & (tree.tokens == pending)] = np.inf
    best = np.lexsort((np.arange(len(tree)), tree.depths, -worth))[:max_nodes]
    chosen: Bools = np.zeros(len(tree), bool)
    chosen[best] = True
    return tree.keep(chosen)


def _worth(tree: DraftTree, drawn: bool) -> Floats:
    """Return each node's score, lowered to its worst ancestor's so that the best nodes are closed under prefixes."""
    if drawn:
        return -np.arange(len(tree), dtype=float)
    if tree.scores is None:
        return -tree.depths.astype(float)
    on_path = np.where(tree.ancestor_mask, tree.scores[None, :], np.inf)
    return on_path.min(1)

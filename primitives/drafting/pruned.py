"""Pruned drafts: branches that are unlikely are cut, the more the deeper they are and the less sure the target is.

Source: ARC-Decode (ICML 2026) and its released code, entropy-guided pruning.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from primitives.contract import Bools, Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView
from primitives.knobs import check_range
from primitives.registry import DRAFTERS
from primitives.statistics import normalised_entropy


@DRAFTERS.register("pruned")
class PrunedDrafter(Drafter):
    """Another drafter, cut to nodes with ``q exp(-entropy_weight H d) >= least``.

    q is the probability that the drafter gives to the path to a node, H the target's entropy before the pending token
    as a share of ln V, and d the depth below that token. What is left has no q: a cut that looks at q would not keep
    the distribution, and a token that counts as proposed with certainty does.

    Args:
        drafter: whose trees are pruned.
        entropy_weight: lambda_H, at least 0.
        least: theta_p, in [0, 1].
        least_leaf: tau_p, in [0, 1]: leaves below it are cut even where few nodes are left.
        fewest: nodes that are kept in any case, the best first, but for such leaves.

    Raises:
        ValueError: a setting out of its range.
    """

    reads = frozenset({"distribution"})

    def __init__(
        self,
        drafter: Drafter,
        entropy_weight: float = 1.0,
        least: float = 0.005,
        least_leaf: float = 0.001,
        fewest: int = 48,
    ) -> None:
        check_range("drafter 'pruned'", 0, 1, least=least, least_leaf=least_leaf)
        check_range("drafter 'pruned'", 0, inf, entropy_weight=entropy_weight, fewest=fewest)
        if drafter is None:
            raise ValueError("drafter 'pruned': drafter is missing; give the name of the drafter whose trees it prunes")
        self.drafter = drafter
        self.provides = drafter.provides - {"q"}
        self.entropy_weight = entropy_weight
        self.least = least
        self.least_leaf = least_leaf
        self.fewest = fewest

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the drafter within."""
        return self.drafter.sources

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that the drafter looks at."""
        return self.drafter.layers

    @property
    def remembers(self) -> bool:
        """Whether the drafter does."""
        return self.drafter.remembers

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Begin with the drafter."""
        self.drafter.start(prompt, view)

    def propose(self, context: Context) -> DraftTree:
        """Return what is left of the drafter's tree; the pending token is never cut."""
        tree = self.drafter.propose(context)
        if not len(tree):
            return tree
        certain = (tree.parents < 0) & (tree.tokens == context.pending)
        unsure = float(normalised_entropy(context.logits[None]))
        worth = path_probability(tree, certain) * np.exp(-self.entropy_weight * unsure * (tree.depths - 1))
        chosen = worth >= self.least
        chosen[np.lexsort((np.arange(len(tree)), tree.depths, -worth))[: self.fewest]] = True
        chosen = tree.with_ancestors(chosen | certain)
        leaves = chosen.copy()
        leaves[tree.parents[chosen & (tree.parents >= 0)]] = False
        chosen &= ~leaves | (worth >= self.least_leaf) | certain
        return replace(tree, q=None, log_q=None).keep(chosen)

    def observe(self, outcome: Outcome) -> None:
        """Let the drafter learn."""
        self.drafter.observe(outcome)

    def finish(self) -> None:
        """End the sequence with the drafter."""
        self.drafter.finish()


def path_probability(tree: DraftTree, certain: Bools) -> Floats:
    """Return float[n], the probability of the path to each node under the drafter.

    Without probabilities a node has the share of its score among its siblings', and without scores, or with some below
    zero, siblings share alike.

    Args:
        tree: n nodes.
        certain: bool[n], nodes of probability 1.
    """
    if tree.log_q is not None:
        steps = np.exp(tree.log_q)
    else:
        scored = tree.scores is not None and tree.scores.min() >= 0
        scores = np.asarray(tree.scores, np.float64) if scored else np.ones(len(tree))
        total = np.bincount(tree.rows, weights=scores, minlength=len(tree) + 1)[tree.rows]
        steps = np.divide(scores, total, out=np.zeros(len(tree)), where=total > 0)
    return np.where(tree.ancestor_mask, np.where(certain, 1.0, steps), 1.0).prod(1)

"""Several drafters in one tree, so that each covers what the others miss.

Ours: no paper shares a node budget between drafters; docs/fidelity.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np
import torch

from primitives.contract import Bools, Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView
from primitives.drafting._merging import merge
from primitives.registry import DRAFTERS

# Deeper levels count as the last of these.
_DEPTHS: Final = 32
_LEAST: Final = 1e-12
# Before it has shown anything a drafter counts as if this rate had been seen in this many tries.
_PRIOR_RATE: Final = 0.7
_PRIOR_TRIES: Final = 4.0


@DRAFTERS.register("union")
class UnionDrafter(Drafter):
    """Merges the trees of several drafters; what two of them propose is one branch.

    Scores of different drafters have no common scale, so every node is scored by an estimate of how likely it is to be
    accepted. In a drafter's own tree the score of a node against its parent's is the share of the parent's chance that
    the drafter gives it. What a share is worth is learned while decoding, for each drafter and depth: of the shares
    given to children of accepted nodes, how much was accepted. A path's chance is the product along it, and the chances
    of drafters that agree on a node are joined as if they were independent.

    Args:
        drafters: what is merged; a single one is a union too.
        weights: a factor for the chances of each drafter; None takes all as they are.

    Raises:
        ValueError: no drafter, or weights that are not one positive number for each.
    """

    def __init__(self, drafters: Sequence[Drafter], weights: Sequence[float] | None = None) -> None:
        drafters = [drafters] if isinstance(drafters, Drafter) else list(drafters or ())
        if not drafters:
            raise ValueError("drafter 'union': drafters is empty; give the names of the drafters that it joins")
        factors = [1.0] * len(drafters) if weights is None else weights
        numbers = isinstance(factors, list | tuple) and all(isinstance(one, int | float) for one in factors)
        if not numbers or len(factors) != len(drafters) or not all(0 < one < inf for one in factors):
            raise ValueError(
                f"drafter 'union': weights={factors} must be a list of one positive number for each of its "
                f"{len(drafters)} drafters, or null"
            )
        self.drafters = drafters
        # What is merged has neither q nor states any more, and two chains may part.
        self.provides = drafters[0].provides & {"chain"} if len(drafters) == 1 else frozenset()
        self.weights = np.array(factors, np.float64)
        self._tried: Floats = np.zeros((len(factors), _DEPTHS))
        self._accepted: Floats = np.zeros((len(factors), _DEPTHS))
        self._tree = DraftTree.empty()
        self._shares: Floats = np.empty((len(factors), 0))
        self._certain: Bools = np.empty(0, bool)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of all drafters within."""
        return tuple(name for drafter in self.drafters for name in drafter.sources)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that the drafters look at, one drafter after the other."""
        return tuple(layer for drafter in self.drafters for layer in drafter.layers)

    @property
    def remembers(self) -> bool:
        """Whether one of the drafters does."""
        return any(drafter.remembers for drafter in self.drafters)

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Begin with each drafter, and forget what the last sequence has shown."""
        self._tried[:] = self._accepted[:] = 0
        for index, drafter in enumerate(self.drafters):
            drafter.start(prompt, replace(view, features=self._own(view.features, index)))

    def propose(self, context: Context) -> DraftTree:
        """Return the merged tree, each node with the chance that it is accepted and the drafters that proposed it."""
        trees = [
            drafter.propose(replace(context, features=self._own(context.features, index)))
            for index, drafter in enumerate(self.drafters)
        ]
        tree, ids = merge(trees)
        sources = np.zeros(len(tree), np.int64)
        self._shares = np.zeros((len(trees), len(tree)))
        self._certain = (tree.parents < 0) & (tree.tokens == context.pending)
        first = 0
        for drafter, part, nodes, shares in zip(self.drafters, trees, ids, self._shares, strict=True):
            own = len(drafter.sources)
            shares[nodes] = _shares(part, context.pending)
            sources[nodes] |= ((1 << own) - 1 if part.sources is None else part.sources) << first
            first += own
        self._tree = replace(tree, scores=self._chances(tree), sources=sources)
        return self._tree

    def observe(self, outcome: Outcome) -> None:
        """Learn what the drafters' shares are worth, and let each drafter learn its own."""
        self._count(outcome)
        for index, drafter in enumerate(self.drafters):
            view = replace(outcome.view, features=self._own(outcome.view.features, index))
            drafter.observe(replace(outcome, view=view))

    def finish(self) -> None:
        """End the sequence with each drafter."""
        for drafter in self.drafters:
            drafter.finish()

    def _own(self, features: torch.Tensor | None, index: int) -> torch.Tensor | None:
        """Return the part of [..., k h] features that a drafter has asked for."""
        own = len(self.drafters[index].layers)
        if features is None or not own:
            return None
        size = features.shape[-1] // len(self.layers)
        first = sum(len(drafter.layers) for drafter in self.drafters[:index])
        return features[..., first * size : (first + own) * size]

    def _chances(self, tree: DraftTree) -> Floats:
        """Return float[n], the chance of each node to be accepted with all its ancestors."""
        usual = _rate(self._accepted.sum(1), self._tried.sum(1), _PRIOR_RATE)
        rates = _rate(self._accepted, self._tried, usual[:, None])
        chances = self._shares * np.where(self._certain, 1.0, rates[:, _levels(tree)])
        for depth in range(2, int(tree.depths.max(initial=0)) + 1):
            nodes = np.flatnonzero(tree.depths == depth)
            chances[:, nodes] *= chances[:, tree.parents[nodes]]
        return 1 - (1 - np.minimum(chances * self.weights[:, None], 1)).prod(0)

    def _count(self, outcome: Outcome) -> None:
        """Add to each drafter's tries the shares of the verified children of accepted nodes, and which of them won."""
        both, (ours, verified) = merge([self._tree, outcome.tree])
        known, accepted = np.zeros((2, len(both)), bool)
        known[verified], accepted[verified[outcome.path]] = True, True
        won = accepted[ours]
        reached = np.append(won, True)[self._tree.parents]
        tried = known[ours] & reached & ~self._certain
        at_level = _levels(self._tree)[:, None] == np.arange(_DEPTHS)
        self._tried += (self._shares * tried) @ at_level
        self._accepted += ((self._shares > 0) & tried & won) @ at_level.astype(float)


def _shares(tree: DraftTree, pending: int) -> Floats:
    """Return float[n], the share of its parent's chance that a drafter gives to each node; the pending one is certain.

    Scores say nothing of shares where there are none, or some below zero (logarithms); siblings then share alike.
    """
    scored = tree.scores is not None and tree.scores.min(initial=0) >= 0
    scores = np.maximum(tree.scores, _LEAST) if tree.scores is not None and scored else np.ones(len(tree))
    families = np.bincount(tree.rows, weights=scores, minlength=len(tree) + 1)
    above = np.append(families[:1], scores) if scored else families
    certain = (tree.parents < 0) & (tree.tokens == pending)
    return np.where(certain, 1.0, np.minimum(scores / above[tree.rows], 1))


def _levels(tree: DraftTree) -> Ints:
    return np.minimum(tree.depths, _DEPTHS) - 1


def _rate(accepted: Floats, tried: Floats, prior: Floats | float) -> Floats:
    """Return the mean of the beta distribution, at most 1: siblings of a winner may be cut, so it can have more."""
    return np.minimum((accepted + _PRIOR_TRIES * prior) / (tried + _PRIOR_TRIES), 1)

"""The distributions that a lossless verifier works with: the target's, and what drafted tokens were drawn from."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView
from primitives.statistics import on_accelerator, probabilities, softmax_dtype

# Two laws that agree differ by no more than so many rounding steps, summed over all tokens.
ROUNDING_STEPS: Final = 8


class Laws:
    """p and q of a tree as float64[V] rows, each made only if it is looked at.

    On a CPU a softmax over the vocabulary is what judging costs, and most rows are never reached. On another device
    rows are cheap and transfers are not, so there all rows that can be reached are made at once.

    Args:
        tree: n nodes; node 0 is the pending token, which is certain. Siblings come in the order in which they were
            drawn.
        view: the target's rows, processed: p is their softmax.
        drawn: whether the tree's q counts. Without q, or where it does not count, tokens are proposed with certainty.

    Attributes:
        drawn: whether the tokens were drawn.
        eager: whether decisions wait until all chances have been computed, to be transferred at once.
        inner: nodes that have children.
        rounding: what a sum of differences between two laws that agree may come to.
    """

    def __init__(self, tree: DraftTree, view: TargetView, drawn: bool = True) -> None:
        self.tree = tree
        self.drawn = drawn and tree.q is not None
        self.eager = on_accelerator(view.hidden)
        self._view = view
        self._tokens = tree.tokens.tolist()
        self._below: list[list[int]] = [[] for _ in range(len(tree))]
        for node, parent in enumerate(tree.parents.tolist()):
            if parent >= 0:
                self._below[parent].append(node)
        self.inner = [node for node, below in enumerate(self._below) if below]
        self.rounding = 0.0
        self._p: dict[int, torch.Tensor] = {}
        self._p_of_children: dict[int, list[float]] = {}

    def children(self, node: int) -> list[int]:
        """Return the children of a node, in order."""
        return self._below[node]

    def tokens(self, node: int) -> list[int]:
        """Return the tokens of its children."""
        return [self._tokens[child] for child in self._below[node]]

    def p(self, node: int) -> torch.Tensor:
        """Return float64[V], the target's law of the token after a node."""
        if node not in self._p:
            nodes = self.inner if self.eager and node in self.inner else [node]
            logits = self._view.select(np.array(nodes) + 1).logits
            self.rounding = ROUNDING_STEPS * torch.finfo(softmax_dtype(logits)).eps
            self._p.update(zip(nodes, probabilities(logits), strict=True))
        return self._p[node]

    def p_of_children(self, node: int) -> list[float]:
        """Return p of the tokens of a node's children."""
        if node not in self._p_of_children:
            nodes = self.inner if self.eager else [node]
            values = iter(torch.stack([self.p(above)[t] for above in nodes for t in self.tokens(above)]).tolist())
            self._p_of_children.update({parent: [next(values) for _ in self._below[parent]] for parent in nodes})
        return self._p_of_children[node]

    def acceptance(self, p: torch.Tensor, child: int, weight: torch.Tensor | float = 1.0) -> torch.Tensor:
        """Return min(1, weight p(x) / q(x)) for the token of a drawn child; 0 where p(x) is 0, whatever q(x) is."""
        assert self.tree.q is not None
        token = self._tokens[child]
        mass = p[token] * weight
        return torch.where(mass > 0, (mass / self.tree.q[child, token]).clamp(max=1), 0)

    def leftover(
        self, p: torch.Tensor, child: int, weight: torch.Tensor | float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return norm(max(0, weight p - q)), what a rejected child leaves of the law it was tried on, and its mass.

        Where rounding alone is left, p and q agreed and rejection had next to no chance: p itself is returned then,
        with mass 0.
        """
        assert self.tree.q is not None
        q, rest = self.tree.q[child], p * weight
        # Tokens that the drafter does not know were drawn with probability 0.
        known = min(len(q), len(rest))
        rest[:known] -= q[:known]
        mass = rest.relu_().sum()
        real = mass > self.rounding
        return torch.where(real, rest / mass, p), torch.where(real, mass, 0)

"""From the leaves up: whole paths are tried first, and what a rejected node leaves is handed to its parent.

On a chain this is block verification (arXiv 2403.10444): there a node's weight, after its child was rejected, is h_i.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from primitives.verification._coin import Coin
from primitives.verification._descent import descend
from primitives.verification._laws import Laws


def ascend(laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
    """Return the accepted nodes from the pending token down, and the law of the next token if it is not p itself.

    Of tokens that were proposed with certainty, a node on the first path has the weight that its whole path has under
    the target, and rejections take away just that: the law is that of the walk from the root down, which looks at far
    fewer rows.
    """
    if not laws.drawn:
        return descend(laws, coin)
    trials = Trials(laws)
    for node, chance in _on_host(iter(trials), laws.eager):
        if coin.flip(chance):
            return laws.tree.path_to(node).tolist(), trials.left.get(node)
    raise AssertionError("the pending token is accepted with certainty")


class Trials:
    """The nodes in the order in which they are tried, each with its chance given that all before it were rejected.

    The order and the chances hang on the tree alone and not on a decision.

    Args:
        laws: of a tree of drawn tokens.

    Attributes:
        left: float64[V], what is left of p after those nodes of which a child was rejected.
    """

    def __init__(self, laws: Laws) -> None:
        self.laws = laws
        self.left: dict[int, torch.Tensor] = {}
        self._weight: dict[int, torch.Tensor] = {0: torch.ones_like(laws.p(0)[0])}

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor]]:
        below = [list(self.laws.children(node)) for node in range(len(self.laws.tree))]
        node = 0
        while True:
            while below[node] and not self._hopeless(node):
                child = below[node][0]
                self._weight[child] = self.laws.acceptance(self._p(node), child, self._weight[node])
                node = child
            if node == 0:
                yield 0, torch.ones_like(self._weight[0])
                return
            yield node, self._weight[node]
            parent = int(self.laws.tree.parents[node])
            self._reject(node, parent)
            below[parent].pop(0)
            node = parent

    def _p(self, node: int) -> torch.Tensor:
        return self.left[node] if node in self.left else self.laws.p(node)

    def _hopeless(self, node: int) -> bool:
        """Return whether a node's weight is nothing but rounding, so that no row below it is worth a softmax.

        On a device the answer would have to be waited for.
        """
        return not self.laws.eager and float(self._weight[node]) <= self.laws.rounding

    def _reject(self, node: int, parent: int) -> None:
        """Take the law of a rejected node from its parent's: p' = max(0, w p - q), w' = sum p' / (sum p' + 1 - w)."""
        weight = self._weight[parent]
        self.left[parent], mass = self.laws.leftover(self._p(parent), node, weight)
        self._weight[parent] = torch.where(mass > 0, mass / (mass + (1 - weight)), 0)


def _on_host(trials: Iterator[tuple[int, torch.Tensor]], eager: bool) -> Iterable[tuple[int, float]]:
    """Return the trials with their chances as numbers, transferred one by one or all together."""
    if not eager:
        return ((node, float(chance)) for node, chance in trials)
    nodes, chances = zip(*trials, strict=True)
    return zip(nodes, torch.stack(chances).tolist(), strict=True)

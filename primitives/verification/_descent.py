"""From the root down: at each accepted node its children are tried in order until one is accepted or none is left.

This one walk is speculative sampling on a chain, and SpecInfer's multi-branch rule and EAGLE's form on a tree. For
tokens that were proposed with certainty it is all that any lossless rule can do: it accepts a node exactly if the
target's own draws would have gone through it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import torch

from primitives.verification._coin import Coin
from primitives.verification._laws import Laws


class Siblings(Protocol):
    """The children of one node."""

    def chances(self) -> Iterable[float]:
        """Yield for each child in order the chance to be accepted, given that all before it were rejected."""

    def residual(self) -> torch.Tensor:
        """Return float64[V], the law of the next token once all chances were looked at and none was taken."""


class CertainSiblings:
    """Proposed with certainty: accepted with p(x); on rejection p(x) is 0 (EAGLE; SpecInfer with q = 1).

    Args:
        laws: of the tree.
        node: their parent.
    """

    def __init__(self, laws: Laws, node: int) -> None:
        self.laws = laws
        self.node = node

    def chances(self) -> Iterator[float]:
        """Yield p(x) / (1 - p of all before); an equal sibling has no second chance."""
        left, tried = 1.0, set()
        for token, p in zip(self.laws.tokens(self.node), self.laws.p_of_children(self.node), strict=True):
            p = 0.0 if token in tried else p
            yield p / left if p < left else float(p > 0)
            left -= p
            tried.add(token)

    def residual(self) -> torch.Tensor:
        """Return p without the tokens; p itself if they had all of it up to rounding."""
        p = self.laws.p(self.node)
        rest = p.index_fill(0, torch.tensor(self.laws.tokens(self.node), device=p.device), 0)
        return torch.where(rest.sum() > 0, rest, p)


class DrawnSiblings:
    """Drawn one after the other: accepted with min(1, p(x)/q(x)); on rejection p becomes norm(max(0, p - q)).

    Each child has its own q, the law that it was really drawn from: the same for all if they were drawn with
    replacement, without the tokens of earlier siblings if without.

    Args:
        laws: of the tree.
        node: their parent.
    """

    def __init__(self, laws: Laws, node: int) -> None:
        self.laws = laws
        self.node = node
        self._left = laws.p(node)

    def trials(self) -> Iterator[torch.Tensor]:
        """Yield the chances as scalars on the device, and go on to what is left when asked for the next one."""
        self._left = self.laws.p(self.node)
        for child in self.laws.children(self.node):
            yield self.laws.acceptance(self._left, child)
            self._left, _ = self.laws.leftover(self._left, child)

    def chances(self) -> Iterable[float]:
        """Yield the chances one by one."""
        return map(float, self.trials())

    def residual(self) -> torch.Tensor:
        """Return what is left of p."""
        return self._left


def descend(laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
    """Return the accepted nodes from the pending token down, and the law of the next token if it is not p itself."""
    known = known_chances(laws)
    path = [0]
    while children := laws.children(path[-1]):
        siblings, chances = known[path[-1]] if known else chances_below(laws, path[-1])
        for place, chance in enumerate(chances):
            if coin.flip(chance):
                path.append(children[place])
                break
        else:
            return path, siblings.residual()
    return path, None


def chances_below(laws: Laws, node: int) -> tuple[Siblings, Iterable[float]]:
    """Return the children of a node, by how they were proposed, and their chances."""
    siblings: Siblings = DrawnSiblings(laws, node) if laws.drawn else CertainSiblings(laws, node)
    return siblings, siblings.chances()


def known_chances(laws: Laws) -> dict[int, tuple[Siblings, Iterable[float]]]:
    """Return the drawn children of every node with their chances, all brought to the host in one transfer.

    Empty where chances are looked at one by one, and where the tokens are certain: `Laws` transfers theirs together.
    """
    if not (laws.drawn and laws.eager):
        return {}
    families = {node: DrawnSiblings(laws, node) for node in laws.inner}
    trials = [chance for siblings in families.values() for chance in siblings.trials()]
    chances = iter(torch.stack(trials).tolist() if trials else [])
    return {node: (families[node], [next(chances) for _ in laws.children(node)]) for node in families}

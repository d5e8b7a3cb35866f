"""ARC's soft form: lossless sampling in which a rejected token gets a second chance where its shift is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from primitives.verification._coin import Coin
from primitives.verification._descent import chances_below, known_chances
from primitives.verification._laws import Laws

# Takes float64[V] p, int64[k] tokens and the depth they stand at; returns float64[k] second chances.
Second = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


def descend(laws: Laws, coin: Coin, second: Second) -> tuple[list[int], list[bool], torch.Tensor | None]:
    """Return the accepted nodes from the pending token down, which took the second chance, and what is left of p.

    With its lossless chance a0 a token passes with ``a0 + (1 - a0) second``. Children are tried in order, and what
    rejected ones leave of p is tried on the next, as in SpecInfer. What is left is None where the path ends at a leaf.
    """
    known, seconds = known_chances(laws), _second_chances(laws, laws.inner, second) if laws.eager else {}
    path, relaxed = [0], [False]
    while children := laws.children(path[-1]):
        node = path[-1]
        siblings, chances = known[node] if known else chances_below(laws, node)
        again = seconds[node] if laws.eager else _second_chances(laws, [node], second)[node]
        # In this order the lossless chances are looked at to the end, which leaves the residual ready.
        for place, (first, other) in enumerate(zip(chances, again, strict=False)):
            passed = coin.flip(first)
            if passed or (other > 0 and coin.flip(other)):
                path.append(children[place])
                relaxed.append(not passed)
                break
        else:
            return path, relaxed, siblings.residual()
    return path, relaxed, None


def _second_chances(laws: Laws, nodes: Sequence[int], second: Second) -> dict[int, list[float]]:
    """Return the second chances of the children of each node, all brought to the host in one transfer."""
    if not nodes:
        return {}
    found = []
    for node in nodes:
        p = laws.p(node)
        found.append(second(p, torch.tensor(laws.tokens(node), device=p.device), int(laws.tree.depths[node]) + 1))
    values = iter(torch.cat(found).tolist())
    return {node: [next(values) for _ in laws.children(node)] for node in nodes}

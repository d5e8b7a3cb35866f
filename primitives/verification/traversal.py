"""Traversal verification: a tree is judged from its leaves to its root, whole paths first.

Source: "Traversal Verification for Speculative Tree Decoding" (arXiv 2505.12398).
"""

from __future__ import annotations

import torch

from primitives.registry import VERIFIERS
from primitives.verification._ascent import ascend
from primitives.verification._coin import Coin
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier


@VERIFIERS.register("traversal")
class TraversalVerifier(LosslessVerifier):
    """Accepts the path to a leaf by its weight, else takes the leaf away and hands what is left to its parent.

    ``w(v) = min(1, w(parent) p(v) / q(v))``; leaves are tried in depth-first order, siblings as they were drawn. On a
    chain it is block verification; on a draft without q it is tree sampling.
    """

    def decide(self, laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
        """Return the accepted nodes, and the law of the next token if it is not p."""
        return ascend(laws, coin)

"""Speculative sampling: each drafted token of a chain is accepted with min(1, p/q) until one is rejected.

Sources: Leviathan et al. (arXiv 2211.17192); Chen et al. (arXiv 2302.01318).
"""

from __future__ import annotations

import torch

from primitives.registry import VERIFIERS
from primitives.verification._coin import Coin
from primitives.verification._descent import descend
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier


@VERIFIERS.register("speculative_sampling")
class SpeculativeSamplingVerifier(LosslessVerifier):
    """Accepts token by token; after a rejection the next token is drawn from ``norm(max(0, p - q))``.

    A draft without q is proposed with certainty: its token is accepted with p(x), and rejected it is taken out of p.
    """

    needs = frozenset({"chain"})

    def decide(self, laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
        """Return the accepted nodes, and the law of the next token if it is not p."""
        return descend(laws, coin)

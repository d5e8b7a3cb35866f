"""Block verification: the tokens of a chain are accepted together, which accepts more of them than one by one.

Source: Sun et al., "Block Verification Accelerates Speculative Decoding" (arXiv 2403.10444).
"""

from __future__ import annotations

import torch

from primitives.registry import VERIFIERS
from primitives.verification._ascent import ascend
from primitives.verification._coin import Coin
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier


@VERIFIERS.register("block")
class BlockVerifier(LosslessVerifier):
    """Accepts the longest prefix whose own draw passes ``h_i = S_i / (S_i + 1 - w_i)``, the last one's w.

    ``w_i = min(1, w_{i-1} p_i / q_i)`` and ``S_i = sum max(0, w_i p_{i+1} - q_{i+1})``. Prefixes are tried from the
    longest down, so that only those sums are made that are needed. On a draft without q it is speculative sampling.
    """

    needs = frozenset({"chain"})

    def decide(self, laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
        """Return the accepted nodes, and the law of the next token if it is not p."""
        return ascend(laws, coin)

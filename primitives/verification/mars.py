"""MARS: where the target's two best tokens lie close together, either of them passes.

Source: MARS (arXiv 2601.15498) and its released code (spec 4.4).
"""

from __future__ import annotations

import torch

from primitives.contract import Bools, Floats
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import within_top
from primitives.verification._look import Asked
from primitives.verification._rows import RowVerifier


@VERIFIERS.register("mars")
class MarsVerifier(RowVerifier):
    """Accepts the target's choice, and its second choice where ``logit_2 / logit_1 > threshold``.

    The ratio is one of raw logits, which says nothing where the largest is not positive: there only the choice passes
    (interpretation).

    Args:
        threshold: the ratio above which the second choice passes, in [0, 1]; at 1 the rule is exact matching.

    Raises:
        ValueError: a threshold out of its range.
    """

    neutral = ({"threshold": 1.0},)

    def __init__(self, threshold: float = 0.9) -> None:
        check_range("verifier 'mars'", 0, 1, threshold=threshold)
        self.threshold = threshold

    def hopeful(self, own: Floats, best: Floats, vocabulary: int) -> Bools:
        """Return bool[m]: whether the ratio would do if the token were the second choice."""
        return (best > 0) & (own > self.threshold * best)

    def lets_in(self, asked: Asked) -> torch.Tensor:
        """Return bool[m]: whether each token is the second choice; that its ratio will do is known."""
        return within_top(asked.each_row, asked.tokens, 2)

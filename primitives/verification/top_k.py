"""Plain top-k: a token passes if it is one of the target's k largest; a control, from no paper (spec 4.11)."""

from __future__ import annotations

from math import inf

import numpy as np
import torch

from primitives.contract import Bools, Floats, Pathway
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import within_top
from primitives.verification._look import Asked
from primitives.verification._rows import RowVerifier


@VERIFIERS.register("top_k")
class TopKVerifier(RowVerifier):
    """Accepts the target's k likeliest tokens, however sure it is; ties go to the lower id.

    Args:
        k: at least 1; at 1 the rule is exact matching.

    Raises:
        ValueError: a k below 1.
    """

    neutral = ({"k": 1},)
    pathway = Pathway.TOP_K

    def __init__(self, k: int = 3) -> None:
        check_range("verifier 'top_k'", 1, inf, k=k)
        self.k = k

    def hopeful(self, own: Floats, best: Floats, vocabulary: int) -> Bools:
        """Return bool[m]: whether there is room for more than the choice."""
        return np.full(len(own), self.k > 1)

    def lets_in(self, asked: Asked) -> torch.Tensor:
        """Return bool[m]: whether each token is among the k largest of its row."""
        return within_top(asked.each_row, asked.tokens, self.k)

"""Probability floor: a token passes if the target gives it enough; a control, from no paper (spec 4.11)."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import Bools, Floats
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import log_total_and_entropy
from primitives.verification._look import Asked
from primitives.verification._rows import RowVerifier


@VERIFIERS.register("prob_floor")
class ProbabilityFloorVerifier(RowVerifier):
    """Accepts the target's choice g, and a token d with ``p(d) >= epsilon`` and ``p(d) / p(g) > rho``.

    Args:
        epsilon: least probability, in [0, 1]; 0 asks for none, at 1 the rule is exact matching.
        rho: share of the choice's probability to be passed, in [0, 1]; likewise.

    Raises:
        ValueError: a setting out of its range.
    """

    neutral = ({"epsilon": 1.0}, {"epsilon": 0.0, "rho": 1.0})

    def __init__(self, epsilon: float = 0.1, rho: float = 0.0) -> None:
        check_range("verifier 'prob_floor'", 0, 1, epsilon=epsilon, rho=rho)
        with np.errstate(divide="ignore"):
            self.log_epsilon, self.log_rho = np.log([epsilon, rho])

    def hopeful(self, own: Floats, best: Floats, vocabulary: int) -> Bools:
        """Return bool[m]: whether the ratio is passed, and the floor too, were the choice certain."""
        return (own - best > self.log_rho) & (own - best >= self.log_epsilon)

    def lets_in(self, asked: Asked) -> torch.Tensor:
        """Return bool[m]: whether each token reaches the floor; that it passes the ratio is known."""
        if np.isneginf(self.log_epsilon):
            return torch.ones_like(asked.tokens, dtype=torch.bool)
        log_total, _ = log_total_and_entropy(asked.logits)
        return asked.own - log_total[asked.rows] >= self.log_epsilon

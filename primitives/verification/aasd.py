"""AASD's conditional verification: a floor under the probability that falls where the target is unsure.

Source: AASD (arXiv 2505.13204), as a third party's port has it (spec 4.10).
"""

from __future__ import annotations

from math import inf, log

import numpy as np
import torch

from primitives.contract import Bools, Floats
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import log_total_and_entropy
from primitives.verification._look import Asked
from primitives.verification._rows import RowVerifier


@VERIFIERS.register("aasd")
class ConditionalVerifier(RowVerifier):
    """Accepts a token with ``p(x) >= min(beta - alpha H(p), max p)``, the entropy H in nats.

    The second arm only lets the target's choice in; a token that ties with it needs the first one.

    Args:
        alpha: how fast the floor falls with the entropy, at least 0.
        beta: the floor at no entropy, in [0, 1]; with alpha 0 and beta 1 the rule is exact matching.

    Raises:
        ValueError: a setting out of its range.
    """

    neutral = ({"alpha": 0.0, "beta": 1.0},)

    def __init__(self, alpha: float = 0.1, beta: float = 0.1) -> None:
        check_range("verifier 'aasd'", 0, inf, alpha=alpha)
        check_range("verifier 'aasd'", 0, 1, beta=beta)
        self.alpha = alpha
        self.beta = beta

    def hopeful(self, own: Floats, best: Floats, vocabulary: int) -> Bools:
        """Return bool[m]: whether the floor is reached if the choice is certain and the entropy the largest."""
        return np.exp(own - best) >= self.beta - self.alpha * log(vocabulary)

    def lets_in(self, asked: Asked) -> torch.Tensor:
        """Return bool[m]: whether each token reaches the floor of its row."""
        log_total, entropy = (column[asked.rows] for column in log_total_and_entropy(asked.logits))
        return (asked.own - log_total).exp() >= self.beta - self.alpha * entropy

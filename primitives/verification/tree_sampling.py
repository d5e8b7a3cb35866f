"""Sampling over a tree: the children of an accepted node are tried in order until one is accepted.

Sources: SpecInfer (arXiv 2305.09781), multi-step speculative sampling; EAGLE's verifier
(github.com/SafeAILab/EAGLE), the same with q = 1.
"""

from __future__ import annotations

import torch

from primitives.knobs import check_choice
from primitives.registry import VERIFIERS
from primitives.verification._coin import Coin
from primitives.verification._descent import descend
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier

RULES = ("specinfer", "eagle")


@VERIFIERS.register("tree_sampling")
class TreeSamplingVerifier(LosslessVerifier):
    """Accepts one child of an accepted node after the other, and what rejected ones leave of p is tried on the next.

    Siblings are tried in the order in which they were drawn. SpecInfer tries them in a random one, which has the same
    law for siblings drawn with replacement, and would not for siblings drawn without.

    Args:
        rule: "specinfer" uses the q of drawn tokens; "eagle" takes every token as proposed with certainty. On drafts
            without q they are the same.

    Raises:
        ValueError: an unknown rule.
    """

    def __init__(self, rule: str = "specinfer") -> None:
        check_choice("verifier 'tree_sampling'", RULES, rule=rule)
        self.uses_q = rule == "specinfer"

    def decide(self, laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
        """Return the accepted nodes, and the law of the next token if it is not p."""
        return descend(laws, coin)

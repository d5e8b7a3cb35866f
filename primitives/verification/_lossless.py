"""What verifiers that keep the distribution have in common."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView, Verdict, Verifier
from primitives.verification._coin import Coin
from primitives.verification._laws import Laws


class LosslessVerifier(Verifier):
    """Accepts by chance, so that what is emitted follows the target's law: p, the softmax of the view's logits.

    Node 0, the pending token, was drawn from the target already and is accepted as it is; the rule begins below it.

    Attributes:
        uses_q: whether the law that tokens were drawn from counts; if not, all count as proposed with certainty.
    """

    guarantee = "distribution"
    uses_q: bool = True

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the accepted path and, where it ends by a rejection, the law of the next token.

        Raises:
            ValueError: a tree with several branches, of a rule for chains.
        """
        if "chain" in self.needs and not tree.is_chain:
            raise ValueError(f"verifier '{self.name}' takes a draft of one branch, and this one has {len(tree.leaves)}")
        path, residual = self.decide(Laws(tree, view, self.uses_q), Coin(rng))
        return Verdict(np.array(path, np.int64), np.zeros(len(path), np.uint8), residual)

    @abstractmethod
    def decide(self, laws: Laws, coin: Coin) -> tuple[list[int], torch.Tensor | None]:
        """Return the accepted nodes from the pending token down, and the law of the next token if it is not p."""

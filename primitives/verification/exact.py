"""Greedy identity: a drafted token is accepted if it is the target's own choice (spec 3.1)."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView, Verdict, Verifier
from primitives.registry import VERIFIERS
from primitives.statistics import greedy_choice
from primitives.verification._paths import longest_accepted


@VERIFIERS.register("exact")
class ExactVerifier(Verifier):
    """Accepts the longest path of argmax tokens, so that the output is the target's greedy output."""

    guarantee = "exact"

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the longest path on which every node is the argmax of its parent's row; ties go to the first."""
        path = longest_accepted(tree, tree.tokens == greedy_choice(view.logits)[tree.rows])
        return Verdict(path, np.zeros(len(path), np.uint8))

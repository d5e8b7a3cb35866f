"""Greedy identity: a drafted token is accepted if it is the target's own choice (arXiv 2305.09781, greedy)."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import PAD, Bools, DraftTree, Ints, TargetView, Verdict, Verifier
from primitives.registry import VERIFIERS
from primitives.statistics import greedy_choice, on_accelerator
from primitives.verification._paths import longest_accepted


@VERIFIERS.register("exact")
class ExactVerifier(Verifier):
    """Accepts the longest path of argmax tokens, so that the output is the target's greedy output."""

    guarantee = "exact"

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the longest path on which every node is the argmax of its parent's row; ties go to the first."""
        path = longest_accepted(tree, _reached(tree, view))
        return Verdict(path, np.zeros(len(path), np.uint8))


def _reached(tree: DraftTree, view: TargetView) -> Bools:
    """Return bool[n]: nodes that are their row's choice, looked for level by level where few rows cost less than all.

    On a device one transfer costs more than all rows, so there all are looked at together.
    """
    choice: Ints = np.full(len(tree) + 1, PAD)
    rows = np.arange(len(tree) + 1) if on_accelerator(view.hidden) else np.zeros(1, np.int64)
    while len(rows):
        choice[rows] = greedy_choice(view.select(rows).logits)
        accepted = tree.tokens == choice[tree.rows]
        ends = np.flatnonzero(accepted) + 1
        rows = ends[choice[ends] == PAD]
    return accepted

"""Judge: a mismatch passes where a classifier holds that it does not matter for the final answer.

Source: AutoJudge (arXiv 2504.20039), which mines its labels, after Judge Decoding. The classifier looks at
the target's hidden state alone, since most drafters here have none (interpretation); `scripts.calibrate` trains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import inf, log
from typing import Any

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Ints, TargetView, Verdict, Verifier
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import choices, fetched
from primitives.verification._constants import Constants
from primitives.verification._paths import verdict_of
from primitives.verification._relaxed import RelaxedPaths, longest


@VERIFIERS.register("judge")
class JudgeVerifier(Verifier):
    """Accepts the target's choice, and a token with ``P(important) <= threshold``.

    ``P = sigmoid(w h + b)`` for the hidden state h that the target has after reading the token.

    Args:
        calibration: weights (float[h]), bias and threshold for this target, by name.
        recall: share of important tokens that must be recognised when the threshold is chosen, between 0 and 1.
        threshold: largest P that passes, in [0, 1]; at 0 the rule is exact matching; None takes the calibration's.

    Raises:
        ValueError: a setting out of its range.
    """

    guarantee = "lossy"
    needs = frozenset({"hidden"})
    neutral = ({"threshold": 0.0},)

    def __init__(
        self, calibration: Mapping[str, Any] | None = None, recall: float = 0.9, threshold: float | None = None
    ) -> None:
        check_range("verifier 'judge'", 0, 1, recall=recall, threshold=threshold)
        self.recall = recall
        self._constants = Constants("judge", calibration, threshold=threshold)

    @property
    def awaits(self) -> frozenset[str]:
        """The constants that these settings need and take from the calibration."""
        if self._constants.own("threshold") == 0:
            return frozenset()
        return self._constants.unset("weights", "bias", "threshold")

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the longest path; ties go to more exact matches, then to the higher score, then to the first."""
        choice, unimportant = fetched(choices(view.logits), self._unimportant(view.hidden[1:]))
        exact = tree.tokens == (choice if view.drawn is None else view.drawn)[tree.rows]
        path = RelaxedPaths(tree, exact, lambda nodes: (unimportant[nodes],) * 2, unimportant).winner(longest)
        return verdict_of(path, exact[path])

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return True for all but a threshold of 0: what decides is the state after the token, known only later."""
        return np.full(len(tokens), self._largest > -inf)

    def _unimportant(self, states: torch.Tensor) -> torch.Tensor:
        """Return bool[n]: nodes whose hidden state, a row of [n, h], says that they do not matter."""
        if self._largest == -inf:
            return torch.zeros(len(states), dtype=torch.bool, device=states.device)
        # Moved once: a copy in every pass would wait for the device.
        self._weights = self._weights.to(states.device)
        return states.float() @ self._weights + float(self._constants["bias"]) <= self._largest

    @cached_property
    def _largest(self) -> float:
        """The largest ``w h + b`` that passes: the logit of the threshold."""
        threshold = self._constants["threshold"]
        if threshold in (0, 1):
            return inf if threshold else -inf
        return log(threshold) - log(1 - threshold)

    @cached_property
    def _weights(self) -> torch.Tensor:
        return torch.tensor(self._constants["weights"], dtype=torch.float32)

"""EASD: where target and drafter are both unsure and of one mind, even the target's own choice is rejected.

Source: EASD (arXiv 2512.23765), which has no code; what its abstract leaves open is argued in docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView, Verdict, Verifier
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import choices, normalised_entropy, normalised_entropy_of, probabilities, top_tokens
from primitives.verification._look import Asked, Look, Question
from primitives.verification._paths import longest_accepted, verdict_of


@VERIFIERS.register("easd")
class EntropyAwareVerifier(Verifier):
    """Accepts the target's choice, unless ``Hn(p) > theta_t`` and ``Hn(q) > theta_d`` and the two top-n sets agree.

    A rejected token's probability becomes 0, so the next token is the target's second choice. A token proposed with
    certainty has no entropy, so it is never rejected.

    Args:
        calibration: the entropies at `percentile`, by name; one that is set here wins over it.
        theta_t: entropy of the target, as a share of ln V, above which it is unsure, in [0, 1]; at 1 the rule is exact
            matching. None takes the calibration's.
        theta_d: likewise for the drafter's distribution.
        n: the likeliest tokens of either side that are compared, at least 1.
        omega: least share of them that both sides have, in [0, 1].
        percentile: of the entropies on a held-out set, that the calibration takes, in [0, 100].

    Raises:
        ValueError: a setting out of its range.
    """

    guarantee = "lossy"
    needs = frozenset({"q"})
    neutral = ({"theta_t": 1.0}, {"theta_d": 1.0})

    def __init__(
        self,
        calibration: Mapping[str, Any] | None = None,
        theta_t: float | None = None,
        theta_d: float | None = None,
        n: int = 5,
        omega: float = 0.8,
        percentile: float = 90.0,
    ) -> None:
        thresholds = {"theta_t": theta_t, "theta_d": theta_d}
        check_range("verifier 'easd'", 0, 1, **thresholds, omega=omega)
        check_range("verifier 'easd'", 1, inf, n=n)
        check_range("verifier 'easd'", 0, 100, percentile=percentile)
        self.calibration = calibration
        self.n = n
        self.omega = omega
        self.percentile = percentile
        self._own = {name: value for name, value in thresholds.items() if value is not None}

    @property
    def awaits(self) -> frozenset[str]:
        """The constants that these settings need and take from the calibration."""
        if 1.0 in self._own.values():
            return frozenset()
        return frozenset({"theta_t", "theta_d"} - self._own.keys())

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the path of the target's choices up to the first that is rejected.

        A level-1 node without rivals is the pending token, which is certain even where it is a second choice.
        """
        doubts = self._doubts(tree)
        look = Look(tree, view.logits, *doubts, drawn=view.drawn)
        exact = tree.tokens == look.choice
        first = tree.parents < 0
        path = longest_accepted(tree, exact | (first & (first.sum() == 1)))
        rejected = path[1:] if doubts else path[:0]
        for doubt in doubts:
            if len(rejected):
                rejected = rejected[look(doubt, rejected)[0]]
        if not len(rejected):
            return verdict_of(path, exact[path])
        node = rejected[0]
        path = path[: np.flatnonzero(path == node)[0]]
        residual = _without(view.select(tree.rows[[node]]), int(tree.tokens[node]))
        return replace(verdict_of(path, exact[path]), residual=residual)

    def _doubts(self, tree: DraftTree) -> tuple[Question, ...]:
        """Return the questions that all say yes about a node that is rejected, the cheapest first; none, no node is."""
        q = tree.q
        if q is None or 1.0 in self._own.values():
            return ()
        theta_d, theta_t = self._constant("theta_d"), self._constant("theta_t")

        def drafter_unsure(asked: Asked) -> tuple[torch.Tensor]:
            return (normalised_entropy_of(q[asked.nodes]) > theta_d,)

        def target_unsure(asked: Asked) -> tuple[torch.Tensor]:
            return ((normalised_entropy(asked.logits) > theta_t)[asked.rows],)

        def of_one_mind(asked: Asked) -> tuple[torch.Tensor]:
            return (self._agree(asked.each_row, q[asked.nodes]),)

        return of_one_mind, drafter_unsure, target_unsure

    def _agree(self, logits: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        """Return bool[m]: whether enough of the likeliest tokens are the same, by rows of [m, V] and [m, V_d]."""
        n = min(self.n, logits.shape[1], q.shape[1])
        ours, theirs = top_tokens(logits, n), top_tokens(q, n)
        shared = (ours[:, :, None] == theirs[:, None, :]).sum((1, 2))
        return shared / n >= self.omega

    def _constant(self, name: str) -> float:
        if name in self._own:
            return self._own[name]
        if self.calibration is None or name not in self.calibration:
            raise ValueError(f"verifier 'easd' has no {name}: set verifier.{name}, or calibrate with scripts.calibrate")
        return float(self.calibration[name])


def _without(view: TargetView, rejected: int) -> torch.Tensor:
    """Return float[V], what a view of one row leaves when a token is ruled out: its law, or all on the next choice."""
    others = view.logits.clone()
    others[0, rejected] = -inf
    if view.drawn is not None:
        return probabilities(others)[0]
    return torch.zeros(len(others[0]), device=others.device).index_fill(0, choices(others), 1)

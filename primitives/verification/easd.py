"""EASD: where target and drafter are both unsure and of one mind, even the target's own choice is rejected.

Source: EASD (arXiv 2512.23765), which has no code; what its abstract leaves open is argued in docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from math import inf, log
from typing import Any

import numpy as np
import torch

from primitives.contract import DraftTree, TargetView, Verdict, Verifier
from primitives.registry import VERIFIERS
from primitives.statistics import greedy_choice, normalised_entropy
from primitives.verification._paths import longest_accepted, verdict_of
from primitives.verification._relaxed import check_range


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
        given = {name: value for name, value in thresholds.items() if value is not None}
        check_range("easd", 0, 1, **given, omega=omega)
        check_range("easd", 1, inf, n=n)
        check_range("easd", 0, 100, percentile=percentile)
        self.calibration = calibration
        self.n = n
        self.omega = omega
        self.percentile = percentile
        self._own = given

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
        choice = greedy_choice(view.logits)
        exact = tree.tokens == choice[tree.rows]
        first = tree.parents < 0
        path = longest_accepted(tree, exact | (first & (first.sum() == 1)))
        kept = list(takewhile(lambda node: node == path[0] or not self._rejects(tree, view, node), path.tolist()))
        residual = None
        if len(kept) < len(path):
            residual = _second_choice(view.logits[int(tree.rows[path[len(kept)]])], int(tree.tokens[path[len(kept)]]))
        path = path[: len(kept)]
        return replace(verdict_of(path, exact[path]), residual=residual)

    def _rejects(self, tree: DraftTree, view: TargetView, node: int) -> bool:
        """Return whether both sides are unsure about a node and of one mind."""
        if tree.q is None or 1.0 in self._own.values():
            return False
        q = tree.q[node]
        if torch.special.entr(q.float()).sum() / log(len(q)) <= self._constant("theta_d"):
            return False
        logits = view.logits[int(tree.rows[node])][None]
        return bool(normalised_entropy(logits)[0] > self._constant("theta_t")) and self._agree(logits[0], q)

    def _agree(self, logits: torch.Tensor, q: torch.Tensor) -> bool:
        n = min(self.n, len(logits), len(q))
        shared = np.intersect1d(logits.topk(n).indices.cpu().numpy(), q.topk(n).indices.cpu().numpy())
        return len(shared) / n >= self.omega

    def _constant(self, name: str) -> float:
        if name in self._own:
            return self._own[name]
        if self.calibration is None or name not in self.calibration:
            raise ValueError(f"verifier 'easd' has no {name}: set verifier.{name}, or calibrate with scripts.calibrate")
        return float(self.calibration[name])


def _second_choice(logits: torch.Tensor, rejected: int) -> torch.Tensor:
    """Return float[V], all probability on the best token but one."""
    others = logits.clone()
    others[rejected] = -inf
    residual = torch.zeros(len(logits))
    residual[int(greedy_choice(others[None])[0])] = 1
    return residual

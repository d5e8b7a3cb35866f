"""Typical acceptance: a token passes if it is likely, measured by how unsure the target is.

Source: Medusa (arXiv 2401.10774) and its released code (spec 4.5).
"""

from __future__ import annotations

from math import inf

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Floats, Ints, TargetView, Verdict
from primitives.knobs import check_range
from primitives.registry import VERIFIERS
from primitives.statistics import log_total_and_entropy
from primitives.verification._look import Asked, Look
from primitives.verification._paths import verdict_of
from primitives.verification._relaxed import Rank, RelaxedPaths
from primitives.verification._rows import RowVerifier


@VERIFIERS.register("typical")
class TypicalVerifier(RowVerifier):
    """Accepts a token with ``p(x) > min(epsilon, alpha exp(-H(p)))``, p at a temperature and its entropy H in nats.

    The target's choice is always that likely for an alpha up to 1, and is accepted for any.

    Args:
        epsilon: the floor where the target is sure, in [0, 1].
        alpha: the floor where it is unsure, as a multiple of ``exp(-H)``; at least 0.
        temperature: of p alone, whatever the text is decoded at; at 0 the rule is exact matching.

    Raises:
        ValueError: a setting out of its range.
    """

    neutral = ({"temperature": 0.0},)

    def __init__(self, epsilon: float = 0.3, alpha: float = 0.09, temperature: float = 1.0) -> None:
        check_range("verifier 'typical'", 0, 1, epsilon=epsilon)
        check_range("verifier 'typical'", 0, inf, alpha=alpha, temperature=temperature)
        self.epsilon = epsilon
        self.alpha = alpha
        self.temperature = temperature

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the longest path; ties go to the likeliest at the temperature, then to the first."""
        if self.temperature == 0:
            return super().judge(tree, view, rng)
        look = Look(tree, view.logits, self._log_p_and_passes)
        # No token is likelier than this; it stands until the token's row has been summed up.
        log_p, summed = (look.own - look.best) / self.temperature, np.zeros(len(tree), bool)

        def rule(nodes: Ints) -> tuple[Bools, Bools]:
            passes, judged = np.zeros(len(tree), bool), np.isin(tree.rows, tree.rows[nodes])
            log_p[judged], passes[judged] = look(self._log_p_and_passes, np.flatnonzero(judged))
            summed[judged] = True
            return passes[nodes], passes[nodes]

        race = RelaxedPaths(tree, tree.tokens == look.choice, rule, self._may_pass(look, view.logits.shape[1]))
        path = race.winner(likeliest(log_p))
        while len(unsure := path[race.contested(len(path))[path] & ~summed[path]]):
            rule(unsure[:1])
            path = race.winner(likeliest(log_p))
        return verdict_of(path, race.exact[path])

    def hopeful(self, own: Floats, best: Floats, vocabulary: int) -> Bools:
        """Return bool[m]: whether the floor is passed if the choice is certain and the entropy the largest."""
        if self.temperature == 0:
            return np.zeros(len(own), bool)
        return np.exp((own - best) / self.temperature) > min(self.epsilon, self.alpha / vocabulary)

    def lets_in(self, asked: Asked) -> torch.Tensor:
        """Return bool[m]: whether each token passes the floor of its row."""
        return self._log_p_and_passes(asked)[1]

    def _log_p_and_passes(self, asked: Asked) -> tuple[torch.Tensor, torch.Tensor]:
        """Return float64[m], ln p of each token, and bool[m], whether p passes the floor of its row."""
        scaled = asked.logits if self.temperature == 1 else asked.logits.float() / self.temperature
        log_total, entropy = (column[asked.rows] for column in log_total_and_entropy(scaled))
        log_p = (asked.own.float() / self.temperature).double() - log_total
        return log_p, log_p.exp() > (self.alpha * (-entropy).exp()).clamp(max=self.epsilon)


def likeliest(log_p: Floats) -> Rank:
    """Return a rank by length, then by the sum of float[n] ln p, which is looked at anew each time."""
    return lambda race, passed: (passed.sum(1), np.where(passed, log_p[race.on_path], 0).sum(1))

"""ARC: a token passes if an estimate bounds how far it moves the target's next distribution.

Source: "ARC-Decode: Accelerated Decoding with Risk-Bounded Acceptance" (ICML 2026) and its released code. Its pruning
of drafts is the drafter `pruned`, its constants are measured by `scripts.calibrate`, and what the paper leaves open is
argued in docs/fidelity.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf, isnan, log
from typing import Any

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Floats, Ints, TargetView, Verdict, Verifier
from primitives.knobs import check_choice, check_range
from primitives.registry import VERIFIERS
from primitives.verification._arc_guards import Past, Repetition, among_first_children, within_budget
from primitives.verification._arc_soft import descend
from primitives.verification._arc_surrogate import Whitening, gaps
from primitives.verification._coin import Coin
from primitives.verification._constants import Constants
from primitives.verification._laws import Laws
from primitives.verification._likelihood import deepest, likeliest, log_probability, unextendable
from primitives.verification._look import Asked, Look, look_at_rivals
from primitives.verification._paths import verdict_of

FORMS = ("hard", "soft")
BUDGETS = ("none", "linear", "table")
SELECTIONS = ("longest", "likeliest")


@VERIFIERS.register("arc")
class ArcVerifier(Verifier):
    """Accepts tokens whose surrogate shift U, measured against the target's choice t, is small.

    ``U = min(c_e ||W (e_x - e_t)||^2, c_l (ln p(t) - ln p(x))^2)``. The hard form accepts the choice, and a token with
    ``U <= (1 - theta) tau_delta``. The soft form is for sampling: a token that lossless sampling rejects is kept with
    the chance ``lam (1 - U / ((1 - theta) tau_delta))``.

    Args:
        embeddings: [V, h], the target's input embedding matrix.
        calibration: constants of this target, by name; a constant that is set here wins over it.
        form: "hard" or "soft".
        theta: least local tolerance score ``1 - U / tau_delta``, in [0, 1]; at 1 nothing is tolerated.
        delta: risk level that the calibration is made for, in [0, 1].
        c_e: shift of a squared unit of whitened embedding distance; None takes the calibration's, like the next five.
        c_l: shift of a squared nat between two tokens.
        tau_delta: the largest shift, by which tolerance is measured; at 0 nothing is tolerated.
        margin_bound: most nats between the choice and a relaxed token.
        logit_bound: largest logit part of a shift.
        budget_table: most shift that a path of 1, 2, ... tokens may add up to.
        tau_divided: divide the calibration's tau_delta by ``1 - theta``, as the released code does.
        p_min: least probability of a relaxed token, in [0, 1].
        lam: soft form: largest second chance, in [0, 1]; at 0 it is lossless.
        lam_shallow: likewise at the depths below, counted from the pending token's 1; None is `lam`.
        shallow: soft form: last depth at which `lam_shallow` holds.
        margin: hard form: whether `margin_bound` is kept by every token, and so for all that follow.
        logit: whether `logit_bound` is.
        budget: what a path may add up to: "none" (anything), "linear" (both bounds times its length) or "table".
        window: tokens that the three bounds below look back at.
        most_relaxed: most relaxed tokens among them; None is no bound.
        most_occurrences: occurrences from which on a token is not accepted relaxed; None is no bound.
        third_ratio: least p(x) / p(t) of a relaxed token that stands there the third time in a row; None is no bound.
        most_children: relaxed tokens are taken only from so many best siblings; None is no bound.
        select: the path that wins is the "longest", ties to the likeliest, or the "likeliest" that cannot be extended.

    Raises:
        ValueError: a setting out of its range.
    """

    guarantee = "lossy"
    neutral = ({"tau_delta": 0.0}, {"theta": 1.0})

    def __init__(
        self,
        embeddings: torch.Tensor,
        calibration: Mapping[str, Any] | None = None,
        form: str = "hard",
        theta: float = 0.3,
        delta: float = 0.05,
        c_e: float | None = None,
        c_l: float | None = None,
        tau_delta: float | None = None,
        margin_bound: float | None = None,
        logit_bound: float | None = None,
        budget_table: Sequence[float] | None = None,
        tau_divided: bool = False,
        p_min: float = 0.0,
        lam: float = 0.25,
        lam_shallow: float | None = None,
        shallow: int = 2,
        margin: bool = False,
        logit: bool = False,
        budget: str = "none",
        window: int = 64,
        most_relaxed: int | None = None,
        most_occurrences: int | None = None,
        third_ratio: float | None = None,
        most_children: int | None = None,
        select: str = "longest",
    ) -> None:
        name = "verifier 'arc'"
        check_range(name, 0, 1, theta=theta, delta=delta, p_min=p_min, lam=lam, lam_shallow=lam_shallow)
        check_range(name, 0, 1, third_ratio=third_ratio)
        check_range(name, 0, inf, c_e=c_e, c_l=c_l, tau_delta=tau_delta, margin_bound=margin_bound)
        check_range(name, 0, inf, logit_bound=logit_bound, budget_table=_smallest(budget_table))
        check_range(name, 0, inf, most_relaxed=most_relaxed)
        check_range(name, 1, inf, window=window, shallow=shallow)
        check_range(name, 1, inf, most_occurrences=most_occurrences, most_children=most_children)
        check_choice(name, FORMS, form=form)
        check_choice(name, BUDGETS, budget=budget)
        check_choice(name, SELECTIONS, select=select)
        self.by_chance = form == "soft"
        self.theta = theta
        self.tau_divided = tau_divided
        self.p_min = p_min
        self.lam = np.array([lam if lam_shallow is None else lam_shallow] * shallow + [lam])
        self.margin = margin
        self.logit = logit
        self.budget = budget
        self.most_children = most_children
        self.select = select
        self._constants = Constants(
            "arc",
            calibration,
            c_e=c_e,
            c_l=c_l,
            tau_delta=tau_delta,
            margin_bound=margin_bound,
            logit_bound=logit_bound,
            budget_table=budget_table,
        )
        self._whitening = Whitening(embeddings)
        self._repetition = Repetition(window, most_relaxed, most_occurrences, third_ratio)
        self._past = Past()

    @property
    def awaits(self) -> frozenset[str]:
        """The constants that these settings need and take from the calibration."""
        if self.theta == 1 or self._constants.own("tau_delta") == 0:
            return frozenset()
        names = ["c_e", "c_l", "tau_delta"]
        if not self.by_chance:
            linear = self.budget == "linear"
            names += ["margin_bound"] * (self.margin or linear) + ["logit_bound"] * (self.logit or linear)
            names += ["budget_table"] * (self.budget == "table")
        return self._constants.unset(*names)

    def start(self, prompt: Ints) -> None:
        """Begin a text: the bounds on repetition look back at the prompt's int64[T] ids too."""
        self._past = Past()
        self._past.extend(prompt, np.zeros(len(prompt), bool), self._repetition.window)

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the winning path; of equally long ones the likeliest under the target, then the first."""
        if self.by_chance:
            nodes, relaxed, residual = descend(Laws(tree, view), Coin(rng), self._second_chance)
            return replace(verdict_of(np.array(nodes, np.int64), ~np.array(relaxed)), residual=residual)
        look = Look(tree, view.logits, self._gaps, log_probability, drawn=view.drawn)
        exact = tree.tokens == look.choice
        path = self._best(look, exact | self._rescued(look, exact))
        self._past.extend(tree.tokens[path], ~exact[path], self._repetition.window)
        return verdict_of(path, exact[path])

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return which rivals of the pending token are within the tolerance; none in the soft form."""
        if self.by_chance:
            return np.zeros(len(tokens), bool)
        look = look_at_rivals(tokens, logits, self._gaps, log_probability)
        exact = tokens == look.choice
        return exact | self._tolerated(look, exact)[0]

    def _rescued(self, look: Look, exact: Bools) -> Bools:
        """Return bool[n]: mismatches that pass, provided that all their ancestors do."""
        passed, margin = self._tolerated(look, exact)
        if passed.any() and self.most_children is not None:
            passed &= among_first_children(look.tree, self.most_children)
        if passed.any() and self._repetition.on:
            passed &= self._repetition.permits(look.tree, exact, margin, self._past)
        return passed

    def _tolerated(self, look: Look, exact: Bools) -> tuple[Bools, Floats]:
        """Return bool[n], the mismatches within every bound on shifts, and float[n], their margins (0 elsewhere)."""
        passed, (margin, logit, total) = np.zeros(len(exact), bool), np.zeros((3, len(exact)))
        missed = np.flatnonzero(~exact)
        if not len(missed) or not self._limit:
            return passed, margin
        margin[missed], apart = look(self._gaps, missed)
        logit[missed] = self._constants["c_l"] * np.square(margin[missed])
        total[missed] = np.minimum(self._constants["c_e"] * apart, logit[missed])
        # A token that a score processor has ruled out is near nothing, whatever its embedding.
        passed = ~exact & (total <= self._limit) & (margin < inf)
        if self.margin:
            passed &= margin <= self._constants["margin_bound"]
        if self.logit:
            passed &= logit <= self._constants["logit_bound"]
        passed &= self._within_budget(look.tree, margin, logit, total)
        if self.p_min > 0 and passed.any():
            nodes = np.flatnonzero(passed)
            passed[nodes] = look(log_probability, nodes)[0] >= log(self.p_min)
        return passed, margin

    def _within_budget(self, tree: DraftTree, margin: Floats, logit: Floats, total: Floats) -> Bools:
        """Return bool[n]: whether what the path to a node adds up to is within its budget."""
        if self.budget == "table":
            return within_budget(tree, total, self._constants["budget_table"])
        if self.budget == "linear":
            lengths = np.arange(1, tree.depths.max() + 1)
            within_margin = within_budget(tree, margin, self._constants["margin_bound"] * lengths)
            return within_margin & within_budget(tree, logit, self._constants["logit_bound"] * lengths)
        return np.ones(len(tree), bool)

    def _best(self, look: Look, accepted: Bools) -> Ints:
        """Return the winning path."""
        ends = deepest(look.tree, accepted) if self.select == "longest" else unextendable(look.tree, accepted)
        return likeliest(look, ends)

    def _gaps(self, asked: Asked) -> tuple[torch.Tensor, torch.Tensor]:
        return gaps(self._whitening, asked)

    def _second_chance(self, p: torch.Tensor, tokens: torch.Tensor, depth: int) -> torch.Tensor:
        """Return float64[k], the chance that a rejected token is kept.

        Args:
            p: float64[V], the target's law.
            tokens: int64[k].
            depth: of the tokens; the pending token's is 1.
        """
        lam, own = float(self.lam[min(depth, len(self.lam)) - 1]), p[tokens]
        if not lam or not self._limit:
            return torch.zeros_like(own)
        choice = p.argmax()
        apart = self._constants["c_e"] * self._whitening.distance(tokens, choice).double()
        total = torch.minimum(apart, self._constants["c_l"] * (p[choice] / own).log().square())
        return lam * torch.where((own > 0) & (own >= self.p_min), (1 - total / self._limit).clamp(min=0), 0)

    @cached_property
    def _limit(self) -> float:
        """The largest shift that passes."""
        if self.theta == 1:
            return 0.0
        tau_delta = float(self._constants["tau_delta"])
        divided = self.tau_divided and self._constants.own("tau_delta") is None
        return tau_delta if divided else (1 - self.theta) * tau_delta


def _smallest(table: Any) -> float | None:
    """Return the smallest number of a budget table; ValueError if it is no list of numbers, or an empty one."""
    if table is None:
        return None
    listed = isinstance(table, Sequence) and len(table) > 0
    if not listed or not all(isinstance(one, int | float) and not isnan(one) for one in table):
        raise ValueError(
            f"verifier 'arc': budget_table={table} must be a list of numbers, one for paths of 1, 2, ... tokens (the "
            "last one holds for longer paths too), or null to take the calibration's"
        )
    return min(table)

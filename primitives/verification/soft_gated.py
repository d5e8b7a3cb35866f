"""Soft-gated Evaluation (SE): where the target is unsure, a near or an isolated mismatch passes.

Source: SENSE (arXiv 2606.00021), section 3.3, Eqs. 15 to 17. What the public record leaves open (window alignment,
border, tau_c, which path wins) is a setting here; the defaults are argued in docs/fidelity.md.
"""

from __future__ import annotations

from math import floor, inf

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.knobs import check_choice, check_range
from primitives.registry import VERIFIERS
from primitives.statistics import normalised_entropy, within_top
from primitives.verification._look import Asked, Look, look_at_rivals
from primitives.verification._relaxed import RelaxedPaths, exact_first, longest, windows

ALIGNMENTS = ("centered", "forward", "causal")
BORDERS = ("mismatch", "match", "valid")
SELECTIONS = ("longest", "exact_first")


@VERIFIERS.register("soft_gated")
class SoftGatedVerifier(Verifier):
    """Accepts a token that is the target's choice, or, where the target is unsure, one that is near or isolated.

    ``G = exact or (entropy > theta_e and (in top-k or error density in the window <= tau_c))``, cumulated along each
    path.

    Args:
        theta_e: gate on the normalised entropy, in [0, 1]; at 1 the rule is exact matching.
        k: a token among the target's k largest passes an open gate; at least 1.
        w: width of the error window in tokens, at least 1.
        tau_c: largest share of mismatches in the window, in [0, 1].
        topk: whether the top-k pathway is on.
        window: whether the window pathway is on.
        alignment: where the window lies about the token: "centered", "forward" (from it on) or "causal" (up to it).
        border: window cells beyond the path count as "mismatch", as "match", or not at all ("valid").
        select: the path that wins is the "longest", or the one with the longest exact prefix ("exact_first").

    Raises:
        ValueError: a setting out of its range.
    """

    guarantee = "lossy"
    needs = frozenset({"lookahead"})
    neutral = ({"theta_e": 1.0}, {"k": 1, "window": False}, {"topk": False, "window": False})

    def __init__(
        self,
        theta_e: float = 0.05,
        k: int = 3,
        w: int = 6,
        tau_c: float = 0.2,
        topk: bool = True,
        window: bool = True,
        alignment: str = "centered",
        border: str = "mismatch",
        select: str = "longest",
    ) -> None:
        check_range("verifier 'soft_gated'", 0, 1, theta_e=theta_e, tau_c=tau_c)
        check_range("verifier 'soft_gated'", 1, inf, k=k, w=w)
        check_choice("verifier 'soft_gated'", ALIGNMENTS, alignment=alignment)
        check_choice("verifier 'soft_gated'", BORDERS, border=border)
        check_choice("verifier 'soft_gated'", SELECTIONS, select=select)
        self.theta_e = theta_e
        self.k = k
        self.w = w
        self.tau_c = tau_c
        # The likeliest token alone is the target's own choice, unless that is drawn: then it must not pass beside it.
        self.topk = topk and k > 1
        self.window = window
        self.border = border
        self.select = select
        self._before = {"centered": w // 2, "forward": 0, "causal": w - 1}[alignment]

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the winning path; ties go to more exact matches, then the higher score, then the first."""
        look = Look(tree, view.logits, self._near, self._unsure, drawn=view.drawn)
        exact = tree.tokens == look.choice
        valid = tree.paths >= 0
        isolated = valid & self._isolated(exact[np.where(valid, tree.paths, 0)] & valid, valid)
        lone = np.zeros(len(tree), bool)
        lone[tree.paths[isolated]] = True

        def rule(nodes: Ints) -> tuple[Bools, Bools]:
            return self._passes(look, nodes, lone[nodes])

        race = RelaxedPaths(tree, exact, rule, np.full(len(tree), self.topk), isolated)
        path = race.winner(exact_first if self.select == "exact_first" else longest)
        pathways = np.where(exact[path], Pathway.EXACT, np.where(race.anywhere[path], Pathway.TOP_K, Pathway.WINDOW))
        return Verdict(path, pathways.astype(np.uint8))

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return which rivals of the pending token some pathway may rescue."""
        look, rivals = look_at_rivals(tokens, logits, self._near, self._unsure), np.arange(len(tokens))
        # They share one row, so its gate is a cheaper question than their ranks.
        admitted = look(self._unsure, rivals)[0] & look.possible
        if self._first_may_be_isolated() or not admitted.any():
            return admitted
        return admitted & look(self._near, rivals)[0] if self.topk else np.zeros(len(tokens), bool)

    def _passes(self, look: Look, nodes: Ints, lone: Bools) -> tuple[Bools, Bools]:
        """Return two bool[m]: mismatches that pass by the top-k pathway (Eq. 15), and by the window if isolated.

        Args:
            look: at the tree.
            nodes: int64[m], mismatches.
            lone: bool[m], those that are isolated on any path.
        """
        near = look(self._near, nodes)[0] if self.topk else np.zeros(len(nodes), bool)
        if not (near | lone).any():
            return near, lone
        open_gate = look(self._unsure, nodes)[0] & look.possible[nodes]
        return near & open_gate, lone & open_gate

    def _near(self, asked: Asked) -> tuple[torch.Tensor]:
        return (within_top(asked.each_row, asked.tokens, self.k),)

    def _unsure(self, asked: Asked) -> tuple[torch.Tensor]:
        return ((normalised_entropy(asked.logits) > self.theta_e)[asked.rows],)

    def _isolated(self, match: Bools, valid: Bools) -> Bools:
        """Return bool[P, L]: cells with a low error density around them (Eq. 16)."""
        if not self.window:
            return np.zeros_like(match)
        before, after = self._before, self.w - 1 - self._before
        errors = windows(~match & (valid | (self.border == "mismatch")), before, after, self.border == "mismatch")
        cells = windows(valid, before, after, False) if self.border == "valid" else self.w
        return errors <= np.floor(self.tau_c * cells + 1e-9)

    def _first_may_be_isolated(self) -> bool:
        """Return whether a mismatch at level 1 can have a low error density at best: all cells after it match."""
        if not self.window:
            return False
        errors = 1 + (self._before if self.border == "mismatch" else 0)
        cells = self.w - self._before if self.border == "valid" else self.w
        return errors <= floor(self.tau_c * cells + 1e-9)

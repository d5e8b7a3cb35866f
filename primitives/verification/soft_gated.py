"""Soft-gated Evaluation (SE): where the target is unsure, a near or an isolated mismatch passes.

Source: SENSE (arXiv 2606.00021), section 3.3, Eqs. 15 to 17. What the public record leaves open (window alignment,
border, tau_c, which path wins) is a setting here; the defaults are argued in docs/fidelity.md.
"""

from __future__ import annotations

from math import floor

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from primitives.contract import Bools, DraftTree, Floats, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.registry import VERIFIERS, nearest
from primitives.statistics import greedy_choice, normalised_entropy, within_top

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
        for name, share in (("theta_e", theta_e), ("tau_c", tau_c)):
            if not 0 <= share <= 1:
                raise ValueError(f"verifier 'soft_gated': {name}={share} is out of range; it must lie between 0 and 1")
        for name, count in (("k", k), ("w", w)):
            if count < 1:
                raise ValueError(f"verifier 'soft_gated': {name}={count} is out of range; it must be at least 1")
        for name, value, allowed in (
            ("alignment", alignment, ALIGNMENTS),
            ("border", border, BORDERS),
            ("select", select, SELECTIONS),
        ):
            if value not in allowed:
                raise ValueError(f"verifier 'soft_gated': {name}={value} is unknown: {nearest(value, allowed)}")
        self.theta_e = theta_e
        self.k = k
        self.w = w
        self.tau_c = tau_c
        self.topk = topk
        self.window = window
        self.border = border
        self.select = select
        self._before = {"centered": w // 2, "forward": 0, "causal": w - 1}[alignment]

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the winning path; ties go to more exact matches, then the higher score, then the first."""
        exact = tree.tokens == greedy_choice(view.logits)[tree.rows]
        near = self._near(tree, view, exact)
        paths = tree.paths
        valid = paths >= 0
        on_path = np.where(valid, paths, 0)
        isolated = self._isolated(exact[on_path] & valid, valid)
        rescued = (near[on_path] | isolated) & ~exact[on_path] & valid
        rescued &= self._unsure(tree, view, paths, np.where(valid, exact[on_path] | rescued, False), rescued)
        passed = np.logical_and.accumulate(valid & (exact[on_path] | rescued), axis=1)
        best = self._best(tree, paths, passed, exact[on_path])
        path = paths[best][passed[best]]
        pathways = np.where(exact[path], Pathway.EXACT, np.where(near[path], Pathway.TOP_K, Pathway.WINDOW))
        return Verdict(path, pathways.astype(np.uint8))

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return which rivals of the pending token some pathway may rescue."""
        none = np.zeros(len(tokens), bool)
        if normalised_entropy(logits[None])[0] <= self.theta_e:
            return none
        if self._first_may_be_isolated():
            return ~none
        return within_top(logits.expand(len(tokens), -1), tokens, self.k) if self.topk else none

    def _near(self, tree: DraftTree, view: TargetView, exact: Bools) -> Bools:
        """Return bool[n]: mismatches among the k largest of their row (Eq. 15)."""
        near = np.zeros(len(tree), bool)
        missed = np.flatnonzero(~exact)
        if self.topk and len(missed):
            rows = torch.from_numpy(tree.rows[missed]).to(view.logits.device)
            near[missed] = within_top(view.logits[rows], tree.tokens[missed], self.k)
        return near

    def _isolated(self, match: Bools, valid: Bools) -> Bools:
        """Return bool[P, L]: cells with a low error density around them (Eq. 16)."""
        if not self.window:
            return np.zeros_like(match)
        before, after = self._before, self.w - 1 - self._before
        errors = self._windows(~match & (valid | (self.border == "mismatch")), before, after, self.border == "mismatch")
        cells = self._windows(valid, before, after, False) if self.border == "valid" else self.w
        return errors <= np.floor(self.tau_c * cells + 1e-9)

    @staticmethod
    def _windows(cells: Bools, before: int, after: int, fill: bool) -> Ints:
        """Return int64[P, L]: how many cells of the window about each cell are set; cells outside are `fill`."""
        padded = np.pad(cells, ((0, 0), (before, after)), constant_values=fill)
        return sliding_window_view(padded, before + 1 + after, axis=1).sum(-1)

    def _first_may_be_isolated(self) -> bool:
        """Return whether a mismatch at level 1 can have a low error density at best: all cells after it match."""
        if not self.window:
            return False
        errors = 1 + (self._before if self.border == "mismatch" else 0)
        cells = self.w - self._before if self.border == "valid" else self.w
        return errors <= floor(self.tau_c * cells + 1e-9)

    def _unsure(self, tree: DraftTree, view: TargetView, paths: Ints, hopeful: Bools, rescued: Bools) -> Bools:
        """Return bool[P, L]: cells whose entropy gate is open, looked at only where it can still decide.

        A mismatch behind a token that fails in any case is never reached, so its row's entropy, the one costly
        statistic, is not needed.
        """
        reached = rescued & np.logical_and.accumulate(hopeful, axis=1)
        nodes = np.unique(paths[reached])
        open_gate = np.zeros(len(tree), bool)
        if len(nodes):
            rows, place = np.unique(tree.rows[nodes], return_inverse=True)
            index = torch.from_numpy(rows).to(view.logits.device)
            open_gate[nodes] = (normalised_entropy(view.logits[index]) > self.theta_e)[place]
        return open_gate[np.where(reached, paths, 0)] & reached

    def _best(self, tree: DraftTree, paths: Ints, passed: Bools, exact: Bools) -> int:
        """Return the index of the winning path."""
        length = passed.sum(1)
        matches = (passed & exact).sum(1)
        prefix = np.logical_and.accumulate(passed & exact, axis=1).sum(1)
        scores: Floats = np.zeros(len(paths))
        if tree.scores is not None:
            scores = tree.scores[paths[np.arange(len(paths)), np.maximum(length, 1) - 1]]
        leading = (prefix, length) if self.select == "exact_first" else (length, matches)
        order = np.lexsort((np.arange(len(paths)), -scores, -leading[1], -leading[0]))
        return int(order[0])

"""Rules that look at one row at a time, and the statistics that they need of it."""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from typing import ClassVar

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Floats, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.statistics import greedy_choice
from primitives.verification._paths import verdict_of
from primitives.verification._relaxed import RelaxedPaths, longest


class RowVerifier(Verifier):
    """A verifier that lets a mismatch in, or not, by the row that judges it and nothing else.

    A token whose logit is -inf, which a score processor has forbidden, is never let in.

    Attributes:
        pathway: what the trace calls its relaxed tokens.
    """

    guarantee = "lossy"
    pathway: ClassVar[Pathway] = Pathway.RELAXED

    @abstractmethod
    def lets_in(self, logits: torch.Tensor, rows: Ints, tokens: Ints) -> Bools:
        """Return bool[m]: whether hopeful tokens pass that are not their rows' choice.

        Args:
            logits: [r, V].
            rows: int64[m], the row that judges each token.
            tokens: int64[m].
        """

    @abstractmethod
    def hopeful(self, own: Floats, best: Floats, vocabulary: int) -> Bools:
        """Return bool[m]: which mismatches may pass, as far as two logits tell.

        Args:
            own: float[m], the tokens' logits.
            best: float[m], the largest logits of their rows.
            vocabulary: V.
        """

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the longest path; ties go to more exact matches, then to the higher score, then to the first."""
        race = self.race(tree, view)
        path = race.winner(longest)
        return verdict_of(path, race.exact[path], self.pathway)

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return which rivals of the pending token the rule lets in."""
        rows = np.zeros(len(tokens), np.int64)
        choice = greedy_choice(logits[None])[rows]
        own, best = values(logits[None], rows, np.stack([tokens, choice]))
        admitted = (own > -inf) & self.hopeful(own, best, len(logits))
        if admitted.any():
            admitted[admitted] = self.lets_in(logits[None], rows[admitted], tokens[admitted])
        return admitted | (tokens == choice)

    def race(self, tree: DraftTree, view: TargetView) -> RelaxedPaths:
        """Return the paths of a tree under the rule."""
        likeliest = greedy_choice(view.logits)
        choice = likeliest if view.drawn is None else view.drawn
        own, best = values(view.logits, tree.rows, np.stack([tree.tokens, likeliest[tree.rows]]))

        def rule(nodes: Ints) -> tuple[Bools, Bools]:
            logits, rows = rows_of(view, tree.rows[nodes])
            passes = self.lets_in(logits, rows, tree.tokens[nodes])
            return passes, passes

        hopeful = (own > -inf) & self.hopeful(own, best, view.logits.shape[1])
        return RelaxedPaths(tree, tree.tokens == choice[tree.rows], rule, hopeful, eager=on_device(view))


def on_device(view: TargetView) -> bool:
    """Return whether the logits lie where a transfer is dear."""
    return view.logits.device.type != "cpu"


def rows_of(view: TargetView, rows: Ints) -> tuple[torch.Tensor, Ints]:
    """Return [r, V], the distinct ones of int64[m] rows of a view, and int64[m], where each of them is in it."""
    used, place = np.unique(rows, return_inverse=True)
    if len(used) == 1:
        return view.logits[int(used[0])][None], place
    return view.logits[torch.from_numpy(used).to(view.logits.device)], place


def each_row(logits: torch.Tensor, rows: Ints) -> torch.Tensor:
    """Return [m, V], the int64[m] rows of [r, V] logits; no copy of a single one."""
    if len(logits) == 1:
        return logits.expand(len(rows), -1)
    return logits[torch.from_numpy(rows).to(logits.device)]


def values(logits: torch.Tensor, rows: Ints, tokens: Ints) -> Floats:
    """Return float[..., m], the entries of [r, V] logits at int64[m] rows and int64[..., m] tokens."""
    row, token = (torch.from_numpy(ids).to(logits.device) for ids in (rows, tokens))
    return logits[row, token].double().cpu().numpy()


def permitted(logits: torch.Tensor, rows: Ints, tokens: Ints) -> Bools:
    """Return bool[m]: whether int64[m] tokens are possible in their rows; a processor's -inf forbids them."""
    return values(logits, rows, tokens) > -inf


def log_total_and_entropy(logits: torch.Tensor) -> tuple[Floats, Floats]:
    """Return float[r], ln sum exp of each row of [r, V] logits, and float[r], the entropy of its softmax in nats."""
    wide = logits.float()
    best = wide.amax(-1, keepdim=True)
    # exp(-200) is 0 already; -inf, a token that was ruled out, would make the entropy 0 * inf.
    behind = (wide - best).clamp_(min=-200)
    weights = behind.exp()
    total = weights.sum(-1)
    entropy = total.log() - torch.linalg.vecdot(weights, behind) / total
    log_total = best[:, 0] + total.log()
    return log_total.double().cpu().numpy(), entropy.clamp(min=0).double().cpu().numpy()

"""Rules that look at one row at a time."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch

from primitives.contract import Bools, DraftTree, Floats, Ints, Pathway, TargetView, Verdict, Verifier
from primitives.verification._look import Asked, Look, look_at_rivals
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
    def lets_in(self, asked: Asked) -> torch.Tensor:
        """Return bool[m]: whether nodes pass that are hopeful and not their places' choice."""

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
        look = Look(tree, view.logits, self._answer, drawn=view.drawn)

        def rule(nodes: Ints) -> tuple[Bools, Bools]:
            (passes,) = look(self._answer, nodes)
            return passes, passes

        race = RelaxedPaths(tree, tree.tokens == look.choice, rule, self._may_pass(look, view.logits.shape[1]))
        path = race.winner(longest)
        return verdict_of(path, race.exact[path], self.pathway)

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return which rivals of the pending token the rule lets in."""
        look = look_at_rivals(tokens, logits, self._answer)
        admitted = self._may_pass(look, len(logits))
        hopeful = np.flatnonzero(admitted)
        if len(hopeful):
            (admitted[hopeful],) = look(self._answer, hopeful)
        return admitted | (tokens == look.choice)

    def _may_pass(self, look: Look, vocabulary: int) -> Bools:
        return look.possible & self.hopeful(look.own, look.best, vocabulary)

    def _answer(self, asked: Asked) -> tuple[torch.Tensor]:
        return (self.lets_in(asked),)

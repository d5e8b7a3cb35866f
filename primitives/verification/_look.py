"""What a verifier asks of the target's rows, answered as the machine has it cheapest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from primitives.contract import PAD, Bools, DraftTree, Floats, Ints
from primitives.statistics import choices, fetched, greedy_choice, on_accelerator


@dataclass(frozen=True, eq=False)
class Asked:
    """What a question is about: m nodes of a tree, on the device of the rows that judge them.

    Attributes:
        whole: [n+1, V], the target's rows.
        places: int64[m], the row that judges each node.
        nodes: int64[m].
        tokens: int64[m], theirs.
        choice: int64[m], the target's own choice in place of each.
    """

    whole: torch.Tensor
    places: torch.Tensor
    nodes: torch.Tensor
    tokens: torch.Tensor
    choice: torch.Tensor

    @property
    def own(self) -> torch.Tensor:
        """float64[m], the tokens' logits."""
        return self.whole[self.places, self.tokens].double()

    @property
    def logits(self) -> torch.Tensor:
        """[r, V], the rows that judge the nodes, none of them twice."""
        return self._distinct[0]

    @property
    def rows(self) -> torch.Tensor:
        """int64[m], where in `logits` the row of each node is."""
        return self._distinct[1]

    @property
    def each_row(self) -> torch.Tensor:
        """[m, V], the row of each node; no copy of a single one."""
        return self.logits.expand(len(self.rows), -1) if len(self.logits) == 1 else self.logits[self.rows]

    @cached_property
    def _distinct(self) -> tuple[torch.Tensor, torch.Tensor]:
        if on_accelerator(self.whole):
            return self.whole, self.places
        used, rows = np.unique(self.places.numpy(), return_inverse=True)
        one = len(used) == 1
        return self.whole[int(used[0])][None] if one else self.whole[torch.from_numpy(used)], torch.from_numpy(rows)


# Returns tensors of [m], one for each thing that it tells about the nodes.
Question = Callable[[Asked], tuple[torch.Tensor, ...]]


class Look:
    """A look at what the target says about the nodes of a tree.

    On a CPU a statistic over the vocabulary is what judging costs, so a question is put for those nodes alone on which
    the verdict hangs. On another device rows are cheap and each transfer is waited for, so there all questions are put
    for all nodes at once, and the answers come to the host together.

    Args:
        tree: n nodes.
        logits: [n+1, V], the target's rows.
        questions: all that will be put.
        drawn: int64[n+1] or None, the target's own next token after each row where it is a draw.

    Attributes:
        tree: the tree.
        choice: int64[n], the target's own choice in place of each node: the argmax, or the draw.
        own: float[n], the nodes' logits.
        best: float[n], the largest logits in their places.
    """

    def __init__(self, tree: DraftTree, logits: torch.Tensor, *questions: Question, drawn: Ints | None = None) -> None:
        self.tree = tree
        self._logits = logits
        self._known: dict[Question, list[NDArray[Any]]] = {}
        self.choice: Ints
        self.own: Floats
        self.best: Floats
        if on_accelerator(logits):
            self._ask_everything(questions, drawn)
            return
        likeliest = greedy_choice(logits)
        self.choice = (likeliest if drawn is None else drawn)[tree.rows]
        tokens = torch.from_numpy(np.stack([tree.tokens, likeliest[tree.rows]]))
        self.own, self.best = logits[torch.from_numpy(tree.rows), tokens].double().numpy()

    def __call__(self, question: Question, nodes: Ints) -> list[NDArray[Any]]:
        """Return what a question tells about int64[m] nodes, arrays of [m]."""
        if question in self._known:
            return [column[nodes] for column in self._known[question]]
        about = (self.tree.rows[nodes], nodes, self.tree.tokens[nodes], self.choice[nodes])
        return fetched(*question(Asked(self._logits, *map(torch.from_numpy, about))))

    @property
    def possible(self) -> Bools:
        """bool[n]: whether each node is possible at all; the -inf of a score processor forbids a token."""
        return self.own > -inf

    def _ask_everything(self, questions: tuple[Question, ...], drawn: Ints | None) -> None:
        logits, tree = self._logits, self.tree
        rows, nodes, tokens = (
            torch.from_numpy(ids).to(logits.device, non_blocking=True)
            for ids in (tree.rows, np.arange(len(tree)), tree.tokens)
        )
        likeliest = choices(logits)
        own = likeliest if drawn is None else torch.from_numpy(drawn).to(logits.device, non_blocking=True)
        asked = Asked(logits, rows, nodes, tokens, own[rows])
        answers = [question(asked) for question in questions]
        best = logits[rows, likeliest[rows]].double()
        self.choice, self.own, self.best, *columns = fetched(asked.choice, asked.own, best, *chain(*answers))
        left = iter(columns)
        self._known = {q: [next(left) for _ in answer] for q, answer in zip(questions, answers, strict=True)}


def look_at_rivals(tokens: Ints, logits: torch.Tensor, *questions: Question) -> Look:
    """Return a look at int64[m] tokens that all compete for one place, judged by [V] logits."""
    return Look(DraftTree(tokens, np.full(len(tokens), PAD)), logits[None], *questions)

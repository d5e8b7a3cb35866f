"""Lookahead decoding: n-grams from Jacobi trajectories that run in the same forward as the draft.

Source: arXiv 2402.02057, section 3 and Algorithm 2; github.com/hao-ai-lab/LookaheadDecoding.
"""

from __future__ import annotations

from math import inf

import numpy as np
import torch

from primitives.contract import PAD, Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.knobs import check_range
from primitives.registry import DRAFTERS
from primitives.statistics import greedy_choice

Gram = tuple[int, ...]


@DRAFTERS.register("lookahead")
class LookaheadDrafter(Drafter):
    """Verifies n-grams that begin with the pending token, and lets a window of trajectories make new ones.

    The window has `window` columns of ``level - 1`` tokens. Its first row is a chain led by the pending token; the rest
    of a column branches off at the column's place in the chain, so that position and attention are those of any draft
    tree. The target's choice after the last token of a column completes an n-gram for the pool, and the column moves up
    by one. A column whose last token was cut from the tree stays as it is.

    Args:
        level: N, tokens of an n-gram.
        window: W, parallel trajectories.
        guess: G, n-grams kept, and so verified, for each first token; the one not seen for longest goes first.
        seed: of the tokens of the prompt that the window starts with.
        eos_ids: no trajectory goes on after one of these.

    Raises:
        ValueError: a level below 2, or a window or guess below 1.
    """

    reads = frozenset({"rejected"})

    def __init__(
        self, level: int = 5, window: int = 7, guess: int = 7, seed: int = 0, eos_ids: frozenset[int] = frozenset()
    ) -> None:
        check_range("drafter 'lookahead'", 1, inf, window=window, guess=guess)
        check_range("drafter 'lookahead'", 2, inf, level=level)
        self.level = level
        self.window = window
        self.guess = guess
        self.seed = seed
        self.eos_ids = np.array(sorted(eos_ids), np.int64)
        self._pool: dict[int, dict[Gram, None]] = {}
        self._rng: np.random.Generator
        self._words: Ints
        self._cells: Ints
        self._branches: Ints

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Forget all n-grams and fill the first row of the window with tokens of the prompt."""
        self._pool = {}
        self._rng = np.random.default_rng(self.seed)
        words = prompt[~np.isin(prompt, self.eos_ids)]
        self._words = words if len(words) else np.setdiff1d(np.arange(len(self.eos_ids) + 1), self.eos_ids)[:1]
        self._cells = np.full((self.level - 1, self.window), PAD, np.int64)
        self._cells[0] = self._rng.choice(self._words, self.window)

    def propose(self, context: Context) -> DraftTree:
        """Return the n-grams of the pending token, latest first, and the columns of the window as branches."""
        self._cells[0, 0] = context.pending
        self._branches = self._columns()
        grams = list(self._pool.get(context.pending, ()))[::-1]
        guesses = np.full((len(grams), self._branches.shape[1]), PAD, np.int64)
        for row, gram in zip(guesses, grams, strict=True):
            row[: len(gram) + 1] = context.pending, *gram
        # Each candidate before all that come after it, so that a small budget keeps n-grams, and then whole columns.
        weights = np.exp2(-np.arange(len(grams) + self.window, dtype=np.float64))
        return DraftTree.from_grid(np.concatenate([guesses, self._branches]), weights)

    def observe(self, outcome: Outcome) -> None:
        """Take the target's choice after each column: complete an n-gram, or fill the column's next row."""
        filled = (self._cells[1:] != PAD).sum(0)
        columns = np.arange(self.window)
        last = _nodes(outcome.tree, self._branches)[columns, columns + filled]
        seen = np.flatnonzero(last >= 0)
        choice = greedy_choice(outcome.view.logits[torch.from_numpy(last[seen] + 1)])
        whole = filled[seen] == self.level - 2
        for column, token in zip(seen[whole].tolist(), choice[whole].tolist(), strict=True):
            first, *rest = self._cells[:, column].tolist()
            self._keep(first, (*rest, token))
        ended = np.isin(choice, self.eos_ids)
        choice[ended] = self._rng.choice(self._words, ended.sum())
        self._cells[:-1, seen[whole]] = self._cells[1:, seen[whole]]
        self._cells[np.minimum(filled[seen] + 1, self.level - 2), seen] = choice

    def finish(self) -> None:
        """Drop the pool."""
        self._pool = {}

    def _columns(self) -> Ints:
        """Return int64[W, W + N - 1], each column of the window behind the chain that leads to it."""
        grid = np.full((self.window, self.window + self.level - 1), PAD, np.int64)
        grid[:, : self.window] = np.where(np.tri(self.window, dtype=bool), self._cells[0], PAD)
        columns = np.arange(self.window)[:, None]
        grid[columns, columns + np.arange(1, self.level - 1)] = self._cells[1:].T
        return grid

    def _keep(self, first: int, rest: Gram) -> None:
        grams = self._pool.setdefault(first, {})
        grams.pop(rest, None)
        grams[rest] = None
        if len(grams) > self.guess:
            del grams[next(iter(grams))]


def _nodes(tree: DraftTree, branches: Ints) -> Ints:
    """Return int64[N, M], the node of each cell of int64[N, M] candidates (padded with -1); -2 where there is none.

    A cell is found by the tokens from the root down to it, whatever was merged into the tree or cut from it.
    """
    nodes = np.empty_like(branches)
    above = np.full(len(branches), PAD, np.int64)
    for depth in range(branches.shape[1]):
        child = (tree.parents == above[:, None]) & (tree.tokens == branches[:, depth, None])
        above = np.where(child.any(1), child.argmax(1), PAD - 1)
        nodes[:, depth] = above
    return nodes

"""The guards that ARC's released code adds to its tolerance; each is off until it is given a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from primitives.contract import PAD, Bools, DraftTree, Floats, Ints


@dataclass(frozen=True)
class Repetition:
    """Bounds on relaxed tokens that look back at the last `window` tokens of the text and of the draft's path.

    Attributes:
        window: tokens looked back at.
        most_relaxed: most relaxed tokens among them, the new one included; None is no bound.
        most_occurrences: a token that already occurs so often among them is not accepted relaxed; None is no bound.
        third_ratio: a token that would stand there for the third time in a row needs p(token) / p(choice) of at least
            this; None is no bound.
    """

    window: int = 64
    most_relaxed: int | None = None
    most_occurrences: int | None = None
    third_ratio: float | None = None

    @property
    def on(self) -> bool:
        """Whether there is any bound."""
        return any(bound is not None for bound in (self.most_relaxed, self.most_occurrences, self.third_ratio))

    def permits(self, tree: DraftTree, exact: Bools, margin: Floats, past: Past) -> Bools:
        """Return bool[n]: which nodes may be accepted relaxed, provided that all their ancestors are accepted.

        Args:
            tree: n nodes.
            exact: bool[n], which are their row's greedy choice.
            margin: float[n], ln p(choice) - ln p(token).
            past: the committed text.
        """
        above = tree.ancestor_mask & ~np.eye(len(tree), dtype=bool)
        # How much of the committed text the window still reaches from each node.
        reach = np.arange(self.window) >= tree.depths[:, None] - 1
        recent = above & (tree.depths[:, None] - tree.depths[None, :] <= self.window)
        permitted = np.ones(len(tree), bool)
        if self.most_relaxed is not None:
            used = (reach & past.relaxed(self.window)).sum(1) + (recent & ~exact).sum(1)
            permitted &= used < self.most_relaxed
        if self.most_occurrences is not None:
            seen = (reach & (past.tokens(self.window) == tree.tokens[:, None])).sum(1)
            permitted &= seen + (recent & (tree.tokens == tree.tokens[:, None])).sum(1) < self.most_occurrences
        if self.third_ratio is not None:
            permitted &= ~_third_in_a_row(tree, past.tokens(2)) | (np.exp(-margin) >= self.third_ratio)
        return permitted


@dataclass(eq=False)
class Past:
    """The committed text, as far back as guards look, and which of its tokens were relaxed."""

    _tokens: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    _relaxed: Bools = field(default_factory=lambda: np.empty(0, bool))

    def extend(self, tokens: Ints, relaxed: Bools, keep: int) -> None:
        """Add committed tokens; only the last `keep` are remembered."""
        self._tokens = np.concatenate([self._tokens, tokens])[-keep:]
        self._relaxed = np.concatenate([self._relaxed, relaxed])[-keep:]

    def tokens(self, count: int) -> Ints:
        """Return int64[count], the last tokens; -1 stands before the text."""
        return np.concatenate([np.full(count, PAD), self._tokens])[-count:]

    def relaxed(self, count: int) -> Bools:
        """Return bool[count], which of the last tokens were relaxed."""
        return np.concatenate([np.zeros(count, bool), self._relaxed])[-count:]


def within_budget(tree: DraftTree, spent: Floats, budget: Sequence[float] | Floats) -> Bools:
    """Return bool[n]: whether what the nodes of a path spend together stays within what its length allows.

    Args:
        tree: n nodes.
        spent: float[n], what each node costs; 0 for exact ones.
        budget: the bound for a path of 1, 2, ... nodes; longer paths have the last one.
    """
    bound = np.asarray(budget)[np.minimum(tree.depths, len(budget)) - 1]
    return np.where(tree.ancestor_mask, spent, 0).sum(1) <= bound


def among_first_children(tree: DraftTree, count: int) -> Bools:
    """Return bool[n]: which nodes are among the `count` best of their siblings by score, ties to the first."""
    scores = np.zeros(len(tree)) if tree.scores is None else tree.scores
    order = np.lexsort((np.arange(len(tree)), -scores, tree.parents))
    parents = tree.parents[order]
    first = np.searchsorted(parents, parents)
    kept = np.empty(len(tree), bool)
    kept[order] = np.arange(len(tree)) - first < count
    return kept


def _third_in_a_row(tree: DraftTree, last: Ints) -> Bools:
    """Return bool[n]: whether the two tokens before a node, on its path or in the text, are the node's own."""
    tokens = np.concatenate([last, tree.tokens])
    # Nodes are numbered from 2 on here, so that the parent of a level-1 node is the text's last token.
    before = np.concatenate([[0, 0], np.where(tree.parents < 0, 1, tree.parents + 2)])
    one = before[2:]
    return (tokens[one] == tree.tokens) & (tokens[before[one]] == tree.tokens)

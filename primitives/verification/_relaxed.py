"""The path that wins under a relaxed rule, found with as few of the rule's costly statistics as decide it.

A statistic of a row sums over the vocabulary, which costs far more than all else that a verifier does. So a rule is
asked about a mismatch only while the answer can still change which path wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from primitives.contract import Bools, DraftTree, Floats, Ints

Rule = Callable[[Ints], tuple[Bools, Bools]]
Rank = Callable[["RelaxedPaths", Bools], tuple[NDArray[Any], ...]]


class RelaxedPaths:
    """The root-to-leaf paths of a tree under a rule that may let mismatches in.

    Best first: a mismatch counts as let in until the rule has decided about it, so a path ranks by the most that it can
    still reach, and one that leads with nothing undecided on it has won.

    Args:
        tree: n nodes.
        exact: bool[n], nodes that are the target's own choice.
        rule: takes int64[m] mismatching nodes; returns two bool[m], whether each passes anywhere, and whether it passes
            where it is isolated.
        hopeful: bool[n], nodes that the rule may let in anywhere.
        isolated: bool[P, L], cells of `tree.paths` where a mismatch is isolated; None if that does not count.
    """

    def __init__(
        self,
        tree: DraftTree,
        exact: Bools,
        rule: Rule,
        hopeful: Bools,
        isolated: Bools | None = None,
    ) -> None:
        self.tree = tree
        self.exact = exact
        self.paths = tree.paths
        self.valid = self.paths >= 0
        self.on_path = np.where(self.valid, self.paths, 0)
        self.anywhere = hopeful & ~exact
        self._isolated = isolated
        self._where_isolated = np.zeros(len(tree), bool) if isolated is None else ~exact
        self._rule = rule
        self._undecided = self.anywhere | self._where_isolated

    def winner(self, rank: Rank) -> Ints:
        """Return the accepted nodes of the path with the largest rank; ties go to the first.

        Args:
            rank: takes this and `passed`; returns keys of [P], the most important one first. They must fall when a cell
                that passed no longer does.
        """
        while True:
            passed = self.passed()
            best = np.lexsort([-key for key in reversed(rank(self, passed))])[0]
            path = self.paths[best][passed[best]]
            undecided = path[self._undecided[path]]
            if not len(undecided):
                return path
            self._decide(self._undecided & (self.tree.rows == self.tree.rows[undecided[0]]))

    def contested(self, length: int) -> Bools:
        """Return bool[n]: nodes on some but not on all of the paths that may be of this length, that of the longest."""
        cells = self.paths[self.passed().sum(1) == length, :length]
        contested = np.zeros(len(self.tree), bool)
        contested[cells[:, (cells != cells[0]).any(0)]] = True
        return contested

    def passed(self) -> Bools:
        """Return bool[P, L]: cells that pass, or may yet pass, with all before them."""
        cells = (self.exact | self.anywhere)[self.on_path]
        if self._isolated is not None:
            cells |= self._isolated & self._where_isolated[self.on_path]
        return np.logical_and.accumulate(cells & self.valid, axis=1)

    def _decide(self, which: Bools) -> None:
        nodes = np.flatnonzero(which)
        if len(nodes):
            self.anywhere[nodes], self._where_isolated[nodes] = self._rule(nodes)
            self._undecided[nodes] = False


def longest(race: RelaxedPaths, passed: Bools) -> tuple[NDArray[Any], ...]:
    """Rank by length, then exact matches, then the score of the last node."""
    return passed.sum(1), (passed & race.exact[race.on_path]).sum(1), _scores(race, passed)


def exact_first(race: RelaxedPaths, passed: Bools) -> tuple[NDArray[Any], ...]:
    """Rank by the length of the exact prefix, then by length, then by the score of the last node."""
    prefix = np.logical_and.accumulate(passed & race.exact[race.on_path], axis=1)
    return prefix.sum(1), passed.sum(1), _scores(race, passed)


def _scores(race: RelaxedPaths, passed: Bools) -> Floats:
    if race.tree.scores is None:
        return np.zeros(len(passed))
    last = np.maximum(passed.sum(1), 1) - 1
    return race.tree.scores[race.paths[np.arange(len(passed)), last]]


def windows(cells: Bools, before: int, after: int, fill: bool) -> Ints:
    """Return int64[P, L]: how many cells of the window about each cell are set; cells outside are `fill`."""
    padded = np.pad(cells, ((0, 0), (before, after)), constant_values=fill)
    return sliding_window_view(padded, before + 1 + after, axis=1).sum(-1)

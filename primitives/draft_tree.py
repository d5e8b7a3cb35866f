"""The tree that a drafter proposes, as arrays over its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PAD = -1


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Candidate continuations of the committed text, merged into one prefix tree.

    Attributes:
        tokens: int64[n], the token of each node; the committed text itself is no node.
        parents: int64[n], index of each node's parent, -1 for children of the committed text; parents come first.
        log_q: float[n] or None, log-probability of each token under the drafter.
        q: float[n, V_d] or None, the law that each token was really drawn from, after the draft's own warping; where
            siblings are drawn without replacement, without the tokens of those before it. Columns are target ids, and
            siblings come in the order in which they were drawn. None means proposed with certainty. In greedy decoding
            nothing is drawn: there it is the law whose best tokens were taken, if the verifier asks for it
            (`Decoding.laws`).
        scores: float[n] or None, the higher the more likely a node is accepted; used to fit the node budget.
        sources: int64[n] or None, bit b set where the drafter's source b proposed the node; None means all of them.
        hidden: [n, h_d] or None, the draft model's final hidden state after reading each node.

    Raises:
        ValueError: if a parent does not come before its child, a token is negative, or lengths differ.
    """

    tokens: Ints
    parents: Ints
    log_q: Floats | None = None
    q: torch.Tensor | None = None
    scores: Floats | None = None
    sources: Ints | None = None
    hidden: torch.Tensor | None = None

    def __post_init__(self) -> None:
        n = len(self.tokens)
        if len(self.parents) != n:
            raise ValueError(f"a draft tree needs one parent per token, got {n} tokens and {len(self.parents)} parents")
        if n and (self.parents.min() < -1 or (self.parents >= np.arange(n)).any()):
            raise ValueError("in a draft tree every parent must come before its children (-1: the committed text)")
        if n and self.tokens.min() < 0:
            raise ValueError(f"a draft tree holds token id {self.tokens.min()}; padding must never be proposed")
        for name in ("log_q", "q", "scores", "sources", "hidden"):
            values = getattr(self, name)
            if values is not None and len(values) != n:
                raise ValueError(f"a draft tree of {n} nodes needs {n} values in {name}, got {len(values)}")

    @classmethod
    def empty(cls) -> DraftTree:
        """Return the tree without nodes."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def chain(cls, tokens: Sequence[int] | Ints, log_q: Floats | None = None) -> DraftTree:
        """Return a tree with one branch that holds `tokens` in order."""
        ids = np.asarray(tokens, np.int64)
        return cls(ids, np.arange(-1, len(ids) - 1, dtype=np.int64), log_q=log_q)

    @classmethod
    def from_candidates(
        cls, candidates: Sequence[Sequence[int]], weights: Floats | None = None, sources: Ints | None = None
    ) -> DraftTree:
        """Merge token sequences into their prefix tree (SENSE, Alg. 3: sort, then longest common prefix).

        No candidate is lost: each one is a path from the root, and the nodes are the distinct non-empty prefixes.

        Args:
            candidates: any number of token sequences of any lengths.
            weights: float[len(candidates)] or None; a node scores the total weight of the candidates through it, which
                makes a parent score at least as much as its child.
            sources: int64[len(candidates)] or None, who proposed each candidate; a node has the bits of all through it.
        """
        if any(token < 0 for candidate in candidates for token in candidate):
            raise ValueError("a candidate holds a negative token id; padding must never be proposed")
        rows = list(zip_longest(*candidates, fillvalue=PAD))
        grid = np.array(rows, np.int64).T if rows else np.empty((len(candidates), 0), np.int64)
        return cls.from_grid(grid, weights, sources)

    @classmethod
    def from_grid(cls, grid: Ints, weights: Floats | None = None, sources: Ints | None = None) -> DraftTree:
        """As `from_candidates`, for candidates in the rows of int64[N, M], padded at the end with -1."""
        if not grid.size:
            return cls.empty()
        order = np.lexsort(grid.T[::-1])
        grid = grid[order]
        real = grid != PAD
        # Neighbours in sorted order share the longest prefixes, so a cell is new unless the row above agrees up to it.
        shared = np.zeros(grid.shape, bool)
        shared[1:] = np.logical_and.accumulate(grid[1:] == grid[:-1], axis=1)
        new = real & ~shared
        ids = np.where(new, np.cumsum(new).reshape(grid.shape) - 1, PAD)
        ids = np.maximum.accumulate(ids, axis=0)
        above = np.concatenate([np.full((len(grid), 1), PAD), ids[:, :-1]], axis=1)
        scores: Floats | None = None
        if weights is not None:
            spread = np.broadcast_to(np.asarray(weights, np.float64)[order, None], grid.shape)
            scores = np.bincount(ids[real], weights=spread[real], minlength=int(new.sum())).astype(np.float64)
        bits: Ints | None = None
        if sources is not None:
            bits = np.zeros(int(new.sum()), np.int64)
            np.bitwise_or.at(bits, ids[real], np.broadcast_to(sources[order, None], grid.shape)[real])
        return cls(grid[new], above[new], scores=scores, sources=bits)

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def depths(self) -> Ints:
        """int64[n], 1 for the children of the committed text."""
        depths = np.ones(len(self), np.int64)
        up = self.parents
        while (alive := up >= 0).any():
            depths += alive
            up = np.where(alive, self.parents[up], PAD)
        return depths

    @cached_property
    def ancestor_mask(self) -> Bools:
        """bool[n, n], True where the column's node is the row's node or one of its ancestors."""
        n = len(self)
        mask = np.eye(n, dtype=bool)
        up, rows = self.parents, np.arange(n)
        while (alive := up >= 0).any():
            mask[rows[alive], up[alive]] = True
            up = np.where(alive, self.parents[up], PAD)
        return mask

    @cached_property
    def leaves(self) -> Ints:
        """int64[P], the nodes without children."""
        childless = np.ones(len(self), bool)
        childless[self.parents[self.parents >= 0]] = False
        return np.flatnonzero(childless)

    @cached_property
    def paths(self) -> Ints:
        """int64[P, L], the node ids of each root-to-leaf path, padded at the end with -1, in order of the leaves."""
        node = self.leaves
        grid = np.full((len(node), int(self.depths.max(initial=0))), PAD, np.int64)
        while (alive := node >= 0).any():
            grid[np.flatnonzero(alive), self.depths[node[alive]] - 1] = node[alive]
            node = np.where(alive, self.parents[node], PAD)
        return grid

    @cached_property
    def rows(self) -> Ints:
        """int64[n], the row of a `TargetView` that judges each node: the row of its parent."""
        return self.parents + 1

    @cached_property
    def is_chain(self) -> bool:
        """Whether the tree has a single branch."""
        return bool((self.parents == np.arange(-1, len(self) - 1)).all())

    def path_to(self, node: int) -> Ints:
        """Return the ids of the nodes from the root down to `node`."""
        return np.flatnonzero(self.ancestor_mask[node])

    def with_ancestors(self, chosen: Bools) -> Bools:
        """Return bool[n]: the nodes that are chosen together with all their ancestors, of bool[n] chosen ones."""
        return np.logical_not((self.ancestor_mask & ~chosen).any(axis=1))

    def keep(self, chosen: Bools) -> DraftTree:
        """Return the tree of the nodes that are chosen together with all their ancestors, in the same order.

        Args:
            chosen: bool[n].
        """
        if chosen.all():
            return self
        chosen = self.with_ancestors(chosen)
        renumber = np.cumsum(chosen) - 1
        parents = self.parents[chosen]
        return DraftTree(
            self.tokens[chosen],
            np.where(parents >= 0, renumber[parents], PAD),
            log_q=None if self.log_q is None else self.log_q[chosen],
            q=None if self.q is None else self.q[torch.from_numpy(chosen)],
            scores=None if self.scores is None else self.scores[chosen],
            sources=None if self.sources is None else self.sources[chosen],
            hidden=None if self.hidden is None else self.hidden[torch.from_numpy(chosen).to(self.hidden.device)],
        )

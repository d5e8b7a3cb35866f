"""The contract between drafting, verification and the target model.

A drafter proposes a :class:`DraftTree`, the target scores it into a :class:`TargetView`, a verifier turns both into a
:class:`Verdict`. Everything else (KV cache, rollback, EOS, counting, timing) belongs to the connector.

Shapes: ``n`` tree nodes, ``V`` target vocabulary, ``V_d`` drafter vocabulary, ``h`` hidden size, ``T`` tokens of text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import zip_longest
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Guarantee = Literal["exact", "distribution", "lossy"]

PAD = -1


class Pathway(IntEnum):
    """How an accepted token got in (SENSE, Eq. 17, plus one kind for every other relaxed rule)."""

    EXACT = 0
    TOP_K = 1
    WINDOW = 2
    RELAXED = 3


@dataclass(frozen=True, eq=False)
class DraftTree:
    """Candidate continuations of the committed text, merged into one prefix tree.

    Attributes:
        tokens: int64[n], the token of each node; the committed text itself is no node.
        parents: int64[n], index of each node's parent, -1 for children of the committed text; parents come first.
        log_q: float[n] or None, log-probability of each token under the drafter.
        q: float[n, V_d] or None, the law that each token was really drawn from, after the draft's own warping; where
            siblings are drawn without replacement, without the tokens of those before it. Columns are target ids, and
            siblings come in the order in which they were drawn. None means proposed with certainty.
        scores: float[n] or None, the higher the more likely a node is accepted; used to fit the node budget.
        sources: int64[n] or None, bit b set where the drafter's source b proposed the node; None means all of them.

    Raises:
        ValueError: if a parent does not come before its child, a token is negative, or lengths differ.
    """

    tokens: Ints
    parents: Ints
    log_q: Floats | None = None
    q: torch.Tensor | None = None
    scores: Floats | None = None
    sources: Ints | None = None

    def __post_init__(self) -> None:
        n = len(self.tokens)
        if len(self.parents) != n:
            raise ValueError(f"a draft tree needs one parent per token, got {n} tokens and {len(self.parents)} parents")
        if n and (self.parents.min() < -1 or (self.parents >= np.arange(n)).any()):
            raise ValueError("in a draft tree every parent must come before its children (-1: the committed text)")
        if n and self.tokens.min() < 0:
            raise ValueError(f"a draft tree holds token id {self.tokens.min()}; padding must never be proposed")
        for name in ("log_q", "q", "scores", "sources"):
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
        )


@dataclass(frozen=True, eq=False)
class TargetView:
    """What the target says about a tree: row 0 after the committed text, row i+1 after node i.

    Node i is judged by the row of its parent, ``tree.rows[i]``. The view of a prefill has one logits row, after the
    last token, and one hidden row for every token of the prompt.

    Attributes:
        logits: [n+1, V], before any softmax, in the target's dtype.
        hidden: [n+1, h], final hidden states after the last norm (the input of the output embedding).
        features: [n+1, k h] or None, hidden states entering the k inner layers that the drafter asked for.
        drawn: int64[n+1] or None, the target's own next token after each row where it is a draw; None: the argmax.
    """

    logits: torch.Tensor
    hidden: torch.Tensor
    features: torch.Tensor | None = None
    drawn: Ints | None = None

    @property
    def last(self) -> TargetView:
        """The view of the last row alone."""
        return TargetView(self.logits[-1:], self.hidden[-1:], None if self.features is None else self.features[-1:])

    def followed_by(self, other: TargetView) -> TargetView:
        """Return the view of these rows and then the other's."""
        features = None
        if self.features is not None and other.features is not None:
            features = torch.cat([self.features, other.features])
        return TargetView(torch.cat([self.logits, other.logits]), torch.cat([self.hidden, other.hidden]), features)

    def select(self, rows: Ints) -> TargetView:
        """Return the view of some rows only."""
        index = torch.from_numpy(rows).to(self.logits.device)
        features = None if self.features is None else self.features.index_select(0, index)
        drawn = None if self.drawn is None else self.drawn[rows]
        return TargetView(self.logits.index_select(0, index), self.hidden.index_select(0, index), features, drawn)


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a verifier accepts of a tree.

    Attributes:
        path: int64[l], accepted node ids from the root down; may be empty only if the tree is.
        pathways: uint8[l], a :class:`Pathway` for each accepted node.
        residual: float[V] or None, the distribution from which the connector draws the next pending token; None means
            the target's own distribution after the path.
    """

    path: Ints
    pathways: NDArray[np.uint8]
    residual: torch.Tensor | None = None


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a pass showed and what it committed.

    Attributes:
        tree: the tree that went through the forward: the pending token in, hopeless and superfluous nodes out.
        view: what the target says about it, before any score processor.
        path: int64[c], the committed nodes from the root down; cut where the text ended, so it may be empty.
    """

    tree: DraftTree
    view: TargetView
    path: Ints

    @cached_property
    def committed(self) -> Ints:
        """int64[c], the committed tokens."""
        return self.tree.tokens[self.path]

    @cached_property
    def committed_view(self) -> TargetView:
        """The view of the committed tokens alone: row 0 before them, row i+1 after token i."""
        return self.view.select(np.concatenate([[0], self.path + 1]))


@dataclass(frozen=True, eq=False)
class Context:
    """What a drafter may look at when it proposes.

    Attributes:
        tokens: int64[T+1], prompt and output so far, and at the end the pending token: the target's own next choice,
            which every pass commits at the least. Read-only view, valid until the drafter returns.
        logits: [V], the target's logits after the committed text, before any score processor.
        hidden: [h], the hidden state that produced them.
        budget: the most tokens that can still be committed; deeper nodes are cut.
        features: [k h] or None, what entered the drafter's `layers` where the hidden state was made.
    """

    tokens: Ints
    logits: torch.Tensor
    hidden: torch.Tensor
    budget: int
    features: torch.Tensor | None = None

    @property
    def pending(self) -> int:
        """The target's own next token."""
        return int(self.tokens[-1])


class Drafter(ABC):
    """Proposes continuations of the committed text. One instance serves one sequence at a time.

    Attributes:
        name: its name in the registry.
        provides: what its trees hold to: "q" (they carry the distributions drawn from), "chain" (they never branch).
    """

    name: ClassVar[str] = ""
    provides: ClassVar[frozenset[str]] = frozenset()

    @property
    def sources(self) -> tuple[str, ...]:
        """Who proposes: itself, or the names behind the bits of `DraftTree.sources`."""
        return (self.name,)

    @property
    def layers(self) -> tuple[int, ...]:
        """Inner layers of the target that it looks at: the states entering them come as `TargetView.features`."""
        return ()

    def start(self, prompt: Ints, view: TargetView) -> None:  # noqa: B027 - optional hook
        """Begin a sequence: int64[T] prompt ids and the view of their prefill (hidden is [T, h])."""

    @abstractmethod
    def propose(self, context: Context) -> DraftTree:
        """Return a tree over the committed text; level 1 competes with the pending token for the same position."""

    def observe(self, outcome: Outcome) -> None:  # noqa: B027 - optional hook
        """Learn from a pass: what the target says of every node, and which nodes were committed."""

    def finish(self) -> None:  # noqa: B027 - optional hook
        """End the sequence and drop what belongs to it."""


class Verifier(ABC):
    """Decides which nodes of a tree are accepted.

    Attributes:
        name: its name in the registry.
        guarantee: "exact" (output identical to greedy), "distribution" (law of the output identical to sampling) or
            "lossy".
        needs: what it cannot work without, out of {"q", "chain", "hidden", "lookahead"}.
        neutral: settings at which a lossy verifier accepts what exact matching does, and nothing else.
        by_chance: whether a lossy verifier draws for itself; otherwise its view holds the target's draws
            (`TargetView.drawn`) where the text is sampled, and its own choice is that token.
    """

    name: ClassVar[str] = ""
    neutral: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    guarantee: ClassVar[Guarantee]
    needs: ClassVar[frozenset[str]] = frozenset()
    by_chance: bool = False

    def start(self, prompt: Ints) -> None:  # noqa: B027 - optional hook
        """Begin a text: int64[T] prompt ids."""

    @abstractmethod
    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        """Return the accepted path of a non-empty tree; the view's logits have gone through the score processors."""

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        """Return bool[k]: which of int64[k] level-1 tokens other than the pending one could be accepted.

        Level-1 nodes are judged by logits that are known before the forward, so those that cannot win are cut first.
        The default is none, which is right for every exact verifier.

        Args:
            tokens: rivals of the pending token.
            logits: [V], the target's logits at that place, processed.
        """
        return np.zeros(len(tokens), bool)


class Target(ABC):
    """The model whose output is to be produced; the only holder of its KV cache.

    Attributes:
        vocab_size: number of ids that may be fed (rows of the input embedding).
        eos_ids: ids that end a text; may be empty.
        max_positions: most positions the model takes, None if unlimited.
        layout: how a tree goes through the forward: "tree", which every target knows, or another one of the target's.
    """

    vocab_size: int
    eos_ids: frozenset[int]
    max_positions: int | None
    layout: str = "tree"

    @abstractmethod
    def prefill(self, ids: Ints) -> TargetView:
        """Forget everything, read int64[T] ids and return their view (logits [1, V], hidden [T, h])."""

    @abstractmethod
    def verify(self, tree: DraftTree) -> TargetView:
        """Score a non-empty tree in one forward; nothing is committed yet."""

    @abstractmethod
    def commit(self, path: Ints) -> None:
        """Make the nodes of a root path of the last verified tree part of the text, drop all others."""

    def capture(self, layers: Sequence[int]) -> None:
        """Give the states entering these layers (0 is the first) as `features` from the next prefill on.

        Raises:
            ValueError: a layer that the model does not have.
        """
        if layers:
            raise ValueError(f"{type(self).__name__} cannot show inner layers, and the drafter asks for {list(layers)}")

    def synchronize(self) -> None:  # noqa: B027 - nothing to wait for on a CPU
        """Wait until the device has done its work, so that a clock read means something."""

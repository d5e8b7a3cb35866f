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
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from primitives.decoding import GREEDY, Decoding
from primitives.draft_tree import PAD, Bools, DraftTree, Floats, Ints

__all__ = [
    "PAD",
    "Bools",
    "Context",
    "DraftTree",
    "Drafter",
    "Floats",
    "Guarantee",
    "Ints",
    "Outcome",
    "Pathway",
    "Target",
    "TargetView",
    "Verdict",
    "Verifier",
]

Guarantee = Literal["exact", "distribution", "lossy"]


class Pathway(IntEnum):
    """How an accepted token got in (SENSE, Eq. 17, plus one kind for every other relaxed rule)."""

    EXACT = 0
    TOP_K = 1
    WINDOW = 2
    RELAXED = 3


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
        decoding: how the target's next token comes about, for drafters that draw.
    """

    tokens: Ints
    logits: torch.Tensor
    hidden: torch.Tensor
    budget: int
    features: torch.Tensor | None = None
    decoding: Decoding = GREEDY

    @property
    def pending(self) -> int:
        """The target's own next token."""
        return int(self.tokens[-1])


class Drafter(ABC):
    """Proposes continuations of the committed text. One instance serves one sequence at a time.

    Attributes:
        name: its name in the registry.
        reads: what it looks at beside text, states and best logits along the committed text: "rejected" (what the
            target says of nodes that were not committed), "distribution" (all logits).
        provides: what its trees hold to as it is configured: "q" (they carry the distributions drawn from, and in
            greedy decoding those of the drafter's choices where `Decoding.laws` asks for them), "chain" (they never
            branch), "draft_hidden" (they carry the draft model's hidden states).
    """

    name: ClassVar[str] = ""
    reads: ClassVar[frozenset[str]] = frozenset()
    provides: frozenset[str] = frozenset()

    @property
    def sources(self) -> tuple[str, ...]:
        """Who proposes: itself, or the names behind the bits of `DraftTree.sources`."""
        return (self.name,)

    @property
    def remembers(self) -> bool:
        """Whether what it proposes depends on earlier texts too. Within a run it then learns from prompt to prompt."""
        return False

    @property
    def layers(self) -> tuple[int, ...]:
        """Inner layers of the target that it looks at: the states entering them come as `TargetView.features`."""
        return ()

    @property
    def whole(self) -> int:
        """Nodes of its largest draft if a cut one is worth little or another method's: the node budget holds it."""
        return 0

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
        needs: what it cannot work without, out of {"q", "chain", "hidden", "draft_hidden", "lookahead"}.
        neutral: settings at which a lossy verifier accepts what exact matching does, and nothing else.
        by_chance: whether a lossy verifier draws for itself; otherwise its view holds the target's draws
            (`TargetView.drawn`) where the text is sampled, and its own choice is that token.
        grain: "token", or "segment": a draft is accepted whole or not at all, so that the target's draws along it are
            not asked for.
    """

    name: ClassVar[str] = ""
    neutral: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    guarantee: ClassVar[Guarantee]
    needs: ClassVar[frozenset[str]] = frozenset()
    by_chance: bool = False
    grain: ClassVar[Literal["token", "segment"]] = "token"

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

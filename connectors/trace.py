"""What the loop writes down: one record a pass, kept raw, so that every figure can be computed from it later."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from primitives.contract import DraftTree, Ints

Finish = Literal["eos", "length", "stop"]


@dataclass(slots=True)
class PassRecord:
    """One verification forward of the target.

    Attributes:
        candidates: root-to-leaf paths of the drafter's tree, before any cut.
        candidate_tokens: sum of those paths' lengths.
        proposed_nodes: nodes of the drafter's tree, before any cut.
        nodes: nodes that went through the forward, the pending token's included.
        depth: length of the longest of their paths.
        proposed: drafted nodes that went through the forward (all but the pending token's).
        accepted: drafted tokens that were committed.
        committed: tokens committed, the pending one included; never less than 1.
        pathways: a `Pathway` for each committed token.
        drafted_by: the drafter behind each committed token, several joined by "+"; "" for the pending token.
        draft_ms, verify_ms, judge_ms, commit_ms: laps of one clock, so that they add up to the pass.
    """

    candidates: int
    candidate_tokens: int
    proposed_nodes: int
    nodes: int
    depth: int
    proposed: int
    accepted: int
    committed: int
    pathways: list[int]
    drafted_by: list[str]
    draft_ms: float
    verify_ms: float
    judge_ms: float
    commit_ms: float

    @property
    def total_ms(self) -> float:
        """Milliseconds of the whole pass."""
        return self.draft_ms + self.verify_ms + self.judge_ms + self.commit_ms


@dataclass(slots=True)
class VerifiedTree:
    """The tree that went through the forward of one pass, and what was committed of it; no figure needs it.

    Attributes:
        tokens: int64[n].
        parents: int64[n], -1 for children of the committed text.
        sources: int64[n] or None, bit b set where source b of the drafter proposed the node; None means all of them.
        pending: the token that the target had chosen already; one of the nodes at level 1.
        path: int64[c], the committed nodes from the root down.
    """

    tokens: Ints
    parents: Ints
    sources: Ints | None
    pending: int
    path: Ints

    @classmethod
    def of(cls, tree: DraftTree, pending: int, path: Ints) -> VerifiedTree:
        """Return the tree without what is large in it: probabilities [n, V] must not outlive their pass."""
        # A drafter's tokens may be a view into a buffer that it goes on writing to.
        return cls(tree.tokens.copy(), tree.parents, tree.sources, pending, path)


@dataclass(slots=True)
class Trace:
    """The passes of one generation, and the time of the prompt.

    Attributes:
        prefill_ms: the prompt's forward and the drafter's start; part of no ratio.
        tail_ms: time of the loop outside its passes (the last token, which needs none).
        passes: one record a pass.
        trees: the tree of each pass.
        sources: who is behind the bits of the trees' sources.
    """

    prefill_ms: float = 0.0
    tail_ms: float = 0.0
    passes: list[PassRecord] = field(default_factory=list)
    trees: list[VerifiedTree] = field(default_factory=list)
    sources: tuple[str, ...] = ()

    @property
    def decode_ms(self) -> float:
        """Milliseconds from the end of the prefill to the last token."""
        return self.tail_ms + sum(record.total_ms for record in self.passes)

    @property
    def tau(self) -> float:
        """Tokens committed by passes / passes; nan without a pass."""
        committed = sum(record.committed for record in self.passes)
        return committed / len(self.passes) if self.passes else float("nan")


@dataclass(slots=True)
class Generation:
    """An output: its token ids, its text, why it ended, and how it came about."""

    ids: list[int]
    text: str
    finish: Finish
    trace: Trace

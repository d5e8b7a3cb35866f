"""Suffix decoding: what most often followed the end of the text, in this text and in earlier outputs.

Source: arXiv 2411.04975, section 3; github.com/snowflakedb/ArcticInference, ``suffix_decoding``.
"""

from __future__ import annotations

from math import inf
from typing import Literal

import numpy as np

from primitives.contract import PAD, Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.drafting._counted_suffixes import CountedSuffixes
from primitives.drafting._suffix_draft import SuffixSpeculator
from primitives.knobs import check_range
from primitives.registry import DRAFTERS


@DRAFTERS.register("suffix")
class SuffixDrafter(Drafter):
    """Follows the counts of a suffix tree from every match of the end of the text, and proposes the best draft.

    The text, with the pending token at its end, is looked up in a tree of this text and in one of the outputs of
    earlier sequences. From a match of m tokens a draft has at most ``min(max_tokens, floor(factor * m + offset))``
    tokens and no more than the tree has levels below the match. A token's probability is the share of the match's
    occurrences that go on up to it; a draft scores the sum of them. The best score wins, then the longer match, then
    this text.

    Args:
        form: "chain" follows the most frequent token at every step (of equal ones the first that came), "tree" takes
            the most probable of all branches.
        max_depth: tokens of the longest passage counted, match and draft together.
        max_tokens: most tokens of a draft.
        factor: tokens that a draft may have for each token of the match.
        offset: tokens that a draft may have beyond that.
        min_probability: what is below it is not proposed.
        global_tree: whether the outputs of earlier sequences are searched too, but for one to the same prompt.
        global_tokens: tokens of earlier outputs kept; the oldest outputs go first.
        eos_ids: nothing is proposed behind one of these.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        form: Literal["chain", "tree"] = "tree",
        max_depth: int = 64,
        max_tokens: int = 64,
        factor: float = 1.0,
        offset: float = 0.0,
        min_probability: float = 0.1,
        global_tree: bool = True,
        global_tokens: int = 100_000,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        check_range("drafter 'suffix'", 0, inf, factor=factor)
        check_range("drafter 'suffix'", 1, inf, max_tokens=max_tokens, global_tokens=global_tokens)
        check_range("drafter 'suffix'", 2, inf, max_depth=max_depth)
        if not 0 < min_probability <= 1:
            raise ValueError(
                f"drafter 'suffix': min_probability={min_probability} is out of range; it must be above 0 and at most 1"
            )
        if form not in ("chain", "tree"):
            raise ValueError(f"drafter 'suffix': form='{form}' is unknown; set it to 'chain' or 'tree'")
        self.max_depth = max_depth
        self.global_tree = global_tree
        self.global_tokens = global_tokens
        match = np.arange(max_depth + 1)
        # Multiples of a factor such as 0.1 fall just short of whole numbers.
        budget = np.clip(np.floor(factor * match + offset + 1e-6), 0, max_tokens)
        limits = np.minimum(budget, max_depth - match).astype(int).tolist()
        self._speculator = SuffixSpeculator(limits, min_probability, form == "chain", eos_ids)
        self._outputs: dict[bytes, list[int]] = {}
        self._global = CountedSuffixes(max_depth)
        self._local = CountedSuffixes(max_depth)
        self._prompt = b""
        self._output: list[int] = []
        self._last = PAD

    @property
    def remembers(self) -> bool:
        """Whether the outputs of earlier sequences are searched."""
        return self.global_tree

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Count the prompt; drop the earlier output to the same prompt, and the oldest ones if there are too many."""
        self._local = CountedSuffixes(self.max_depth)
        self._local.read(prompt.tolist())
        self._last = int(prompt[-1])
        self._prompt, self._output = prompt.tobytes(), []
        self._global.forget(self._outputs.pop(self._prompt, []))
        if self._global.size > self.global_tokens:
            self._recount()

    def propose(self, context: Context) -> DraftTree:
        """Return the better draft of both trees below the pending token; empty if neither has one."""
        self._catch_up(context)
        text = context.tokens[-self.max_depth :].tolist()
        draft, other = (self._speculator.best(counts, text) for counts in (self._local, self._global))
        if other.score > draft.score:
            draft = other
        if not draft.tokens:
            return DraftTree.empty()
        return DraftTree(
            np.array([context.pending, *draft.tokens], np.int64),
            np.concatenate([[PAD], np.array(draft.parents, np.int64) + 1]),
            scores=np.array([1.0, *draft.probabilities]),
        )

    def observe(self, outcome: Outcome) -> None:
        """Note what was put out."""
        self._output += outcome.committed.tolist()

    def finish(self) -> None:
        """Count the output among the earlier ones."""
        if self.global_tree and self._output:
            self._outputs[self._prompt] = self._output
            self._global.begin()
            self._global.read(self._output)
        self._local, self._output = CountedSuffixes(self.max_depth), []

    def _catch_up(self, context: Context) -> None:
        """Count what is new of the text; the last pending token may have lost its place to a rival."""
        if context.tokens[self._local.size - 1] != self._last:
            self._local.retract()
        self._local.read(context.tokens[self._local.size :].tolist())
        self._last = context.pending

    def _recount(self) -> None:
        """Count the newest outputs anew, half as many tokens as are kept: counts can be taken back, states cannot."""
        size = sum(map(len, self._outputs.values()))
        while size > self.global_tokens // 2:
            size -= len(self._outputs.pop(next(iter(self._outputs))))
        self._global = CountedSuffixes(self.max_depth)
        for output in self._outputs.values():
            self._global.begin()
            self._global.read(output)

"""SemanticSpec: a small language model drafts a whole segment of the text, up to the next blank line.

Source: SemanticSpec (arXiv 2602.03708). The first segment is the target's; then the draft model writes one at a time,
and where one is rejected, the target writes it anew.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import torch

from primitives.contract import Context, DraftTree, Ints, Outcome, TargetView
from primitives.drafting._draft_model import LoadedDraft, ModelDrafter
from primitives.knobs import check_range
from primitives.registry import DRAFTERS
from primitives.statistics import draw, greedy_choice, probabilities


@DRAFTERS.register("semanticspec")
class SemanticSpecDrafter(ModelDrafter):
    """Drafts as the target decodes, from the pending token on, with the draft model's hidden state at every token.

    A draft that is not committed whole is a rejected one, whichever verifier judges it. The target then goes on without
    drafts until its own text has ended the segment.

    Args:
        draft_model: the language model, with the target's tokenizer.
        tokenizer: the target's.
        vocab_size: ids that the target takes.
        eos_ids: ids that end a text, and so a draft.
        max_tokens: longest segment, the pending token's place included; it bounds the target's own segments too.
        answer_after: nothing is drafted behind this string in the output, and where a draft comes to it the target
            writes all that follows; empty is off.

    Raises:
        ValueError: a setting out of its range, or a draft model with another tokenizer.
    """

    provides = frozenset({"chain", "draft_hidden"})

    def __init__(
        self,
        draft_model: LoadedDraft | None,
        tokenizer: Any,
        vocab_size: int,
        eos_ids: frozenset[int],
        max_tokens: int = 500,
        answer_after: str = "</think>",
    ) -> None:
        check_range("drafter 'semanticspec'", 2, inf, max_tokens=max_tokens)
        super().__init__(draft_model, tokenizer, vocab_size)
        self.max_tokens = max_tokens
        self.answer_after = answer_after
        self._tokenizer = tokenizer
        self._eos_ids = eos_ids
        self._draft: Ints = np.empty(0, np.int64)
        self._prompt = self._begin = self._searched = 0
        self._own = self._thinks = True
        if draft_model is not None:
            from primitives.models.segments import SegmentEnds

            self._ends = SegmentEnds(tokenizer, vocab_size)

    @property
    def whole(self) -> int:
        """Nodes of the longest segment."""
        return self.max_tokens

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Read the prompt; the first segment is the target's."""
        self._prompt = self._begin = self._searched = len(prompt)
        self._own = self._thinks = True
        self._draft = self._draft[:0]
        super().start(prompt, view)

    def propose(self, context: Context) -> DraftTree:
        """Return a segment as a chain; nothing in the target's turn, and beyond the draft model's positions."""
        self._draft = self._draft[:0]
        text = context.tokens
        self._own = self._own and not self._ended(text[:-1])
        # Every text is searched, or the string might be passed by.
        count = int(min(self.max_tokens, context.budget, self.room(text)))
        if not self._thinking(text) or self._own or count < 2 or self._last(text):
            return DraftTree.empty()
        self._begin = len(text) - 1
        tree = self._segment(context, count)
        self._thinks = not self._answers(tree.tokens)
        if not self._thinks:
            return DraftTree.empty()
        self._draft = tree.tokens
        return tree

    def observe(self, outcome: Outcome) -> None:
        """Leave the segment to the target if the draft was not committed whole."""
        if len(self._draft):
            self._own = not np.array_equal(outcome.committed[: len(self._draft)], self._draft)

    def _segment(self, context: Context, count: int) -> DraftTree:
        """Return a chain of at most `count` nodes, which ends where a segment or the text does."""
        first, done = len(context.tokens) - 1, len(context.tokens)
        text = np.concatenate([context.tokens, np.zeros(count - 1, np.int64)])
        logits = self.lm.read(context.tokens)
        states = [self.lm.hidden[-1:]]
        while done < len(text) and not self._last(text[:done]):
            text[done] = self._next(context, logits, text[:done])
            done += 1
            logits = self.lm.feed(text[done - 1 : done])
            states.append(self.lm.hidden)
        tokens = text[first:done]
        return DraftTree(tokens, np.arange(-1, len(tokens) - 1), hidden=torch.cat(states))

    def _next(self, context: Context, logits: torch.Tensor, text: Ints) -> int:
        """Return the token that the draft model writes behind a text."""
        processed = self.laws(context, logits[None], text[None])
        if context.decoding.greedy:
            return int(greedy_choice(processed)[0])
        return draw(probabilities(processed)[0], context.decoding.rng)

    def _last(self, text: Ints) -> bool:
        """Return whether a segment ends with the last token."""
        return int(text[-1]) in self._eos_ids or bool(self._ends.after(text[-2:-1], text[-1:]).any())

    def _ended(self, text: Ints) -> bool:
        """Return whether the target's own segment has ended within a text."""
        begin = self._begin
        return len(text) - begin >= self.max_tokens or bool(self._ends.after(text[begin - 1 : -1], text[begin:]).any())

    def _thinking(self, text: Ints) -> bool:
        """Return whether the output has not come to its answer yet; what was searched before is not searched again."""
        if self._thinks:
            # No token has less than a byte, so the string does not begin further back.
            begin = max(self._prompt, self._searched - len(self.answer_after.encode()))
            self._thinks = not self._answers(text[begin:])
            self._searched = len(text) - 1
        return self._thinks

    def _answers(self, tokens: Ints) -> bool:
        """Return whether the string that ends the drafting is in the text of some tokens."""
        return bool(self.answer_after) and self.answer_after in self._tokenizer.decode(tokens)

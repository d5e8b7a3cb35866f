"""Prompt lookup decoding: copy what followed the same n-gram earlier in the text.

Source: github.com/apoorvumang/prompt-lookup-decoding; transformers ``generation/candidate_generator.py``.
"""

from __future__ import annotations

import numpy as np

from primitives.contract import Context, Drafter, DraftTree, Ints
from primitives.registry import DRAFTERS


@DRAFTERS.register("pld")
class PromptLookupDrafter(Drafter):
    """Proposes the continuation of the earliest match of the longest n-gram that ends the text.

    n goes down from `max_ngram` to `min_ngram`; the leftmost match with at least one token after it wins, as in
    transformers, also if the text ends before `num_tokens` are found. The draft hangs below the pending token.

    Args:
        max_ngram: longest n-gram looked for.
        num_tokens: most tokens copied.
        min_ngram: shortest n-gram looked for.
        eos_ids: a draft is cut after the first of these.

    Raises:
        ValueError: a setting below 1, or `min_ngram` above `max_ngram`.
    """

    def __init__(
        self, max_ngram: int = 3, num_tokens: int = 10, min_ngram: int = 1, eos_ids: frozenset[int] = frozenset()
    ) -> None:
        for name, value in (("max_ngram", max_ngram), ("num_tokens", num_tokens), ("min_ngram", min_ngram)):
            if value < 1:
                raise ValueError(f"drafter 'pld': {name}={value} is out of range; it must be at least 1")
        if min_ngram > max_ngram:
            raise ValueError(f"drafter 'pld': min_ngram={min_ngram} is above max_ngram={max_ngram}; lower min_ngram")
        self.max_ngram = max_ngram
        self.num_tokens = num_tokens
        self.min_ngram = min_ngram
        self.eos_ids = np.array(sorted(eos_ids), np.int64)

    def propose(self, context: Context) -> DraftTree:
        """Return a chain of the pending token and the copied continuation; empty without a match."""
        draft = self._continuation(context.tokens)
        if not len(draft):
            return DraftTree.empty()
        return DraftTree.chain(np.concatenate([context.tokens[-1:], draft]))

    def _continuation(self, text: Ints) -> Ints:
        """Return what followed the longest repeated n-gram at the end of int64[T] text."""
        for n in range(min(self.max_ngram, len(text) - 1), self.min_ngram - 1, -1):
            start = _first_match(text, n)
            if start is not None:
                draft = text[start : start + self.num_tokens]
                ends = np.flatnonzero(np.isin(draft, self.eos_ids))
                return draft[: ends[0] + 1] if len(ends) else draft
        return text[:0]


def _first_match(text: Ints, n: int) -> int | None:
    """Return where the earliest earlier occurrence of the last n tokens ends, or None."""
    candidates = np.flatnonzero(text[n - 1 : -1] == text[-1])
    for back in range(1, n):
        candidates = candidates[text[candidates + n - 1 - back] == text[-1 - back]]
    return int(candidates[0]) + n if len(candidates) else None

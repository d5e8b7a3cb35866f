"""Prompt lookup decoding: copy what followed the same n-gram elsewhere in the text.

Sources: github.com/apoorvumang/prompt-lookup-decoding ("original"); transformers ``generation/candidate_generator.py``
("transformers").
"""

from __future__ import annotations

from math import inf

import numpy as np

from primitives.contract import Context, Drafter, DraftTree, Ints
from primitives.knobs import check_choice, check_range
from primitives.registry import DRAFTERS

FORMS = ("transformers", "original")
MATCHES = ("earliest", "latest")


@DRAFTERS.register("pld")
class PromptLookupDrafter(Drafter):
    """Proposes the continuation of a match of the longest n-gram that ends the text.

    n goes down from `max_ngram` to `min_ngram`, and the first n with a usable match ends the search. Usable is what has
    at least one token of the text behind it ("transformers": the draft may be cut by the end of the text), or all
    `num_tokens` of them ("original"; it also wants the draft to begin before the n-gram that was looked up). Ties: of
    the usable matches of that n the leftmost one wins, or with ``match="latest"`` the rightmost. The draft hangs below
    the pending token and ends with its first EOS, behind which nothing can be committed.

    Args:
        max_ngram: longest n-gram looked for.
        num_tokens: most tokens copied.
        min_ngram: shortest n-gram looked for.
        form: which published rule decides what match is usable, "transformers" or "original".
        match: which of the usable matches wins, the "earliest" (both published forms) or the "latest".
        eos_ids: a draft is cut after the first of these.

    Raises:
        ValueError: a setting below 1, `min_ngram` above `max_ngram`, or an unknown form or match.
    """

    provides = frozenset({"chain"})

    def __init__(
        self,
        max_ngram: int = 3,
        num_tokens: int = 10,
        min_ngram: int = 1,
        form: str = "transformers",
        match: str = "earliest",
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        check_range("drafter 'pld'", 1, inf, max_ngram=max_ngram, num_tokens=num_tokens, min_ngram=min_ngram)
        if min_ngram > max_ngram:
            raise ValueError(f"drafter 'pld': min_ngram={min_ngram} is above max_ngram={max_ngram}; lower min_ngram")
        check_choice("drafter 'pld'", FORMS, form=form)
        check_choice("drafter 'pld'", MATCHES, match=match)
        self.max_ngram = max_ngram
        self.num_tokens = num_tokens
        self.min_ngram = min_ngram
        self.form = form
        self.match = match
        self.eos_ids = np.array(sorted(eos_ids), np.int64)

    def propose(self, context: Context) -> DraftTree:
        """Return a chain of the pending token and the copied continuation; empty without a match."""
        text = context.tokens
        start = self._start(text)
        if start is None:
            return DraftTree.empty()
        draft = text[start : start + self.num_tokens]
        ends = np.flatnonzero(np.isin(draft, self.eos_ids))
        return DraftTree.chain(np.concatenate([text[-1:], draft[: ends[0] + 1] if len(ends) else draft]))

    def _start(self, text: Ints) -> int | None:
        """Return where in int64[T] text the continuation begins, or None without a match."""
        # A match of n tokens is one of n - 1 tokens too, so one scan for the last token finds the candidates of all n.
        starts = np.flatnonzero(text[:-1] == text[-1]) + 1
        found = None
        for n in range(1, min(self.max_ngram, len(text) - 1) + 1):
            starts = starts[(starts >= n) & (starts <= self._last_start(len(text), n))]
            starts = starts[text[starts - n] == text[-n]]
            if not len(starts):
                break
            if n >= self.min_ngram:
                found = int(starts[0] if self.match == "earliest" else starts[-1])
        return found

    def _last_start(self, length: int, n: int) -> int:
        """Return the last place where the continuation of an n-gram may begin in a text of this length."""
        return length - 1 if self.form == "transformers" else length - max(self.num_tokens, n + 1)

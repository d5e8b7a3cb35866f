"""Drafts by a model with another tokenizer: from ids to text and back, after transformers' universal assisted decoding.

Texts meet in windows: what both sides agree on stays as it is, and special tokens go neither way, so that no begin
token gets into a text and every round begins where the last one ended.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from primitives.contract import Ints

# The target's last tokens that are written anew together with a draft, so that a draft may go on within a word.
_LOOKBEHINDS: Final = (8, 4, 2, 1, 0)
# Longest stretch of the target's text that is tokenised in one piece; behind it, the draft model's ids stay fixed.
_WINDOW: Final = 128
_PARTIAL: Final = "\ufffd"


class Retokeniser:
    """The text so far in the ids of a draft model, and drafts in those of the target.

    Args:
        target: the target's tokenizer.
        draft: the draft model's.
        vocab_size: ids that the target takes.
    """

    def __init__(self, target: Any, draft: Any, vocab_size: int) -> None:
        self.target = target
        self.draft = draft
        self.vocab_size = vocab_size
        self.specials = frozenset(draft.all_special_ids)
        self._target_specials = frozenset(target.all_special_ids)
        self._fixed: list[int] = []
        self._anchor = 0

    def start(self, prompt: Ints) -> Ints:
        """Begin a text: return the draft model's ids of int64[T] target ids, with its begin token if it has one."""
        text = self.target.decode(prompt.tolist(), skip_special_tokens=True)
        self._fixed = list(self.draft(text, add_special_tokens=True).input_ids)
        while self._fixed and self._fixed[-1] in self.specials and len(self._fixed) > 1:
            self._fixed.pop()
        self._anchor = len(prompt)
        return np.array(self._fixed, np.int64)

    def text_of(self, tokens: Ints) -> Ints:
        """Return the draft model's ids of int64[T] target ids, which begin with the prompt of `start`."""
        window = self._encoded(tokens[self._anchor :])
        if len(tokens) - self._anchor > 2 * _WINDOW:
            # The window moves on at a place where both its halves are tokenised as they are in the whole.
            for cut in range(self._anchor + _WINDOW, len(tokens)):
                before = self._encoded(tokens[self._anchor : cut])
                if window == before + self._encoded(tokens[cut:]):
                    self._fixed, window = self._fixed + before, window[len(before) :]
                    self._anchor = cut
                    break
        return np.array(self._fixed + window, np.int64)

    def back(self, tokens: Ints, drafted: list[int]) -> Ints:
        """Return int64[m], the target's ids of what a draft adds to a text.

        Args:
            tokens: int64[T], the target's text.
            drafted: the draft model's ids behind `text_of(tokens)`.
        """
        added = self._added(tokens, drafted)
        if not added:
            return np.empty(0, np.int64)
        # A text that ends within a character is completed only together with that character's beginning.
        within = self.target.decode(tokens[-1:].tolist()).endswith(_PARTIAL)
        for behind in _LOOKBEHINDS[:-1] if within else _LOOKBEHINDS:
            own = tokens[max(0, len(tokens) - behind) :].tolist()
            text = self.target.decode(own, skip_special_tokens=True).rstrip(_PARTIAL)
            ids = list(self.target(text + added, add_special_tokens=False).input_ids)
            if ids[: len(own)] == own:
                return self._usable(ids[len(own) :])
        return np.empty(0, np.int64)

    def _added(self, tokens: Ints, drafted: list[int]) -> str:
        """Return the text that a draft adds; it is decoded behind what it follows, which decides about blanks."""
        base = self.text_of(tokens)[-_LOOKBEHINDS[0] :].tolist()
        before = self.draft.decode(base, skip_special_tokens=True)
        text = self.draft.decode(base + drafted, skip_special_tokens=True)
        return str(text[len(before) :]).partition(_PARTIAL)[0] if text.startswith(before) else ""

    def _encoded(self, tokens: Ints) -> list[int]:
        text = self.target.decode(tokens.tolist(), skip_special_tokens=True).rstrip(_PARTIAL)
        return list(self.draft(text, add_special_tokens=False).input_ids)

    def _usable(self, ids: list[int]) -> Ints:
        """Return ids up to the first that is special or unknown to the target's embedding."""
        bad = [place for place, token in enumerate(ids) if token in self._target_specials or token >= self.vocab_size]
        return np.array(ids[: bad[0]] if bad else ids, np.int64)

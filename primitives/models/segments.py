"""Where a text is cut into segments: at blank lines, as its tokens show them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from primitives.contract import Bools, Ints

BLANK_LINE: Final = "\n\n"


class SegmentEnds:
    """Which tokens of a vocabulary end a segment (SemanticSpec, arXiv 2602.03708, whose code lists ids of Qwen's).

    A token ends a segment if its text holds a blank line, or if it begins with the line break that follows another one:
    some vocabularies have no token for both. A third line break in a row, behind a token with two, ends nothing.

    Args:
        tokenizer: of the model.
        size: ids of the vocabulary; those beyond the tokenizer's entries end nothing.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        known = min(size, len(tokenizer))
        texts = np.array(tokenizer.batch_decode(np.arange(known)[:, None]))
        masks = np.zeros((3, size), bool)
        masks[:, :known] = (
            np.char.find(texts, BLANK_LINE) >= 0,
            np.char.startswith(texts, "\n"),
            np.char.endswith(texts, "\n"),
        )
        self._holds, self._begins, breaks = masks
        self._breaks = breaks & ~self._holds

    @property
    def ids(self) -> Ints:
        """int64[m], the tokens that hold a blank line by themselves."""
        return np.flatnonzero(self._holds)

    def after(self, before: Ints, tokens: Ints) -> Bools:
        """Return bool[m]: whether each of int64[m] tokens ends a segment behind the int64[m] tokens before them."""
        return self._holds[tokens] | (self._breaks[before] & self._begins[tokens])

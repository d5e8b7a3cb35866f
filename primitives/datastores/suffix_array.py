"""Suffix arrays over documents of token ids: building one with a library, and finding a passage in it.

The order is that of the text from a position up to its document's end, and the end sorts before every token, so no
match crosses it. Suffixes that are equal up to the end stand in the order of what the corpus has behind it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from pydivsufsort import divsufsort

from primitives.contract import Ints

Tokens = NDArray[np.uint32]
Suffixes = NDArray[np.signedinteger[Any]]  # int32 or int64

MOST_IN_32_BITS: Final = np.iinfo(np.int32).max


def suffix_array(tokens: Tokens, offsets: Ints) -> Suffixes:
    """Return the positions of uint32[n] tokens in the order of their suffixes: int32[n], or int64[n] where needed.

    The library sorts bytes. A token is written as few bytes as hold the largest id, the highest first, so that the
    order of the bytes is that of the tokens; of all suffixes of the bytes those that begin a token are kept.

    Args:
        tokens: the documents, one after the other.
        offsets: int64[D+1], where each document starts, and at the end n.
    """
    ends = offsets[1:] + np.arange(len(offsets) - 1)
    is_token = np.ones(len(tokens) + len(ends), bool)
    is_token[ends] = False
    text = np.zeros(len(is_token), np.int64)
    text[is_token] = tokens
    text[is_token] += 1  # 0 is the end of a document.
    width = max(1, -(-int(text.max(initial=0)).bit_length() // 8))
    data = np.ascontiguousarray(text.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]).ravel()
    order = divsufsort(data, force64=len(data) > MOST_IN_32_BITS)
    starts = order[order % width == 0] // width
    kind = np.int32 if len(tokens) <= MOST_IN_32_BITS else np.int64
    places = np.cumsum(is_token, dtype=kind) - kind(1)
    # The ends lead the order, being smaller than any token.
    return places[starts[len(ends) :]]


class SuffixSearch:
    """Binary search in a suffix array, reading O(log n) places of it and of the tokens, wherever they lie.

    A step looks at a few tokens of one suffix, for which plain lists are several times faster than NumPy is for all
    spans at once.

    Args:
        tokens: uint32[n].
        offsets: int64[D+1].
        suffixes: the suffix array.
    """

    def __init__(self, tokens: Tokens, offsets: Ints, suffixes: Suffixes) -> None:
        self._tokens = tokens.data
        self._offsets = offsets.data
        self._suffixes = suffixes.data
        self._ranks = range(len(suffixes))

    def lower(self, pattern: list[int]) -> int:
        """Return the rank of the first suffix that does not come before the pattern."""
        return bisect_left(self._ranks, pattern, key=lambda rank: self._prefix(rank, pattern))

    def upper(self, pattern: list[int], low: int = 0) -> int:
        """Return one behind the rank of the last suffix that begins with the pattern, searched from `low` on."""
        return bisect_right(self._ranks, pattern, low, key=lambda rank: self._prefix(rank, pattern))

    def begins(self, rank: int, pattern: list[int]) -> bool:
        """Return whether there is a suffix of this rank, and it begins with the pattern."""
        return rank in self._ranks and self._prefix(rank, pattern) == pattern

    def _prefix(self, rank: int, pattern: list[int]) -> list[int]:
        """Return as many tokens of a suffix as the pattern has, fewer where the document ends."""
        start = self._suffixes[rank]
        found: list[int] = self._tokens[start : start + len(pattern)].tolist()
        # A suffix that differs at once is told from the pattern by its first token alone, wherever it ends.
        if found[0] == pattern[0] and len(pattern) > 1:
            end = self._offsets[bisect_right(self._offsets, start)]
            return found[: end - start]
        return found

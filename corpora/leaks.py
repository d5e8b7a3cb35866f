"""Leak check: which documents of a datastore share a long passage with the texts that a run is judged on.

A store that holds test questions or their answers makes retrieval look faster than it is on fresh text. Overlap is
looked for as GPT-3 did for its training data (arXiv 2005.14165, appendix C): 13 words in a row, after normalisation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpora.example import Example

NGRAM: Final = 13
# A shorter text occurs in many others by chance; it counts only where a document's instruction is the very same one.
SHORTEST: Final = 6

Hashes = NDArray[np.uint64]

_WORD = re.compile(r"[^\W_]+")
# Odd numbers without structure: one scatters the words' numbers, the other weighs their places.
_SCATTER = np.uint64(0x9E3779B97F4A7C15)
_PLACE = np.uint64(0xBF58476D1CE4E5B9)


def words_of(text: str) -> list[str]:
    """Return the words of a text in one form: NFKC, case folded, without punctuation and blanks."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


class LeakCheck:
    """The passages of an evaluation set, ready to be found in documents.

    The passages are all runs of `length` words of instruction and reference; of a text with fewer words, the whole
    text; and every whole instruction, for documents that answer that very instruction.

    Args:
        examples: the evaluation set.
        length: words of a passage.
    """

    def __init__(self, examples: Sequence[Example], length: int = NGRAM) -> None:
        self._length = length
        self._ids = [example.id for example in examples]
        self._vocabulary: dict[str, int] = {}
        self._instructions: dict[tuple[str, ...], list[int]] = {}
        texts = []
        for number, example in enumerate(examples):
            asked = words_of(example.instruction)
            texts.append(self._learned(asked + words_of(example.reference)))
            self._instructions.setdefault(tuple(asked), []).append(number)
        self._hashes, self._owners = self._sorted(texts)

    def overlaps(self, instruction: str, answer: str) -> list[str]:
        """Return the ids of the evaluation examples that a document overlaps with, in their order."""
        asked = words_of(instruction)
        found = set(self._instructions.get(tuple(asked), ()))
        own = _passages(self._numbers(asked + words_of(answer)), self._lengths)
        low = np.searchsorted(self._hashes, own)
        hit = np.flatnonzero(self._hashes.take(low, mode="clip") == own) if len(self._hashes) else low[:0]
        high = np.searchsorted(self._hashes, own[hit], side="right")
        for start, stop in zip(low[hit], high, strict=True):
            found.update(self._owners[start:stop].tolist())
        return [self._ids[number] for number in sorted(found)]

    def _sorted(self, texts: Sequence[Hashes]) -> tuple[Hashes, NDArray[np.int64]]:
        """Return the passages of all texts in ascending order of their hashes, and the example that each belongs to."""
        lengths = [min(len(text), self._length) for text in texts]
        shortest = min(SHORTEST, self._length)
        self._lengths = frozenset(length for length in lengths if length >= shortest)
        hashes = [
            _passages(text, {length} if length >= shortest else ()) for text, length in zip(texts, lengths, strict=True)
        ]
        joined = np.concatenate([np.empty(0, np.uint64), *hashes])
        order = np.argsort(joined, kind="stable")
        return joined[order], np.repeat(np.arange(len(texts)), list(map(len, hashes)))[order]

    def _learned(self, words: Iterable[str]) -> Hashes:
        """Return uint64[n]: a number above 0 for each word, a new one for a new word."""
        known = self._vocabulary
        return np.array([known.setdefault(word, len(known) + 1) for word in words], np.uint64)

    def _numbers(self, words: Iterable[str]) -> Hashes:
        """Return uint64[n]: a number for each word; 0 for one that is in no evaluation text."""
        return np.array([self._vocabulary.get(word, 0) for word in words], np.uint64)


def _passages(numbers: Hashes, lengths: Collection[int]) -> Hashes:
    """Return the hash of each run of words of these lengths: a polynomial of the scattered numbers, modulo 2^64."""
    scattered = (numbers ^ (numbers >> np.uint64(3))) * _SCATTER
    scattered ^= scattered >> np.uint64(29)
    total = np.zeros(len(numbers), np.uint64)
    hashes = [total[:0]]
    for length in range(1, min(max(lengths, default=0), len(numbers)) + 1):
        total = total[: len(numbers) - length + 1] * _PLACE + scattered[length - 1 :]
        if length in lengths:
            hashes.append(total)
    return np.concatenate(hashes)

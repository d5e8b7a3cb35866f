"""The corpus that retrieval drafters read from: its tokens, its documents, and a suffix array over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from primitives.contract import PAD, Ints
from primitives.datastores.suffix_array import Suffixes, SuffixSearch, Tokens, suffix_array

TOKENS_FILE: Final = "tokens.npy"
OFFSETS_FILE: Final = "offsets.npy"
COUNTS_FILE: Final = "counts.npy"
SUFFIXES_FILE: Final = "suffixes.npy"
TOKEN_FILES: Final = (TOKENS_FILE, OFFSETS_FILE, COUNTS_FILE, SUFFIXES_FILE)
LARGEST_ID: Final = np.iinfo(np.uint32).max


@dataclass(frozen=True)
class Match:
    """Where the end of a text occurs in a store.

    Attributes:
        length: tokens of the text's end that were found; 0 for no match.
        low: rank of the first suffix that begins with them.
        high: one behind the rank of the last.
    """

    length: int = 0
    low: int = 0
    high: int = 0


def collapse(documents: Sequence[Ints], counts: Ints | None = None) -> tuple[Ints, Ints]:
    """Return which documents are different, and how often each of them is there.

    A vector store has keys of the kept documents alone, so this comes before any forward.

    Args:
        documents: int64[n_i] each.
        counts: int64[len(documents)], how often each is there already; None is once.

    Returns:
        int64[D] indices of the first one of each kind, ascending, and int64[D] counts.
    """
    firsts: dict[bytes, int] = {}
    group = np.empty(len(documents), np.int64)
    for number, document in enumerate(documents):
        content = np.ascontiguousarray(document, np.int64)
        group[number] = firsts.setdefault(blake2b(content.tobytes(), digest_size=16).digest(), number)
    kept, kind = np.unique(group, return_inverse=True)
    return kept, np.bincount(kind, weights=counts, minlength=len(kept)).astype(np.int64)


class TokenStore:
    """Tokens of distinct documents, one after the other, that can be searched for any passage.

    Args:
        tokens: uint32[n].
        offsets: int64[D+1], where each document starts, and at the end n.
        counts: int64[D], how often the corpus has each document.
        suffixes: int32[n] or int64[n], see `suffix_array.suffix_array`.
        fingerprint: identity of its files; empty for a store that was never saved.

    Raises:
        ValueError: if the parts differ in length.
    """

    def __init__(self, tokens: Tokens, offsets: Ints, counts: Ints, suffixes: Suffixes, fingerprint: str = "") -> None:
        if not (len(tokens) == len(suffixes) == offsets[-1] and len(counts) == len(offsets) - 1):
            raise ValueError(
                f"the token store's parts do not belong together: {len(tokens)} tokens, {len(suffixes)} suffixes, "
                f"{len(counts)} counts of {len(offsets) - 1} documents up to {offsets[-1]}; build it again"
            )
        self.tokens = tokens
        self.offsets = offsets
        self.counts = counts
        self.suffixes = suffixes
        self.fingerprint = fingerprint
        self._search = SuffixSearch(tokens, offsets, suffixes)

    @classmethod
    def build(cls, documents: Sequence[Ints], counts: Ints | None = None) -> TokenStore:
        """Return the store of a corpus; copies of a document collapse to one entry, at the place of the first.

        Args:
            documents: int64[n_i] token ids each.
            counts: int64[len(documents)], how often each is in the corpus; None is once. Those of copies add up.

        Raises:
            ValueError: no document, one without tokens, or a token id that 32 bits do not hold.
        """
        kept, counts = collapse(documents, counts)
        tokens, offsets = _joined(documents, kept)
        return cls(tokens, offsets, counts, suffix_array(tokens, offsets))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays: what its files take but for their headers."""
        return self.tokens.nbytes + self.offsets.nbytes + self.counts.nbytes + self.suffixes.nbytes

    def continuations(self, ids: Ints, length: int, skip: int = 0) -> Ints:
        """Return int64[m, length]: the tokens that follow positions, -1 behind the end of the position's document.

        Args:
            ids: int64[m] positions.
            length: how many tokens.
            skip: how many tokens from the position on are left out first, such as those of a match.
        """
        places = ids[:, None] + np.arange(skip, skip + length)
        ends = self.offsets[np.searchsorted(self.offsets, ids, side="right")]
        grid = self.tokens.take(places, mode="clip").astype(np.int64)
        grid[places >= ends[:, None]] = PAD
        return grid

    def weights(self, ids: Ints) -> Ints:
        """Return int64[m]: how often the corpus has the document of each of int64[m] positions."""
        return self.counts[np.searchsorted(self.offsets, ids, side="right") - 1]

    def longest_match(self, text: Ints, longest: int = 16, shortest: int = 2) -> Match:
        """Return where the longest end of a text occurs within a document (REST's search, longest span first).

        An end that occurs has shorter ones that occur too, so the length is found by bisection.

        Args:
            text: int64[T].
            longest: most tokens of the end, L.
            shortest: fewest tokens of it; at least 1.
        """
        end: list[int] = text[-longest:].tolist()
        best, beyond = Match(), len(end) + 1
        while shortest < beyond:
            length = (shortest + beyond) // 2
            pattern = end[len(end) - length :]
            low = self._search.lower(pattern)
            if self._search.begins(low, pattern):
                best, shortest = Match(length, low), length + 1
            else:
                beyond = length
        if not best.length:
            return best
        return Match(best.length, best.low, self._search.upper(end[len(end) - best.length :], best.low))

    def find(self, pattern: Ints) -> tuple[int, int]:
        """Return the range of ranks of the suffixes that begin with int64[l] tokens; an empty one if none does."""
        tokens: list[int] = pattern.tolist()
        low = self._search.lower(tokens)
        return low, self._search.upper(tokens, low)

    def positions(self, low: int, high: int, limit: int | None = None) -> Ints:
        """Return int64[m]: positions of a range of ranks, at most `limit`, ascending by the text from there on."""
        stop = high if limit is None else min(high, low + limit)
        return self.suffixes[low:stop].astype(np.int64)

    def save(self, folder: Path) -> None:
        """Write the store's files into an existing folder."""
        arrays: tuple[NDArray[Any], ...] = (self.tokens, self.offsets, self.counts, self.suffixes)
        for name, array in zip(TOKEN_FILES, arrays, strict=True):
            np.save(folder / name, array)

    @classmethod
    def load(cls, folder: Path, fingerprint: str) -> TokenStore:
        """Map the files of `save`, which `manifest.open_token_store` has checked before."""
        # A view of the plain array type: that of a memory map is slower at everything.
        tokens, offsets, counts, suffixes = (
            np.load(folder / name, mmap_mode="r").view(np.ndarray) for name in TOKEN_FILES
        )
        return cls(tokens, offsets, counts, suffixes, fingerprint)


def _joined(documents: Sequence[Ints], kept: Ints) -> tuple[Tokens, Ints]:
    """Return tokens and offsets of the kept documents; ValueError names the first that cannot be stored."""
    lengths = np.array([len(documents[place]) for place in kept], np.int64)
    if not len(kept):
        raise ValueError("the corpus of the datastore is empty; give at least one document")
    if not lengths.all():
        raise ValueError(f"document {kept[lengths.argmin()]} of the datastore's corpus has no tokens; leave it out")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.concatenate([documents[place] for place in kept])
    bad = np.flatnonzero((ids < 0) | (ids > LARGEST_ID))
    if len(bad):
        place = bad[0]
        number = kept[np.searchsorted(offsets, place, side="right") - 1]
        raise ValueError(
            f"document {number} of the datastore's corpus holds token id {ids[place]}; ids must be 0 to {LARGEST_ID}, "
            "so tokenise it again without padding"
        )
    return ids.astype(np.uint32), offsets

"""The static store of SEN and DReSD: hidden states of a corpus, each with the text that followed it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import faiss
import numpy as np
from numpy.typing import NDArray

from primitives.contract import PAD, Ints
from primitives.datastores.projection import Keys, Projection

INDEX_FILE: Final = "index.faiss"
TOKENS_FILE: Final = "tokens.npy"
OFFSETS_FILE: Final = "offsets.npy"
PROJECTION_FILE: Final = "projection.npz"
FILES: Final = (INDEX_FILE, TOKENS_FILE, OFFSETS_FILE, PROJECTION_FILE)


class HiddenStateStore:
    """Nearest hidden states and their continuations.

    Key i is the state that predicted token i, so the index needs no table of pointers and no continuation is copied.

    Args:
        projection: makes keys of hidden states.
        index: FAISS index over float32[n, d] keys, inner product.
        tokens: uint32[n], the documents' tokens one after the other.
        offsets: int64[D+1], where each document starts, and at the end n.
        fingerprint: identity of its files; empty for a store that was never saved.

    Raises:
        ValueError: if index and token table differ in length.
    """

    def __init__(
        self,
        projection: Projection,
        index: faiss.Index,
        tokens: NDArray[np.uint32],
        offsets: Ints,
        fingerprint: str = "",
    ) -> None:
        if not index.ntotal == len(tokens) == offsets[-1]:
            raise ValueError(
                f"the store's parts do not belong together: {index.ntotal} keys, {len(tokens)} tokens, documents up to "
                f"{offsets[-1]}; build it again"
            )
        self.projection = projection
        self.index = index
        self.tokens = tokens
        self.offsets = offsets
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes of keys, tokens and projection in memory; an inverted list keeps 8 more a key for its id."""
        ids = 8 * self.index.ntotal if isinstance(self.index, faiss.IndexIVF) else 0
        keys = self.index.ntotal * self.index.sa_code_size()
        return int(keys + ids + self.tokens.nbytes + self.offsets.nbytes + self.projection.matrix.nbytes)

    def probe(self, lists: int) -> None:
        """Search so many inverted lists for a query; an exact index has none, and does not care."""
        if isinstance(self.index, faiss.IndexIVF):
            self.index.nprobe = lists

    def search(self, key: Keys, count: int) -> tuple[Keys, Ints]:
        """Return similarities float32[m] and ids int64[m] of the nearest keys, m <= count, the nearest first.

        Args:
            key: float32[d], a key made by `projection`.
            count: how many to return; fewer come back from a small store.

        Raises:
            ValueError: a key of the wrong width, or one that is not finite.
        """
        if key.shape != (self.index.d,):
            raise ValueError(
                f"a query of shape {key.shape} does not fit a store of keys with {self.index.d} dimensions"
            )
        if not np.isfinite(key).all():
            raise ValueError("a query holds NaN or infinity; the target's hidden state is broken")
        if not len(self):
            return np.empty(0, np.float32), np.empty(0, np.int64)
        similarities, ids = self.index.search(key[None], min(count, len(self)))
        # FAISS fills up with -1 what the probed lists could not give.
        found = ids[0] >= 0
        return similarities[0][found], ids[0][found]

    def continuations(self, ids: Ints, length: int) -> Ints:
        """Return int64[m, length]: the token each key predicted and what followed, -1 behind the document's end."""
        places = ids[:, None] + np.arange(length)
        ends = self.offsets[np.searchsorted(self.offsets, ids, side="right")]
        inside = places < ends[:, None]
        return np.where(inside, self.tokens[np.where(inside, places, 0)].astype(np.int64), PAD)

    def save(self, folder: Path) -> None:
        """Write the store's files into an existing folder."""
        faiss.write_index(self.index, str(folder / INDEX_FILE))
        np.save(folder / TOKENS_FILE, self.tokens)
        np.save(folder / OFFSETS_FILE, self.offsets)
        np.savez(folder / PROJECTION_FILE, matrix=self.projection.matrix, offset=self.projection.offset)

    @classmethod
    def load(cls, folder: Path, fingerprint: str) -> HiddenStateStore:
        """Read the files of `save`, which `manifest.open_store` has checked before."""
        parts = np.load(folder / PROJECTION_FILE)
        return cls(
            Projection(parts["matrix"], parts["offset"]),
            faiss.read_index(str(folder / INDEX_FILE)),
            np.load(folder / TOKENS_FILE, mmap_mode="r"),
            np.load(folder / OFFSETS_FILE),
            fingerprint,
        )

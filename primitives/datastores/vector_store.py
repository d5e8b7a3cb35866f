"""The static store of SEN and DReSD: hidden states of a corpus, each pointing at the text that followed it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

import faiss
import numpy as np

from primitives.contract import Ints
from primitives.datastores.projection import Keys, Projection
from primitives.datastores.token_store import TOKEN_FILES, TokenStore

_LOG = logging.getLogger(__name__)

INDEX_FILE: Final = "index.faiss"
PROJECTION_FILE: Final = "projection.npz"
VECTOR_FILES: Final = (*TOKEN_FILES, INDEX_FILE, PROJECTION_FILE)


class VectorStore:
    """Nearest hidden states and their continuations.

    Key i is the state that predicted token i of the token store, so the index needs no table of pointers and no
    continuation is copied. A folder of it holds the token store's files too.

    Args:
        projection: makes keys of hidden states.
        index: FAISS index over float32[n, d] keys, inner product.
        token_store: the n tokens that the keys predicted.
        fingerprint: identity of its files; empty for a store that was never saved.
        layer: index of the decoder layer whose input the keys are made of; None is the state after the last norm.

    Raises:
        ValueError: if index and token store differ in length, or the projection makes keys of another width.
    """

    def __init__(
        self,
        projection: Projection,
        index: faiss.Index,
        token_store: TokenStore,
        fingerprint: str = "",
        layer: int | None = None,
    ) -> None:
        width = projection.matrix.shape[1]
        if index.ntotal != len(token_store) or index.d != width:
            raise ValueError(
                f"the store's parts do not belong together: {index.ntotal} keys of {index.d} dimensions, "
                f"{len(token_store)} tokens, a projection to {width} dimensions; build it again"
            )
        self.projection = projection
        self.index: Any = index
        self.token_store = token_store
        self.fingerprint = fingerprint
        self.layer = layer
        self._index_bytes = _index_bytes(index)

    def __len__(self) -> int:
        return len(self.token_store)

    @property
    def nbytes(self) -> int:
        """Bytes of keys, projection and token store, in memory or mapped."""
        return self._index_bytes + self.projection.matrix.nbytes + self.token_store.nbytes

    def probe(self, lists: int) -> None:
        """Search so many inverted lists (nprobe), or keep so many candidates of a graph (efSearch).

        An exact index has none, and does not care.
        """
        if hasattr(self.index, "nprobe"):
            self.index.nprobe = lists
        elif isinstance(self.index, faiss.IndexHNSW):
            self.index.hnsw.efSearch = lists

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
        return self.token_store.continuations(ids, length)

    def to_gpu(self, number: int = 0) -> None:
        """Move the index to a GPU for good; one that FAISS cannot search there stays where it is, with a note."""
        if not hasattr(faiss, "StandardGpuResources"):
            _LOG.info("the index is searched on the CPU, since this FAISS has no GPU part (extra: gpu)")
        elif isinstance(self.index, faiss.IndexHNSW):
            _LOG.info("the index is searched on the CPU, since FAISS has no HNSW on a GPU")
        else:
            self._gpu = faiss.StandardGpuResources()
            self.index = faiss.index_cpu_to_gpu(self._gpu, number, self.index)

    def save(self, folder: Path) -> None:
        """Write the store's files, those of the token store among them, into an existing folder."""
        self.token_store.save(folder)
        faiss.write_index(self.index, str(folder / INDEX_FILE))
        layer = np.array([] if self.layer is None else [self.layer], np.int64)
        np.savez(folder / PROJECTION_FILE, matrix=self.projection.matrix, offset=self.projection.offset, layer=layer)

    @classmethod
    def load(cls, folder: Path, token_store: TokenStore, fingerprint: str, device: str = "cpu") -> VectorStore:
        """Map the files of `save`, which `manifest.open_vector_store` has checked before.

        Args:
            folder: where `save` wrote.
            token_store: what lies in the same folder.
            fingerprint: identity of the files.
            device: of the target; on "cuda" the index goes there where FAISS can.
        """
        index = faiss.read_index(str(folder / INDEX_FILE), faiss.IO_FLAG_MMAP_IFC)
        with np.load(folder / PROJECTION_FILE) as parts:
            projection = Projection(parts["matrix"], parts["offset"])
            layer = int(parts["layer"][0]) if len(parts["layer"]) else None
        store = cls(projection, index, token_store, fingerprint, layer)
        kind, _, number = device.partition(":")
        if kind == "cuda":
            store.to_gpu(int(number or 0))
        return store


def _index_bytes(index: Any) -> int:
    """Return the bytes of keys or codes, ids, centroids and links."""
    if isinstance(index, faiss.IndexHNSW):
        graph: Any = index.hnsw
        links = 4 * graph.neighbors.size() + 4 * graph.levels.size() + 8 * graph.offsets.size()
        return int(links + _index_bytes(faiss.downcast_index(index.storage)))
    keys = int(index.ntotal * index.sa_code_size())
    if isinstance(index, faiss.IndexIVF):
        # An inverted list keeps the id of each key.
        return keys + 8 * int(index.ntotal) + 4 * int(index.nlist * index.d)
    return keys

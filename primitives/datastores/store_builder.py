"""Building a hidden-state store from a stream of hidden states, in the memory of its index."""

from __future__ import annotations

import logging
from math import isqrt
from typing import Any, Final, Literal

import faiss
import numpy as np

from primitives.contract import Ints
from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.datastores.projection import Keys, Projection

logger = logging.getLogger(__name__)

IndexKind = Literal["auto", "ivf_pq", "flat"]
PCA_SAMPLE: Final = 16_384
POINTS_PER_CENTROID: Final = 39


class StoreBuilder:
    """Takes documents with their hidden states one by one and makes a :class:`HiddenStateStore`.

    Only what training needs is held back: hidden states until the PCA is fitted, then keys until the index is trained.

    Args:
        total: tokens of all documents together, which sizes the index.
        dim: key dimensions.
        kind: "ivf_pq", "flat" (exact inner product), or "auto": IVF-PQ where there are keys enough to train it.
        lists: inverted lists (nlist); None is 4 sqrt(total). Never more than there are training points for.
        subspaces: parts that a key is quantised in (m), a divisor of `dim`; None is the largest up to 16.
        bits: of the code of a part (nbits), 4 to 12.

    Raises:
        ValueError: IVF-PQ asked for with fewer keys than its training needs, or parts that do not divide the key.
    """

    def __init__(
        self,
        total: int,
        dim: int,
        kind: IndexKind = "auto",
        lists: int | None = None,
        subspaces: int | None = None,
        bits: int = 8,
    ) -> None:
        needed = POINTS_PER_CENTROID * 2**bits
        if kind == "ivf_pq" and total < needed:
            raise ValueError(
                f"datastore.index=ivf_pq needs at least {needed} keys to train and the store has {total}; "
                "use index=auto or flat, or more prompts"
            )
        exact = kind == "flat" or total < needed
        subspaces = subspaces or max(m for m in range(1, 17) if dim % m == 0)
        if not exact and dim % subspaces:
            raise ValueError(
                f"datastore.m={subspaces} does not divide datastore.pca_dim={dim}; choose a divisor of {dim}"
            )
        if kind == "auto" and exact:
            logger.info("store of %d keys: exact search, since IVF-PQ needs %d to train", total, needed)
        self.total = total
        self.index: Any = faiss.IndexFlatIP(dim)
        if not exact:
            lists = min(lists or 4 * isqrt(total), total // POINTS_PER_CENTROID)
            self.index = faiss.IndexIVFPQ(self.index, dim, lists, subspaces, bits, faiss.METRIC_INNER_PRODUCT)
        self._projection: Projection | None = None
        self._states: list[Keys] = []
        self._keys: list[Keys] = []
        self._documents: list[Ints] = []

    def add(self, tokens: Ints, states: Keys) -> None:
        """Add a document: int64[n] tokens and float32[n, h] states, state i being the one that predicted token i."""
        self._documents.append(tokens)
        if self._projection is None:
            self._states.append(states)
            if sum(map(len, self._states)) >= PCA_SAMPLE:
                self._fit()
        else:
            self._keep(self._projection(states))

    def finish(self) -> HiddenStateStore:
        """Return the store; ValueError if no document was added."""
        if not self._documents:
            raise ValueError("the corpus of the datastore is empty; give at least one document")
        if self._projection is None:
            self._fit()
        self._flush()
        assert self._projection is not None
        tokens = np.concatenate(self._documents).astype(np.uint32)
        offsets = np.cumsum([0, *map(len, self._documents)], dtype=np.int64)
        return HiddenStateStore(self._projection, self.index, tokens, offsets)

    def _fit(self) -> None:
        states = np.concatenate(self._states)
        self._states = []
        self._projection = Projection.fit(states, self.index.d)
        self._keep(self._projection(states))

    def _keep(self, keys: Keys) -> None:
        self._keys.append(keys)
        wanted = 1 if self.index.is_trained else min(self.total, POINTS_PER_CENTROID * self.index.nlist)
        if sum(map(len, self._keys)) >= wanted:
            self._flush()

    def _flush(self) -> None:
        if not self._keys:
            return
        keys = np.ascontiguousarray(np.concatenate(self._keys), np.float32)
        self._keys = []
        if not self.index.is_trained:
            self.index.train(keys)
        self.index.add(keys)

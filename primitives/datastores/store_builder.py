"""Building a vector store from a stream of hidden states."""

from __future__ import annotations

from typing import Final

import numpy as np

from primitives.datastores.index import IndexKind, check_index, index_of
from primitives.datastores.projection import Keys, Projection
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import VectorStore

PCA_SAMPLE: Final = 16_384


class StoreBuilder:
    """Takes the hidden states of a token store's tokens, in order, and makes a :class:`VectorStore`.

    Hidden states are held back until the PCA is fitted, keys until all are there: the index trains on a sample of them.
    A corpus whose keys do not fit in memory keeps them in files instead, for `index.index_of`.

    Args:
        token_store: the documents, without copies.
        dim: key dimensions.
        kind: see `index.index_of`, as the ones that follow.
        lists: inverted lists.
        subspaces: parts that a key is quantised in.
        bits: of the code of a part.
        layer: see `VectorStore`.

    Raises:
        ValueError: an index that cannot be made of so many keys.
    """

    def __init__(
        self,
        token_store: TokenStore,
        dim: int,
        kind: IndexKind = "auto",
        lists: int | None = None,
        subspaces: int | None = None,
        bits: int = 8,
        layer: int | None = None,
    ) -> None:
        check_index(len(token_store), dim, kind, subspaces, bits)
        self.token_store = token_store
        self.layer = layer
        self._dim = dim
        self._settings = (kind, lists, subspaces, bits)
        self._projection: Projection | None = None
        self._states: list[Keys] = []
        self._keys: list[Keys] = []

    def add(self, states: Keys) -> None:
        """Add float32[c, h] states of the next c tokens, each the one that predicted its token."""
        if self._projection is not None:
            self._keys.append(self._projection(states))
            return
        self._states.append(states)
        if sum(map(len, self._states)) >= PCA_SAMPLE:
            self._fit()

    def finish(self) -> VectorStore:
        """Return the store; ValueError if there are not as many states as tokens."""
        if not (self._states or self._keys):
            raise ValueError(f"the datastore's tokens need {len(self.token_store)} keys, and there are none; add them")
        projection = self._projection or self._fit()
        index = index_of(self._keys, len(self.token_store), self._dim, *self._settings)
        return VectorStore(projection, index, self.token_store, layer=self.layer)

    def _fit(self) -> Projection:
        states = np.concatenate(self._states)
        self._states = []
        self._projection = Projection.fit(states, self._dim)
        self._keys.append(self._projection(states))
        return self._projection

"""The dynamic store of SEN: the hidden states of the sequence that is being decoded."""

from __future__ import annotations

import numpy as np
import torch

from primitives.contract import PAD, Ints
from primitives.datastores.projection import Keys, Projection


class RunningStore:
    """Exact search over the states of one growing sequence.

    Args:
        projection: makes keys of hidden states; the static store's, so that similarities compare.
    """

    def __init__(self, projection: Projection) -> None:
        self.projection = projection
        self._keys = np.empty((256, projection.matrix.shape[1]), np.float32)
        self._tokens = np.empty(256, np.int64)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, tokens: Ints, hidden: torch.Tensor) -> None:
        """Add int64[c] tokens and the [c, h] states that predicted them."""
        stop = self._length + len(tokens)
        while stop > len(self._tokens):
            self._keys = np.concatenate([self._keys, np.empty_like(self._keys)])
            self._tokens = np.concatenate([self._tokens, np.empty_like(self._tokens)])
        self._keys[self._length : stop] = self.projection(hidden.float().cpu().numpy())
        self._tokens[self._length : stop] = tokens
        self._length = stop

    def search(self, key: Keys, count: int) -> tuple[Keys, Ints]:
        """Return similarities float32[m] and ids int64[m] of the nearest states, m <= count, the nearest first."""
        similarities = self._keys[: self._length] @ key
        ids = np.argsort(-similarities, kind="stable")[:count]
        return similarities[ids], ids

    def continuations(self, ids: Ints, length: int) -> Ints:
        """Return int64[m, length]: the tokens that states predicted and what followed, padded with -1 at the end."""
        places = ids[:, None] + np.arange(length)
        inside = places < self._length
        return np.where(inside, self._tokens[np.where(inside, places, 0)], PAD)

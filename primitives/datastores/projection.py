"""From hidden states to the keys that are searched: z-score, PCA, unit length (DReSD, section 3; spec 1.2)."""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Projection:
    """An affine map to `d` dimensions followed by division by the length.

    Attributes:
        matrix: float32[h, d].
        offset: float32[d].
    """

    matrix: Keys
    offset: Keys

    @classmethod
    def fit(cls, states: Keys, dim: int) -> Projection:
        """Fit z-score and PCA on float32[n, h] states.

        Raises:
            ValueError: `dim` above h, or fewer states than `dim`.
        """
        n, width = states.shape
        if not 1 <= dim <= min(width, n):
            raise ValueError(
                f"datastore.pca_dim={dim} does not fit {n} hidden states of width {width}; "
                f"choose 1 to {min(width, n)} or build from more prompts"
            )
        mean, spread = states.mean(0), states.std(0)
        spread[spread == 0] = 1
        pca = faiss.PCAMatrix(width, dim)
        pca.train(np.ascontiguousarray((states - mean) / spread, np.float32))
        rotation = faiss.vector_to_array(pca.A).reshape(-1, width)[:dim].T
        matrix = rotation / spread[:, None]
        offset = faiss.vector_to_array(pca.b) - mean @ matrix
        return cls(np.ascontiguousarray(matrix, np.float32), offset.astype(np.float32))

    @property
    def width(self) -> int:
        """Size of the hidden states that the map takes."""
        return self.matrix.shape[0]

    def __call__(self, states: Keys) -> Keys:
        """Return float32[n, d] keys of unit length for float32[n, h] states; a state of length zero stays zero."""
        keys = states @ self.matrix + self.offset
        length = np.sqrt(np.einsum("nd,nd->n", keys, keys))[:, None]
        return np.asarray(keys / np.where(length > 0, length, 1), np.float32)

"""A draft tree verified as the batch of its root-to-leaf paths, over copies of one KV cache.

DReSD (arXiv 2502.15572) lays its drafts out so. Each path is a plain continuation of the text, so no tree mask is
needed, but the text's keys and values are copied once for each path, and a token that paths share is computed in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from primitives.contract import DraftTree, Ints
from primitives.models.pooled_cache import PooledCache


@dataclass(frozen=True, eq=False)
class PathBatch:
    """The paths of a tree as a batch.

    Attributes:
        tokens: int64[P, L], the tokens of the paths; a path repeats its last one behind its end, where nothing is read.
        cells: int64[n], for each node one cell that holds it, as an index into the P * L cells in order of the rows.
    """

    tokens: Ints
    cells: Ints

    @classmethod
    def of(cls, tree: DraftTree) -> PathBatch:
        """Return the batch of a non-empty tree."""
        paths = tree.paths
        real = paths >= 0
        cells = np.empty(len(tree), np.int64)
        cells[paths[real]] = np.flatnonzero(real)
        # Parents come first, so that the last node of a path is its largest.
        return cls(tree.tokens[np.maximum.accumulate(paths, axis=1)], cells)


class ForkedCache(Cache):
    """The keys and values of a text for each row of a batch, and what the rows write behind them.

    The text's own cache changes only in `keep`.

    Args:
        text: the cache of the text.
        rows: of the batch, P.
    """

    def __init__(self, text: PooledCache, rows: int) -> None:
        self.text = text
        self._forks = [ForkedLayer(text, index, rows) for index in range(len(text.layers))]
        super().__init__(layers=list(self._forks))

    def keep(self, cells: torch.Tensor) -> None:
        """Write the keys and values of some cells, int64[n] indices into P * L, behind the text."""
        for index, fork in enumerate(self._forks):
            self.text.write(index, _rows_of(fork.written[0], cells), _rows_of(fork.written[1], cells))


class ForkedLayer(CacheLayerMixin):
    """The face of one layer of a :class:`ForkedCache` towards transformers."""

    is_croppable = False
    is_sliding = False

    def __init__(self, text: PooledCache, index: int, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.text = text
        self.index = index
        self.rows = rows
        self.written: tuple[torch.Tensor, torch.Tensor]

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: there is nothing to allocate."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Hold [P, H, L, d] keys and values; return them behind those of the text, [P, H, T + L, d]."""
        self.written = (key_states, value_states)
        keys, values = (
            torch.cat([before.expand(self.rows, -1, -1, -1), new], dim=2)
            for before, new in zip(self.text.read(self.index), self.written, strict=True)
        )
        return keys, values

    def get_seq_length(self) -> int:
        """Return the number of tokens of the text."""
        return self.text.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the length and the offset of the keys that a query of this length sees."""
        return self.text.length + query_length, 0

    def get_max_length(self) -> int:
        """Return -1: there is no limit."""
        return -1


def _rows_of(states: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Return [1, H, n, d], some cells of [P, H, L, d] states."""
    return states.transpose(1, 2).flatten(0, 1).index_select(0, cells).transpose(0, 1)[None]

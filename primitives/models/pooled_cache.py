"""A KV cache that commits any root path of a draft tree by moving its rows once."""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin, DynamicLayer


def refuse_uncroppable(config: PreTrainedConfig) -> None:
    """Raise ValueError, naming the layer kind, if the model's cache cannot be rolled back to any length."""
    for index, layer in enumerate(DynamicCache(config=config).layers):
        if type(layer) is not DynamicLayer:
            kind = type(layer).__name__.removesuffix("Layer")
            raise ValueError(
                f"model type '{config.model_type}' keeps a {kind} cache in layer {index}, which cannot be rolled back "
                "after a rejected draft; use a model with full attention in every layer"
            )


def cache_keyword(model: PreTrainedModel) -> str:
    """Return what the model's forward calls its cache: "cache" from transformers 5.24 on, else "past_key_values"."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


class PooledCache(Cache):
    """Keys and values of all layers in two preallocated buffers.

    transformers' own cache concatenates, so that every pass copies the whole prefix; here a pass writes its rows behind
    the committed ones, and a commit is one gather for all layers together.

    Args:
        num_layers: decoder layers of the model.
        capacity: tokens to make room for at first; doubled when it runs out.
    """

    def __init__(self, num_layers: int, capacity: int = 1024) -> None:
        super().__init__(layers=[PooledLayer(self, index) for index in range(num_layers)])
        self.capacity = capacity
        self.length = 0
        self._pools: list[torch.Tensor] = []
        self._planes: list[tuple[torch.Tensor, torch.Tensor]] = []

    def commit(self, start: int, rows: torch.Tensor) -> None:
        """Keep `start` tokens, then those at the ascending positions int64[l] `rows` >= start, and drop all others."""
        stop = start + len(rows)
        if len(rows) and int(rows[-1]) != stop - 1:
            for pool in self._pools:
                pool[..., start:stop, :] = pool.index_select(-2, rows)
        self.length = stop

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens; ValueError if the cache holds fewer."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot roll a cache of {self.length} tokens back to {length}")
        self.length = length

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Store [1, H, n, d] keys and values behind the committed ones; return views of everything up to them."""
        start, added = self.length, keys.shape[-2]
        stop = start + added
        if not self._planes or stop > self.capacity:
            self._grow(stop, keys, values)
        all_keys, all_values = self._planes[layer]
        all_keys.narrow(2, start, added).copy_(keys)
        all_values.narrow(2, start, added).copy_(values)
        if layer == len(self.layers) - 1:
            self.length = stop
        return all_keys.narrow(2, 0, stop), all_values.narrow(2, 0, stop)

    def read(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return views of a layer's [1, H, length, d] keys and values."""
        keys, values = self._planes[layer]
        return keys.narrow(2, 0, self.length), values.narrow(2, 0, self.length)

    def _grow(self, stop: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        while self.capacity < stop:
            self.capacity *= 2
        old, self._pools = self._pools, [self._pool(keys), self._pool(values)]
        for pool, before in zip(self._pools, old, strict=False):
            pool[..., : before.shape[-2], :] = before
        self._planes = list(zip(*self._pools, strict=True))

    def _pool(self, like: torch.Tensor) -> torch.Tensor:
        batch, heads, _, width = like.shape
        return like.new_zeros(len(self.layers), batch, heads, self.capacity, width)


class PooledLayer(CacheLayerMixin):
    """The face of one layer of a :class:`PooledCache` towards transformers."""

    is_croppable = True
    is_sliding = False

    def __init__(self, cache: PooledCache, index: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        # A cycle of references would keep a dropped cache, often hundreds of megabytes, until some later collection.
        self.cache: PooledCache = weakref.proxy(cache)
        self.index = index

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Do nothing: the pool is made by the first write."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store new keys and values and return all of this layer's."""
        return self.cache.write(self.index, key_states, value_states)

    def get_seq_length(self) -> int:
        """Return the number of tokens held."""
        return self.cache.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the length and the offset of the keys that a query of this length sees."""
        return self.cache.length + query_length, 0

    def get_max_length(self) -> int:
        """Return -1: the pool grows without limit."""
        return -1

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last -`tokens_to_remove` tokens, in all layers at once."""
        if self.index == 0:
            self.cache.truncate(self.cache.length + tokens_to_remove)

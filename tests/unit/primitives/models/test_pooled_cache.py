from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from transformers import AutoConfig

from primitives.models.pooled_cache import PooledCache, refuse_uncroppable

LAYERS, HEADS, WIDTH = 2, 2, 3


def rows(layer: int, positions: list[int]) -> torch.Tensor:
    """Keys whose every number tells the layer and the position."""
    values = torch.tensor([100.0 * layer + position for position in positions])
    return values[None, None, :, None].expand(1, HEADS, -1, WIDTH).clone()


def feed(cache: PooledCache, positions: list[int]) -> list[tuple[list[float], list[float]]]:
    """Write rows into every layer; return what each layer holds, keys and negated values."""
    held = []
    for layer in range(LAYERS):
        place: Any = cache.layers[layer]
        keys, values = place.update(rows(layer, positions), -rows(layer, positions))
        assert keys.shape == values.shape == (1, HEADS, cache.length if layer == LAYERS - 1 else keys.shape[2], WIDTH)
        held.append((keys[0, 0, :, 0].tolist(), (-values)[0, 1, :, 2].tolist()))
    return held


def expected(positions: list[int]) -> list[tuple[list[float], list[float]]]:
    return [([100.0 * layer + p for p in positions],) * 2 for layer in range(LAYERS)]


@pytest.mark.parametrize(
    ("path", "kept"),
    [([0, 2, 5], [20, 22, 25]), ([0, 1, 2], [20, 21, 22]), ([], []), ([5], [25]), ([1, 2, 3], [21, 22, 23])],
)
def test_a_commit_keeps_the_prefix_and_the_rows_of_the_path(path: list[int], kept: list[int]) -> None:
    cache = PooledCache(LAYERS, capacity=16)
    feed(cache, [0, 1, 2])
    feed(cache, [20, 21, 22, 23, 24, 25])
    cache.commit(3, 3 + torch.tensor(path, dtype=torch.long))
    assert cache.length == cache.get_seq_length() == 3 + len(path)
    assert feed(cache, [7]) == expected([0, 1, 2, *kept, 7])


def test_it_grows_beyond_its_capacity_and_keeps_what_it_holds() -> None:
    cache = PooledCache(LAYERS, capacity=2)
    feed(cache, [0, 1])
    assert feed(cache, [2, 3, 4]) == expected([0, 1, 2, 3, 4])
    assert cache.capacity == 8
    assert feed(cache, list(range(5, 20))) == expected(list(range(20)))
    cache.truncate(0)
    assert feed(cache, [9]) == expected([9])


@pytest.mark.parametrize("length", [0, 1, 5])
def test_it_rolls_back_to_any_length(length: int) -> None:
    cache = PooledCache(LAYERS, capacity=8)
    feed(cache, [0, 1, 2, 3, 4])
    cache.crop(length - 5)
    assert cache.length == length
    assert feed(cache, [8]) == expected([*range(length), 8])


@pytest.mark.parametrize("length", [-1, 6, 100])
def test_rolling_back_to_more_than_it_holds_is_refused(length: int) -> None:
    cache = PooledCache(LAYERS)
    feed(cache, [0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match=f"cannot roll a cache of 5 tokens back to {length}"):
        cache.truncate(length)
    with pytest.raises(ValueError, match="cannot roll a cache of 5 tokens back to 6"):
        cache.crop(1)
    assert cache.length == 5


@pytest.mark.parametrize(
    ("kind", "changes", "layer"),
    [
        ("mistral", {"sliding_window": 8}, "Sliding"),
        ("gemma2", {}, "Sliding"),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}, "Sliding"),
        ("mamba", {}, "Mamba|Linear"),
        ("qwen3_next", {}, "Linear"),
    ],
)
def test_layers_that_cannot_be_rolled_back_are_refused_by_name(kind: str, changes: dict[str, Any], layer: str) -> None:
    config = AutoConfig.for_model(kind, num_hidden_layers=4, **changes)
    with pytest.raises(ValueError, match=rf"model type '{kind}' keeps a \w*({layer})\w* cache in layer \d") as caught:
        refuse_uncroppable(config)
    assert "use a model with full attention in every layer" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("llama", {}), ("qwen2", {}), ("qwen3", {}), ("gemma", {}), ("mistral", {"sliding_window": None})],
)
def test_full_attention_is_taken(kind: str, changes: dict[str, Any]) -> None:
    refuse_uncroppable(AutoConfig.for_model(kind, **changes))


def test_a_dropped_cache_is_freed_at_once() -> None:
    cache = PooledCache(2)
    gone = weakref.ref(cache)
    gc.disable()
    del cache
    gc.enable()
    assert gone() is None

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from primitives.datastores import index as module
from primitives.datastores.index import IndexKind, check_index, index_of

DIM = 8


def random_keys(n: int) -> NDArray[np.float32]:
    keys = np.random.default_rng(1).normal(size=(n, DIM)).astype(np.float32)
    unit: NDArray[np.float32] = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    return unit


def content(index: Any) -> bytes:
    return bytes(faiss.serialize_index(index))


def files(folder: Path, batches: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """The batches as a build leaves them behind: one mapped file each."""
    for number, batch in enumerate(batches):
        np.save(folder / f"{number}.npy", batch)
    return [np.load(folder / f"{number}.npy", mmap_mode="r") for number in range(len(batches))]


@pytest.mark.parametrize("kind", ["flat", "ivf_pq", "hnsw"])
def test_the_same_keys_give_the_same_bytes_however_they_are_cut(
    kind: IndexKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 256)
    keys = random_keys(2000)
    whole = index_of([keys], 2000, DIM, kind, bits=4)
    parts = files(tmp_path, np.split(keys, [1, 2, 700, 1500]))
    assert content(index_of(parts, 2000, DIM, kind, bits=4)) == content(whole)
    assert content(index_of([keys], 2000, DIM, kind, bits=4)) == content(whole)


def test_half_precision_keys_are_taken(tmp_path: Path) -> None:
    keys = random_keys(100).astype(np.float16)
    index = index_of(files(tmp_path, np.split(keys, 4)), 100, DIM, "flat")
    assert np.array_equal(index.reconstruct_n(0, 100), keys.astype(np.float32))


@pytest.mark.parametrize("count", [1, 10, 999, 1000, 5000])
def test_the_training_sample_is_spread_over_all_batches(count: int) -> None:
    keys = np.arange(1000, dtype=np.float32)[:, None]
    sample = module._sample(np.split(keys, [3, 3, 500]), 1000, count)[:, 0]
    assert sample.tolist() == [row * 1000 // min(count, 1000) for row in range(min(count, 1000))]


def test_memory_is_the_index_and_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch that is handed to FAISS is larger than BATCH, and the training sample is a part of the keys."""
    monkeypatch.setattr(module, "BATCH", 500)
    sizes: list[int] = []
    filled = module._filled

    class Watched:
        def __init__(self, index: Any) -> None:
            self.index, self.d = index, index.d

        def add(self, keys: NDArray[np.float32]) -> None:
            sizes.append(len(keys))
            self.index.add(keys)

    monkeypatch.setattr(module, "_filled", lambda index, batches: filled(Watched(index), batches).index)
    sampled: list[int] = []
    take = module._sample

    def watched(batches: list[NDArray[Any]], total: int, count: int) -> NDArray[np.float32]:
        sampled.append(count)
        return take(batches, total, count)

    monkeypatch.setattr(module, "_sample", watched)
    index = index_of(files(tmp_path, np.split(random_keys(3000), 3)), 3000, DIM, "ivf_pq", lists=8, bits=4)
    assert (index.ntotal, sizes, sampled) == (3000, [500] * 6, [39 * 16])


def test_few_keys_fall_back_to_exact_search_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    """Case 32: 50 vectors with 256 clusters."""
    with caplog.at_level(logging.INFO):
        index = index_of([random_keys(50)], 50, DIM, lists=256)
    assert isinstance(index, faiss.IndexFlatIP)
    assert "store of 50 keys: exact search, since IVF-PQ needs 9984 to train" in caplog.text


def test_an_index_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"datastore.index=ivf_pq needs at least 9984 keys to train and the store has 9983"
    ):
        check_index(9983, DIM, "ivf_pq")
    with pytest.raises(ValueError, match=r"datastore.m=3 does not divide datastore.pca_dim=8; choose a divisor of 8"):
        check_index(100, DIM, "ivf_pq", subspaces=3, bits=1)
    with pytest.raises(ValueError, match=r"the datastore's tokens need 51 keys, and there are 50"):
        index_of([random_keys(50)], 51, DIM)
    check_index(100, DIM, "auto", subspaces=4)


@pytest.mark.parametrize(("dim", "wanted", "parts"), [(8, None, 8), (64, None, 64), (96, None, 48), (64, 16, 16)])
def test_a_key_is_quantised_in_as_many_parts_as_divide_it(dim: int, wanted: int | None, parts: int) -> None:
    keys = np.random.default_rng(0).normal(size=(200, dim)).astype(np.float32)
    index = index_of([keys], 200, dim, "ivf_pq", subspaces=wanted, bits=2)
    assert parts == index.pq.M


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("auto", faiss.IndexIVFPQ), ("ivf_pq", faiss.IndexIVFPQ), ("flat", faiss.IndexFlatIP), ("hnsw", faiss.IndexHNSW)],
)
def test_every_kind_finds_the_nearest_by_inner_product(kind: IndexKind, expected: type[faiss.Index]) -> None:
    keys = random_keys(2000)
    index = index_of([keys], 2000, DIM, kind, bits=4)
    assert isinstance(index, expected)
    assert (index.ntotal, index.metric_type) == (2000, faiss.METRIC_INNER_PRODUCT)
    if isinstance(index, faiss.IndexIVFPQ):
        assert (index.nlist, index.pq.M, index.pq.nbits) == (51, 8, 4)
        index.nprobe = 16
    similarities, ids = index.search(keys[:200], 10)
    exact = np.argsort(-(keys[:200] @ keys.T), axis=1)[:, :10]
    recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(ids.tolist(), exact.tolist(), strict=True)])
    # Quantised keys may change places with near ones, but must not be shuffled.
    assert recall > (0.5 if isinstance(index, faiss.IndexIVF) else 0.97)
    assert (np.diff(similarities, axis=1) <= 0).all()
    # A key of another length still finds itself.
    assert index.search(10 * keys[:1], 1)[1].tolist() == ids[:1, :1].tolist()


def test_more_lists_than_training_points_are_cut_down() -> None:
    assert index_of([random_keys(700)], 700, DIM, "ivf_pq", lists=500, bits=4).nlist == 700 // 39


def test_building_a_graph_leaves_the_number_of_threads_as_it_was() -> None:
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(2)
        index_of([random_keys(20)], 20, DIM, "hnsw")
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)

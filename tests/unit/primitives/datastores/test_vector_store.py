from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from primitives.contract import DraftTree
from primitives.datastores.index import IndexKind, index_of
from primitives.datastores.projection import Projection
from primitives.datastores.store_builder import StoreBuilder
from primitives.datastores.suffix_array import suffix_array
from primitives.datastores.token_store import TOKEN_FILES, TokenStore
from primitives.datastores.vector_store import INDEX_FILE, VECTOR_FILES, VectorStore
from primitives.models.causal_lm import CausalLMTarget
from tests.rigs import greedy_of, random_prompt, tiny_model

WIDTH = 4


def token_store(n: int, *lengths: int) -> TokenStore:
    """Token i is i + 10."""
    tokens = np.arange(10, 10 + n, dtype=np.uint32)
    offsets = np.cumsum([0, *(lengths or [n])], dtype=np.int64)
    return TokenStore(tokens, offsets, np.ones(len(offsets) - 1, np.int64), suffix_array(tokens, offsets))


def store(keys: NDArray[Any], *lengths: int, index: faiss.Index | None = None) -> VectorStore:
    """A store of given keys."""
    built = faiss.IndexFlatIP(WIDTH) if index is None else index
    if len(keys):
        built.add(np.ascontiguousarray(keys, np.float32))
    projection = Projection(np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32))
    return VectorStore(projection, built, token_store(len(keys), *lengths))


def random_keys(n: int) -> NDArray[np.float32]:
    keys = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    unit: NDArray[np.float32] = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    return unit


def test_the_nearest_come_first_and_never_more_than_there_are() -> None:
    """Case 32: k = 10 on 3 vectors."""
    keys = random_keys(3)
    similarities, ids = store(keys).search(keys[1], 10)
    assert ids.tolist() == np.argsort(-(keys @ keys[1])).tolist()
    assert similarities == pytest.approx(np.sort(keys @ keys[1])[::-1], abs=1e-6)
    assert len(store(keys).search(keys[1], 2)[1]) == 2


def test_an_empty_store_finds_nothing() -> None:
    """Case 32: k = 1 on 0 vectors."""
    empty = store(np.empty((0, WIDTH)), 0)
    similarities, ids = empty.search(np.zeros(WIDTH, np.float32), 1)
    assert (len(similarities), len(ids), len(empty)) == (0, 0, 0)
    assert empty.continuations(ids, 4).shape == (0, 4)


def test_the_padding_of_a_result_is_not_taken_for_an_entry() -> None:
    """Case 32: FAISS fills up with -1, which as an index reads the last entry."""
    keys = random_keys(40)
    quantizer = faiss.IndexFlatIP(WIDTH)
    index = faiss.IndexIVFFlat(quantizer, WIDTH, 8, faiss.METRIC_INNER_PRODUCT)
    index.train(keys)
    built = store(keys, index=index)
    built.probe(1)
    found = built.search(keys[0], 40)
    # One list of eight is looked through: FAISS fills the rest of the result with id -1.
    assert 1 <= len(found[1]) < 40
    assert (found[1] >= 0).all()
    assert len(found[0]) == len(found[1])
    built.probe(8)
    assert sorted(built.search(keys[0], 40)[1]) == list(range(40))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_query_that_is_not_finite_is_refused(bad: float) -> None:
    """Case 32."""
    key = random_keys(1)[0]
    key[2] = bad
    with pytest.raises(ValueError, match="a query holds NaN or infinity"):
        store(random_keys(3)).search(key, 1)


@pytest.mark.parametrize("shape", [(3,), (5,), (1, WIDTH)])
def test_a_query_of_the_wrong_width_is_refused(shape: tuple[int, ...]) -> None:
    """Case 32."""
    with pytest.raises(ValueError, match="does not fit a store of keys with 4 dimensions"):
        store(random_keys(3)).search(np.zeros(shape, np.float32), 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_layout_and_precision_of_a_query_do_not_matter(dtype: Any) -> None:
    """Case 32."""
    keys = random_keys(20)
    built = store(keys)
    expected = built.search(keys[7], 3)[1].tolist()
    assert built.search(keys[7].astype(dtype), 3)[1].tolist() == expected
    assert built.search(np.asfortranarray(keys.T)[:, 7], 3)[1].tolist() == expected
    assert built.search(np.repeat(keys[7], 2)[::2], 3)[1].tolist() == expected


def test_a_draft_never_crosses_the_end_of_its_document() -> None:
    """Case 30."""
    built = store(random_keys(6), 2, 0, 3, 1)
    assert built.continuations(np.arange(6), 3).tolist() == [
        [10, 11, -1],
        [11, -1, -1],
        [12, 13, 14],
        [13, 14, -1],
        [14, -1, -1],
        [15, -1, -1],
    ]


def test_parts_of_different_stores_are_refused() -> None:
    """Case 28."""
    good = store(random_keys(3))
    with pytest.raises(ValueError, match="parts do not belong together: 3 keys of 4 dimensions, 2 tokens, a proj"):
        VectorStore(good.projection, good.index, token_store(2))
    wider = Projection(np.eye(5, dtype=np.float32), np.zeros(5, np.float32))
    with pytest.raises(ValueError, match="a projection to 5 dimensions; build it again"):
        VectorStore(wider, good.index, good.token_store)


@pytest.mark.parametrize("layer", [None, 0, 7])
def test_what_is_saved_is_loaded(layer: int | None, tmp_path: Path) -> None:
    built = store(random_keys(6), 2, 4)
    built.layer = layer
    built.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(VECTOR_FILES)
    loaded = VectorStore.load(tmp_path, TokenStore.load(tmp_path, "t"), "f" * 8)
    assert (loaded.fingerprint, loaded.layer) == ("f" * 8, layer)
    tokens = 6 * 4 + 3 * 8 + 2 * 8 + 6 * 4
    assert loaded.nbytes == built.nbytes == 6 * WIDTH * 4 + WIDTH * WIDTH * 4 + tokens
    key = random_keys(6)[4]
    assert loaded.search(key, 3)[1].tolist() == built.search(key, 3)[1].tolist()
    assert loaded.continuations(np.array([3]), 9).tolist() == built.continuations(np.array([3]), 9).tolist()
    assert np.array_equal(loaded.projection(key[None]), built.projection(key[None]))


@pytest.mark.parametrize("kind", ["flat", "ivf_pq", "hnsw"])
def test_an_index_is_mapped_not_loaded(kind: IndexKind, tmp_path: Path) -> None:
    """Case 30: keys stay in the file; every kind finds there what it found before."""
    keys = random_keys(3000)
    index = index_of([keys], 3000, WIDTH, kind, lists=16, bits=4)
    built = VectorStore(store(random_keys(1)).projection, index, token_store(3000))
    built.save(tmp_path)
    loaded = VectorStore.load(tmp_path, built.token_store, "")
    if Path("/proc/self/maps").exists():
        assert str(tmp_path / INDEX_FILE) in Path("/proc/self/maps").read_text()
    assert abs(loaded.nbytes - sum((tmp_path / name).stat().st_size for name in VECTOR_FILES)) < 3000
    for one in (built, loaded):
        one.probe(16)
    for key in keys[:20]:
        (similar, ids), (expected, right) = loaded.search(key, 5), built.search(key, 5)
        assert (ids.tolist(), similar.tolist()) == (right.tolist(), expected.tolist())
        assert similar.tolist() == sorted(similar.tolist(), reverse=True)


def test_probing_widens_a_graph_search_and_leaves_an_exact_one_alone() -> None:
    keys = random_keys(50)
    graph = store(keys, index=faiss.IndexHNSWFlat(WIDTH, 4, faiss.METRIC_INNER_PRODUCT))
    graph.probe(50)
    assert graph.index.hnsw.efSearch == 50
    assert graph.search(keys[3], 1)[1].tolist() == [3]
    exact = store(keys)
    exact.probe(1)
    assert len(exact.search(keys[3], 50)[1]) == 50


class Gpu:
    """Stands in for the GPU part of FAISS, which the CPU wheel does not have."""

    StandardGpuResources = staticmethod(lambda: "resources")

    def __init__(self) -> None:
        self.moved: list[tuple[Any, ...]] = []

    def move(self, *what: Any) -> faiss.Index:
        self.moved.append(what)
        return what[-1]


@pytest.mark.parametrize(("device", "number"), [("cpu", None), ("cuda", 0), ("cuda:1", 1)])
def test_an_index_goes_to_the_gpu_that_the_target_is_on(
    device: str, number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu()
    monkeypatch.setattr(faiss, "StandardGpuResources", gpu.StandardGpuResources, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpu", gpu.move, raising=False)
    built = store(random_keys(5))
    built.save(tmp_path)
    loaded = VectorStore.load(tmp_path, built.token_store, "", device)
    assert [what[:2] for what in gpu.moved] == ([] if number is None else [("resources", number)])
    assert loaded.search(random_keys(5)[2], 1)[1].tolist() == [2]


def test_an_index_that_cannot_go_to_a_gpu_stays_with_a_note(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(faiss, "StandardGpuResources", raising=False)
    graph = store(random_keys(5), index=faiss.IndexHNSWFlat(WIDTH, 4, faiss.METRIC_INNER_PRODUCT))
    with caplog.at_level(logging.INFO):
        graph.to_gpu()
        monkeypatch.setattr(faiss, "StandardGpuResources", Gpu.StandardGpuResources, raising=False)
        graph.to_gpu()
    assert [record.message for record in caplog.records] == [
        "the index is searched on the CPU, since this FAISS has no GPU part (extra: gpu)",
        "the index is searched on the CPU, since FAISS has no HNSW on a GPU",
    ]
    assert graph.search(random_keys(5)[2], 1)[1].tolist() == [2]


@pytest.mark.parametrize("layer", [0, 1])
def test_states_of_an_inner_layer_find_their_own_place(layer: int) -> None:
    """Case 21: built from one forward, queried step by step; the key of position t points at token t+1."""
    prompt = random_prompt(3, 6)
    text = np.array(prompt + greedy_of(tiny_model(), prompt, 44))
    target = CausalLMTarget(tiny_model(), eos_ids=())
    target.capture((layer,))
    features = target.prefill(text).features
    assert features is not None
    states = features.numpy()
    builder = StoreBuilder(TokenStore.build([text[1:]]), 16, layer=layer)
    builder.add(states[:-1])
    built = builder.finish()
    assert built.layer == layer
    target.prefill(text[:1])
    for position in range(1, len(text) - 1):
        features = target.verify(DraftTree.chain(text[position : position + 1])).features
        target.commit(np.array([0]))
        assert features is not None
        rows = features.numpy()[1:]
        assert rows[0] == pytest.approx(states[position], abs=1e-4)
        similarity, ids = built.search(built.projection(rows)[0], 1)
        assert similarity[0] == pytest.approx(1, abs=1e-4)
        # The input of the first layer is the token's embedding alone: every place of the token has the same key.
        assert text[ids[0]] == text[position] if layer == 0 else ids[0] == position
        assert built.continuations(ids, 1)[0, 0] == text[ids[0] + 1]


def test_a_token_store_can_be_opened_without_the_vectors(tmp_path: Path) -> None:
    store(random_keys(6)).save(tmp_path)
    (tmp_path / INDEX_FILE).unlink()
    assert set(TOKEN_FILES) < set(VECTOR_FILES)
    assert len(TokenStore.load(tmp_path, "")) == 6

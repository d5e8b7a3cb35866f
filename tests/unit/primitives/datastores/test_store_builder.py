from __future__ import annotations

import logging

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from primitives.datastores import store_builder
from primitives.datastores.store_builder import IndexKind, StoreBuilder

WIDTH = 12


def documents(*lengths: int) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    rng = np.random.default_rng(0)
    return [(rng.integers(0, 1000, n), rng.normal(size=(n, WIDTH)).astype(np.float32)) for n in lengths]


def test_every_state_finds_itself_and_its_token() -> None:
    texts = documents(30, 1, 20, 49)
    builder = StoreBuilder(100, 8)
    for tokens, states in texts:
        builder.add(tokens, states)
    store = builder.finish()
    assert len(store) == 100
    assert store.offsets.tolist() == [0, 30, 31, 51, 100]
    place = 0
    for tokens, states in texts:
        for token, key in zip(tokens, store.projection(states), strict=True):
            assert store.search(key, 1)[1].tolist() == [place]
            assert store.continuations(np.array([place]), 1).tolist() == [[token]]
            place += 1


def test_a_state_is_known_again_at_any_scale_of_its_key() -> None:
    ((tokens, states),) = documents(50)
    builder = StoreBuilder(50, 8)
    builder.add(tokens, states)
    store = builder.finish()
    key = store.projection(states[3:4])[0]
    assert store.search(10 * key, 1)[1].tolist() == [3]


@pytest.mark.parametrize("sample", [1, 40, 60, 10**6])
def test_what_is_held_back_for_training_does_not_change_the_order(sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_builder, "PCA_SAMPLE", sample)
    texts = documents(30, 20, 50)
    builder = StoreBuilder(100, 8)
    for tokens, states in texts:
        builder.add(tokens, states)
    store = builder.finish()
    assert store.tokens.tolist() == np.concatenate([tokens for tokens, _ in texts]).tolist()
    keys = store.projection(np.concatenate([states for _, states in texts]))
    assert np.array_equal(store.index.reconstruct_n(0, 100), keys)


def test_few_keys_fall_back_to_exact_search_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        builder = StoreBuilder(50, 4)
    assert isinstance(builder.index, faiss.IndexFlatIP)
    assert "store of 50 keys: exact search, since IVF-PQ needs 9984 to train" in caplog.text


def test_ivf_pq_is_refused_below_what_its_training_needs() -> None:
    message = r"datastore.index=ivf_pq needs at least 9984 keys to train and the store has 9983"
    with pytest.raises(ValueError, match=message):
        StoreBuilder(9983, 4, "ivf_pq")


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(ValueError, match="the corpus of the datastore is empty"):
        StoreBuilder(0, 4).finish()


@pytest.mark.parametrize(("kind", "expected"), [("auto", faiss.IndexIVFPQ), ("flat", faiss.IndexFlatIP)])
def test_a_large_store_is_compressed_unless_exact_search_is_asked_for(
    kind: IndexKind, expected: type[faiss.Index]
) -> None:
    # Codes of 8 bits need 9,984 keys, which take seconds to train on.
    texts = documents(*[100] * 12)
    builder = StoreBuilder(1200, 8, kind, bits=4)
    for tokens, states in texts:
        builder.add(tokens, states)
    store = builder.finish()
    assert isinstance(store.index, expected)
    assert store.index.ntotal == 1200
    store.probe(16)
    keys = store.projection(np.concatenate([states for _, states in texts]))
    found = [int(store.search(key, 10)[1][0]) for key in keys[:200]]
    # Quantised keys may change places with near ones, but must not be shuffled.
    assert np.mean(np.array(found) == np.arange(200)) > (0.5 if kind == "auto" else 0.999)
    if kind == "auto":
        assert store.nbytes < 1200 * 8 * 4

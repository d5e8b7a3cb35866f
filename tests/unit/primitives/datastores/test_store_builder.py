from __future__ import annotations

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from primitives.datastores import store_builder
from primitives.datastores.store_builder import StoreBuilder
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import VectorStore

WIDTH = 12
Document = tuple[NDArray[np.int64], NDArray[np.float32]]


def documents(*lengths: int) -> list[Document]:
    rng = np.random.default_rng(0)
    return [(rng.integers(0, 1000, n), rng.normal(size=(n, WIDTH)).astype(np.float32)) for n in lengths]


def built(texts: list[Document], dim: int = 8) -> VectorStore:
    builder = StoreBuilder(TokenStore.build([tokens for tokens, _ in texts]), dim, layer=3)
    for _, states in texts:
        builder.add(states)
    return builder.finish()


def test_every_state_finds_itself_and_its_token() -> None:
    texts = documents(30, 1, 20, 49)
    store = built(texts)
    assert (len(store), store.layer) == (100, 3)
    assert store.token_store.offsets.tolist() == [0, 30, 31, 51, 100]
    place = 0
    for tokens, states in texts:
        for token, key in zip(tokens, store.projection(states), strict=True):
            assert store.search(key, 1)[1].tolist() == [place]
            assert store.continuations(np.array([place]), 1).tolist() == [[token]]
            place += 1


def test_a_state_is_known_again_at_any_scale_of_its_key() -> None:
    """Case 32."""
    ((tokens, states),) = documents(50)
    store = built([(tokens, states)])
    key = store.projection(states[3:4])[0]
    assert store.search(10 * key, 1)[1].tolist() == [3]


@pytest.mark.parametrize("sample", [1, 40, 60, 10**6])
def test_what_is_held_back_for_the_pca_does_not_change_the_order(sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_builder, "PCA_SAMPLE", sample)
    texts = documents(30, 20, 50)
    store = built(texts)
    assert store.token_store.tokens.tolist() == np.concatenate([tokens for tokens, _ in texts]).tolist()
    keys = store.projection(np.concatenate([states for _, states in texts]))
    # Another split into products rounds otherwise; a changed order would differ by the size of a key.
    assert store.index.reconstruct_n(0, 100) == pytest.approx(keys, abs=1e-5)


def test_states_that_do_not_match_the_tokens_are_refused() -> None:
    """Case 31: the states of a copy that the token store does not hold."""
    texts = documents(30, 20)
    store = TokenStore.build([texts[0][0], texts[1][0], texts[0][0]])
    builder = StoreBuilder(store, 8)
    for number in (0, 1, 0):
        builder.add(texts[number][1])
    with pytest.raises(ValueError, match="the datastore's tokens need 50 keys, and there are 80"):
        builder.finish()


def test_states_never_given_are_missed() -> None:
    with pytest.raises(ValueError, match="the datastore's tokens need 30 keys, and there are none"):
        StoreBuilder(TokenStore.build([documents(30)[0][0]]), 8).finish()


def test_an_index_that_cannot_be_trained_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"datastore.index=ivf_pq needs at least 9984 keys"):
        StoreBuilder(TokenStore.build([documents(30)[0][0]]), 8, "ivf_pq")


def test_a_large_store_is_compressed() -> None:
    # Codes of 8 bits need 9,984 keys, which take seconds to train on.
    texts = documents(*[100] * 12)
    builder = StoreBuilder(TokenStore.build([tokens for tokens, _ in texts]), 8, bits=4)
    for _, states in texts:
        builder.add(states)
    store = builder.finish()
    assert isinstance(store.index, faiss.IndexIVFPQ)
    assert store.nbytes - store.token_store.nbytes < 1200 * 8 * 4

from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.datastores.projection import Projection

WIDTH = 4


def store(keys: NDArray[Any], *lengths: int, index: faiss.Index | None = None) -> HiddenStateStore:
    """A store of given keys; token i is i + 10."""
    built = faiss.IndexFlatIP(WIDTH) if index is None else index
    if len(keys):
        built.add(np.ascontiguousarray(keys, np.float32))
    projection = Projection(np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32))
    offsets = np.cumsum([0, *(lengths or [len(keys)])], dtype=np.int64)
    return HiddenStateStore(projection, built, np.arange(10, 10 + len(keys), dtype=np.uint32), offsets)


def random_keys(n: int) -> NDArray[np.float32]:
    keys = np.random.default_rng(0).normal(size=(n, WIDTH)).astype(np.float32)
    unit: NDArray[np.float32] = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    return unit


def test_the_nearest_come_first_and_never_more_than_there_are() -> None:
    keys = random_keys(3)
    similarities, ids = store(keys).search(keys[1], 10)
    assert ids.tolist() == np.argsort(-(keys @ keys[1])).tolist()
    assert similarities == pytest.approx(np.sort(keys @ keys[1])[::-1], abs=1e-6)
    assert len(store(keys).search(keys[1], 2)[1]) == 2


def test_an_empty_store_finds_nothing() -> None:
    empty = store(np.empty((0, WIDTH)), 0)
    similarities, ids = empty.search(np.zeros(WIDTH, np.float32), 1)
    assert (len(similarities), len(ids), len(empty)) == (0, 0, 0)
    assert empty.continuations(ids, 4).shape == (0, 4)


def test_the_padding_of_a_result_is_not_taken_for_an_entry() -> None:
    keys = random_keys(40)
    quantizer = faiss.IndexFlatIP(WIDTH)
    index = faiss.IndexIVFFlat(quantizer, WIDTH, 8, faiss.METRIC_INNER_PRODUCT)
    index.train(keys)
    index.nprobe = 1
    found = store(keys, index=index).search(keys[0], 40)
    # One list of eight is looked through: FAISS fills the rest of the result with id -1.
    assert 1 <= len(found[1]) < 40
    assert (found[1] >= 0).all()
    assert len(found[0]) == len(found[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_query_that_is_not_finite_is_refused(bad: float) -> None:
    key = random_keys(1)[0]
    key[2] = bad
    with pytest.raises(ValueError, match="a query holds NaN or infinity"):
        store(random_keys(3)).search(key, 1)


@pytest.mark.parametrize("shape", [(3,), (5,), (1, WIDTH)])
def test_a_query_of_the_wrong_width_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit a store of keys with 4 dimensions"):
        store(random_keys(3)).search(np.zeros(shape, np.float32), 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_layout_and_precision_of_a_query_do_not_matter(dtype: Any) -> None:
    keys = random_keys(20)
    built = store(keys)
    expected = built.search(keys[7], 3)[1].tolist()
    assert built.search(keys[7].astype(dtype), 3)[1].tolist() == expected
    assert built.search(np.asfortranarray(keys.T)[:, 7], 3)[1].tolist() == expected
    assert built.search(np.repeat(keys[7], 2)[::2], 3)[1].tolist() == expected


def test_a_draft_never_crosses_the_end_of_its_document() -> None:
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
    with pytest.raises(ValueError, match="parts do not belong together: 3 keys, 3 tokens, documents up to 2"):
        store(random_keys(3), 2)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    built = store(random_keys(6), 2, 4)
    built.save(tmp_path)
    loaded = HiddenStateStore.load(tmp_path, "f" * 8)
    assert loaded.fingerprint == "f" * 8
    assert loaded.nbytes == built.nbytes == 6 * WIDTH * 4 + 6 * 4 + 3 * 8 + WIDTH * WIDTH * 4
    key = random_keys(6)[4]
    assert loaded.search(key, 3)[1].tolist() == built.search(key, 3)[1].tolist()
    assert loaded.continuations(np.array([3]), 9).tolist() == built.continuations(np.array([3]), 9).tolist()
    assert np.array_equal(loaded.projection(key[None]), built.projection(key[None]))

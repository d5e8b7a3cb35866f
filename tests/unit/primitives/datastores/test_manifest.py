from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.datastores.manifest import (
    MANIFEST_FILE,
    StoreError,
    open_token_store,
    open_vector_store,
    save_store,
)
from primitives.datastores.store_builder import StoreBuilder
from primitives.datastores.token_store import TOKEN_FILES, TokenStore
from primitives.datastores.vector_store import VECTOR_FILES, VectorStore

IDENTITY = {"model": "m1", "tokenizer": "t1", "layer": "final", "metric": "cosine", "dtype": "float32", "corpus": "c1"}
REBUILD = "python -m scripts.prepare method=sense builds one"
FACTS = {"prompts": ["a", "b"], "seconds": 1.5}


def store(seed: int) -> VectorStore:
    rng = np.random.default_rng(seed)
    tokens = TokenStore.build([rng.integers(0, 99, 15 + seed), rng.integers(0, 99, 25 - seed)], np.array([1, 2 + seed]))
    builder = StoreBuilder(tokens, 4)
    builder.add(rng.normal(size=(40, 8)).astype(np.float32))
    return builder.finish()


def saved(folder: Path, seed: int = 0) -> Path:
    folder.mkdir()
    save_store(store(seed), folder, IDENTITY, FACTS)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(tmp_path / "store")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole store that tests copy."""
    return saved(tmp_path_factory.mktemp("kept") / "store")


def test_a_whole_store_is_opened(folder: Path) -> None:
    opened = open_vector_store(folder, IDENTITY, REBUILD)
    assert len(opened) == 40
    assert opened.token_store.tokens.tolist() == store(0).token_store.tokens.tolist()
    assert len(opened.fingerprint) == 64
    content = json.loads((folder / MANIFEST_FILE).read_text())
    sizes = {"tokens": 40, "documents": 2, "passages": 3, "index": "IndexFlatIP"}
    assert (content["format"], content["kind"], content["facts"]) == (2, "vectors", {**FACTS, **sizes})


def test_the_tokens_of_a_vector_store_are_a_token_store(folder: Path, tmp_path: Path) -> None:
    """Also where the vectors are damaged: what is not used is not checked."""
    inner = open_vector_store(folder, IDENTITY, REBUILD).token_store
    (folder / "index.faiss").write_bytes(b"")
    opened = open_token_store(folder, {"tokenizer": "t1", "corpus": "c1"}, REBUILD)
    alone = tmp_path / "tokens"
    alone.mkdir()
    save_store(store(0).token_store, alone, IDENTITY, FACTS)
    assert sorted(path.name for path in alone.iterdir()) == sorted([*TOKEN_FILES, MANIFEST_FILE])
    assert json.loads((alone / MANIFEST_FILE).read_text())["facts"] == {
        **FACTS,
        **{"tokens": 40, "documents": 2, "passages": 3},
    }
    again = open_token_store(alone, IDENTITY, REBUILD)
    assert opened.tokens.tolist() == again.tokens.tolist() == store(0).token_store.tokens.tolist()
    assert inner.fingerprint == opened.fingerprint == again.fingerprint != ""
    with pytest.raises(StoreError, match=f"the store in {alone} holds tokens only, without hidden states; {REBUILD}"):
        open_vector_store(alone, IDENTITY, REBUILD)


def test_the_fingerprint_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    opened = [
        open_vector_store(place, IDENTITY, REBUILD)
        for place in (folder, saved(tmp_path / "same"), saved(tmp_path / "other", 1))
    ]
    assert opened[0].fingerprint == opened[1].fingerprint != opened[2].fingerprint
    assert opened[0].fingerprint != opened[0].token_store.fingerprint


@pytest.mark.parametrize("name", VECTOR_FILES)
def test_the_same_store_is_the_same_bytes(name: str, folder: Path, tmp_path: Path) -> None:
    assert (saved(tmp_path / "again") / name).read_bytes() == (folder / name).read_bytes()


def cut_to(size: Callable[[int], int]) -> Callable[[Path], int]:
    return lambda path: path.write_bytes(path.read_bytes()[: size(path.stat().st_size)])


@pytest.mark.parametrize(
    ("spoil", "state"),
    [
        (cut_to(lambda size: 0), "is damaged"),
        (cut_to(lambda size: size // 2), "is damaged"),
        (cut_to(lambda size: size - 1), "is damaged"),
        (cut_to(lambda size: 8), "is damaged"),
        (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "is damaged"),
        (lambda path: path.unlink(), "is missing"),
    ],
    ids=["empty", "half", "last byte", "header", "longer", "deleted"],
)
@pytest.mark.parametrize("name", VECTOR_FILES)
def test_a_spoilt_file_is_named_with_the_command_that_rebuilds(
    name: str, spoil: Callable[[Path], object], state: str, folder: Path
) -> None:
    """Case 28."""
    spoil(folder / name)
    with pytest.raises(StoreError) as caught:
        open_vector_store(folder, IDENTITY, REBUILD)
    assert str(caught.value) == f"{folder / name} {state}; {REBUILD}"


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(VECTOR_FILES), where=st.floats(0, 1, exclude_max=True), flip=st.integers(0, 255))
def test_a_file_that_differs_at_any_byte_is_refused(
    name: str, where: float, flip: int, kept: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Case 28: cut at any byte (flip 0), or another byte there."""
    folder = tmp_path_factory.mktemp("any") / "store"
    shutil.copytree(kept, folder)
    content = bytearray((folder / name).read_bytes())
    place = int(where * len(content))
    content[place:] = bytes([content[place] ^ flip]) + content[place + 1 :] if flip else b""
    (folder / name).write_bytes(content)
    with pytest.raises(StoreError) as caught:
        open_vector_store(folder, IDENTITY, REBUILD)
    assert str(caught.value) == f"{folder / name} is damaged; {REBUILD}"
    assert (name in TOKEN_FILES) == _refused(folder)


def _refused(folder: Path) -> bool:
    try:
        open_token_store(folder, IDENTITY, REBUILD)
    except StoreError:
        return True
    return False


def test_a_manifest_cut_at_any_byte_is_refused(folder: Path) -> None:
    """Case 28."""
    path = folder / MANIFEST_FILE
    content = path.read_text()
    for size in range(len(content) - 1):  # The last byte is the end of the line.
        path.write_text(content[:size])
        with pytest.raises(StoreError) as caught:
            open_vector_store(folder, IDENTITY, REBUILD)
        assert str(caught.value) == f"{path} is damaged; {REBUILD}"


@pytest.mark.parametrize("name", [*VECTOR_FILES, MANIFEST_FILE])
def test_a_file_of_another_build_is_noticed(name: str, folder: Path, tmp_path: Path) -> None:
    """Case 28: the companion of another build is swapped in."""
    other = saved(tmp_path / "other", 1)
    assert (other / name).read_bytes() != (folder / name).read_bytes()
    shutil.copy(other / name, folder / name)
    with pytest.raises(StoreError, match="is damaged"):
        open_vector_store(folder, IDENTITY, REBUILD)


@pytest.mark.parametrize("key", IDENTITY)
def test_a_store_of_something_else_is_refused_by_name(key: str, folder: Path) -> None:
    message = rf"was built for another {key} \(store: {IDENTITY[key]}, run: other\); {REBUILD}"
    for open_store in (open_vector_store, open_token_store):
        with pytest.raises(StoreError, match=message):
            open_store(folder, {**IDENTITY, key: "other"}, REBUILD)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no datastore in"),
        ("", "manifest.json is damaged"),
        ('{"format": 2, "iden', "manifest.json is damaged"),
        ("[]", "is no datastore manifest"),
        ("{}", "is no datastore manifest"),
        ('{"format": 1, "identity": {}, "sha256": {}}', "has format 1, this version reads 2"),
        ('{"format": 2, "kind": "tokens", "identity": {}, "sha256": {}}', "manifest.json is damaged"),
        ('{"format": 2, "kind": "vectors", "identity": [], "sha256": []}', "manifest.json is damaged"),
        ('{"format": 2, "kind": "other", "identity": {}, "sha256": {}}', "manifest.json is damaged"),
        ('{"format": 2, "kind": ["tokens"], "identity": {}, "sha256": {}}', "manifest.json is damaged"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(content: str | None, message: str, folder: Path) -> None:
    path = folder / MANIFEST_FILE
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreError, match=message) as caught:
        open_vector_store(folder, IDENTITY, REBUILD)
    assert REBUILD in str(caught.value)

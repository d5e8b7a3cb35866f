from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from primitives.datastores.hidden_state_store import FILES, HiddenStateStore
from primitives.datastores.manifest import MANIFEST_FILE, StoreError, open_store, save_store
from primitives.datastores.store_builder import StoreBuilder

IDENTITY = {"model": "m1", "tokenizer": "t1", "layer": "final", "dtype": "float32", "corpus": "c1"}
REBUILD = "python -m scripts.prepare method=sense builds one"


def store(seed: int) -> HiddenStateStore:
    rng = np.random.default_rng(seed)
    builder = StoreBuilder(40, 4)
    builder.add(rng.integers(0, 99, 40), rng.normal(size=(40, 8)).astype(np.float32))
    return builder.finish()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(tmp_path / "store", 0)


def saved(folder: Path, seed: int) -> Path:
    folder.mkdir()
    save_store(store(seed), folder, IDENTITY, {"prompts": ["a", "b"], "seconds": 1.5})
    return folder


def test_a_whole_store_is_opened(folder: Path) -> None:
    opened = open_store(folder, IDENTITY, REBUILD)
    assert len(opened) == 40
    assert opened.tokens.tolist() == store(0).tokens.tolist()
    assert len(opened.fingerprint) == 64
    facts = json.loads((folder / MANIFEST_FILE).read_text())["facts"]
    assert facts == {"prompts": ["a", "b"], "seconds": 1.5, "keys": 40, "index": "IndexFlatIP"}


def test_the_fingerprint_is_that_of_the_content(folder: Path, tmp_path: Path) -> None:
    prints = [
        open_store(place, IDENTITY, REBUILD).fingerprint
        for place in (folder, saved(tmp_path / "same", 0), saved(tmp_path / "other", 1))
    ]
    assert prints[0] == prints[1] != prints[2]


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
@pytest.mark.parametrize("name", FILES)
def test_a_spoilt_file_is_named_with_the_command_that_rebuilds(
    name: str, spoil: Callable[[Path], object], state: str, folder: Path
) -> None:
    spoil(folder / name)
    with pytest.raises(StoreError) as caught:
        open_store(folder, IDENTITY, REBUILD)
    assert str(caught.value) == f"{folder / name} {state}; {REBUILD}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_build_is_noticed(name: str, folder: Path, tmp_path: Path) -> None:
    other = saved(tmp_path / "other", 1)
    if (other / name).read_bytes() == (folder / name).read_bytes():
        assert name == "offsets.npy"  # Two stores with documents of the same lengths share this one.
        return
    shutil.copy(other / name, folder / name)
    with pytest.raises(StoreError, match="is damaged"):
        open_store(folder, IDENTITY, REBUILD)


@pytest.mark.parametrize("key", IDENTITY)
def test_a_store_of_something_else_is_refused_by_name(key: str, folder: Path) -> None:
    message = rf"was built for another {key} \(store: {IDENTITY[key]}, run: other\); {REBUILD}"
    with pytest.raises(StoreError, match=message):
        open_store(folder, {**IDENTITY, key: "other"}, REBUILD)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no datastore in"),
        ("", "manifest.json is damaged"),
        ('{"format": 1, "iden', "manifest.json is damaged"),
        ("[]", "is no datastore manifest"),
        ("{}", "is no datastore manifest"),
        ('{"format": 0, "identity": {}, "sha256": {}}', "has format 0, this version reads 1"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused(content: str | None, message: str, folder: Path) -> None:
    path = folder / MANIFEST_FILE
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(StoreError, match=message) as caught:
        open_store(folder, IDENTITY, REBUILD)
    assert REBUILD in str(caught.value)

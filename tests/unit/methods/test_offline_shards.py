"""A build shared among jobs comes to the bytes of a build by one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from methods.offline import merge_shards, prepare
from methods.pipeline import load_pipeline
from methods.settings import compose
from scripts.launch import Launch
from scripts.prepare import offline_stage, put_together
from tests.unit.methods.building import METHOD, build, changed, contents, folder_of, stores_in, watch

Words = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Undo Hydra's logging configuration."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:], root.level = handlers, level


@pytest.mark.parametrize("shards", [2, 3, 5])
@pytest.mark.parametrize("backwards", [False, True])
def test_shards_in_any_order_come_to_the_same_bytes(
    shards: int, backwards: bool, words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(changed(words(METHOD), f"cache_dir={tmp_path / 'whole' / 'cache'}"))
    order = range(shards)[::-1] if backwards else range(shards)
    jobs = [compose(words(METHOD, f"datastore.shards={shards}", f"datastore.shard={shard}")) for shard in order]
    for job in jobs:
        assert prepare(job) is None
        assert stores_in(tmp_path) == []
    # Nothing is left to be asked of the model, which is not even loaded.
    monkeypatch.setattr("methods.offline.stage.loaded_model", lambda _settings: pytest.fail("a model is loaded"))
    (store,) = merge_shards(jobs)
    assert store.folder == folder_of(tmp_path)
    assert contents(store.folder) == contents(folder_of(tmp_path / "whole"))
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


def test_a_shard_does_its_own_batches_only(words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watch(monkeypatch)
    prepare(compose(words("rest", "datastore.shards=3", "datastore.shard=1")))
    assert watched["greedy_answers"].calls == 1
    (work,) = (tmp_path / "cache" / "builds").iterdir()
    assert sorted(file.name for file in work.iterdir() if file.is_file()) == ["00001.json", "00001.tokens.npy"]
    prepare(compose(words("rest", "datastore.shards=3", "datastore.shard=1")))
    assert watched["greedy_answers"].calls == 1


def test_a_merge_with_a_shard_missing_does_it_first(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(compose(words("rest", "datastore.shards=3", "datastore.shard=0")))
    watched = watch(monkeypatch)
    assert len(build(words("rest"))) == 72
    assert watched["greedy_answers"].calls == 2


def test_a_sweep_over_shards_puts_the_store_together(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(changed(words(METHOD), f"cache_dir={tmp_path / 'whole' / 'cache'}"))
    sweep = [*words(METHOD), "datastore.shards=2", "datastore.shard=range(2)"]
    monkeypatch.setattr(sys, "argv", ["prepare.py", "-m", *sweep])
    launch = Launch(offline_stage, put_together)
    assert launch() == 0
    (store,) = [result for result in launch.results if result is not None]
    assert contents(store.folder) == contents(folder_of(tmp_path / "whole"))


def test_a_failed_shard_keeps_the_store_from_being_put_together(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["prepare.py", "-m", *words("rest"), "datastore.shards=2", "datastore.shard=0,1"])

    def fails(_settings: object) -> None:
        raise ValueError("a shard cannot be built")

    launch = Launch(fails, put_together)
    assert launch() == 1
    assert stores_in(tmp_path) == []


def test_a_part_of_a_store_decodes_nothing(words: Words) -> None:
    with pytest.raises(
        ValueError, match=r"datastore.shard builds a part of a store and decodes nothing: leave it null"
    ):
        load_pipeline(*words(METHOD, "datastore.shards=2", "datastore.shard=0"))

"""A build that is stopped at any moment, or by a full disk, goes on from what is finished, to the same bytes."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from methods.offline import files
from primitives.datastores.manifest import StoreError
from primitives.datastores.projection import Projection
from primitives.datastores.vector_store import VectorStore
from tests.unit.methods.building import METHOD, Counted, build, changed, contents, folder_of, stores_in, watch
from tests.unit.methods.conftest import small_run

Words = Callable[..., list[str]]
# Three answer files; the projection; tokens, keys and notes of three batches; the manifest; the store's folder.
WRITES = 3 + 1 + 3 * 3 + 1 + 1
FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit the projection on the 24 tokens of one batch, so that the other two have a stage of their own."""
    monkeypatch.setattr("methods.offline.build.PCA_SAMPLE", 20)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_folder: Path, rows_folder: Path) -> dict[str, bytes]:
    """The files of a build that nothing disturbed."""
    place = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("methods.offline.build.PCA_SAMPLE", 20)
        build(small_run(METHOD, tiny_folder, rows_folder, place))
    return contents(folder_of(place))


@pytest.mark.parametrize("moment", range(1, WRITES + 1))
def test_stopped_at_any_file_it_comes_to_the_same_bytes(
    moment: int, whole: dict[str, bytes], words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Counted(os.replace, moment))
        with pytest.raises(KeyboardInterrupt):
            build(words(METHOD))
    assert stores_in(tmp_path) == []
    build(words(METHOD))
    assert contents(folder_of(tmp_path)) == whole
    assert not list((tmp_path / "cache").rglob("*.partial"))


def test_there_are_no_more_files_than_those_it_was_stopped_at(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(os.replace)
    monkeypatch.setattr(os, "replace", counted)
    build(words(METHOD))
    assert counted.calls == WRITES


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("greedy_answers", 1),
        ("greedy_answers", 3),
        ("hidden_states", 1),
        ("hidden_states", 2),
        ("fit", 1),
        ("index_of", 1),
    ],
)
def test_stopped_in_any_stage_it_comes_to_the_same_bytes(
    name: str, call: int, whole: dict[str, bytes], words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        if name == "fit":
            patch.setattr(Projection, "fit", Counted(Projection.fit, call))
        elif name == "index_of":
            patch.setattr("methods.offline.merge.index_of", Counted(lambda: None, call))
        else:
            watch(patch, **{name: call})
        with pytest.raises(KeyboardInterrupt):
            build(words(METHOD))
    assert stores_in(tmp_path) == []
    build(words(METHOD))
    assert contents(folder_of(tmp_path)) == whole


def test_finished_answers_and_keys_are_not_made_again(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        # All answers, the batch of the sample, one of the two others.
        watched = watch(patch, hidden_states=3)
        with pytest.raises(KeyboardInterrupt):
            build(words(METHOD))
        assert watched["greedy_answers"].calls == 3
    watched = watch(monkeypatch)
    build(words(METHOD))
    assert watched["greedy_answers"].calls == 0
    assert watched["hidden_states"].calls == 1
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


def test_seconds_are_added_up_over_all_starts(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        watch(patch, hidden_states=3)
        with pytest.raises(KeyboardInterrupt):
            build(words(METHOD))
    stages = build(words(METHOD)).facts["stages"]
    assert stages.keys() == {"answers", "sample", "fit", "keys", "tokens", "index"}
    assert stages["answers"]["tokens"] == stages["index"]["tokens"] == 72
    assert stages["sample"]["tokens"] + stages["keys"]["tokens"] > 72
    assert all(stage["seconds"] > 0 for stage in stages.values())


def test_what_a_killed_process_left_of_a_published_build_is_cleared_away(words: Words, tmp_path: Path) -> None:
    build(words(METHOD))
    folder = folder_of(tmp_path)
    left = tmp_path / "cache" / "builds" / f"{folder.name}-2"
    left.mkdir()
    (left / "00000.json").write_text("{}")
    (tmp_path / "cache" / "stores" / f".{folder.name}.staging").mkdir()
    assert build(words(METHOD)).folder == folder
    assert not left.exists()


def test_batches_of_another_size_do_not_mix_with_those_that_are_finished(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        watch(patch, hidden_states=2)
        with pytest.raises(KeyboardInterrupt):
            build(changed(words(METHOD), "datastore.batch_size=3"))
    assert len(build(words(METHOD))) == 72
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


@pytest.mark.parametrize("name", ["00001.json", "00001.tokens.npy", "00001.keys.npy", "projection.npz"])
@pytest.mark.parametrize("kept", [0, 0.5])
def test_a_damaged_part_is_named_and_nothing_is_published(
    name: str, kept: float, words: Words, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("methods.offline.merge.save_store", Counted(lambda: None, 1))
        with pytest.raises(KeyboardInterrupt):
            build(words(METHOD))
    (folder,) = (path for path in (tmp_path / "cache" / "builds").iterdir())
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(kept * len(content))])
    with pytest.raises(StoreError, match=rf"{name}, left by an unfinished build, cannot be read .*; delete it, then"):
        build(words(METHOD))
    assert stores_in(tmp_path) == []
    (folder / name).unlink()
    build(words(METHOD))
    assert contents(folder_of(tmp_path)) == whole


def test_damaged_answers_are_named(words: Words, tmp_path: Path) -> None:
    build(words(METHOD))
    (path,) = (tmp_path / "cache" / "answers").rglob("00001.json")
    path.write_text(path.read_text()[:-5])
    with pytest.raises(StoreError, match=r"00001.json, left by an unfinished build, cannot be read"):
        build(changed(words(METHOD), "datastore.pca_dim=4"))


def _full(*_arguments: Any, **_options: Any) -> None:
    raise FULL


def _short(*_arguments: Any) -> None:
    # What numpy says of a full disk: no errno.
    raise OSError("512 requested and 96 written")


@pytest.mark.parametrize(
    ("target", "fault", "part"),
    [
        ("methods.offline.files.os.fsync", _full, r"answers/.*/00000.json: No space left on device; make room"),
        ("methods.offline.files.np.save", _short, r"0000\d.tokens.npy: 512 requested and 96 written; make room, then"),
        ("methods.offline.work.np.savez", _full, r"projection.npz: No space left on device"),
    ],
)
def test_a_full_disk_is_named_and_the_earlier_store_stays_as_it_was(
    target: str,
    fault: Callable[..., None],
    part: str,
    words: Words,
    tmp_path: Path,
    whole: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build(words(METHOD))
    before = folder_of(tmp_path)
    larger = changed(words(METHOD), "datastore.num_prompts=8")
    with monkeypatch.context() as patch:
        patch.setattr(target, fault)
        with pytest.raises(StoreError, match=part):
            build(larger)
    assert stores_in(tmp_path) == [before]
    assert contents(before) == whole
    build(words(METHOD))
    build(larger)
    assert len(stores_in(tmp_path)) == 2


@pytest.mark.parametrize("error", [FULL, RuntimeError("Error in fwrite: No space left on device")])
def test_a_disk_that_is_full_when_the_store_is_saved_leaves_nothing_under_its_name(
    error: Exception, words: Words, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(VectorStore, "save", Counted(lambda: None, 1, error))
        with pytest.raises(StoreError, match=r"cannot write .*staging.*No space left on device; make room, then"):
            build(words(METHOD))
    assert stores_in(tmp_path) == []
    watched = watch(monkeypatch)
    build(words(METHOD))
    assert [counted.calls for counted in watched.values()] == [0, 0]
    assert contents(folder_of(tmp_path)) == whole


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "folder" / "notes.json"
    files.write_json(path, {"a": 1})
    with monkeypatch.context() as patch:
        patch.setattr("methods.offline.files.os.fsync", _full)
        with pytest.raises(StoreError):
            files.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [file.name for file in path.parent.iterdir()] == ["notes.json"]

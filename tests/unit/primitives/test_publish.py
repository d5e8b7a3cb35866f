from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from primitives.publish import published


def test_the_folder_is_built_once_by_whoever_comes_first(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        time.sleep(0.05)
        (folder / "file").write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: published(tmp_path / "a" / "b", build), range(4)))
    assert len(built) == 1
    assert {(folder / "file").read_text() for folder in folders} == {"whole"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_build_leaves_nothing_and_can_be_repeated(tmp_path: Path, error: type[BaseException]) -> None:
    def broken(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise error

    with pytest.raises(error):
        published(tmp_path / "b", broken)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []

    def whole(folder: Path) -> None:
        (folder / "file").write_text("whole")

    published(tmp_path / "b", whole)
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["file"]


def test_what_a_killed_process_left_is_not_published(tmp_path: Path) -> None:
    (tmp_path / ".b.staging").mkdir()
    (tmp_path / ".b.staging" / "half").write_text("half")
    assert list(published(tmp_path / "b", lambda folder: None).iterdir()) == []

"""scripts.prepare as a person types it: jobs in processes of their own, and a process that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.unit.methods.building import METHOD, build, contents, folder_of, stores_in
from tests.unit.methods.conftest import save_model, save_rows, small_run

ROOT = Path(__file__).resolve().parents[2]
SHARDS = ("datastore.shards=2", "datastore.shard=range(2)")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model and rows, and beside them a store that one undisturbed process has built."""
    place = tmp_path_factory.mktemp("prepare")
    (place / "rows").mkdir()
    save_model(place / "tiny", kind="llama")
    save_rows(place / "rows")
    build(words(place, place / "whole"))
    return place


def words(place: Path, out: Path) -> list[str]:
    return small_run(METHOD, place / "tiny", place / "rows", out)


def start(*words: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "scripts.prepare", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    return out


def launched(place: Path, out: Path, *launcher: str) -> None:
    """Build in two jobs, and compare with the store that one process has built."""
    shown = finished(start("-m", *words(place, out), *SHARDS, *launcher))
    assert "size on disk" in shown
    assert contents(folder_of(out)) == contents(folder_of(place / "whole"))


def test_a_killed_build_goes_on_to_the_same_bytes(place: Path, tmp_path: Path) -> None:
    process = start(*words(place, tmp_path))
    deadline = time.monotonic() + 200
    # The first batch of keys is there, the store is not.
    while process.poll() is None and not list((tmp_path / "cache" / "builds").glob("*/*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if stores_in(tmp_path):
        pytest.skip("the build was faster than the kill")
    assert process.returncode == -signal.SIGKILL
    finished(start(*words(place, tmp_path)))
    assert contents(folder_of(tmp_path)) == contents(folder_of(place / "whole"))
    assert list((tmp_path / "cache" / "builds").iterdir()) == []


def test_shards_are_built_by_jobs_under_a_local_ray(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="the extra 'ray' is not installed")
    small = ("+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.init.include_dashboard=false")
    launched(place, tmp_path, "hydra/launcher=ray", *small)


def test_shards_are_built_by_jobs_of_submitit(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="the extra 'submitit' is not installed")
    launched(place, tmp_path, "hydra/launcher=submitit_local")


def test_a_shard_that_fails_is_named_and_nothing_is_published(place: Path, tmp_path: Path) -> None:
    process = start("-m", *words(place, tmp_path), "datastore.layer=9", *SHARDS)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1
    assert err.count("error: datastore.layer=9 does not exist: the model has layers 0 to 1") == 2
    assert stores_in(tmp_path) == []

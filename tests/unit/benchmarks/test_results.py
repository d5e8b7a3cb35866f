import errno
import json
import math
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.results import RunFolder, config_hash, safe_name

ROOT = Path(__file__).resolve().parents[3]
CONFIG = {"method": {"name": "sense"}, "decode": {"seed": 0}, "device": "cpu", "results_dir": "a", "resume": True}
MANIFEST = {"prompts": ["a", "b", "c"], "fingerprints": {"model": "m"}, "device": "cpu", "dtype": "float32"}


def _sample(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "status": "ok", "text": "x", **more}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_folder_names_dataset_model_and_method(tmp_path: Path) -> None:
    path = RunFolder.locate(tmp_path, "gsm8k-mini", "org/name-1.5", "sense", CONFIG).path
    assert path.relative_to(tmp_path) == Path("runs/gsm8k-mini/org_name-1.5") / f"sense-{config_hash(CONFIG)}"


def test_hash_leaves_out_output_options_only() -> None:
    same = {**CONFIG, "results_dir": "b", "cache_dir": "/x", "resume": False}
    assert config_hash(same) == config_hash(CONFIG)
    for change in ({"decode": {"seed": 1}}, {"device": "cuda:0"}, {"method": {"name": "pld"}}):
        assert config_hash({**CONFIG, **change}) != config_hash(CONFIG)


def test_hash_does_not_depend_on_the_order_of_keys() -> None:
    assert config_hash(dict(reversed(CONFIG.items()))) == config_hash(CONFIG)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("../../etc", "etc"),
        ("a, b = {c}% #1", "a_b_c_1"),
        ("\u732b", "_"),
        ("", "_"),
        ("x" * 300, "x" * 60),
        ("..", "_"),
    ],
)
def test_names_of_folders_are_short_and_safe(text: str, name: str) -> None:
    assert safe_name(text) == name


def test_values_that_look_alike_in_a_path_have_folders_of_their_own(tmp_path: Path) -> None:
    names = ("a, b", "a b", "a_b", "a\u00f6b", "a/b", "x" * 300, "x" * 301)
    paths = [RunFolder.locate(tmp_path, "gsm8k", name, "pld", {**CONFIG, "model": name}).path for name in names]
    assert len(set(paths)) == len(paths)
    assert all(len(part) < 100 for path in paths for part in path.relative_to(tmp_path).parts)


def test_samples_come_back_as_they_went_in(folder: RunFolder) -> None:
    sample = _sample("a", text="one\u2028two\x85three\r\n\U0001f600\ud800", ms=1.25, committed=[3, 1], score=None)
    folder.begin(MANIFEST, resume=True)
    folder.append(sample)
    folder.append(_sample("b"))
    assert folder.samples() == [sample, _sample("b")]


def test_numbers_stay_numbers(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(
        _sample("a", count=np.int64(3), ms=np.float32(0.5), ids=np.arange(2), lost=math.nan, all=frozenset({2, 1}))
    )
    assert folder.samples() == [_sample("a", count=3, ms=0.5, ids=[0, 1], lost=None, all=[1, 2])]


@given(st.text(), st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_any_text_and_number_survives(text: str, numbers: list[float]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        folder.append(_sample("a", text=text, numbers=numbers))
        folder.append(_sample("b"))
        assert folder.samples() == [_sample("a", text=text, numbers=numbers), _sample("b")]


def test_a_torn_run_is_resumed_from_every_cut(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    for name in "abc":
        folder.append(_sample(name, text="e\u0301\u2028"))
    whole = (folder.path / "samples.jsonl").read_bytes()
    for cut in range(len(whole) + 1):
        (folder.path / "samples.jsonl").write_bytes(whole[:cut])
        kept = folder.begin(MANIFEST, resume=True)
        assert [sample["id"] for sample in kept] == list("abc"[: whole[:cut].count(b"\n")])
        for name in "abc"[len(kept) :]:
            folder.append(_sample(name, text="e\u0301\u2028"))
        assert (folder.path / "samples.jsonl").read_bytes() == whole


def test_failed_prompts_are_run_again(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a"))
    folder.append({"id": "b", "status": "failed"})
    assert [sample["id"] for sample in folder.begin(MANIFEST, resume=True)] == ["a"]
    assert [sample["id"] for sample in folder.samples()] == ["a"]


def test_without_resume_nothing_is_kept(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a"))
    folder.finish({"failed": 0})
    assert folder.begin({**MANIFEST, "dtype": "bfloat16"}, resume=False) == []
    assert folder.samples() == []
    assert folder.summary() is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"fingerprints": {"model": "other"}}, "fingerprints"),
        ({"device": "cuda:0", "dtype": "bfloat16"}, "device and dtype"),
        ({"prompts": ["a"]}, "prompts"),
    ],
)
def test_a_run_of_other_things_is_not_continued(folder: RunFolder, change: dict[str, Any], named: str) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a"))
    folder.finish({"failed": 0})
    for again in (lambda m: folder.begin(m, resume=True), folder.finished):
        with pytest.raises(ValueError, match=f"holds a run with other {named}; set resume=false"):
            again({**MANIFEST, **change})
    assert folder.samples() == [_sample("a")]


def test_only_a_run_without_failures_counts_as_finished(folder: RunFolder) -> None:
    assert folder.finished(MANIFEST) is None
    folder.begin(MANIFEST, resume=True)
    assert folder.finished(MANIFEST) is None
    folder.finish({"failed": 1})
    assert folder.finished(MANIFEST) is None
    folder.finish({"failed": 0})
    for name in "abc":
        assert folder.finished(MANIFEST) is None  # lines have been lost
        folder.append(_sample(name))
    assert folder.finished(MANIFEST) == {"failed": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": "a"}\n{"id": \n{"id": "c"}\n', "line 2 is damaged"),
        (b'{"id": "a"}\n[1]\n', "line 2 is no sample"),
        (b'{"id": "a"}\n{"id": "a"}\n', "holds a prompt twice"),
    ],
)
def test_damage_is_named_with_the_way_out(folder: RunFolder, content: bytes, message: str) -> None:
    folder.path.mkdir()
    (folder.path / "samples.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=rf"{message}; delete .*run and run again"):
        folder.samples()


def test_a_write_that_fails_leaves_the_old_file(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.finish({"failed": 0})

    class Unwritable:
        def __str__(self) -> str:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.finish({"failed": Unwritable()})
    assert json.loads((folder.path / "summary.json").read_text()) == {"failed": 0}


def test_no_partial_file_is_left(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a"))
    folder.finish({"failed": 0})
    assert sorted(path.name for path in folder.path.iterdir()) == ["manifest.json", "samples.jsonl", "summary.json"]


@pytest.fixture
def limited() -> Iterator[Callable[[int], None]]:
    """Return a function that lets no file grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_line_that_does_not_fit_leaves_no_trace(folder: RunFolder, limited: Callable[[int], None]) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a", text="\U0001f600\u2028\x85"))
    whole = (folder.path / "samples.jsonl").read_bytes()
    limited(len(whole) + 20)
    with pytest.raises(OSError, match=r"samples.jsonl cannot be written: .*what was finished is kept") as raised:
        folder.append(_sample("b", text="x" * 50))
    assert raised.value.errno == errno.EFBIG
    assert (folder.path / "samples.jsonl").read_bytes() == whole
    limited(resource.RLIM_INFINITY)
    assert folder.begin(MANIFEST, resume=True) == [_sample("a", text="\U0001f600\u2028\x85")]


def test_a_file_that_does_not_fit_leaves_the_old_one_and_no_partial_one(
    folder: RunFolder, limited: Callable[[int], None]
) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.finish({"failed": 0})
    limited(20)
    with pytest.raises(OSError, match=r"summary.json cannot be written"):
        folder.finish({"failed": 0, "note": "x" * 50})
    limited(resource.RLIM_INFINITY)
    assert folder.summary() == {"failed": 0}
    assert not list(folder.path.glob("*.partial"))


FILL_UP = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from benchmarks.results import RunFolder

place = Path(sys.argv[2])
folder = RunFolder(place / "run")
manifest = {"prompts": [], "fingerprints": {}, "device": "cpu", "dtype": "float32"}
folder.begin(manifest, resume=True)
(place / "other").write_bytes(b"x" * 100_000)
written = 0
try:
    while True:
        folder.append({"id": str(written), "status": "ok", "text": "\u2028\U0001f600" * 300})
        written += 1
except OSError as error:
    print(error.strerror)
assert len(folder.samples()) == written > 5
(place / "other").unlink()
assert len(folder.begin(manifest, resume=True)) == written
folder.append({"id": "more", "status": "ok"})
assert [sample["id"] for sample in folder.samples()][-2:] == [str(written - 1), "more"]
"""


def test_a_disk_that_fills_up_costs_nothing_that_was_finished(tmp_path: Path) -> None:
    mount = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    full = 'mount -t tmpfs -o size=256k tmpfs "$1" && exec "$2" -c "$3" "$4" "$1"'
    if shutil.which("unshare") is None or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no disk of its own can be mounted here")
    arguments = ["sh", str(tmp_path), sys.executable, FILL_UP, str(ROOT)]
    done = subprocess.run([*mount, full, *arguments], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert (
        "samples.jsonl cannot be written: the disk is full; what was finished is kept, free some space" in done.stdout
    )


def test_half_a_surrogate_pair_is_read_as_it_was_written(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a", text="cut \ud83d"))
    assert [sample["text"] for sample in folder.read()] == ["cut \ud83d"]


def test_a_line_is_ascii_whatever_is_in_it(folder: RunFolder) -> None:
    folder.begin(MANIFEST, resume=True)
    folder.append(_sample("a", text="\u2028\x85\U0001f600", ms=math.nan))
    content = (folder.path / "samples.jsonl").read_bytes()
    assert content.isascii()
    assert len(content.decode().splitlines()) == 1

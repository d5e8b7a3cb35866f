from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from methods import overrides
from methods.overrides import launcher
from methods.schema import CONF_DIR, Settings
from methods.settings import compose
from scripts.estimate import estimate
from scripts.preflight import preflight
from tests.unit.methods.conftest import save_model

Job = Callable[..., Settings]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    def make(*words: str) -> Settings:
        own = [f"cache_dir={tmp_path / 'cache'}", f"results_dir={tmp_path / 'results'}", "device=cpu", "dtype=float32"]
        chosen = {word.partition("=")[0] for word in words}
        return compose([*(word for word in own if word.partition("=")[0] not in chosen), *words])

    return make


def test_good_jobs_have_no_problem_and_leave_nothing(job: Job, tmp_path: Path) -> None:
    assert list(preflight([job("method=pld"), job("method=vanilla", "dataset=triviaqa")], [])) == []
    assert list(tmp_path.iterdir()) == []


def test_every_problem_is_found_at_once(job: Job, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "test.jsonl").write_text('{"ask": "1 + 1?"}\n')
    jobs = [
        job("method=pld", f"dataset.path={rows}", "dataset.num_samples=1"),
        job("method=vanilla", "dataset.num_samples=100000"),
        job("method=pld", "mode=replay"),
        job("method=pld", "results_dir=/proc/nowhere"),
    ]
    found = list(preflight(jobs, ["-m", "hydra/launcher=joblib"]))
    expected = (
        "hydra/launcher=joblib runs jobs side by side",
        "results_dir is '/proc/nowhere', where nothing can be written",
        "has no column 'question'",
        "dataset.num_samples is 100000",
        "mode=replay needs a recording",
    )
    assert [sum(part in sentence for sentence in found) for part in expected] == [1] * len(expected)
    assert any("mode=replay, or leave the launcher out" in sentence for sentence in found)


def test_replays_may_run_side_by_side(job: Job) -> None:
    found = list(preflight([job("method=pld", "mode=replay")], ["-m", "hydra/launcher=joblib"]))
    assert not any("launcher" in sentence for sentence in found)
    assert launcher(["-m", "method=pld,sam"]) == "basic"


def test_a_launcher_that_an_experiment_chooses_is_seen(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(CONF_DIR, conf)
    (conf / "experiment" / "aside.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /hydra/launcher: aside\n"
    )
    (conf / "hydra" / "launcher").mkdir()
    (conf / "hydra" / "launcher" / "aside.yaml").write_text("_target_: nowhere.Aside\n")
    monkeypatch.setattr(overrides, "CONF_DIR", conf)
    words = ["-m", "experiment=aside", "method=pld,sam"]
    assert launcher(words) == "aside"
    found = list(preflight([job("method=pld")], words))
    assert any("hydra/launcher=aside runs jobs side by side" in sentence for sentence in found)


def test_a_full_disk_is_seen_before_the_first_job(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 2**20

    monkeypatch.setattr("shutil.disk_usage", lambda place: Usage)
    jobs = [job("method=pld", "dataset.num_samples=16")] * 2 + [job("method=pld", f"results_dir={tmp_path / 'b'}")]
    (found,) = preflight(jobs, [])
    assert found.startswith(f"the disk of {tmp_path} has 1 MB free, and samples and stores may take 2 MB")
    save_model(tmp_path / "tiny", kind="llama")
    with_store = job("method=sense", "dataset.num_samples=1", f"model.path={tmp_path / 'tiny'}")
    other = replace(with_store, verifier={"name": "exact"})
    (found,) = preflight([with_store, with_store, other], [])
    assert "may take 67 MB" in found  # 512 answers of 256 tokens, each once


def test_one_problem_hides_no_other(job: Job) -> None:
    jobs = [job("method=pld", "verifier.k=2", "verifier=soft_gated", "results_dir=/proc/nowhere", "decode.top_p=7")]
    found = list(preflight([*jobs, job("method=vanilla", "dataset.num_samples=100000")], []))
    assert sum("results_dir is '/proc/nowhere'" in sentence for sentence in found) == 1
    assert sum("dataset.num_samples is 100000" in sentence for sentence in found) == 1


def test_weights_that_do_not_fit_into_memory_are_seen(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(tmp_path / "tiny", kind="llama")
    jobs = [job("method=pld", f"model.path={tmp_path / 'tiny'}", f"dtype={dtype}") for dtype in ("float32", "bfloat16")]
    numbers = sum(tensor.numel() for tensor in load_file(tmp_path / "tiny" / "model.safetensors").values())
    monkeypatch.setattr("methods.memory.free_mb", lambda device: numbers * 3 / 2**20)
    (found,) = preflight([*jobs, *jobs], [])
    assert found.startswith("the weights of tiny take ")
    assert found.endswith(" MB free: choose a smaller model or dtype=bfloat16")
    with_draft = job("method=sps", *(f"{key}={tmp_path / 'tiny'}" for key in ("model.path", "draft_model")))
    monkeypatch.setattr("methods.memory.free_mb", lambda device: numbers * 4 / 2**20)
    assert list(preflight([with_draft], [])) == []  # the weights are shared


def test_constants_are_missed_for_each_draft_model(job: Job, tmp_path: Path) -> None:
    for name, kind in (("tiny", "llama"), ("other", "qwen2")):
        save_model(tmp_path / name, kind=kind)
    words = ("method=sps", "verifier=easd", f"model.path={tmp_path / 'tiny'}")
    found = list(preflight([job(*words, f"draft_model={tmp_path / name}") for name in ("tiny", "other")], []))
    assert [sum(f"draft_model={tmp_path / name} " in one for one in found) for name in ("tiny", "other")] == [1, 1]
    assert all(one.startswith("verifier 'easd' needs theta_d, theta_t for model 'tiny'") for one in found)


def test_damaged_weights_are_seen(job: Job, tmp_path: Path) -> None:
    save_model(tmp_path / "tiny", kind="llama")
    (tmp_path / "tiny" / "model.safetensors").write_bytes(b"nothing")
    (found,) = preflight([job("method=pld", f"model.path={tmp_path / 'tiny'}")], [])
    assert found.startswith(f"weights in '{tmp_path / 'tiny'}' are damaged (")


def test_the_time_is_told_from_finished_runs(job: Job, tmp_path: Path) -> None:
    jobs = [job("method=pld", "dataset.num_samples=60"), job("method=vanilla", "dataset.num_samples=60")]
    assert estimate(jobs) == "2 jobs: how long they take can be told after the first finished run of smollm2-135m"
    run = tmp_path / "results" / "runs" / "gsm8k" / "smollm2-135m" / "pld-0"
    run.mkdir(parents=True)
    (run / "manifest.json").write_text(json.dumps({"device": "cpu", "dtype": "float32", "method": "pld"}))
    (run / "summary.json").write_text(json.dumps({"ms_per_token": {"method": 20.0, "baseline": 40.0}}))
    damaged = shutil.copytree(run, run.with_name("pld-1"))
    (damaged / "summary.json").write_text("{")
    assert (
        estimate(jobs) == "2 jobs: about 13 min of decoding by finished runs; loading, stores and warm-up come on top"
    )

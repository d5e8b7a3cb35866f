from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from huggingface_hub import HfApi
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from methods.schema import Settings
from scripts.launch import Launch


@pytest.fixture(autouse=True)
def _root_logger() -> Iterator[None]:
    """Undo Hydra's logging configuration."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    for handler in set(root.handlers) - set(handlers):
        handler.close()
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Launch[str]]:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "0")

    def make(job: Callable[[Settings], str], *words: str) -> Launch[str]:
        monkeypatch.setattr(sys, "argv", ["run.py", *words, f"results_dir={tmp_path}"])
        return Launch(job)

    return make


def seed(settings: Settings) -> str:
    if settings.decode.seed == 1:
        raise ValueError("decode.seed is 1; it must be another one")
    if settings.decode.seed == 3:
        raise RuntimeError("a fault")
    if settings.decode.seed == 4:
        raise KeyboardInterrupt
    return f"seed {settings.decode.seed}"


def test_a_job_returns_its_result_and_leaves_a_log(launch: Callable[..., Launch[str]], tmp_path: Path) -> None:
    run = launch(seed, "method=pld")
    assert run() == 0
    assert run.results == ["seed 0"]
    assert list(tmp_path.glob("hydra/*/*/run.log"))


def test_a_failed_job_ends_with_its_sentence_and_the_traceback_in_the_log(
    launch: Callable[..., Launch[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = launch(seed, "method=pld", "decode.seed=1")
    assert run() == 1
    assert capsys.readouterr().err == "error: decode.seed is 1; it must be another one\n"
    (log,) = tmp_path.glob("hydra/*/*/run.log")
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_a_fault_of_the_program_names_its_kind_and_the_log(
    launch: Callable[..., Launch[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(seed, "method=pld", "decode.seed=3")() == 1
    said = capsys.readouterr().err
    assert said.startswith("error: RuntimeError: a fault (traceback in ")
    assert said.rstrip().endswith("run.log)")


def test_a_sweep_goes_on_after_a_failed_job(
    launch: Callable[..., Launch[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = launch(seed, "-m", "method=pld", "decode.seed=0,1,2")
    assert run() == 1
    assert run.results == ["seed 0", "seed 2"]
    (failure,) = run.failures
    assert (failure.reason, failure.settings.decode.seed) == ("decode.seed is 1; it must be another one", 1)
    assert failure.log is not None
    assert "Traceback" in Path(failure.log).read_text(encoding="utf-8")
    logs = sorted(tmp_path.glob("hydra/*/*/*/run.log"))
    assert ["Traceback" in log.read_text(encoding="utf-8") for log in logs] == [False, True, False]
    assert "Traceback" not in capsys.readouterr().err


def test_a_bad_value_anywhere_in_a_sweep_stops_it_before_the_first_job(
    launch: Callable[..., Launch[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = launch(seed, "-m", "method=pld", "decode.max_new_tokens=8,0", "datastore.num_prompts=0")
    assert run() == 2
    assert run.results == []
    assert capsys.readouterr().err.splitlines() == [
        "error: datastore.num_prompts is 0; it must be at least 1",
        "error: decode.max_new_tokens is 0; it must be at least 1",
    ]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_metric_is_refused_before_the_first_job(
    launch: Callable[..., Launch[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(seed, "method=pld", "dataset.metric=rogue_l")() == 2
    assert "did you mean 'rouge_l'?" in capsys.readouterr().err


def test_ctrl_c_says_that_nothing_is_lost(
    launch: Callable[..., Launch[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch(seed, "-m", "method=pld", "decode.seed=0,4,2")() == 130
    assert capsys.readouterr().err.startswith("error: interrupted: what was finished is kept")


def test_a_sweep_can_stop_at_the_first_failure(
    launch: Callable[..., Launch[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    run = launch(seed, "-m", "method=pld", "decode.seed=0,1,2,5", "stop_at_first_failure=true")
    assert run() == 1
    assert run.results == ["seed 0"]
    assert [failure.skipped for failure in run.failures] == [False, True, True]
    assert "not run: another job failed" in run.failures[-1].reason
    assert capsys.readouterr().err == "error: decode.seed is 1; it must be another one\n"


def test_what_the_preflight_finds_is_printed_with_the_rest(
    launch: Callable[..., Launch[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    run = launch(seed, "-m", "method=pld", "decode.max_new_tokens=0,8")
    run._preflight = lambda jobs, words: [f"{len(jobs)} jobs are too many"]
    assert run() == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: decode.max_new_tokens is 0; it must be at least 1",
        "error: 2 jobs are too many",
    ]


def hub(_api: HfApi, name: str) -> None:
    """Answer as the hub would whether a model may be fetched."""
    if name == "org/gated":
        raise GatedRepoError("403", response=Mock())
    if name == "org/typing-eror":
        raise RepositoryNotFoundError("404", response=Mock())
    raise ConnectionError("no route to host")


def test_every_model_and_device_that_cannot_be_had_is_told_before_the_first_job(
    launch: Callable[..., Launch[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(HfApi, "auth_check", hub)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    swept = ("model.hub_id=org/gated,org/typing-eror,org/far", "model.embedded=false", "method=sps")
    assert launch(seed, "-m", *swept, "draft_model=smollm2-135m", "device=cpu")() == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3  # each target is missed, none of them the draft model, which is there
    for line, part in zip(
        said, ("'org/gated' is gated: accept its licence", "is not on the hub", "no route"), strict=True
    ):
        assert part in line
    assert launch(seed, "-m", "model.path=/no/such,/nor/this", "device=cuda", "dtype=float16")() == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "which does not exist" in line] == [
        f"error: model.path is '{path}', which does not exist: give a model folder or a .gguf file"
        for path in ("/no/such", "/nor/this")
    ]
    assert sum("sees no CUDA GPU here; set device=cpu or auto" in line for line in said) == 1
    assert sum("dtype 'float16' cannot be used on a CPU" in line for line in said) == 1
    assert list(tmp_path.iterdir()) == []

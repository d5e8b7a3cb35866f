"""Searches of a tiny model, through the command in this process and through the search itself."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.runner import Outcome
from benchmarks.study import Found, search
from benchmarks.together import Together
from methods.overrides import compose
from methods.schema import Settings
from scripts import tune
from tests.unit.methods.conftest import save_small, small_run

pytest.importorskip("optuna", reason="the extra 'tune' is not installed")

SPACE = "tune.space={verifier.theta_e: [0.01, 0.6], verifier.k: [1, 8], verifier.border: [match, mismatch, valid]}"
# A random model gives no right answer, and may well give plain decoding's.
LOOSE = (SPACE, "tune.trials=3", "tune.constraint=identical_share", "tune.min_quality=0")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune")
    save_small(folder)
    return folder


@pytest.fixture
def words(place: Path, tmp_path: Path) -> list[str]:
    return [*small_run("pld", place / "tiny", place / "rows", tmp_path), "verifier=soft_gated"]


@pytest.fixture
def command(words: list[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*own: str) -> int:
        monkeypatch.setattr(sys, "argv", ["tune", *words, *own])
        return tune.main()

    return run


def _runs(place: Path) -> set[Path]:
    return set(place.glob("results/runs/*/*/*/summary.json"))


def _searched(words: list[str], job: Callable[[Settings], Outcome], *own: str) -> Found:
    return search(compose([*words, *LOOSE, *own]), words, job, Console(file=io.StringIO()))


def _knobs(settings: Settings) -> dict[str, Any]:
    return {key: settings.verifier[key] for key in ("theta_e", "k", "border")}


def test_a_search_ends_with_a_command_that_repeats_its_best_run(
    command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*LOOSE) == 0
    shown = capsys.readouterr().out
    assert "best of 3 trials, of which 3 keep identical_share >= 0: speedup " in shown
    assert "], identical_share " in shown
    assert "n=2\n" in shown
    runs = _runs(tmp_path)
    assert 1 <= len(runs) <= 3
    (line,) = [line for line in shown.splitlines() if line.startswith("python run.py ")]
    assert Together()(compose(shlex.split(line)[2:])).reused
    assert command(*LOOSE, "tune.trials=4") == 0
    shown = capsys.readouterr().out
    assert "trial 4 of 4" in shown
    assert "trial 3 of 4" not in shown


def test_a_search_that_was_stopped_goes_on_with_the_same_trials(words: list[str], tmp_path: Path) -> None:
    together, asked = Together(), []

    def watched(settings: Settings) -> Outcome:
        asked.append(_knobs(settings))
        return together(settings)

    def stopped(settings: Settings) -> Outcome:
        if len(asked) == 1:
            asked.append(_knobs(settings))
            raise KeyboardInterrupt
        return watched(settings)

    _searched(words, watched)
    whole = asked.copy()
    assert len(whole) == 3
    assert len({str(knobs) for knobs in whole}) == 3
    asked.clear()
    elsewhere = [word for word in words if "results_dir" not in word] + [f"results_dir={tmp_path / 'other'}"]
    with pytest.raises(KeyboardInterrupt):
        _searched(elsewhere, stopped)
    assert asked == whole[:2]
    found = _searched(elsewhere, watched)
    assert asked == [whole[0], whole[1], whole[1], whole[2]]
    assert found.trials == 3


def test_the_fastest_that_keeps_enough_is_found(words: list[str]) -> None:
    """The figures are made up here: the looser the gate, the faster, and above 0.3 too much is lost."""
    real = Together()(compose(words))

    def made_up(settings: Settings) -> Outcome:
        theta = settings.verifier["theta_e"]
        speedup = {"value": 2 - theta, "low": 1.0, "high": 2.0}
        return Outcome(real.folder, real.manifest, {**real.summary, "speedup": speedup, "identical_share": theta})

    found = _searched(words, made_up, "tune.trials=20", "tune.min_quality=0.3")
    assert 0.3 <= found.figures["kept"] < 0.4
    assert found.figures["speedup"]["value"] == pytest.approx(2 - found.figures["kept"])
    assert 0 < found.allowed < found.trials == 20


def test_a_search_without_a_trial_that_keeps_enough_says_how_close_it_came(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*LOOSE, "tune.trials=2", "tune.min_quality=1.5") == 1
    said = capsys.readouterr().err
    assert "none of 2 trials keeps identical_share >= 1.5; the closest has " in said
    assert "lower tune.min_quality" in said


def test_quality_without_a_value_is_one_sentence(
    command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(SPACE) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "tune.constraint=quality has no value here, as plain decoding scores 0: take other prompts or" in said
    assert "tune.constraint=distinct_4 or identical_share" in said


def test_distinct_4_is_a_ratio(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    own = ("tune.space={verifier.theta_e: [1.0, 0.9, 0.95]}", "tune.trials=1", "tune.constraint=distinct_4")
    assert command(*own) == 0
    assert "keep distinct_4 >= 0.98" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ((), ["tune.space is None; it must name knobs"]),
        (
            (
                "tune.space={verifier.window_size: [1, 8], verifier.k: 3, verifier.w: [8, 1], decode.seed: [1, 2]}",
                "dataset.metric=null",
            ),
            [
                "unknown key 'verifier.window_size'",
                "verifier.k is 3; it must be [low, high], or a list",
                "the first end of a range must be below the second",
                "decode.seed is no knob of a method",
                "tune.constraint is quality, and dataset 'gsm8k' has no metric",
            ],
        ),
        (
            (
                "tune.space={verifier.k: [0, 8], verifier.border: [match, same]}",
                "tune.trials=0",
                "tune.seed=-1",
                "tune.min_quality=-1",
                "tune.constraint=accuracy",
                "mode=replay",
            ),
            [
                "tune.space: verifier 'soft_gated'",
                "tune.trials is 0",
                "tune.seed is -1",
                "tune.min_quality is -1",
                "tune.constraint is 'accuracy'; it must be one of quality,",
                "mode is replay, and a search needs times",
            ],
        ),
        ((SPACE, "tune.trial=3"), ["unknown key 'tune.trial'"]),
        ((SPACE, "hydra.mode=MULTIRUN", "decode.max_new_tokens=8,16"), ["a search has one method, model and data set"]),
    ],
)
def test_words_that_cannot_work_are_refused_before_a_model_loads(
    command: Callable[..., int],
    own: tuple[str, ...],
    said: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tune, "search", lambda *given: pytest.fail("it was searched"))
    assert command(*own) == 2
    shown = capsys.readouterr().err
    assert [part for part in said if part not in shown] == []
    assert "Traceback" not in shown
    assert not _runs(tmp_path)

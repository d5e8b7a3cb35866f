"""Constants of a target: where they lie, what a run says without them, and how they are measured and kept."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora.example import Example
from methods import pipeline as pipeline_module
from methods.calibration import stage
from methods.calibration.arc import ArcRecipe
from methods.calibration.files import Calibration, CalibrationError, check_calibration
from methods.calibration.recipe import Arrays, Bench
from methods.calibration.recipes import RECIPES
from methods.calibration.stage import calibrate
from methods.pipeline import assemble
from methods.settings import compose
from primitives.registry import VERIFIERS

Words = Callable[..., list[str]]
SMALL = ("verifier=arc", "calibration.num_prompts=4", "calibration.positions=5", "calibration.max_new_tokens=8")


def changed(words: list[str], *changes: str) -> list[str]:
    """Return words with others in the place of those with the same key."""
    keys = {change.split("=")[0] for change in changes}
    return [word for word in words if word.split("=")[0] not in keys] + list(changes)


def measured(words: list[str]) -> Calibration:
    return calibrate(compose(words), {})


class Counted:
    """Stands in the place of what measures a prompt: counts its calls, and fails at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int | None = None) -> None:
        self.calls = 0
        self.fails_at = fails_at
        inner = ArcRecipe.meter
        monkeypatch.setattr(ArcRecipe, "meter", lambda recipe, bench: self.around(inner(recipe, bench)))

    def around(self, meter: Callable[[Example], Arrays]) -> Callable[[Example], Arrays]:
        def counted(example: Example) -> Arrays:
            self.calls += 1
            if self.calls == self.fails_at:
                raise KeyboardInterrupt
            return meter(example)

        return counted


def test_every_verifier_that_takes_constants_has_a_recipe_for_them() -> None:
    taking = {name for name in VERIFIERS.names() if VERIFIERS.asks_for(name, "calibration")}
    assert RECIPES.keys() == taking


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_the_level_of_a_recipe_is_a_setting_of_its_verifier(name: str) -> None:
    settings = compose([f"verifier={name}"])
    level = RECIPES[name].level(settings.verifier)
    assert level.keys() <= settings.verifier.keys()
    assert all(settings.verifier[key] == value for key, value in level.items())


def test_a_run_finds_the_constants_of_its_model(words: Words) -> None:
    found = measured(words("pld", *SMALL))
    assert found.path.is_file()
    assert {"c_e", "c_l", "tau_delta", "margin_bound", "logit_bound", "budget_table"} == found.constants.keys()
    assert found.facts["samples"] == 4 * 5
    assert len(found.facts["prompts"]) == 4
    pipeline = assemble(compose(words("pld", "verifier=arc", "verifier.budget=table")))
    assert pipeline.guarantee == "lossy"
    assert pipeline.manifest()["calibration"] == found.fingerprint
    assert "calibration" not in assemble(compose(words("pld"))).manifest()
    done = pipeline.generate("a b a b a b", max_new_tokens=24)
    assert len(done.ids) == 24


def test_without_constants_a_run_ends_before_the_model_is_loaded(
    words: Words, tiny_folder: Path, rows_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline_module, "loaded_model", lambda settings: pytest.fail("the model was loaded"))
    with pytest.raises(CalibrationError) as caught:
        assemble(compose(words("pld", "verifier=arc", "verifier.delta=0.1")))
    assert str(caught.value) == (
        "verifier 'arc' needs c_e, c_l, tau_delta for model 'tiny', not measured yet: run "
        f"`python -m scripts.calibrate verifier=arc verifier.delta=0.1 model.path={tiny_folder} dataset=gsm8k "
        f"dataset.path={rows_folder} cache_dir={tmp_path / 'cache'}`"
    )


def test_the_command_of_the_error_makes_the_constants(words: Words, rows_folder: Path) -> None:
    settings = compose(words("pld", "verifier=arc", "verifier.delta=0.1"))
    with pytest.raises(CalibrationError) as caught:
        check_calibration(settings)
    command = str(caught.value).split("`")[1]
    said = command.removeprefix("python -m scripts.calibrate ").split()
    measured([*said, *SMALL[1:], "dataset.template=chat", "device=cpu", "dtype=float32"])
    check_calibration(settings)


@pytest.mark.parametrize(
    ("verifier", "dataset", "expected"),
    [
        ("judge", "gsm8k", "drafter=pld verifier=judge"),
        ("judge", "codealpaca", "dataset=gsm8k"),
        ("judge", "triviaqa", "dataset=triviaqa"),
        ("arc", "codealpaca", "dataset=codealpaca"),
    ],
)
def test_the_command_names_a_drafter_and_a_data_set_that_can_be_used(
    verifier: str, dataset: str, expected: str, words: Words
) -> None:
    with pytest.raises(CalibrationError) as caught:
        check_calibration(compose(changed(words("pld", f"verifier={verifier}"), f"dataset={dataset}")))
    assert f" {expected}" in str(caught.value)


@pytest.mark.parametrize(
    "knobs",
    [
        ("verifier.c_e=0.001", "verifier.c_l=1.0", "verifier.tau_delta=0.5"),
        ("verifier.theta=1.0",),
        ("verifier.tau_delta=0.0",),
    ],
)
def test_settings_that_need_no_constants_run_without_them(knobs: tuple[str, ...], words: Words) -> None:
    pipeline = assemble(compose(words("pld", "verifier=arc", *knobs)))
    assert len(pipeline.generate("a b a b a b", max_new_tokens=8).ids) == 8


def test_constants_of_another_risk_level_are_not_used(words: Words) -> None:
    one = measured(words("pld", *SMALL))
    check_calibration(compose(words("pld", "verifier=arc")))
    with pytest.raises(CalibrationError, match=r"verifier\.delta=0\.2"):
        check_calibration(compose(words("pld", "verifier=arc", "verifier.delta=0.2")))
    other = measured(words("pld", *SMALL, "verifier.delta=0.2"))
    assert other.path != one.path
    assert other.constants["tau_delta"] < one.constants["tau_delta"]


def test_constants_of_another_model_are_not_used(words: Words, other_folder: Path) -> None:
    measured(words("pld", *SMALL))
    with pytest.raises(CalibrationError, match="not measured yet"):
        check_calibration(compose(words("pld", "verifier=arc", model=other_folder)))


def test_another_level_needs_no_new_measurement(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(words("pld", *SMALL))
    counted = Counted(monkeypatch)
    measured(words("pld", *SMALL, "verifier.delta=0.2"))
    assert counted.calls == 0
    measured(words("pld", *SMALL[:1], "calibration.num_prompts=6", *SMALL[2:]))
    assert counted.calls == 2


def test_an_interrupted_calibration_goes_on_and_gives_the_same_constants(
    words: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = measured(changed(words("pld", *SMALL), f"cache_dir={tmp_path / 'whole'}"))
    with monkeypatch.context() as patch:
        Counted(patch, fails_at=3)
        with pytest.raises(KeyboardInterrupt):
            measured(words("pld", *SMALL))
    with pytest.raises(CalibrationError):
        check_calibration(compose(words("pld", "verifier=arc")))
    counted = Counted(monkeypatch)
    resumed = measured(words("pld", *SMALL))
    assert counted.calls == 2
    assert resumed.constants == whole.constants
    assert resumed.facts["prompts"] == whole.facts["prompts"]


def test_a_finished_calibration_is_not_done_again(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured(words("pld", *SMALL))
    monkeypatch.setattr(stage, "assemble", lambda settings: pytest.fail("the model was loaded"))
    assert measured(words("pld", *SMALL)) == first


def test_without_resume_everything_is_measured_again(words: Words, monkeypatch: pytest.MonkeyPatch) -> None:
    first = measured(words("pld", *SMALL))
    counted = Counted(monkeypatch)
    assert measured(words("pld", *SMALL, "resume=false")).constants == first.constants
    assert counted.calls == 4


def test_a_damaged_file_is_named(words: Words) -> None:
    path = measured(words("pld", *SMALL)).path
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    with pytest.raises(CalibrationError, match=r"json is damaged; delete it and calibrate again"):
        check_calibration(compose(words("pld", "verifier=arc")))


def test_the_file_says_what_the_constants_belong_to(words: Words, tiny_folder: Path) -> None:
    content = json.loads(measured(words("pld", *SMALL)).path.read_text("utf-8"))
    assert content["identity"].keys() == {"verifier", "model", "delta"}
    assert content["facts"]["corpus"].startswith("gsm8k")
    assert content["facts"]["made_of"]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("verifier=exact",), "verifier 'exact' has nothing to calibrate: use verifier=arc, easd, judge"),
        (("verifier=judge", "dataset=codealpaca"), "use dataset=gsm8k or dataset=triviaqa"),
        (("verifier=arc", "calibration.num_prompts=0"), "calibration.num_prompts is 0; it must be at least 1"),
        (("verifier=arc", "calibration.positions=0"), "calibration.positions is 0"),
        (("verifier=arc", "calibration.max_new_tokens=-1"), "calibration.max_new_tokens is -1"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_before_the_model_is_loaded(
    changes: tuple[str, ...], message: str, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "assemble", lambda settings: pytest.fail("the model was loaded"))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        measured(changed(words("pld"), *changes))
    assert message in str(caught.value)


def test_prompts_of_the_store_are_left_out_where_drafts_are_looked_at(
    words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def meter(recipe: Any, bench: Bench) -> Callable[[Example], Arrays]:
        def note(example: Example) -> Arrays:
            seen.append(example.id)
            return {"important": np.array([True])}

        return note

    monkeypatch.setattr(type(RECIPES["judge"]), "meter", meter)
    monkeypatch.setattr(type(RECIPES["judge"]), "constants", lambda recipe, prompts, level: {"weights": []})
    settings = compose(words("sense", "verifier=judge", "calibration.num_prompts=2"))
    found = calibrate(settings, {})
    assert found.facts["prompts"] == seen
    store = assemble(compose(words("sense"))).store
    assert store is not None
    assert len(store.facts["prompts"]) == 6
    assert len(set(seen) - set(store.facts["prompts"])) == 2


EASD = ("verifier=easd", *SMALL[1:])


@pytest.mark.parametrize("drafter", ["sps", "sps_tree"])
def test_thresholds_of_easd_are_measured_with_a_draft_model(drafter: str, words: Words, other_folder: Path) -> None:
    drafted = words("sps", f"drafter={drafter}", f"draft_model={other_folder}")
    found = measured([*drafted, *EASD])
    assert found.facts["samples"] > 4
    assert 0 < found.constants["theta_t"] < 1
    assert 0 < found.constants["theta_d"] < 1
    pipeline = assemble(compose([*drafted, "verifier=easd"]))
    assert pipeline.manifest()["calibration"] == found.fingerprint
    assert len(pipeline.generate("a b a b a b", max_new_tokens=12).ids) == 12


def test_the_command_of_the_error_names_the_drafters_settings_and_weights(words: Words, other_folder: Path) -> None:
    drafted = words("sps", f"draft_model={other_folder}", "drafter.num_tokens=3", "drafter.schedule=heuristic")
    settings = compose([*drafted, "verifier=easd", "verifier.percentile=75"])
    with pytest.raises(CalibrationError) as caught:
        check_calibration(settings)
    command = str(caught.value).split("`")[1]
    chosen = f"drafter=sps drafter.num_tokens=3 drafter.schedule=heuristic draft_model={other_folder} verifier=easd "
    assert chosen in command
    said = command.removeprefix("python -m scripts.calibrate ").split()
    again = [*said, *SMALL[1:], "dataset.template=chat", "device=cpu", "dtype=float32"]
    assert compose(again).drafter == settings.drafter
    measured(again)
    check_calibration(settings)


def test_the_command_of_the_error_names_drafters_within_a_drafter(words: Words) -> None:
    drafters = "drafter.drafters=[pld,{name:lookahead,window:4}]"
    with pytest.raises(CalibrationError) as caught:
        check_calibration(compose(words("pld", "drafter=union", drafters, "verifier=judge")))
    said = shlex.split(str(caught.value).split("`")[1])[3:]
    assert compose(said).drafter["drafters"] == ["pld", {"name": "lookahead", "window": 4}]


def test_thresholds_measured_with_another_draft_model_are_not_used(
    words: Words, other_folder: Path, tiny_folder: Path
) -> None:
    found = measured([*words("sps", f"draft_model={other_folder}"), *EASD])
    another = compose(words("sps", f"draft_model={tiny_folder}", "verifier=easd"))
    with pytest.raises(CalibrationError, match="needs theta_d, theta_t for model 'tiny', not measured yet"):
        check_calibration(another)
    assert measured([*words("sps", f"draft_model={tiny_folder}"), *EASD]).path != found.path
    check_calibration(another)

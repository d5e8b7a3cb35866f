"""The files under conf/ against the code that they configure."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from methods.drafts import asks_for_draft
from methods.overrides import compose, groups
from methods.schema import CONF_DIR
from methods.settings import problems
from primitives.registry import DRAFTERS, VERIFIERS, Registry

WITHOUT_A_HUB = ("prompts", "spec_bench")
REGISTRIES: dict[str, Registry[Any]] = {"drafter": DRAFTERS, "verifier": VERIFIERS}
PRIMITIVES = [(kind, name) for kind, registry in REGISTRIES.items() for name in registry.names()]


# In step, for a composition takes a fifth of a second, and neither group knows of the others.
IN_STEP = list(zip(groups()["method"], cycle(groups()["model"]), cycle(groups()["dataset"]), strict=False))


@pytest.mark.parametrize(("method", "model", "dataset"), IN_STEP)
def test_methods_models_and_data_sets_compose(method: str, model: str, dataset: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("A prompt")
    # What cannot come from the hub needs a path.
    path = [f"dataset.path={tmp_path / 'mine.txt'}"] if dataset in WITHOUT_A_HUB else []
    settings = compose([f"method={method}", f"model={model}", f"dataset={dataset}", *path])
    assert (settings.method.name, settings.model.name, settings.dataset.name) == (method, model, dataset)
    with_draft = replace(settings, draft_model="org/draft") if asks_for_draft(settings) else settings
    assert problems(with_draft) == []


def test_the_steps_leave_no_model_and_no_data_set_out() -> None:
    assert {model for _, model, _ in IN_STEP} == set(groups()["model"])
    assert {dataset for _, _, dataset in IN_STEP} == set(groups()["dataset"])


@pytest.mark.parametrize("experiment", groups()["experiment"])
@pytest.mark.parametrize("store", groups()["datastore"])
def test_every_experiment_and_store_compose(experiment: str, store: str) -> None:
    settings = compose([f"experiment={experiment}", f"datastore={store}", "method=pld"])
    assert settings.datastore.kind == store
    assert problems(settings) == []


@pytest.mark.parametrize("kind", REGISTRIES)
def test_config_names_are_registry_names(kind: str) -> None:
    assert groups()[kind] == REGISTRIES[kind].names()


@pytest.mark.parametrize(("kind", "name"), PRIMITIVES)
def test_a_config_holds_every_knob_of_its_primitive_at_its_default(kind: str, name: str) -> None:
    config = dict(OmegaConf.load(CONF_DIR / kind / f"{name}.yaml"))
    assert config.pop("name") == name
    parameters = inspect.signature(REGISTRIES[kind].get(name)).parameters
    assert config.keys() <= parameters.keys()
    # What a primitive cannot be without, such as the drafters of a union, is in the config alone.
    defaults = {key: parameters[key].default for key in config}
    given = {key: value for key, value in config.items() if defaults[key] is not inspect.Parameter.empty}
    assert given == {key: defaults[key] for key in given}
    missing = parameters.keys() - config.keys()
    simple = {key for key in missing if isinstance(parameters[key].default, bool | int | float | str)}
    assert not simple, f"conf/{kind}/{name}.yaml leaves out {simple}"


@pytest.mark.parametrize("file", sorted(CONF_DIR.rglob("*.yaml")), ids=lambda file: str(file.relative_to(CONF_DIR)))
def test_every_config_says_what_it_is(file: Any) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert any(line.startswith("# ") and "@package" not in line for line in lines[:2])


def test_the_ablations_of_table_3_are_config_alone() -> None:
    without_sen = compose(["method=sense_without_sen"])
    assert (without_sen.drafter["name"], without_sen.drafter["require_hit"]) == ("sen", True)
    assert without_sen.verifier == compose(["method=sense"]).verifier
    without_se = compose(["method=sense_without_se"])
    assert without_se.drafter == compose(["method=sense"]).drafter
    assert without_se.verifier == {"name": "exact"}

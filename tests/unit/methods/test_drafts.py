"""Drafters with weights of their own: how `draft_model` is read, refused, and given to who asks for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar
from unittest.mock import Mock

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import RepositoryNotFoundError

from methods import drafts
from methods.drafts import draft_settings, shipped_draft
from methods.loaded import check_models, draft_is_here, loaded_draft, loaded_model
from methods.overrides import compose
from methods.pipeline import load_pipeline
from methods.schema import Settings
from methods.settings import SettingsError, problems
from primitives.contract import Context, Drafter, DraftTree
from primitives.models.loading import LoadedModel
from primitives.registry import DRAFTERS

Words = Callable[..., list[str]]

SHIPPED = drafts.HEADS


class Small(Drafter):
    name: ClassVar[str] = "small"

    def __init__(self, draft_model: LoadedModel | None) -> None:
        self.draft_model = draft_model

    def propose(self, context: Context) -> DraftTree:
        return DraftTree.empty()


class Head(Small):
    name: ClassVar[str] = "head"

    def __init__(self, draft_folder: Path | None) -> None:
        self.draft_folder = draft_folder


@pytest.fixture(autouse=True)
def drafters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two drafters with weights, beside those of the registry; none are shipped."""
    monkeypatch.setattr(drafts, "HEADS", tmp_path)
    classes = {name: DRAFTERS.get(name) for name in DRAFTERS.names()}
    monkeypatch.setattr(DRAFTERS, "_classes", {**classes, "small": Small, "head": Head})


def asking(draft: str | None, drafter: str = "small") -> Settings:
    return replace(compose(["method=vanilla"]), drafter={"name": drafter}, draft_model=draft)


def test_a_drafter_with_weights_is_refused_without_them_and_one_without_with_them() -> None:
    assert problems(asking(None)) == [
        "drafter 'small' drafts with a model of its own: set draft_model=<hub id, folder or .gguf file>"
    ]
    assert problems(asking(None, "head"))[0].startswith(
        "drafter 'head' drafts with a head of its own: set draft_model="
    )
    assert problems(asking("org/small")) == []
    assert problems(asking("org/small", "none")) == [
        "draft_model is 'org/small', but drafter 'none' uses no draft model: leave it null"
    ]


@pytest.mark.parametrize("draft", ["nowhere", "./no/where", "/no/where", "no/where.gguf", "a b/c"])
def test_a_place_where_nothing_lies_is_refused_before_anything_is_loaded(draft: str) -> None:
    (problem,) = problems(asking(draft))
    assert problem.startswith(f"draft_model is '{draft}', where nothing lies: give a model folder")


def test_a_draft_is_a_folder_a_hub_id_or_a_model_of_the_project(tiny_folder: Path) -> None:
    assert draft_settings(asking(str(tiny_folder))).path == str(tiny_folder)
    assert draft_settings(asking("org/small-0.5B")).hub_id == "org/small-0.5B"
    assert draft_settings(asking("smollm2-135m")).embedded
    assert draft_settings(asking("qwen3-8b")).hub_id == "Qwen/Qwen3-8B"


def test_a_draft_that_cannot_be_had_is_named_by_its_own_setting(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    base = replace(compose([f"model.path={tiny_folder}"]), cache_dir=str(tmp_path))
    (problem,) = check_models(replace(base, drafter={"name": "small"}, draft_model=str(empty)))
    assert problem == (f"draft_model '{empty}' has no config.json: give a transformers model folder or a .gguf file")
    (problem,) = check_models(replace(base, drafter={"name": "head"}, draft_model=str(empty)))
    assert problem == f"draft_model '{empty}' has no config.json: give the folder of a draft head"
    (problem,) = check_models(replace(base, drafter={"name": "head"}, draft_model="smollm2-135m"))
    assert problem == "draft_model 'smollm2-135m' is a whole model: give the folder or hub id of a head"
    monkeypatch.setattr(HfApi, "auth_check", Mock(side_effect=RepositoryNotFoundError("404", response=Mock())))
    for drafter in ("small", "head"):
        (problem,) = check_models(replace(base, drafter={"name": drafter}, draft_model="org/none-such"))
        assert problem.startswith("draft_model 'org/none-such' is not on the hub")
        assert problem.endswith("set draft_model=<model folder or .gguf file>")


def test_what_needs_no_fetching_is_here(tiny_folder: Path, tmp_path: Path) -> None:
    for drafter in ("small", "head"):
        assert draft_is_here(replace(asking(str(tiny_folder), drafter), cache_dir=str(tmp_path)))
        assert not draft_is_here(replace(asking("org/none-such", drafter), cache_dir=str(tmp_path)))
    assert draft_is_here(asking(None, "none"))


def test_who_asks_gets_the_model_or_the_folder(words: Words, tiny_folder: Path, other_folder: Path) -> None:
    other = load_pipeline(*words("vanilla", "drafter.name=small", f"draft_model={other_folder}"))
    assert isinstance(other.connector.drafter, Small)
    assert other.connector.drafter.draft_model is not None
    assert other.connector.drafter.draft_model.folder == other_folder
    assert other.manifest()["draft_model"] == other.connector.drafter.draft_model.fingerprint
    same = load_pipeline(*words("vanilla", "drafter.name=small", f"draft_model={tiny_folder}"))
    assert isinstance(same.connector.drafter, Small)
    assert same.connector.drafter.draft_model is same.model
    head = load_pipeline(*words("vanilla", "drafter.name=head", f"draft_model={other_folder}"))
    assert isinstance(head.connector.drafter, Head)
    assert head.connector.drafter.draft_folder == other_folder


def test_a_head_may_be_a_pickle_without_a_tokenizer(words: Words, other_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "head"
    folder.mkdir()
    shutil.copy(other_folder / "config.json", folder)
    with pytest.raises(ValueError, match=r"has no weights \(\*\.safetensors or pytorch_model\.bin\)"):
        load_pipeline(*words("vanilla", "drafter.name=head", f"draft_model={folder}"))
    prints = []
    for content in (b"one", b"two"):
        (folder / "pytorch_model.bin").write_bytes(content)
        prints.append(load_pipeline(*words("vanilla", "drafter.name=head", f"draft_model={folder}")).manifest())
    assert prints[0]["draft_model"] != prints[1]["draft_model"]


def test_a_sweep_keeps_the_models_that_the_next_job_needs_and_no_other(
    words: Words, tiny_folder: Path, other_folder: Path
) -> None:
    both = compose(words("vanilla", "drafter.name=small", f"draft_model={other_folder}"))
    target, draft = loaded_model(both), loaded_draft(both)
    assert (loaded_model(both), loaded_draft(both)) == (target, draft)
    alone = compose(words("vanilla"))
    assert loaded_model(alone) is target
    assert loaded_draft(both) is not draft


def test_a_missing_draft_is_refused_by_the_pipeline_too(words: Words) -> None:
    with pytest.raises(SettingsError, match="drafter 'small' drafts with a model of its own"):
        load_pipeline(*words("vanilla", "drafter.name=small"))


@pytest.mark.parametrize(("drafter", "leaf"), [("head", "smollm2-135m-head"), ("small", "smollm2-135m-draft_lm")])
def test_weights_that_are_shipped_for_model_and_drafter_are_the_default(
    tmp_path: Path, drafter: str, leaf: str
) -> None:
    settings, others = asking(None, drafter), {"head", "small"} - {drafter}
    assert shipped_draft(settings) is None
    folder = tmp_path / leaf
    folder.mkdir()
    (folder / "config.json").touch()
    assert problems(settings) == []
    assert draft_settings(settings).path == str(folder)
    assert shipped_draft(asking(None, others.pop())) is None
    assert shipped_draft(asking("org/other", drafter)) is None
    assert draft_settings(asking("org/other", drafter)).hub_id == "org/other"
    other = replace(settings, model=replace(settings.model, path=str(tmp_path)))
    assert shipped_draft(other) is None


@pytest.mark.parametrize("method", ["eagle3", "sps"])
def test_the_embedded_model_has_its_drafters_with_it(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "HEADS", SHIPPED)
    assert problems(compose([f"method={method}", "model=smollm2-135m"])) == []


def test_a_draft_model_without_tokenizer_shares_the_targets(words: Words, tiny_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "draft"
    shutil.copytree(tiny_folder, folder, ignore=shutil.ignore_patterns("tokenizer*"))
    pipeline = load_pipeline(*words("sps", f"draft_model={folder}"))
    made = pipeline.generate("how many short rows?")
    assert made.ids == load_pipeline(*words("vanilla")).generate("how many short rows?").ids
    assert sum(record.accepted for record in made.trace.passes) > 0
    config = folder / "config.json"
    config.write_text(config.read_text("utf-8").replace('"vocab_size": ', '"vocab_size": 1'), "utf-8")
    with pytest.raises(ValueError, match=r"has no tokenizer, so it would share the target's, but it rates 1\d+ token"):
        load_pipeline(*words("sps", f"draft_model={folder}"))

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

import methods
from connectors.settings import DEFAULT_MAX_NODES
from methods import loaded as module
from methods.overrides import compose
from methods.pipeline import connect, load_pipeline
from methods.quoting import quoted
from primitives.datastores.manifest import StoreError
from primitives.models.eagle_config import HeadConfig
from primitives.models.eagle_loading import HeadTarget, new_head, save_head
from primitives.models.loading import LoadedModel
from tests.unit.primitives.models.conftest import SIZES, make_model, make_tokenizer

Words = Callable[..., list[str]]


def greedy(folder: Path, ids: list[int], count: int) -> list[int]:
    """What transformers writes from the files of a model."""
    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(folder)
    output = model.generate(torch.tensor([ids]), max_new_tokens=count, do_sample=False)
    return output[0, len(ids) :].tolist()


def test_sen_with_exact_verification_from_words(words: Words, tiny_folder: Path) -> None:
    pipeline = load_pipeline(*words("sense_without_se"))
    assert pipeline.guarantee == "exact"
    assert pipeline.store is not None
    assert len(pipeline.store) == 72
    ids = pipeline.encode("train short 3?")
    done = pipeline.generate("train short 3?")
    assert done.ids == greedy(tiny_folder, ids, 16)
    assert done.text == pipeline.model.tokenizer.decode(done.ids, skip_special_tokens=True)
    assert max(record.nodes for record in done.trace.passes) > 1
    plain = pipeline.baseline.generate(ids, pipeline.settings.decode)
    assert plain.ids == done.ids
    assert {record.nodes for record in plain.trace.passes} == {1}
    assert pipeline.manifest() == {
        "model": pipeline.model.fingerprint,
        "tokenizer": pipeline.model.tokenizer_fingerprint,
        "datastore": pipeline.store.fingerprint,
    }


def test_the_default_budget_makes_room_for_a_fixed_tree(words: Words, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {**SIZES, "num_hidden_layers": 1}
    rows = torch.randn(sizes["vocab_size"], sizes["hidden_size"])
    head = new_head("eagle2", HeadConfig.of(sizes, "head"), rows, HeadTarget(rows, rows, 2))
    save_head(head, tmp_path / "head")
    line = words("eagle2", f"draft_model={tmp_path / 'head'}")
    assert load_pipeline(*line).connector.max_nodes == DEFAULT_MAX_NODES["cpu"]
    pipeline = load_pipeline(*line, "drafter.tree=mc_sim_7b_63")
    assert pipeline.connector.max_nodes == 26
    done = pipeline.generate("the the a")
    assert max(record.nodes for record in done.trace.passes) == 26
    assert done.ids == pipeline.baseline.generate(pipeline.encode("the the a"), pipeline.settings.decode).ids


def test_pld_needs_no_store(words: Words, tiny_folder: Path) -> None:
    pipeline = load_pipeline(*words("pld"))
    assert pipeline.store is None
    assert pipeline.manifest().keys() == {"model", "tokenizer"}
    text = "the the the the a a"
    assert pipeline.generate(text, max_new_tokens=9).ids == greedy(tiny_folder, pipeline.encode(text), 9)
    assert pipeline.connector.max_nodes == DEFAULT_MAX_NODES["cpu"]


def test_a_drafter_that_searches_tokens_gets_a_token_store_alone(words: Words, tiny_folder: Path) -> None:
    pipeline = load_pipeline(*words("rest"))
    assert pipeline.store is not None
    assert pipeline.store.vectors is None
    assert pipeline.manifest()["datastore"] == pipeline.store.tokens.fingerprint
    assert pipeline.notes["datastore"]["keys"] == 0
    assert pipeline.notes["datastore"]["tokens"] == 72
    ids = pipeline.encode("train short 3?")
    assert pipeline.generate("train short 3?").ids == greedy(tiny_folder, ids, 16)


def test_a_drafter_of_an_inner_layer_decodes_what_greedy_does(words: Words, tiny_folder: Path) -> None:
    pipeline = load_pipeline(*words("sense_without_se", "datastore.layer=1"))
    assert pipeline.connector.drafter.layers == (1,)
    ids = pipeline.encode("train short 3?")
    done = pipeline.generate("train short 3?")
    assert done.ids == greedy(tiny_folder, ids, 16)
    # The store holds the answer to this very prompt, so the drafts come from the right states.
    assert max(record.accepted for record in done.trace.passes) >= 5


def test_a_variant_that_searches_what_was_not_prepared_is_refused(words: Words) -> None:
    pipeline = load_pipeline(*words("rest"))
    settings = compose(words("sense"))
    with pytest.raises(ValueError, match="drafter 'sen' searches a vector store, which is not there: assemble"):
        connect(settings, pipeline.model, pipeline.target, pipeline.store)


def test_the_notes_say_whether_the_store_repeats_the_test_split(
    words: Words, rows_folder: Path, tmp_path: Path
) -> None:
    notes = load_pipeline(*words("rest")).notes["datastore"]
    assert notes["overlap"] == 0
    assert notes["left_out"] == {"empty": 0, "too_long": 0, "overlap": 0}
    leaking = tmp_path / "leaking"
    leaking.mkdir()
    (leaking / "train.jsonl").write_bytes((rows_folder / "train.jsonl").read_bytes())
    (leaking / "test.jsonl").write_text((rows_folder / "train.jsonl").read_text().partition("\n")[0])
    chosen = [word for word in words("rest") if not word.startswith(("dataset.path", "dataset.num", "datastore.num"))]
    chosen += [f"dataset.path={leaking}", "dataset.num_samples=1", "datastore.num_prompts=8"]
    dropped = load_pipeline(*chosen).notes["datastore"]
    assert (dropped["overlap"], dropped["left_out"]["overlap"], dropped["prompts"]) == (0, 1, 7)
    kept = load_pipeline(*chosen, "datastore.leaks=keep").notes["datastore"]
    assert (kept["overlap"], kept["left_out"]["overlap"], kept["prompts"]) == (1, 0, 8)


def test_any_drafter_goes_with_any_verifier(words: Words) -> None:
    pipeline = load_pipeline(*words("pld", "verifier=soft_gated", "connector.max_nodes=5"))
    assert pipeline.guarantee == "lossy"
    assert type(pipeline.connector.verifier).__name__ == "SoftGatedVerifier"
    done = pipeline.generate("a a a a a a")
    assert 1 <= len(done.ids) <= 16
    assert all(record.nodes <= 5 for record in done.trace.passes)


def test_what_a_call_asks_for_goes_before_the_settings(words: Words) -> None:
    pipeline = load_pipeline(*words("vanilla"))
    whole = pipeline.generate("the a")
    assert len(whole.ids) == 16
    assert len(pipeline.generate("the a", max_new_tokens=3).ids) == 3
    piece = str(pipeline.model.tokenizer.decode(whole.ids[:4], skip_special_tokens=True))
    stopped = pipeline.generate("the a", stop=[piece])
    assert (stopped.finish, stopped.text) == ("stop", "")
    assert len(stopped.ids) <= 4
    assert pipeline.settings.decode.max_new_tokens == 16
    assert pipeline.settings.decode.stop == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": "  "}, "prompt is empty"),
        ({"text": "a", "max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1"),
        ({"text": "a" * 3000}, r"the prompt has \d+ tokens and the model takes 2048 positions"),
    ],
)
def test_what_cannot_be_generated_is_refused(arguments: dict[str, Any], message: str, words: Words) -> None:
    with pytest.raises(ValueError, match=message):
        load_pipeline(*words("vanilla")).generate(**arguments)


def test_a_store_of_another_model_is_refused(words: Words, other_folder: Path, tmp_path: Path) -> None:
    load_pipeline(*words("sense"))
    (folder,) = (path for path in (tmp_path / "cache" / "stores").iterdir() if path.is_dir())
    with pytest.raises(StoreError, match="was built for another model"):
        load_pipeline(*words("sense", f"datastore.path={folder}", model=other_folder))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["drafter.name=sem"], "unknown drafter 'sem': did you mean 'sen'?"),
        (["verifier.theta_e=7"], "theta_e=7 is out of range"),
        (["datastore=none"], "drafter 'sen' searches a datastore, but datastore=none"),
        (["decode.max_new_token=3"], "max_new_tokens"),
    ],
)
def test_bad_settings_are_refused_before_a_model_is_loaded(
    changes: list[str], message: str, words: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: Any) -> LoadedModel:
        raise AssertionError("a model is loaded for settings that cannot work")

    monkeypatch.setattr(module, "load_model", refuse)
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is looked at below
        load_pipeline(*words("sense", *changes))
    assert message in str(caught.value)


def test_a_model_that_cannot_be_rolled_back_is_refused(words: Words, tmp_path: Path) -> None:
    model: Any = make_model("mistral")
    model.config.sliding_window = 8
    model.save_pretrained(tmp_path / "windowed")
    make_tokenizer().save_pretrained(tmp_path / "windowed")
    with pytest.raises(ValueError, match="model type 'mistral' keeps a DynamicSlidingWindow cache in layer 0"):
        load_pipeline(*words("pld", model=tmp_path / "windowed"))


def test_names_without_a_dot_may_be_keywords(words: Words, tmp_path: Path) -> None:
    keys = ("method=", "device=", "dtype=", "cache_dir=", "results_dir=")
    rest = [word for word in words("pld") if not word.startswith(keys)]
    pipeline = load_pipeline(
        *rest,
        method="pld",
        device="cpu",
        dtype="float32",
        resume=False,
        draft_model=None,
        cache_dir=str(tmp_path / "a, b = {c}% #1"),
    )
    assert pipeline.settings.cache_dir == str(tmp_path / "a, b = {c}% #1")
    assert pipeline.settings.resume is False
    assert pipeline.settings.draft_model is None


@pytest.mark.parametrize(
    "value",
    [
        "org/name-1.5",
        "[8,16]",
        "x" * 300,
        "naïve 日本",
        "C:\\new\\table",
        "it's",
        "null",
        "true",
        "1e3",
        "",
        "a\\'b\\\\",
        "$HOME",
    ],
)
def test_a_keyword_value_arrives_unchanged(value: str) -> None:
    assert compose([f"cache_dir={quoted(value)}"]).cache_dir == value


def test_the_pipeline_is_found_where_the_readme_imports_it() -> None:
    assert methods.load_pipeline is load_pipeline
    with pytest.raises(AttributeError, match="module 'methods' has no attribute 'load_pipelines'"):
        methods.load_pipelines  # noqa: B018

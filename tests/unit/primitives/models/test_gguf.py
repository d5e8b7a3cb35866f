from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from primitives.models.gguf import check_gguf, convert_gguf, gguf_cache, gguf_folder

Maker = Callable[..., Any]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_converted_logits_equal_the_models(kind: str, tied: bool, maker: Maker, tmp_path: Path) -> None:
    made = maker(kind, tied=tied)
    folder = gguf_folder(made.write(tmp_path / "tiny.gguf"), tmp_path / "cache")
    converted = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = torch.randint(0, made.model.config.vocab_size, (1, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        assert torch.equal(converted(ids).logits, made.model(ids).logits)


def test_blocks_are_dequantised_to_bfloat16(maker: Maker, tmp_path: Path) -> None:
    made = maker("qwen2")
    made.quantise = gguf.GGMLQuantizationType.Q8_0
    folder = gguf_folder(made.write(tmp_path / "tiny.gguf"), tmp_path / "cache")
    converted = AutoModelForCausalLM.from_pretrained(folder)
    name = "model.layers.1.mlp.down_proj.weight"
    packed = gguf.quants.quantize(made.model.get_parameter(name).detach().numpy(), made.quantise)
    expected = torch.from_numpy(gguf.quants.dequantize(packed, made.quantise)).bfloat16()
    assert torch.equal(converted.get_parameter(name), expected)
    assert {parameter.dtype for parameter in converted.parameters()} == {torch.bfloat16}


def test_tokenizer_template_and_every_end_token_are_kept(maker: Maker, tmp_path: Path) -> None:
    folder = gguf_folder(maker().write(tmp_path / "tiny.gguf"), tmp_path / "cache")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "the  12 a\n\tnaïve 日本 🤖<|im_end|>"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    # Single digits are parted first, so both blanks before them stay together.
    assert tokenizer.tokenize("the  12") == ["the", "ĠĠ", "1", "2"]
    assert tokenizer(text).input_ids[-1] == tokenizer.eos_token_id == 2
    assert GenerationConfig.from_pretrained(folder).eos_token_id == [2, 0]
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert prompt == "<|im_start|>user\na<|im_end|>\n"


def test_bos_flag_is_kept(maker: Maker, tmp_path: Path) -> None:
    made = maker()
    made.add_bos = True
    folder = gguf_folder(made.write(tmp_path / "tiny.gguf"), tmp_path / "cache")
    assert AutoTokenizer.from_pretrained(folder)("a").input_ids[0] == 1


def test_files_beside_the_gguf_play_no_part(maker: Maker, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "vocab_size": 3}')
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "wrong"}')
    folder = gguf_folder(maker().write(tmp_path / "tiny.gguf"), tmp_path / "cache")
    assert AutoModelForCausalLM.from_pretrained(folder).config.model_type == "llama"
    assert "im_start" in str(AutoTokenizer.from_pretrained(folder).chat_template)


def test_a_file_is_converted_once_until_it_changes(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []
    monkeypatch.setattr("primitives.models.gguf.convert_gguf", lambda file, folder: calls.append(file))
    file = maker().write(tmp_path / "tiny.gguf")
    first = gguf_folder(file, tmp_path / "cache")
    assert gguf_folder(file, tmp_path / "cache") == first
    assert len(calls) == 1
    maker("qwen2").write(file)
    assert gguf_folder(file, tmp_path / "cache") != first
    assert len(calls) == 2


def test_what_is_no_whole_gguf_file_is_refused(maker: Maker, tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(ValueError, match="is no GGUF file"):
        check_gguf(text)
    whole = maker().write(tmp_path / "tiny.gguf").read_bytes()
    for size, words in ((len(whole) - 100, "is cut short"), (200, "cannot be read"), (4, "cannot be read")):
        (tmp_path / "cut.gguf").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=words):
            check_gguf(tmp_path / "cut.gguf")


def add_rope_factors(writer: gguf.GGUFWriter) -> None:
    writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))


def add_yarn(writer: gguf.GGUFWriter) -> None:
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)


def add_split(writer: gguf.GGUFWriter) -> None:
    writer.add_uint16("split.count", 3)


@pytest.mark.parametrize(
    ("extra", "words"),
    [(add_rope_factors, "rotary"), (add_yarn, "rotary"), (add_split, "one of 3 parts")],
)
def test_what_the_conversion_would_lose_is_refused(
    extra: Callable[[gguf.GGUFWriter], None], words: str, maker: Maker, tmp_path: Path
) -> None:
    made = maker()
    made.extra = extra
    with pytest.raises(ValueError, match=words):
        gguf_folder(made.write(tmp_path / "tiny.gguf"), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_an_unknown_way_to_split_text_is_refused(maker: Maker, tmp_path: Path) -> None:
    made = maker()
    made.split = "martian"
    with pytest.raises(ValueError, match=re.escape("in a way ('martian')")):
        check_gguf(made.write(tmp_path / "tiny.gguf"))


def test_a_missing_tensor_is_refused_and_leaves_nothing(maker: Maker, tmp_path: Path) -> None:
    made = maker()
    made.omit = frozenset({"model.layers.1.mlp.up_proj.weight"})
    file = made.write(tmp_path / "tiny.gguf")
    with pytest.raises(ValueError, match=r"does not fit its architecture \(first: model.layers.1.mlp.up_proj.weight\)"):
        gguf_folder(file, tmp_path / "cache")
    assert not gguf_cache(file, tmp_path / "cache").exists()


def test_an_unknown_architecture_is_refused(maker: Maker, tmp_path: Path) -> None:
    made = maker()
    made.kind = "wavtokenizer-dec"
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match="cannot be read") as caught:
        convert_gguf(made.write(tmp_path / "tiny.gguf"), tmp_path / "folder")
    assert "\n" not in str(caught.value)


def test_a_tokenizer_that_loads_as_another_is_refused(maker: Maker, tmp_path: Path) -> None:
    made = maker("qwen2")  # whose class of transformers brings Qwen's own splitting
    made.split = "smollm"
    with pytest.raises(ValueError, match="tokenizer that transformers does not keep"):
        gguf_folder(made.write(tmp_path / "tiny.gguf"), tmp_path / "cache")

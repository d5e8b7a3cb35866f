from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tokenizers import pre_tokenizers

from primitives.models.fingerprint import model_fingerprint, tokenizer_fingerprint


def edit_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))


def test_a_copy_is_the_same_model(model_files: Path, tmp_path: Path) -> None:
    before = model_fingerprint(model_files)
    copy = tmp_path / "elsewhere"
    shutil.copytree(model_files, copy)
    edit_config(copy, transformers_version="9.9.9", _name_or_path="elsewhere")
    assert model_fingerprint(copy) == before


def test_other_weights_or_settings_are_another_model(model_files: Path) -> None:
    seen = {model_fingerprint(model_files)}
    edit_config(model_files, rms_norm_eps=0.5)
    seen.add(model_fingerprint(model_files))
    weights = load_file(model_files / "model.safetensors")
    for name in ("model.norm.weight", "model.layers.1.self_attn.k_proj.weight"):
        weights[name] += 1
        save_file(weights, model_files / "model.safetensors", {"format": "pt"})
        seen.add(model_fingerprint(model_files))
    assert len(seen) == 4


def test_whatever_changes_the_ids_of_a_prompt_is_another_tokenizer(tokenizer_maker: Callable[..., Any]) -> None:
    assert tokenizer_fingerprint(tokenizer_maker()) == tokenizer_fingerprint(tokenizer_maker())
    digits = tokenizer_maker()
    digits.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    longer = tokenizer_maker()
    longer.add_tokens(["new"])
    others = [tokenizer_maker(), tokenizer_maker("other"), tokenizer_maker(bos="<|im_start|>"), digits, longer]
    assert len({tokenizer_fingerprint(other) for other in others}) == len(others)

from __future__ import annotations

import json
from pathlib import Path

from primitives.models.folder import INDEX, folder_problem, weight_files


def test_a_whole_folder_has_no_problem(model_files: Path) -> None:
    assert folder_problem(model_files) is None
    assert [file.name for file in weight_files(model_files)] == ["model.safetensors"]


def test_each_missing_part_is_named(model_files: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model.safetensors"}}
    (model_files / INDEX).write_text(json.dumps(index))
    assert folder_problem(model_files) == "lacks weight files (model-00001-of-00002.safetensors)"
    (model_files / INDEX).write_text("{")
    assert folder_problem(model_files) == f"has a broken {INDEX}"
    (model_files / INDEX).unlink()
    (model_files / "model.safetensors").unlink()
    assert folder_problem(model_files) == "has no *.safetensors weights"
    (model_files / "tokenizer.json").unlink()
    assert folder_problem(model_files) == "has no tokenizer (tokenizer.json)"
    (model_files / "config.json").unlink()
    assert folder_problem(model_files) == "has no config.json"

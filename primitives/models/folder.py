"""Model folders on disk: what must lie in one."""

from __future__ import annotations

import json
from pathlib import Path

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"


def folder_problem(folder: Path) -> str | None:
    """Return what keeps a folder from being a whole transformers model, in words, or None."""
    if not (folder / "config.json").is_file():
        return "has no config.json"
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        return "has no tokenizer (tokenizer.json)"
    try:
        files = weight_files(folder)
    except (ValueError, KeyError):
        return f"has a broken {INDEX}"
    if not files:
        return "has no *.safetensors weights"
    missing = [file.name for file in files if not file.is_file()]
    return f"lacks weight files ({', '.join(missing)})" if missing else None


def head_problem(folder: Path) -> str | None:
    """Return what keeps a folder from being a draft head, which has no tokenizer of its own, in words, or None."""
    if not (folder / "config.json").is_file():
        return "has no config.json"
    if not (any(folder.glob("*.safetensors")) or (folder / PICKLE).is_file()):
        return f"has no weights (*.safetensors or {PICKLE})"
    return None


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files a folder should hold, in alphabetical order; those of its index if it has one."""
    if (folder / INDEX).is_file():
        index = json.loads((folder / INDEX).read_text("utf-8"))
        return [folder / name for name in sorted(set(index["weight_map"].values()))]
    return sorted(folder.glob("*.safetensors"))

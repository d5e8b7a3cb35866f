"""Model folders on disk: what must lie in one, and how much memory its weights take."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from primitives.models.wording import brief

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"


def folder_problem(folder: Path, tokenizer: bool = True) -> str | None:
    """Return what keeps a folder from being a whole transformers model, in words, or None.

    Args:
        folder: where the model lies.
        tokenizer: whether it must have one of its own.
    """
    if not (folder / "config.json").is_file():
        return "has no config.json"
    if tokenizer and not has_tokenizer(folder):
        return "has no tokenizer (tokenizer.json)"
    try:
        files = weight_files(folder)
    except ValueError:
        return f"has a broken {INDEX}"
    if not files:
        return "has no *.safetensors weights"
    missing = [file.name for file in files if not file.is_file()]
    return f"lacks weight files ({', '.join(missing)})" if missing else None


def has_tokenizer(folder: Path) -> bool:
    """Return whether a model folder has a tokenizer of its own."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def vocabulary(folder: Path) -> int:
    """Return how many token ids the model in a folder rates."""
    keys = json.loads((folder / "config.json").read_text("utf-8"))
    return int(keys.get("text_config", keys)["vocab_size"])


def head_problem(folder: Path) -> str | None:
    """Return what keeps a folder from being a draft head, which has no tokenizer of its own, in words, or None."""
    if not (folder / "config.json").is_file():
        return "has no config.json"
    if not (any(folder.glob("*.safetensors")) or (folder / PICKLE).is_file()):
        return f"has no weights (*.safetensors or {PICKLE})"
    return None


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files a folder should hold, in alphabetical order; those of its index if it has one.

    Raises:
        ValueError: the index is none.
    """
    index = folder / INDEX
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        return [folder / name for name in sorted(set(json.loads(index.read_text("utf-8"))["weight_map"].values()))]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"'{index}' is no index of weights, a JSON object whose weight_map names the file of each tensor: fetch it "
            "again"
        ) from error


def weights_mb(folder: Path, dtype: torch.dtype) -> float:
    """Return the MB that the weights of a model folder take in a number format; only the files' headers are read.

    Raises:
        ValueError: a file is damaged.
    """
    try:
        return sum(map(_numbers, weight_files(folder))) * dtype.itemsize / 2**20
    except SafetensorError as error:
        raise ValueError(f"weights in '{folder}' are damaged ({brief(error)}): fetch them again") from error


def _numbers(file: Path) -> int:
    with safe_open(file, "pt") as tensors:
        return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118

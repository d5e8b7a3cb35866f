"""The tensors of a head's folder, without running anything that lies in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from primitives.models.folder import PICKLE, weight_files
from primitives.models.wording import brief

Tensors = dict[str, torch.Tensor]
# What some checkpoints hold beside the head's tensors.
SUPERFLUOUS: Final = ("rotary_emb.inv_freq",)
# How a file begins that was saved in the place of weights.
_STANDS_IN: Final = {b"version https://git-lfs": "a git-lfs pointer", b"<": "a web page"}
# How torch.save begins: with a zip archive, or in the older format with a pickle.
_SAVED: Final = (b"PK", b"\x80")


def read_tensors(folder: Path, owner: str) -> Tensors:
    """Return the named tensors of a folder; `owner` begins the sentence of an error.

    Raises:
        ValueError: weights are missing, damaged, not fetched, or more than plain tensors.
    """
    files = weight_files(folder)
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise ValueError(f"{owner} lacks weight files ({', '.join(missing)}): fetch it again")
    pickle = folder / PICKLE
    if not files and not pickle.is_file():
        raise ValueError(f"{owner} has neither model.safetensors nor {PICKLE}: give the folder of an EAGLE head")
    for file in files or [pickle]:
        _check_begin(file, owner)
    loaded = _safe(files, owner) if files else _unpickled(pickle, owner)
    return {str(name): tensor for name, tensor in loaded.items() if not str(name).endswith(SUPERFLUOUS)}


def _check_begin(file: Path, owner: str) -> None:
    with file.open("rb") as stream:
        begin = stream.read(256)
    for mark, what in _STANDS_IN.items():
        if begin.lstrip().startswith(mark):
            raise ValueError(f"{owner}: {file.name} is {what} and not the weights: fetch it again whole")
    if file.name == PICKLE and not begin.startswith(_SAVED):
        raise ValueError(f"{owner}: {file.name} does not begin as torch.save begins a file: fetch it again whole")


def _safe(files: list[Path], owner: str) -> Tensors:
    found: Tensors = {}
    for file in files:
        try:
            found |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{owner} has damaged weights ({file.name}: {brief(error)}): fetch it again") from error
    return found


def _unpickled(file: Path, owner: str) -> Mapping[Any, torch.Tensor]:
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise ValueError(
            f"{owner}: {file.name} holds more than plain weights, and what is in it could run code: convert it to "
            "model.safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"{owner} has a damaged {file.name}: fetch it again") from error
    if not isinstance(loaded, Mapping) or not all(isinstance(value, torch.Tensor) for value in loaded.values()):
        raise ValueError(f"{owner}: {file.name} holds something else than named tensors, so it is no EAGLE head")
    return loaded

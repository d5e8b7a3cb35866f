"""EAGLE heads on the disk, in the published layout: read with every tensor checked, and written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from safetensors.torch import save_file

from primitives.models.eagle2_head import Eagle2Head
from primitives.models.eagle3_head import Eagle3Head
from primitives.models.eagle_config import HeadConfig
from primitives.models.eagle_head import EagleHead
from primitives.models.eagle_weights import Tensors, read_tensors

EMBEDDING: Final = "embed_tokens.weight"
# What tells a head of the other kind.
MARKS: Final = {"eagle2": "layers.0.", "eagle3": "midlayer."}


@dataclass(frozen=True, eq=False)
class HeadTarget:
    """What a head must know of its target.

    Attributes:
        embeddings: [V, h'], the input embedding matrix.
        output: [V, h'], the output embedding matrix.
        num_layers: decoder layers.
    """

    embeddings: torch.Tensor
    output: torch.Tensor
    num_layers: int

    @property
    def features(self) -> tuple[int, int, int]:
        """The layers whose entering states EAGLE-3 takes: a low, a middle and a high one."""
        return (2, self.num_layers // 2, self.num_layers - 3)


def load_head(folder: Path, kind: str, target: HeadTarget) -> EagleHead:
    """Return a head in evaluation mode, on the target's device and in its dtype.

    Args:
        folder: config.json, and model.safetensors or pytorch_model.bin.
        kind: "eagle2" or "eagle3".
        target: the model that the head is to draft for.

    Raises:
        ValueError: a file is missing or no plain weights, or a tensor or size does not fit head or target.
    """
    owner = f"draft_model '{folder}'"
    config = HeadConfig.read(folder)
    tensors = read_tensors(folder, owner)
    _check_kind(tensors, kind, owner)
    _check_target(config, target, owner)
    embedding = tensors.pop(EMBEDDING, None)
    if embedding is None:
        embedding = target.embeddings
    head = new_head(kind, config, embedding, target)
    if isinstance(head, Eagle3Head):
        _check_layers(head, config, tensors, target, owner)
        _fill_tables(tensors, config, owner)
    _check_tensors(head, tensors, embedding, owner)
    head.load_state_dict(tensors)
    head.train(False)
    head.requires_grad_(False)
    return head.to(target.embeddings.device, target.embeddings.dtype)


def new_head(kind: str, config: HeadConfig, embedding: torch.Tensor, target: HeadTarget) -> EagleHead:
    """Return a head with random weights over [V, h] embeddings."""
    if kind == "eagle2":
        return Eagle2Head(config, embedding, target.output)
    return Eagle3Head(config, embedding, config.layers or target.features)


def save_head(head: EagleHead, folder: Path, dtype: torch.dtype = torch.float16) -> None:
    """Write config.json and model.safetensors as published; EAGLE-1/2 heads have their embeddings with them."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {**head.config.keys(), "torch_dtype": str(dtype).removeprefix("torch.")}
    tensors = dict(head.state_dict())
    if head.kind == "eagle2":
        del keys["draft_vocab_size"]
        tensors[EMBEDDING] = head.embedding
    elif head.config.draft_vocab_size == head.config.vocab_size:
        del tensors["d2t"], tensors["t2d"]
    plain = {
        name: (tensor.to(dtype) if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in tensors.items()
    }
    save_file(plain, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(keys, indent=2) + "\n", "utf-8")


def _check_kind(tensors: Tensors, kind: str, owner: str) -> None:
    for other, mark in MARKS.items():
        if other != kind and any(name.startswith(mark) for name in tensors):
            raise ValueError(f"{owner} holds the tensors of an {other} head ({mark}...): set drafter={other}")


def _check_target(config: HeadConfig, target: HeadTarget, owner: str) -> None:
    rows, width = target.embeddings.shape
    if config.target_hidden_size != width:
        raise ValueError(
            f"{owner} is for targets of hidden size {config.target_hidden_size}, and this one's is {width}: give a "
            "head that was trained for this model"
        )
    if config.vocab_size != rows:
        raise ValueError(
            f"{owner} is for targets of {config.vocab_size} token ids, and this one has {rows}: give a head that was "
            "trained for this model"
        )


def _check_layers(head: Eagle3Head, config: HeadConfig, tensors: Tensors, target: HeadTarget, owner: str) -> None:
    wrong = [layer for layer in head.captures if not 0 <= layer < target.num_layers]
    if wrong:
        raise ValueError(
            f"{owner} looks at layer {wrong[0]}, and the target has layers 0 to {target.num_layers - 1}: give a head "
            "that was trained for this model"
        )
    fc = tensors.get("fc.weight")
    if fc is not None and fc.ndim == 2 and fc.shape[1] != head.fc.in_features:
        raise ValueError(
            f"{owner}: fc.weight takes features of width {fc.shape[1]}, but {len(head.captures)} layers of hidden size "
            f"{config.target_hidden_size} give {head.fc.in_features}"
        )


def _fill_tables(tensors: Tensors, config: HeadConfig, owner: str) -> None:
    """Check d2t and t2d against each other; make what a full vocabulary, or a missing t2d, leaves out."""
    size, full = config.draft_vocab_size, config.vocab_size
    d2t, t2d = tensors.get("d2t"), tensors.get("t2d")
    if d2t is None:
        if size != full:
            raise ValueError(
                f"{owner} rates {size} of {full} token ids and has no table d2t that says which: fetch it again whole"
            )
        d2t = torch.zeros(size, dtype=torch.int64)
    if d2t.shape != (size,) or d2t.is_floating_point():
        raise ValueError(f"{owner}: d2t must be whole numbers of shape [{size}], got {d2t.dtype} {list(d2t.shape)}")
    ids = torch.arange(size) + d2t
    default = "all zeros" if not d2t.any() else "the numbers 0, 1, 2, ..." if bool((d2t * 2 == ids).all()) else None
    if size != full and default:
        raise ValueError(
            f"{owner}: d2t holds {default}, a default that says nothing of which {size} of {full} token ids it rates: "
            "fetch a checkpoint with its own table"
        )
    if bool((ids < 0).any() or (ids >= full).any()) or len(ids.unique()) != size:
        raise ValueError(
            f"{owner}: d2t, read as offsets, does not name {size} different ids below {full}; a table of absolute ids "
            "must be turned into offsets first"
        )
    known = torch.zeros(full, dtype=torch.bool)
    known[ids] = True
    if t2d is not None and (t2d.shape != known.shape or not torch.equal(t2d.bool(), known)):
        raise ValueError(f"{owner}: d2t and t2d disagree on which token ids the head rates: fetch it again")
    tensors |= {"d2t": d2t.to(torch.int64), "t2d": known}


def _check_tensors(head: EagleHead, tensors: Tensors, embedding: torch.Tensor, owner: str) -> None:
    wanted = {name: tuple(tensor.shape) for name, tensor in head.state_dict().items()}
    missing, extra = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing:
        raise ValueError(f"{owner} lacks {len(missing)} tensors of an {head.kind} head (first: {missing[0]})")
    if extra:
        raise ValueError(
            f"{owner} holds {len(extra)} tensors that an {head.kind} head does not have (first: {extra[0]}), so it is "
            "another kind of head"
        )
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()} | {EMBEDDING: tuple(embedding.shape)}
    wanted[EMBEDDING] = (head.config.vocab_size, head.config.hidden_size)
    for name, shape in wanted.items():
        if shapes[name] != shape:
            raise ValueError(f"{owner}: {name} has shape {list(shapes[name])}, and config.json asks for {list(shape)}")

"""Whether the weights of a model fit into the memory that is free, told from their files before they are loaded."""

from __future__ import annotations

from math import prod
from pathlib import Path

import psutil
import torch
from safetensors import safe_open


def weights_mb(folder: Path, dtype: torch.dtype) -> float:
    """Return the MB that the weights in a model folder take in a number format.

    Only the headers of safetensors files are read; weights in other files count with the bytes that they have there.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return sum(file.stat().st_size for file in folder.glob("*.bin")) / 2**20
    return sum(map(_numbers, files)) * dtype.itemsize / 2**20


def free_mb(device: torch.device) -> float:
    """Return the MB that a new process could have on a device without swapping."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0] / 2**20)
    return float(psutil.virtual_memory().available / 2**20)


def _numbers(file: Path) -> int:
    with safe_open(file, "pt") as tensors:
        return sum(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys())  # noqa: SIM118

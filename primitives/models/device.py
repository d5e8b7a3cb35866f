"""Where a model runs and in which number format."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from primitives.registry import nearest

DEVICES = ("auto", "cpu", "cuda", "cuda:0")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
NATIVE_BF16 = frozenset({"amx_bf16", "avx512_bf16", "bf16", "svebf16"})  # as Linux calls it on x86 and on ARM
CPU_INFO = Path("/proc/cpuinfo")


def resolve_device(device: str) -> torch.device:
    """Return the device that is meant; `auto` is the first CUDA GPU if there is one, else the CPU.

    Raises:
        ValueError: an unknown name, or a GPU that this machine does not have.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return torch.device("cpu")
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        meant = nearest("cuda" if device == "gpu" else device, DEVICES)
        raise ValueError(f"device '{device}' is unknown: {meant} (cuda:N for the other GPUs)")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise ValueError(f"device '{device}' cannot be used: PyTorch sees no CUDA GPU here; set device=cpu or auto")
    index = int(match[1] or 0)
    if index >= count:
        raise ValueError(f"device '{device}' does not exist: the last of the {count} GPUs here is cuda:{count - 1}")
    return torch.device("cuda", index)


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """Return the dtype that is meant; `auto` is bfloat16 where the device computes in it natively, else float32.

    Raises:
        ValueError: an unknown name, or float16 on a CPU.
    """
    if dtype == "auto":
        return torch.bfloat16 if has_native_bf16(device) else torch.float32
    if dtype not in DTYPES:
        raise ValueError(f"dtype '{dtype}' is unknown: {nearest(dtype, ['auto', *DTYPES])}")
    if dtype == "float16" and device.type == "cpu":
        raise ValueError("dtype 'float16' cannot be used on a CPU: set dtype=auto, bfloat16 or float32")
    return DTYPES[dtype]


def dtype_name(dtype: torch.dtype) -> str:
    """Return "bfloat16" for torch.bfloat16, as the configuration writes it."""
    return str(dtype).removeprefix("torch.")


def has_native_bf16(device: torch.device) -> bool:
    """Return whether the hardware multiplies in bfloat16, so that it beats float32; False where nothing says so."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return CPU_INFO.is_file() and not NATIVE_BF16.isdisjoint(CPU_INFO.read_text("utf-8").split())

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from primitives.models import device
from primitives.models.device import has_native_bf16, resolve_device, resolve_dtype

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)


def set_gpus(monkeypatch: pytest.MonkeyPatch, count: int, capability: tuple[int, int] = (8, 0)) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)


def set_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: str) -> None:
    monkeypatch.setattr(device, "CPU_INFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"processor : 0\n{flags}\n")


def test_auto_is_the_first_gpu_or_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    set_gpus(monkeypatch, 2)
    assert resolve_device("auto") == resolve_device("cuda") == CUDA
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    set_gpus(monkeypatch, 0)
    assert resolve_device("auto") == resolve_device("cpu") == CPU


@pytest.mark.parametrize(
    ("gpus", "name", "words"),
    [
        (0, "cuda", "PyTorch sees no CUDA GPU here; set device=cpu or auto"),
        (0, "cuda:1", "PyTorch sees no CUDA GPU"),
        (2, "cuda:7", "the last of the 2 GPUs here is cuda:1"),
        (2, "cud", "did you mean 'cuda'"),
        (2, "cuda:-1", "is unknown"),
        (2, "mps", "Allowed: auto, cpu, cuda"),
    ],
)
def test_impossible_devices_are_refused(monkeypatch: pytest.MonkeyPatch, gpus: int, name: str, words: str) -> None:
    set_gpus(monkeypatch, gpus)
    with pytest.raises(ValueError, match=f"device '{name}' .*{words}"):
        resolve_device(name)


def test_auto_dtype_is_bfloat16_only_where_it_is_native(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_gpus(monkeypatch, 1, (9, 0))
    assert resolve_dtype("auto", CUDA) is torch.bfloat16
    set_gpus(monkeypatch, 1, (7, 5))
    assert resolve_dtype("auto", CUDA) is torch.float32
    for flags in ("flags : sse avx512_bf16 amx_tile", "flags\t: amx_bf16", "Features : fp asimd bf16"):
        set_cpu(monkeypatch, tmp_path, flags)
        assert resolve_dtype("auto", CPU) is torch.bfloat16
    set_cpu(monkeypatch, tmp_path, "flags : avx2 avx512f wbnoinvd")
    assert resolve_dtype("auto", CPU) is torch.float32
    (tmp_path / "cpuinfo").unlink()
    assert not has_native_bf16(CPU)


def test_named_dtypes() -> None:
    assert resolve_dtype("bfloat16", CPU) is torch.bfloat16
    assert resolve_dtype("float16", CUDA) is torch.float16
    with pytest.raises(ValueError, match="'float16' cannot be used on a CPU: set dtype=auto"):
        resolve_dtype("float16", CPU)
    with pytest.raises(ValueError, match="dtype 'bfloat' is unknown: did you mean 'bfloat16'"):
        resolve_dtype("bfloat", CPU)

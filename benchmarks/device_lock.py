"""One timing run on a device at a time: two side by side would each measure the other."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from rich.console import Console

from benchmarks.results import safe_name


@contextmanager
def device_to_itself(device: torch.device, cache: Path, console: Console) -> Iterator[None]:
    """Wait until no other timing run that shares the cache folder uses the device of this machine, then hold it."""
    folder = cache / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    # The lock ends with its process, however that dies.
    lock = FileLock(folder / f"{safe_name(f'{platform.node()}-{_name(device)}')}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        console.print(f"waiting: another timing run is using {device} of this machine", markup=False, highlight=False)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _name(device: torch.device) -> str:
    # Which card "cuda:0" is depends on the process.
    return str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else device.type

"""How much memory this process takes, and how much is free."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

_STATM = Path("/proc/self/statm")


def rss_mb() -> float | None:
    """Return the memory that the process holds now, in MB; None where the system has no /proc to tell."""
    if not _STATM.is_file():
        return None
    return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_rss_mb() -> float:
    """Return the most memory the process has held so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


@contextmanager
def enough_memory(sentence: Callable[[], str]) -> Iterator[None]:
    """Make a ValueError of a GPU that runs out of memory within the block.

    Args:
        sentence: returns what the error says; called when that has happened, so that it may save what is left.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise ValueError(sentence()) from error


def free_mb(device: torch.device) -> float:
    """Return the MB that a device has left, on a CPU without swapping."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0] / 2**20)
    return float(psutil.virtual_memory().available / 2**20)

"""Cached folders that are either whole or not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def published(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return `folder`, built once: whatever interrupts `build`, no half-written folder is ever seen under that name.

    Of several processes that want the same folder one builds it and the others wait.

    Args:
        folder: where the result lies.
        build: fills the empty folder that it is given.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{folder.name}.lock"):
        if folder.is_dir():
            return folder
        staging = folder.parent / f".{folder.name}.staging"
        # What lies there was left by a process that was killed: nobody else can hold the lock now.
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        try:
            build(staging)
            os.replace(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return folder

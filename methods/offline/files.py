"""Files that are whole or not there, and one sentence for a disk that takes no more."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from uuid import uuid4
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from primitives.datastores.manifest import StoreError


def write_whole(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Give a file its content at once: whatever interrupts this, and whoever does the same, it is whole or not there.

    Raises:
        StoreError: the disk does not take it.
    """
    partial = path.with_name(f".{path.name}.{uuid4().hex}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file: see :func:`write_whole`."""
    write_whole(path, lambda file: void(file.write(json.dumps(content).encode())))


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Write an array as .npy: see :func:`write_whole`."""
    write_whole(path, lambda file: np.save(file, array))


def void(_value: object) -> None:
    """Drop a value where a function without one is wanted."""


@contextmanager
def writing(path: Path, also: type[Exception] = OSError) -> Iterator[None]:
    """Name the path in errors of the disk.

    Args:
        path: what is written.
        also: what a library raises for such errors, if it is no OSError.

    Raises:
        StoreError: the disk does not take it.
    """
    try:
        yield
    except (OSError, also) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(
            f"cannot write {path}: {reason}; make room, then give the same command again, which goes on from what is "
            "finished; or set cache_dir=<folder on another disk>"
        ) from error


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the path, and what to do, where a file of an unfinished build cannot be read.

    Raises:
        StoreError: it is missing or damaged.
    """
    try:
        yield
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise StoreError(
            f"{path}, left by an unfinished build, cannot be read ({error}); "
            "delete it, then give the same command again"
        ) from error

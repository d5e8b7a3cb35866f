"""The folder of an unfinished build: what each batch has left, so that another start goes on from there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from methods.offline.documents import Batch
from methods.offline.files import reading, write_array, write_json, write_whole
from methods.offline.stores import StoreKind
from methods.offline.times import Times
from primitives.contract import Ints
from primitives.datastores.projection import Keys, Projection

PROJECTION: Final = "projection.npz"


class WorkFolder:
    """Files of a build: the projection, and of each batch its tokens, its keys and its notes.

    Args:
        path: the folder; made on the first write.
        kind: of the store; that of vectors has keys and a projection.
    """

    def __init__(self, path: Path, kind: StoreKind) -> None:
        self.path = path
        self.kind = kind
        self.times = Times(path / "times")

    def finished(self, number: int) -> bool:
        """Return whether a batch is done; one with a part that was lost, or deleted, is not."""
        files = [self.file(number, "json"), self.file(number, "tokens.npy")]
        if self.kind == "vectors":
            files += [self.file(number, "keys.npy"), self.path / PROJECTION]
        return all(file.is_file() for file in files)

    def finish(self, number: int, batch: Batch, keys: Keys | None) -> None:
        """Write down a batch, and the keys of its tokens if the store is to have some."""
        tokens = np.concatenate([np.empty(0, np.int64), *batch.answers]).astype(np.uint32)
        write_array(self.file(number, "tokens.npy"), tokens)
        if keys is not None:
            write_array(self.file(number, "keys.npy"), keys)
        write_json(self.file(number, "json"), batch.notes)

    def notes(self, number: int) -> dict[str, Any]:
        """Return what `Batch.notes` says of a finished batch."""
        with reading(path := self.file(number, "json")):
            content = json.loads(path.read_text(encoding="utf-8"))
            return {name: content[name] for name in Batch().notes}

    def tokens(self, number: int) -> Ints:
        """Return int64[n]: the tokens of a finished batch."""
        with reading(path := self.file(number, "tokens.npy")):
            return np.load(path).astype(np.int64)

    def keys(self, number: int) -> Keys:
        """Return float32[n, d], mapped: the keys of a finished batch."""
        with reading(path := self.file(number, "keys.npy")):
            keys: Keys = np.load(path, mmap_mode="r")
            return keys

    def projection(self) -> Projection | None:
        """Return the projection of the whole build, None if it is not fitted yet."""
        path = self.path / PROJECTION
        if not path.is_file():
            return None
        with reading(path), np.load(path) as parts:
            return Projection(parts["matrix"], parts["offset"])

    def keep_projection(self, projection: Projection) -> None:
        """Write down the projection of the whole build."""
        matrix, offset = projection.matrix, projection.offset
        write_whole(self.path / PROJECTION, lambda file: np.savez(file, matrix=matrix, offset=offset))

    def file(self, number: int, ending: str) -> Path:
        """Return a file of a batch."""
        return self.path / f"{number:05d}.{ending}"

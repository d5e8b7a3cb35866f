"""What the batches of a build have left, as one sequence of documents and one of keys, read from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from methods.offline.files import reading
from methods.offline.work import WorkFolder
from primitives.contract import Ints
from primitives.datastores.projection import Keys


class StoredDocuments(Sequence[Ints]):
    """The documents of all batches of a finished build, in order; the tokens of one batch are in memory at a time.

    Args:
        work: the build's folder.
        batches: how many there are.

    Attributes:
        notes: `Batch.notes` of each batch.
        lengths: int64[D], tokens of each document.
        starts: int64[batches + 1], the number of the first document of each batch, and at the end D.
    """

    def __init__(self, work: WorkFolder, batches: int) -> None:
        self.work = work
        self.notes = [work.notes(number) for number in range(batches)]
        self.lengths = np.array([length for note in self.notes for length in note["lengths"]], np.int64)
        self.starts = np.cumsum([0, *(len(note["lengths"]) for note in self.notes)], dtype=np.int64)
        self._ends = np.cumsum(self.lengths)
        self._open: tuple[int, Ints] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, place: Any) -> Any:
        """Return int64[n], the tokens of a document."""
        if not 0 <= place < len(self):
            raise IndexError(place)
        batch = int(np.searchsorted(self.starts, place, side="right")) - 1
        if self._open is None or self._open[0] != batch:
            self._open = batch, self._tokens(batch)
        before = self._ends[self.starts[batch] - 1] if self.starts[batch] else 0
        end = self._ends[place] - before
        return self._open[1][end - self.lengths[place] : end]

    @property
    def tokens(self) -> int:
        """Tokens of all documents."""
        return int(self.lengths.sum())

    def _tokens(self, batch: int) -> Ints:
        tokens = self.work.tokens(batch)
        check_length(self.work, batch, "tokens.npy", len(tokens), self.lengths_of(batch))
        return tokens

    def lengths_of(self, batch: int) -> Ints:
        """Return int64[d], the tokens of each document of a batch."""
        return self.lengths[self.starts[batch] : self.starts[batch + 1]]


class KeyBatches(Sequence[Keys]):
    """The keys of those documents that a store keeps, batch by batch, as `index.index_of` takes them.

    Args:
        documents: all that the build has.
        kept: int64[k], the numbers of those that the store keeps, ascending.
    """

    def __init__(self, documents: StoredDocuments, kept: Ints) -> None:
        self._documents = documents
        self._kept = np.zeros(len(documents), bool)
        self._kept[kept] = True

    def __len__(self) -> int:
        return len(self._documents.starts) - 1

    def __getitem__(self, batch: Any) -> Any:
        """Return float32[c, d], mapped from the disk unless documents of the batch are left out."""
        if not 0 <= batch < len(self):
            raise IndexError(batch)
        lengths = self._documents.lengths_of(batch)
        keys = self._documents.work.keys(batch)
        check_length(self._documents.work, batch, "keys.npy", len(keys), lengths)
        kept = self._kept[self._documents.starts[batch] : self._documents.starts[batch + 1]]
        return keys if kept.all() else keys[np.repeat(kept, lengths)]


def check_length(work: WorkFolder, batch: int, ending: str, found: int, lengths: Ints) -> None:
    """Raise StoreError if a file does not hold a row for each token of its batch."""
    with reading(work.file(batch, ending)):
        if found != lengths.sum():
            raise ValueError(f"it holds {found} rows instead of {lengths.sum()}")

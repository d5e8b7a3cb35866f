"""The two sides of the REST parity: our token store and drafter, and the retriever called `draftretriever`.

Two packages have that name. REST's own lies in its repository (github.com/FasterDecoding/REST, folder DraftRetriever: a
wheel for Python 3.9, and the source for any other). The one on PyPI (0.1.0 and 0.1.1) is ADED's: it walks a matrix of
trigrams at random, and looks nothing up in a suffix array.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from primitives.contract import Context, DraftTree, Ints
from primitives.datastores.token_store import TokenStore
from primitives.drafting.rest import ExactSuffixDrafter

FILLER = -2
VOCABULARY = 1 << 16

Paths = list[tuple[int, ...]]


class Ours:
    """Our store of some documents, on disk, and the drafter over it.

    Args:
        documents: token ids, each with its EOS.
        folder: where the store's files go.
        knobs: of the drafter.
    """

    def __init__(self, documents: Sequence[Ints], folder: Path, knobs: dict[str, Any]) -> None:
        self.folder = folder
        self.knobs = {**knobs, "eos_ids": frozenset(int(document[-1]) for document in documents)}
        folder.mkdir()
        TokenStore.build(documents).save(folder)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def open(self) -> Callable[[Ints], DraftTree]:
        """Map the files; return the search for a text."""
        drafter = ExactSuffixDrafter(TokenStore.load(self.folder, ""), VOCABULARY, **self.knobs)
        return lambda text: drafter.propose(context_of(text))


class Peer:
    """The retriever's index of some documents, and REST's loop over the lengths of the passage looked up.

    Args:
        documents: token ids.
        file: where the index goes.
        knobs: of our drafter, which are REST's too.

    Raises:
        ImportError: `draftretriever` is not there.
    """

    def __init__(self, documents: Sequence[Ints], file: Path, knobs: dict[str, Any]) -> None:
        module = import_module("draftretriever")
        self.file = file
        self.knobs = knobs
        self.is_rest = "max_chunk_len" in inspect.signature(module.Writer.__init__).parameters
        total = sum(map(len, documents))
        words = {"index_file_path": str(file), "max_chunk_len": total} if self.is_rest else {"file_path": str(file)}
        writer = module.Writer(**words, vocab_size=VOCABULARY)
        for document in documents:
            writer.add_entry(document.tolist())
        writer.finalize()

    @property
    def size(self) -> int:
        """Bytes of its file."""
        return self.file.stat().st_size

    def open(self) -> Callable[[Ints], Paths]:
        """Read the index; return the search for a text: its candidates without filler.

        The search raises ValueError where the retriever cannot cut its tree to the size asked for.
        """
        reader, knobs = import_module("draftretriever").Reader(str(self.file)), self.knobs

        def search(text: Ints) -> Paths:
            end = text[-knobs["max_span"] :].tolist()
            # ADED's looks at the last tokens of what it is given, REST's for all of it.
            shortest = knobs["min_span"] if self.is_rest else len(end)
            for span in range(len(end), shortest - 1, -1):
                found = reader.search(end[-span:], k=knobs["hits"], choices=knobs["nodes"], long=knobs["length"])
                if found[0]:
                    return [tuple(token for token in path if token != FILLER) for path in found[0]]
            return []

        return search


def context_of(text: Ints) -> Context:
    """Return what a drafter sees that looks at the text alone."""
    return Context(np.asarray(text), torch.empty(0), torch.empty(0), budget=len(text))

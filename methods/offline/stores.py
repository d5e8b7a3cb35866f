"""What a retrieval drafter searches: the store of a run, opened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from primitives.datastores.manifest import MANIFEST_FILE, open_token_store, open_vector_store
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import VectorStore

StoreKind = Literal["tokens", "vectors"]


@dataclass(frozen=True, eq=False)
class Stores:
    """A token store, alone or as a part of a vector store.

    Attributes:
        tokens: the documents.
        vectors: their hidden states; None where no drafter asks for them.
        folder: where the files lie.
        facts: what the build wrote down: prompts, what was left out, seconds, sizes.
    """

    tokens: TokenStore
    vectors: VectorStore | None
    folder: Path
    facts: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def _whole(self) -> TokenStore | VectorStore:
        return self.tokens if self.vectors is None else self.vectors

    @property
    def fingerprint(self) -> str:
        """Identity of the files."""
        return self._whole.fingerprint

    @property
    def nbytes(self) -> int:
        """Bytes of all parts, in memory or mapped."""
        return self._whole.nbytes


def open_stores(folder: Path, kind: StoreKind, identity: Mapping[str, Any], rebuild: str, device: str) -> Stores:
    """Return the store in a folder once it is found whole, and made of the same things.

    Raises:
        StoreError: it is not; the sentence ends with `rebuild`.
    """
    vectors = open_vector_store(folder, identity, rebuild, device) if kind == "vectors" else None
    tokens = open_token_store(folder, identity, rebuild) if vectors is None else vectors.token_store
    content = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    return Stores(tokens, vectors, folder, content["facts"])

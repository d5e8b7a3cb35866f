"""What an opened store takes: on the disk, and of the memory of the process that searches it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from methods.memory import peak_rss_mb, rss_mb
from primitives.datastores.manifest import MANIFEST_FILE
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import INDEX_FILE, VectorStore

QUERIES = 100
NEIGHBOURS = 50
SPAN = 16
MB = 2**20


def sizes_of(folder: Path) -> dict[str, float | None]:
    """Return the sizes of a store in MB, after opening it and searching it a hundred times.

    The names are those of the SENSE paper's Tables 7 to 9, with a reading of our own where it does not define them:
    "metadata" is the token store, "cache" the projection; like these, the index is memory-mapped.
    """
    before = rss_mb()
    tokens = TokenStore.load(folder, "")
    vectors = VectorStore.load(folder, tokens, "") if (folder / INDEX_FILE).is_file() else None
    search(tokens, vectors)
    after = rss_mb()
    files = {file.name: file.stat().st_size / MB for file in folder.iterdir() if file.name != MANIFEST_FILE}
    return {
        "disk": sum(files.values()),
        "index_on_disk": files.get(INDEX_FILE, 0.0),
        "ram": (tokens if vectors is None else vectors).nbytes / MB,
        "metadata": tokens.nbytes / MB,
        "cache": 0.0 if vectors is None else vectors.projection.matrix.nbytes / MB,
        "rss_baseline": before,
        "rss_delta": None if before is None or after is None else after - before,
        "rss_peak": peak_rss_mb(),
    }


def search(tokens: TokenStore, vectors: VectorStore | None) -> None:
    """Search a store for passages of its own, and for random keys."""
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(tokens), QUERIES):
        tokens.longest_match(tokens.tokens[place : place + SPAN].astype(np.int64))
        if vectors is not None:
            key = rng.standard_normal(vectors.index.d).astype(np.float32)
            _, ids = vectors.search(key / np.linalg.norm(key), NEIGHBOURS)
            vectors.continuations(ids, SPAN)

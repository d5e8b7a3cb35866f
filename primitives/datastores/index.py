"""The FAISS index over the keys of a store: which kind, and building it in little memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Any, Final, Literal

import faiss
import numpy as np

from primitives.datastores.projection import Keys

_LOG = logging.getLogger(__name__)

IndexKind = Literal["auto", "ivf_pq", "flat", "hnsw"]
# What FAISS asks for at the least; more makes training slower, and the recall of a store of real keys no better.
POINTS_PER_CENTROID: Final = 39
CODEBOOK_ROUNDS: Final = 10
# On real keys of 64 dimensions recall@10 is 0.94 with a part for each dimension, and 0.64 with 16 parts.
MOST_SUBSPACES: Final = 64
BATCH: Final = 65_536
# M and efConstruction of the graph; FAISS's own are 32 and 40.
HNSW_LINKS: Final = 32
HNSW_BREADTH: Final = 80


def check_index(total: int, dim: int, kind: IndexKind = "auto", subspaces: int | None = None, bits: int = 8) -> None:
    """Raise the ValueError of `index_of` before there are any keys."""
    _is_exact(total, kind, bits)
    _subspaces(dim, subspaces)


def index_of(
    key_batches: Sequence[Keys],
    total: int,
    dim: int,
    kind: IndexKind = "auto",
    lists: int | None = None,
    subspaces: int | None = None,
    bits: int = 8,
) -> Any:
    """Return the index of keys that come in batches, such as the memory-mapped files of a build's shards.

    The batches are gone through twice: for a training sample spread evenly over all keys, then to add them. Memory is
    the index, the sample and one batch. The same keys give the same bytes, however they are cut into batches.

    Args:
        key_batches: float32[c, d] or float16[c, d] each.
        total: keys of all batches together.
        dim: key dimensions.
        kind: "ivf_pq", "hnsw", "flat" (exact inner product), or "auto": IVF-PQ where there are keys enough to train it.
        lists: inverted lists (nlist); None is 4 sqrt(total). Never more than there are training points for.
        subspaces: parts that a key is quantised in (m), a divisor of `dim`; None is the largest up to 64.
        bits: of the code of a part (nbits), 4 to 12.

    Raises:
        ValueError: IVF-PQ asked for with fewer keys than its training needs, parts that do not divide the key, or
            batches that do not hold `total` keys.
    """
    held = sum(map(len, key_batches))
    if held != total:
        raise ValueError(f"the datastore's tokens need {total} keys, and there are {held}; build the keys again")
    parts = _subspaces(dim, subspaces)
    if kind == "hnsw":
        return _graph(key_batches, dim)
    if _is_exact(total, kind, bits):
        if kind == "auto":
            needed = POINTS_PER_CENTROID * 2**bits
            _LOG.info("store of %d keys: exact search, since IVF-PQ needs %d to train", total, needed)
        return _filled(faiss.IndexFlatIP(dim), key_batches)
    lists = min(lists or 4 * isqrt(total), total // POINTS_PER_CENTROID)
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dim), dim, lists, parts, bits, faiss.METRIC_INNER_PRODUCT)
    index.pq.cp.niter = CODEBOOK_ROUNDS
    index.pq.cp.max_points_per_centroid = POINTS_PER_CENTROID
    index.train(_sample(key_batches, total, POINTS_PER_CENTROID * max(lists, 2**bits)))
    return _filled(index, key_batches)


def _is_exact(total: int, kind: IndexKind, bits: int) -> bool:
    needed = POINTS_PER_CENTROID * 2**bits
    if kind == "ivf_pq" and total < needed:
        raise ValueError(
            f"datastore.index=ivf_pq needs at least {needed} keys to train and the store has {total}; "
            "use index=auto or flat, or more prompts"
        )
    return kind == "flat" or total < needed


def _subspaces(dim: int, wanted: int | None) -> int:
    if wanted is not None and dim % wanted:
        raise ValueError(f"datastore.m={wanted} does not divide datastore.pca_dim={dim}; choose a divisor of {dim}")
    return wanted or max(m for m in range(1, MOST_SUBSPACES + 1) if dim % m == 0)


def _graph(key_batches: Sequence[Keys], dim: int) -> Any:
    index = faiss.IndexHNSWFlat(dim, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = HNSW_BREADTH
    threads = faiss.omp_get_max_threads()
    # Threads link keys in the order in which they happen to come, and every build would give another graph.
    faiss.omp_set_num_threads(1)
    try:
        return _filled(index, key_batches)
    finally:
        faiss.omp_set_num_threads(threads)


def _filled(index: Any, key_batches: Sequence[Keys]) -> Any:
    for keys in _rebatched(key_batches, index.d):
        index.add(keys)
    return index


def _rebatched(key_batches: Sequence[Keys], dim: int) -> Iterator[Keys]:
    """Yield all keys as float32, BATCH at a time: FAISS rounds a batch of another size otherwise."""
    buffer = np.empty((BATCH, dim), np.float32)
    filled = 0
    for batch in key_batches:
        start = 0
        while start < len(batch):
            taken = min(BATCH - filled, len(batch) - start)
            buffer[filled : filled + taken] = batch[start : start + taken]
            start, filled = start + taken, filled + taken
            if filled == BATCH:
                yield buffer
                filled = 0
    if filled:
        yield buffer[:filled]


def _sample(key_batches: Sequence[Keys], total: int, count: int) -> Keys:
    """Return float32[min(count, total), d] keys at even distances over all batches."""
    count = min(count, total)
    rows = np.arange(count) * total // count
    parts: list[Keys] = []
    start = 0
    for batch in key_batches:
        low, high = np.searchsorted(rows, (start, start + len(batch)))
        parts.append(np.asarray(batch[rows[low:high] - start], np.float32))
        start += len(batch)
    return np.concatenate(parts)

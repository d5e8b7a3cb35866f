"""What stores cost as they grow: disk, memory, build and query, on synthetic tokens and keys.

OMP_NUM_THREADS=1 python -m benchmarks.micro.store_scaling results/store_scaling.csv [--tokens N ...] [--kinds K ...]

Times are CPU seconds of one thread, so that other work on the machine does not count; reading from a cold disk is not
in them. Each build, and each set of queries, has a process of its own, whose memory is then all its own. Keys are unit
vectors around centres of unequal weight, about as uneven as those of real hidden states.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Final, Literal, cast

import numpy as np
import pandas as pd
from rich.console import Console

from methods.memory import peak_rss_mb, rss_mb
from primitives.contract import Ints
from primitives.datastores.index import IndexKind, index_of
from primitives.datastores.projection import Keys, Projection
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import VectorStore

Kind = Literal["tokens", "flat", "ivf_pq", "hnsw"]
KINDS: Final = ("tokens", "flat", "ivf_pq", "hnsw")
SIZES: Final = (100_000, 1_000_000, 10_000_000)
# One thread links about 2,000 keys a second into a graph.
LARGEST_GRAPH: Final = 1_000_000
DIM: Final = 64
DOCUMENT: Final = 170
VOCABULARY: Final = 50_000
CENTRES: Final = 4096
BATCH: Final = 65_536
QUERIES: Final = 200
NEIGHBOURS: Final = 50
PROBES: Final = 16
HITS: Final = 5000
LENGTH: Final = 10
MB: Final = 2**20


@dataclass
class SyntheticKeys(Sequence[Keys]):
    """Unit vectors in batches, made when they are asked for and the same each time.

    Attributes:
        total: keys in all.
        seconds: CPU seconds that making them has taken.
    """

    total: int
    seconds: float = 0.0

    def __len__(self) -> int:
        return -(-self.total // BATCH)

    def __getitem__(self, number: Any) -> Any:
        """Return float32[c, DIM]."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        start = process_time()
        keys = keys_of(np.random.default_rng(number + 1), min(BATCH, self.total - number * BATCH))
        self.seconds += process_time() - start
        return keys


def keys_of(rng: np.random.Generator, count: int) -> Keys:
    """Return float32[count, DIM] unit vectors around fixed centres, each centre the rarer the higher its number."""
    centres = np.random.default_rng(0).standard_normal((CENTRES, DIM)).astype(np.float32)
    chosen = (CENTRES * rng.random(count) ** 2).astype(np.int64)
    keys = centres[chosen] + 0.5 * rng.standard_normal((count, DIM)).astype(np.float32)
    return keys / np.linalg.norm(keys, axis=1, keepdims=True)


def documents_of(total: int) -> list[Ints]:
    """Return documents of Zipf-distributed tokens."""
    tokens = np.minimum(np.random.default_rng(0).zipf(1.2, total), VOCABULARY) - 1
    return np.array_split(tokens.astype(np.int64), -(-total // DOCUMENT))


def build(kind: Kind, total: int, folder: Path) -> dict[str, float]:
    """Build a store, and return what that took; a vector store takes the token store that lies beside it."""
    (folder / kind).mkdir()
    if kind == "tokens":
        documents = documents_of(total)
        start = process_time()
        TokenStore.build(documents).save(folder / kind)
    else:
        tokens = TokenStore.load(folder / "tokens", "")
        keys = SyntheticKeys(total)
        start = process_time()
        index = index_of(keys, total, DIM, cast(IndexKind, kind))
        start += keys.seconds
        same = Projection(np.eye(DIM, dtype=np.float32), np.zeros(DIM, np.float32))
        VectorStore(same, index, tokens).save(folder / kind)
    return {"build_s": process_time() - start, "build_peak_mb": peak_rss_mb()}


def query(kind: Kind, total: int, folder: Path) -> dict[str, float]:
    """Search a store, and return the median CPU milliseconds of a query and the memory that it took."""
    before = rss_mb() or 0.0
    tokens = TokenStore.load(folder / kind, "")
    search: Callable[[int], object]
    if kind == "tokens":
        search, disk = partial(_matches, tokens), tokens.nbytes
    else:
        store = VectorStore.load(folder / kind, tokens, "")
        store.probe(PROBES)
        keys = keys_of(np.random.default_rng(10**6), QUERIES)
        search, disk = partial(_neighbours, store, keys), store.nbytes - tokens.nbytes
    times = [_seconds(partial(search, number)) for number in range(QUERIES)]
    return {
        "bytes_per_token": disk / total,
        "query_ms": float(np.median(times)) * 1e3,
        "searched_mb": (rss_mb() or 0.0) - before,
    }


def _matches(tokens: TokenStore, number: int) -> Ints:
    place = int(np.random.default_rng(number).integers(len(tokens) - DOCUMENT))
    found = tokens.longest_match(tokens.tokens[place : place + DOCUMENT].astype(np.int64))
    return tokens.continuations(tokens.positions(found.low, found.high, HITS), LENGTH, found.length)


def _neighbours(store: VectorStore, keys: Keys, number: int) -> Ints:
    return store.continuations(store.search(keys[number], NEIGHBOURS)[1], LENGTH)


def _seconds(work: Callable[[], object]) -> float:
    start = process_time()
    work()
    return process_time() - start


def measure(kinds: Sequence[Kind], sizes: Sequence[int]) -> pd.DataFrame:
    """Return a row for each kind of store and size."""
    rows = []
    for total in sizes:
        with TemporaryDirectory() as name:
            folder = Path(name)
            for kind in dict.fromkeys(["tokens", *kinds]):
                if kind == "hnsw" and total > LARGEST_GRAPH:
                    continue
                figures = [_alone(work, kind, total, folder) for work in (build, query)]
                rows.append({"kind": kind, "tokens": total, **figures[0], **figures[1]})
                Console(stderr=True).print(rows[-1])
    return pd.DataFrame(rows).sort_values(["kind", "tokens"], kind="stable")


def _alone(work: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def main() -> None:
    """Write the table as CSV and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path)
    parser.add_argument("--tokens", type=int, nargs="+", default=SIZES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    words = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        parser.error("set OMP_NUM_THREADS=1: the CPU seconds of several threads are not the seconds that pass")
    table = measure(words.kinds, words.tokens)
    table.to_csv(words.csv, index=False, float_format="%.4g")
    Console(width=140).print(table.to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    main()

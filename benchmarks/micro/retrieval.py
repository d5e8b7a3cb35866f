"""What a search among a model's real keys costs, and what an approximate index misses of the exact neighbours.

python -m benchmarks.micro.retrieval datastore=ood datastore.num_prompts=7473 [key=value ...]

The store is built with exact keys, and indexed again here. Queries are states of the test split's reference answers.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np
import torch
from rich.table import Table

from benchmarks.micro.rig import console
from benchmarks.turns import turn_ids
from corpora.loading import load_corpus
from methods.pipeline import Pipeline, load_pipeline
from primitives.contract import Context, Ints, TargetView
from primitives.datastores.index import index_of
from primitives.datastores.projection import Keys
from primitives.datastores.vector_store import VectorStore
from primitives.models.batching import hidden_states
from primitives.registry import DRAFTERS

QUERIES: Final = 200
NEAREST: Final = 10
NEIGHBOURS: Final = 50
NAMES: Final = ("sen", "dresd")


@dataclass(frozen=True, eq=False)
class Query:
    """A place in a text.

    Attributes:
        tokens: int64[T+1], what stands before it, and the token that the model's states are asked about.
        hidden: float32[T, h], the states of all but that token.
    """

    tokens: Ints
    hidden: Keys


def main() -> None:
    """Search with every kind of index in turn, then draft with the approximate one."""
    pipeline = load_pipeline("method=sense", "datastore.index=flat", *sys.argv[1:])
    assert pipeline.store is not None
    exact = pipeline.store.vectors
    assert exact is not None
    queries = _queries(pipeline)
    keys = exact.projection(np.stack([query.hidden[-1] for query in queries]))
    truth = exact.index.search(keys, NEAREST)[1]
    table = Table(title=f"{len(exact):,} keys of {exact.index.d} dimensions, {len(queries)} queries")
    for column in ("index", "build, s", f"search of {NEIGHBOURS}, ms", "90 %", f"recall@{NEAREST}"):
        table.add_column(column, justify="left" if column == "index" else "right")
    begun = perf_counter()
    approximate = _indexed(exact, pipeline.settings.datastore.nprobe)
    built = perf_counter() - begun
    for name, store, seconds in (("flat", exact, None), ("ivf_pq", approximate, built)):
        searches = [_search(store, key) for key in keys]
        recall = np.mean([np.isin(row, ids[:NEAREST]).mean() for row, (_, ids) in zip(truth, searches, strict=True)])
        times = [spent for spent, _ in searches]
        shown = "" if seconds is None else f"{seconds:.0f}"
        table.add_row(name, shown, f"{np.median(times):.2f}", f"{np.percentile(times, 90):.2f}", f"{recall:.3f}")
    console.print(table)
    for name in NAMES:
        times = _drafting(name, approximate, pipeline, queries)
        console.print(
            f"{name} over ivf_pq: a draft takes {np.median(times):.2f} ms, 90 % {np.percentile(times, 90):.2f}"
        )


def _queries(pipeline: Pipeline) -> list[Query]:
    """Return places spread over the reference answers of the test split."""
    found: list[Query] = []
    examples = load_corpus(pipeline.settings.dataset, "test").examples
    for turn, example in enumerate(examples):
        prompt = turn_ids(pipeline, example)
        answer = pipeline.model.tokenizer(example.reference, add_special_tokens=False).input_ids
        text = np.array([*prompt, *answer], np.int64)
        states = hidden_states(pipeline.model.model, [text], pipeline.settings.datastore.layer)[0]
        count = QUERIES * (turn + 1) // len(examples) - QUERIES * turn // len(examples)
        for place in np.linspace(len(prompt), len(text) - 1, count).astype(int):
            found.append(Query(text[: place + 1], states[:place]))
    return found


def _indexed(exact: VectorStore, probes: int) -> VectorStore:
    keys = exact.index.reconstruct_n(0, len(exact))
    index = index_of([keys], len(exact), exact.index.d, "ivf_pq")
    store = VectorStore(exact.projection, index, exact.token_store)
    store.probe(probes)
    return store


def _search(store: VectorStore, key: Keys) -> tuple[float, Ints]:
    begun = perf_counter()
    found = store.search(key, NEIGHBOURS)[1]
    return (perf_counter() - begun) * 1e3, found


def _drafting(name: str, store: VectorStore, pipeline: Pipeline, queries: list[Query]) -> list[float]:
    """Return the milliseconds of each draft."""
    resources: dict[str, Any] = {"vector_store": store, "eos_ids": pipeline.target.eos_ids}
    drafter = DRAFTERS.build(name, {}, resources)
    logits = torch.zeros(1, pipeline.target.vocab_size)
    times = []
    for query in queries:
        hidden = torch.from_numpy(query.hidden)
        drafter.start(query.tokens[:-1], TargetView(logits, hidden))
        begun = perf_counter()
        drafter.propose(Context(query.tokens, logits[0], hidden[-1], NEIGHBOURS))
        times.append((perf_counter() - begun) * 1e3)
        drafter.finish()
    return times


if __name__ == "__main__":
    main()

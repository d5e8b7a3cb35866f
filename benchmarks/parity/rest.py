"""REST against `draftretriever`: the same candidates, and time and memory of both, over all train answers.

python -m benchmarks.parity.rest [key=value ...]    # without draftretriever it says so and does nothing

The peer knows no end of a document, so the candidates are compared over one long document. It keeps the most frequent
prefixes, any of those that are equally frequent, and then drops those of the most different tokens until the rest sum
up to the size of its tree. Two sets are alike, then, if the peer's holds nothing rarer than our rarest, and lacks only
what is as rare as that, or has as many different tokens as anything it kept and would not have fitted in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from benchmarks.micro.rig import console
from benchmarks.parity.rest_sides import VOCABULARY, Ours, Paths, Peer, context_of
from corpora.loading import load_corpus
from methods.places import cache_folder
from methods.schema import Settings
from methods.settings import compose
from primitives.contract import Floats, Ints
from primitives.datastores.token_store import TokenStore
from primitives.drafting.rest import ExactSuffixDrafter
from primitives.models.loading import model_folder

QUERIES = 1000
ROUNDS = 5
PAGE = 4096

Counts = dict[tuple[int, ...], float]
Search = Callable[[Ints], Any]


def main() -> int:
    """Compare sets, then time and memory; exit code 1 if a set differs."""
    settings = compose(["method=rest", *sys.argv[1:]])
    knobs = {key: value for key, value in settings.drafter.items() if key != "name"}
    documents, texts = _tokens(settings)
    queries = _queries(texts, np.concatenate(documents))
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            peer = Peer(documents, folder / "peer", knobs)
        except ImportError as error:
            console.print(f"skipped: {error}; benchmarks/parity/rest_sides.py says where to get it")
            return 0
        different = _compare_sets(documents, queries, peer, knobs)
        ours = Ours(documents, folder / "ours", knobs)
        few = documents[: len(documents) // 100]
        _compare_memory("ours", ours, Ours(few, folder / "ours-few", knobs), queries)
        _compare_memory("peer", peer, Peer(few, folder / "peer-few", knobs), queries)
        _compare_times(ours, peer, queries)
    return int(different > 0)


def _tokens(settings: Settings) -> tuple[list[Ints], list[Ints]]:
    """Return all train answers with an EOS behind each, and the test texts."""
    folder, _ = model_folder(settings.model, cache_folder(settings))
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False).input_ids)

    answers = load_corpus(settings.dataset, "train").examples
    texts = load_corpus(settings.dataset, "test").examples
    return (
        [np.array([*ids(example.reference), tokenizer.eos_token_id]) for example in answers],
        [np.array(ids(f"{example.instruction}\n{example.reference}")) for example in texts],
    )


def _queries(texts: Sequence[Ints], corpus: Ints) -> list[Ints]:
    """Return beginnings of the test texts and, as many, passages of 2 to 16 tokens of the corpus."""
    rng = np.random.default_rng(0)
    queries = []
    for _ in range(QUERIES // 2):
        text = texts[int(rng.integers(len(texts)))]
        queries.append(text[: rng.integers(2, len(text) + 1)])
        start = rng.integers(len(corpus) - 16)
        queries.append(corpus[start : start + rng.integers(2, 17)])
    return queries


def _compare_sets(documents: Sequence[Ints], queries: Sequence[Ints], peer: Peer, knobs: dict[str, Any]) -> int:
    """Print how many candidate sets are alike; return how many are not."""
    search = peer.open()
    if not peer.is_rest:
        again = sum(sorted(search(query)) == sorted(search(query)) for query in queries)
        console.print(
            "candidate sets: skipped, since this draftretriever is not REST's but ADED's, a random walk over trigrams; "
            f"asked twice it gives the same set for {again:,} of {len(queries):,} queries"
        )
        return 0
    store = TokenStore.build([np.concatenate(documents)])
    drafter = ExactSuffixDrafter(store, VOCABULARY, **knobs)
    everything = ExactSuffixDrafter(store, VOCABULARY, **{**knobs, "nodes": knobs["hits"] * knobs["length"]})
    tally = {"identical": 0, "alike": 0, "different": 0, "refused": 0}
    for query in queries:
        try:
            paths = search(query)
        except ValueError:
            tally["refused"] += 1
            continue
        tally[_verdict(paths, _counts(drafter, query), _counts(everything, query), knobs["nodes"])] += 1
    console.print(
        f"candidate sets of {len(queries):,} queries: {tally['identical']:,} identical, {tally['alike']:,} alike up to "
        f"ties and the peer's cut, {tally['different']:,} different; the peer gave up on {tally['refused']:,}"
    )
    return tally["different"]


def _verdict(paths: Paths, mine: Counts, counts: Counts, nodes: int) -> str:
    """Judge the candidates of a peer by our tree, and by all prefixes and how often each occurs."""
    theirs = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    if theirs == mine.keys():
        return "identical"
    rarest = min(mine.values()) if len(mine) == nodes else 0
    width = [len(set(path)) for path in paths]
    cut = [len(set(path)) for path in mine.keys() - theirs if counts[path] > rarest]
    sound = all(counts.get(path, -1) >= rarest for path in theirs)
    fair = not cut or (min(cut) >= max(width, default=0) and sum(width) + min(cut) > nodes)
    return "alike" if sound and fair else "different"


def _counts(drafter: ExactSuffixDrafter, query: Ints) -> Counts:
    """Return the prefixes in a drafter's tree and their counts."""
    tree = drafter.propose(context_of(query))
    if tree.scores is None:
        return {}
    prefixes: list[tuple[int, ...]] = [()]
    for token, parent in zip(tree.tokens[1:].tolist(), tree.parents[1:].tolist(), strict=True):
        prefixes.append((*prefixes[parent], token))
    return dict(zip(prefixes[1:], tree.scores[1:].tolist(), strict=True))


def _compare_memory(name: str, side: Ours | Peer, small: Ours | Peer, queries: Sequence[Ints]) -> None:
    """Print by how much a fresh process grows that opens an index and answers all queries."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_grow, args=(side, small, queries, sender))
    process.start()
    grown: int = receiver.recv()
    process.join()
    console.print(
        f"{name}: files {side.size / 2**20:.2f} MB, memory {grown / 2**20:.2f} MB, {grown / side.size:.2f} times that"
    )


def _grow(side: Ours | Peer, small: Ours | Peer, queries: Sequence[Ints], sender: Connection) -> None:
    """Send how many bytes it takes; code, and what a query needs for a while, are there from a small index before."""
    _answer(small.open(), queries)
    before = _resident()
    search = side.open()
    _answer(search, queries)
    sender.send(_resident() - before)


def _answer(search: Search, queries: Sequence[Ints]) -> None:
    for query in queries:
        search(query)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def _compare_times(ours: Ours, peer: Peer, queries: Sequence[Ints]) -> None:
    """Print the median over the queries, each of which takes the median of its rounds; both sides take turns."""
    searches = (ours.open(), peer.open())
    spent: Floats = np.empty((ROUNDS, 2, len(queries)))
    for turn in range(ROUNDS):
        for number, query in enumerate(queries):
            for side, search in enumerate(searches):
                start = perf_counter()
                search(query)
                spent[turn, side, number] = (perf_counter() - start) * 1e3
    mine, theirs = np.median(spent, axis=0)
    console.print(
        f"time of a query: ours {np.median(mine):.3f} ms, peer {np.median(theirs):.3f} ms (medians); means "
        f"{mine.mean():.3f} and {theirs.mean():.3f} ms; slowest {mine.max():.1f} and {theirs.max():.1f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())

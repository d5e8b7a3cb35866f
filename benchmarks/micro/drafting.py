"""Milliseconds a query of the drafters that look a text up, by the length of the text: real tokens, one thread.

python -m benchmarks.micro.drafting [key=value ...]
"""

from __future__ import annotations

import sys
from itertools import pairwise
from time import perf_counter

import numpy as np
import torch

from benchmarks.micro.rig import console
from corpora.loading import Split, whole_split
from methods.pipeline import Pipeline, load_pipeline
from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.datastores.token_store import TokenStore
from primitives.registry import DRAFTERS

NAMES = ("pld", "suffix", "sam", "logitspec")
LENGTHS = (500, 2_000, 8_000)
QUERIES = 400
SPLITS: tuple[Split, ...] = ("test", "train")


def main() -> None:
    """Ask every drafter at every length, in turn, and print how long the answers took."""
    pipeline = load_pipeline("method=vanilla", "dataset=ultrachat", *sys.argv[1:])
    torch.set_num_threads(1)
    text, documents = _split(_texts(pipeline), LENGTHS[-1] + QUERIES)
    store = TokenStore.build(documents)
    console.print(f"{QUERIES} queries at each length, {len(store):,} tokens in the store; milliseconds")
    medians: dict[str, list[float]] = {name: [] for name in NAMES}
    for length in LENGTHS:
        resources = {"token_store": store, "vocab_size": pipeline.target.vocab_size, "eos_ids": pipeline.target.eos_ids}
        drafters = {name: DRAFTERS.build(name, {}, resources) for name in NAMES}
        for name, (asked, told) in _time(drafters, text, length, pipeline.target.vocab_size).items():
            median, most, worst = np.percentile(asked, [50, 90, 99])
            medians[name].append(float(median))
            console.print(
                f"{name} at {length:,} tokens: median {median:.3f}, 90 % {most:.3f}, 99 % {worst:.3f}; "
                f"told of a token {np.median(told):.3f}"
            )
    for name, row in medians.items():
        growth = " x ".join(f"{after / before:.2f}" for before, after in pairwise(row))
        console.print(f"{name}: median grows by {growth} for {' -> '.join(f'{length:,}' for length in LENGTHS)} tokens")


def _texts(pipeline: Pipeline) -> list[Ints]:
    """Return the tokens of every prompt and reference of both splits."""
    examples = [example for split in SPLITS for example in whole_split(pipeline.settings.dataset, split).examples]
    encode = pipeline.model.tokenizer
    rows = [f"{example.instruction}\n{example.reference}" for example in examples]
    return [np.array(encode(row, add_special_tokens=False).input_ids, np.int64) for row in rows]


def _split(texts: list[Ints], tokens: int) -> tuple[Ints, list[Ints]]:
    """Return the first texts as one of at least so many tokens, and the others, which are to be a corpus."""
    first = int(np.searchsorted(np.cumsum([len(text) for text in texts]), tokens)) + 1
    if first >= len(texts):
        raise ValueError(f"the data set has too few tokens for a text of {tokens:,} and a corpus beside it")
    return np.concatenate(texts[:first]), texts[first:]


def _time(
    drafters: dict[str, Drafter], text: Ints, length: int, vocabulary: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Return for each drafter the milliseconds of every query and of every committed token."""
    logits = _logits(text, vocabulary)
    view = TargetView(logits[None].expand(2, -1), torch.zeros(2, 1))
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in drafters}
    for drafter in drafters.values():
        drafter.start(text[:length], view.last)
    for end in range(length, length + QUERIES):
        context = Context(text[: end + 1], logits, view.hidden[0], QUERIES)
        outcome = Outcome(DraftTree.chain(context.tokens[-1:]), view, np.zeros(1, np.int64))
        for name, drafter in drafters.items():
            begun = perf_counter()
            drafter.propose(context)
            asked = perf_counter()
            drafter.observe(outcome)
            taken[name][0].append((asked - begun) * 1e3)
            taken[name][1].append((perf_counter() - asked) * 1e3)
    return taken


def _logits(text: Ints, vocabulary: int) -> torch.Tensor:
    """Return logits that rate a token by how often the text has it, as guesses that occur cost the most."""
    return torch.from_numpy(np.bincount(text, minlength=vocabulary)).float()


if __name__ == "__main__":
    main()

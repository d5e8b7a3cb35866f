"""Building a store: keys a second against the model's own prefill rate, and memory against what the index needs.

python -m benchmarks.micro.store_build [key=value ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch

from benchmarks.micro.rig import console, pipeline_and_prompts
from methods.memory import peak_rss_mb
from methods.offline.states import states_of
from primitives.contract import Ints
from primitives.datastores.store_builder import StoreBuilder
from primitives.datastores.token_store import TokenStore

SHOWN = 32
ROUNDS = 3


def main() -> None:
    """Teacher-force the store's own documents again, and prefill the same texts through the stock model."""
    pipeline, prompts = pipeline_and_prompts("method=sense", *sys.argv[1:])
    store, model = pipeline.store, pipeline.model.model
    assert store is not None
    assert store.vectors is not None
    dim = store.vectors.index.d
    spans = zip(store.tokens.offsets[:SHOWN], store.tokens.offsets[1 : SHOWN + 1], strict=False)
    prompt = np.array(prompts[0])
    pairs = [(prompt, store.tokens.tokens[start:stop].astype(np.int64)) for start, stop in spans]
    texts = [np.concatenate(pair) for pair in pairs]

    def build() -> None:
        builder = StoreBuilder(TokenStore.build([answer for _, answer in pairs]), dim)
        for states in states_of(model, pairs, None):
            builder.add(states)
        builder.finish()

    @torch.inference_mode()
    def prefill() -> None:
        for text in texts:
            model(torch.from_numpy(text).to(model.device)[None], use_cache=False, logits_to_keep=1)

    rates = [(_rate(build, texts), _rate(prefill, texts)) for _ in range(ROUNDS)]
    mine, theirs = np.median(np.array(rates), axis=0)
    console.print(f"store build {mine:,.0f} tokens/s, prefill {theirs:,.0f} tokens/s: ratio {mine / theirs:.2f}")
    console.print(
        f"store of {len(store):,} keys: {store.nbytes / 2**20:.1f} MB; peak of the process {peak_rss_mb():,.0f} MB"
    )


def _rate(work: Callable[[], None], texts: list[Ints]) -> float:
    start = perf_counter()
    work()
    return sum(map(len, texts)) / (perf_counter() - start)


if __name__ == "__main__":
    main()

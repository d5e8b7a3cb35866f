"""What the micro benchmarks share: a pipeline with real prompts, transformers beside it, and paired ratios."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.turns import turn_ids
from corpora.loading import load_corpus
from methods.pipeline import Pipeline, load_pipeline

console = Console(soft_wrap=True)


def pipeline_and_prompts(*words: str) -> tuple[Pipeline, list[list[int]]]:
    """Return the pipeline of the settings in `words`, and the ids of its test prompts."""
    pipeline = load_pipeline(*words)
    corpus = load_corpus(pipeline.settings.dataset, "test")
    return pipeline, [turn_ids(pipeline, example) for example in corpus.examples]


class Generate:
    """transformers' own greedy `generate`, timed without its prefill.

    Args:
        model: the model.
        options: further arguments of `generate`, such as prompt_lookup_num_tokens.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self.model = model
        self.options = options

    def __call__(self, prompt: list[int], tokens: int) -> tuple[list[int], float]:
        """Return the output ids, and the milliseconds a token after the first one."""
        _, first = self._run(prompt, 1, {})
        ids, whole = self._run(prompt, tokens, self.options)
        return ids, (whole - first) / max(len(ids) - 1, 1)

    def _run(self, prompt: list[int], tokens: int, options: dict[str, Any]) -> tuple[list[int], float]:
        ids = torch.tensor([prompt], device=self.model.device)
        start = perf_counter()
        output = self.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            repetition_penalty=1.0,
            **options,
        )
        return output[0, len(prompt) :].tolist(), (perf_counter() - start) * 1e3


def ours(pipeline: Pipeline, prompt: list[int]) -> tuple[list[int], float]:
    """Return the output ids of our method, and the milliseconds a token after the first one."""
    generation = pipeline.connector.generate(prompt, pipeline.settings.decode)
    return generation.ids, generation.trace.decode_ms / max(len(generation.ids) - 1, 1)


def race(pipeline: Pipeline, generate: Generate, prompts: list[list[int]]) -> Iterator[tuple[float, float]]:
    """Yield our and transformers' milliseconds a token for each prompt; both go first in turn."""
    tokens = pipeline.settings.decode.max_new_tokens
    ours(pipeline, prompts[0])
    generate(prompts[0], tokens)
    for turn, prompt in enumerate(prompts):
        if turn % 2:
            _, mine = ours(pipeline, prompt)
            _, theirs = generate(prompt, tokens)
        else:
            _, theirs = generate(prompt, tokens)
            _, mine = ours(pipeline, prompt)
        yield mine, theirs


def report(name: str, pairs: list[tuple[float, float]], unit: str) -> None:
    """Print the median of the pairwise ratios, and its middle half."""
    mine, theirs = np.array(pairs).T
    low, median, high = np.percentile(mine / theirs, [25, 50, 75])
    console.print(
        f"{name}: ratio {median:.3f}, middle half {low:.3f} to {high:.3f}, {len(pairs)} pairs "
        f"(medians {np.median(mine):.2f} and {np.median(theirs):.2f} {unit})"
    )

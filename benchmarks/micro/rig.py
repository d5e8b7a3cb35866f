"""What the micro benchmarks share: the embedded model, real prompts, paired timing."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from rich.console import Console

from benchmarks.measure import prompt_ids
from corpora.loading import load_corpus
from methods.pipeline import Pipeline, load_pipeline

console = Console()


def pipeline_and_prompts(*words: str) -> tuple[Pipeline, list[list[int]]]:
    """Return the pipeline of the settings in `words`, and the ids of its test prompts."""
    pipeline = load_pipeline(*words)
    corpus = load_corpus(pipeline.settings.dataset, "test")
    return pipeline, [prompt_ids(pipeline, example) for example in corpus.examples]


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = perf_counter()
    work()
    return (perf_counter() - start) * 1e3


def report(name: str, ours: list[float], theirs: list[float]) -> None:
    """Print the median of the pairwise ratios, and the range of the middle half."""
    low, median, high = np.percentile(np.array(ours) / np.array(theirs), [25, 50, 75])
    console.print(
        f"{name}: ratio {median:.3f} [{low:.3f}, {high:.3f}] over {len(ours)} pairs "
        f"(medians {np.median(ours):.2f} and {np.median(theirs):.2f} ms)"
    )

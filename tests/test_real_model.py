"""SmolLM2 in float32: drafts of all kinds under exact verification leave the greedy text of transformers as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from corpora.loading import MINI, load_corpus
from corpora.templates import render
from methods.pipeline import Pipeline, load_pipeline

TOKENS = 24


def load(method: str, cache: Path, *words: str) -> Pipeline:
    return load_pipeline(
        f"method={method}",
        "model=smollm2-135m",
        "dataset=gsm8k",
        f"dataset.path={MINI / 'gsm8k'}",
        "dataset.num_samples=2",
        "datastore.num_prompts=4",
        "datastore.max_new_tokens=32",
        "datastore.batch_size=4",
        f"decode.max_new_tokens={TOKENS}",
        "device=cpu",
        "dtype=float32",
        *words,
        cache_dir=str(cache),
    )


# One process fetches the model, and the others need not.
@pytest.mark.xdist_group("real_model")
@pytest.mark.real_model
@pytest.mark.parametrize("method", ["pld", "sense_without_se"])
def test_exact_verification_writes_what_transformers_writes(method: str, real_cache: Path) -> None:
    pipeline = load(method, real_cache)
    assert pipeline.guarantee == "exact"
    dataset = pipeline.settings.dataset
    generate: Any = pipeline.model.model.generate
    drafted = 0
    for example in load_corpus(dataset, "test").examples:
        text = render(dataset.template, example.instruction)
        prompt = pipeline.encode(text)
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            plain = generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
        done = pipeline.generate(text)
        assert done.ids == plain[0, len(prompt) :].tolist()
        drafted += sum(record.accepted for record in done.trace.passes)
    assert drafted > 0


@pytest.mark.xdist_group("real_model")
@pytest.mark.real_model
def test_a_draft_model_that_is_the_target_is_always_right(real_cache: Path) -> None:
    pipeline = load("sps", real_cache, "draft_model=smollm2-135m", "drafter.num_tokens=3")
    text = "How many legs do three spiders have?"
    done = pipeline.generate(text)
    assert done.ids == pipeline.baseline.generate(pipeline.encode(text), pipeline.settings.decode).ids
    assert {record.committed for record in done.trace.passes[:-1]} == {4}

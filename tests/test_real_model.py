"""SmolLM2 in float32: drafts of PLD and SEN under exact verification leave the greedy text of transformers as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from corpora.loading import MINI, load_corpus
from corpora.templates import render
from methods.pipeline import Pipeline, load_pipeline

TOKENS = 32


def load(method: str, cache: Path) -> Pipeline:
    return load_pipeline(
        f"method={method}",
        "model=smollm2-135m",
        "dataset=gsm8k",
        f"dataset.path={MINI / 'gsm8k'}",
        "dataset.num_samples=2",
        "datastore.num_prompts=8",
        "datastore.max_new_tokens=48",
        "datastore.batch_size=8",
        f"decode.max_new_tokens={TOKENS}",
        "device=cpu",
        "dtype=float32",
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

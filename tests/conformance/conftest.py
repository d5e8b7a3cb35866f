"""What the house can give to a primitive, and how the tests build one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from primitives.models.causal_lm import CausalLMTarget
from primitives.verification._probe import Probe, Probes
from tests.rigs import tiny_draft, tiny_model, tiny_store, tiny_token_store, word_tokenizer

Resources = Callable[..., dict[str, Any]]


def any_calibration(width: int) -> dict[str, Any]:
    """Return every constant that a verifier may take from a calibration, for hidden states of this width."""
    tolerance = {"c_e": 0.01, "c_l": 1.0, "tau_delta": 2.0, "margin_bound": 2.0, "logit_bound": 2.0}
    head = {"weights": [(-1.0) ** i for i in range(width)], "bias": 0.0, "threshold": 0.5}
    return {**tolerance, "budget_table": [2.0, 3.0], "theta_t": 0.5, "theta_d": 0.5, **head}


@cache
def any_probes(width: int) -> Probes:
    """Return probes with random weights, for hidden states of this width."""
    torch.manual_seed(7)
    sides = Probe(width).train(False), Probe(width).train(False)
    return Probes(*(side.requires_grad_(False) for side in sides))


@pytest.fixture
def resources() -> Resources:
    """Return a function that gives every resource of `methods.pipeline.assemble`, made from a tiny model."""

    def offer(target: CausalLMTarget, name: str = "llama") -> dict[str, Any]:
        assert target.model is tiny_model(name)
        return {
            "vector_store": tiny_store(name),
            "token_store": tiny_token_store(name),
            "eos_ids": target.eos_ids,
            "vocab_size": target.vocab_size,
            "embeddings": tiny_model(name).get_input_embeddings().weight,
            "calibration": any_calibration(32),
            "probes": any_probes(32),
            "tokenizer": word_tokenizer(),
            "draft_model": tiny_draft(name),
        }

    return offer

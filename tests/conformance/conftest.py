"""What the house can give to a primitive, and how the tests build one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from primitives.models.causal_lm import CausalLMTarget
from tests.rigs import tiny_model, tiny_store

Resources = Callable[..., dict[str, Any]]


@pytest.fixture
def resources() -> Resources:
    """Return a function that gives every resource of `methods.pipeline.assemble`, made from a tiny model."""

    def offer(target: CausalLMTarget, name: str = "llama") -> dict[str, Any]:
        assert target.model is tiny_model(name)
        return {"vector_store": tiny_store(name), "eos_ids": target.eos_ids, "vocab_size": target.vocab_size}

    return offer

"""The hidden states that predicted the tokens of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from transformers import PreTrainedModel

from primitives.contract import Ints
from primitives.datastores.projection import Keys
from primitives.models.batching import hidden_states

TOKENS_PER_FORWARD: Final = 2048

Pair = tuple[Ints, Ints]


def states_of(model: PreTrainedModel, pairs: list[Pair], layer: int | None) -> Iterator[Keys]:
    """Yield float32[n, h] states for each answer, from forwards over prompt and answer together.

    Args:
        model: makes the states.
        pairs: int64[T] prompt and int64[n] answer, neither empty.
        layer: see `batching.hidden_states`.
    """
    for group in _grouped(pairs):
        texts = [np.concatenate(pair) for pair in group]
        for (prompt, _), states in zip(group, hidden_states(model, texts, layer), strict=True):
            # The state of the token before predicts a token, so an answer's states begin at the prompt's last one.
            yield states[len(prompt) - 1 : -1]


def _grouped(pairs: list[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs in their order, as many at a time as one forward takes when padded to the longest."""
    group: list[Pair] = []
    longest = 0
    for pair in pairs:
        length = len(pair[0]) + len(pair[1])
        if group and max(longest, length) * (len(group) + 1) > TOKENS_PER_FORWARD:
            yield group
            group, longest = [], 0
        group.append(pair)
        longest = max(longest, length)
    if group:
        yield group

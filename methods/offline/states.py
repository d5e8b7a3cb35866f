"""The hidden states that predicted the tokens of answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    made: dict[int, Keys] = {}
    for group in _grouped([len(prompt) + len(answer) for prompt, answer in pairs]):
        texts = [np.concatenate(pairs[row]) for row in group]
        made.update(zip(group, hidden_states(model, texts, layer), strict=True))
    for row, (prompt, _) in enumerate(pairs):
        # The state of the token before predicts a token, so an answer's states begin at the prompt's last one.
        yield made[row][len(prompt) - 1 : -1]


def _grouped(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield rows from the shortest text to the longest, as many at a time as one forward takes, padding included."""
    group: list[int] = []
    for row in np.argsort(lengths, kind="stable").tolist():
        if group and lengths[row] * (len(group) + 1) > TOKENS_PER_FORWARD:
            yield group
            group = []
        group.append(row)
    if group:
        yield group

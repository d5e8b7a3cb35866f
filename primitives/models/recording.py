"""Greedy answers together with the hidden states that the model passed through while it wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from primitives.contract import Ints
from primitives.models.batching import greedy_answers
from primitives.models.causal_lm import decoder_layers

Halves = NDArray[np.float16]
LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True, eq=False)
class Recording:
    """One prompt with the model's answer to it.

    Attributes:
        tokens: int64[T], prompt and answer.
        answer: place of the answer's first token.
        states: float16[T-1, (k+1) h], for every token but the last, which the model never read: the states entering k
            inner layers, and then the final one, after the last norm.
    """

    tokens: Ints
    answer: int
    states: Halves


def recorded_answers(
    model: PreTrainedModel,
    prompts: Sequence[Ints],
    max_new_tokens: int,
    eos_ids: Iterable[int],
    layers: Sequence[int],
) -> list[Recording]:
    """Return the greedy answer to each prompt with the states of all its tokens, out of one and the same generation.

    Args:
        model: the model.
        prompts: int64[T_i] ids, none empty.
        max_new_tokens: most tokens of an answer.
        eos_ids: ids that end an answer.
        layers: whose entering states are recorded.
    """
    caught: list[list[torch.Tensor]] = [[] for _ in range(len(layers) + 1)]
    blocks = decoder_layers(model)
    handles = [
        *(
            blocks[layer].register_forward_pre_hook(lambda _m, inputs, kept=kept: kept.append(_half(inputs[0])))
            for layer, kept in zip(layers, caught, strict=False)
        ),
        model.get_decoder().register_forward_hook(
            lambda _m, _i, output: caught[-1].append(_half(output.last_hidden_state))
        ),
    ]
    try:
        answers = greedy_answers(model, prompts, max_new_tokens, eos_ids)
    finally:
        for handle in handles:
            handle.remove()
    states = np.concatenate([torch.cat(kept, dim=1).numpy() for kept in caught], axis=-1)
    longest = max(map(len, prompts))
    recordings = []
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        # Prompts of a batch are padded on the left.
        start = longest - len(prompt)
        tokens = np.concatenate([prompt, np.array(answer, np.int64)])
        recordings.append(Recording(tokens, len(prompt), states[row, start : start + len(tokens) - 1]))
    return recordings


def _half(states: Any) -> torch.Tensor:
    """Return states as float16 on the CPU; a few outliers of some models lie beyond what it holds."""
    return states.clamp(-LARGEST, LARGEST).to(torch.float16).cpu()

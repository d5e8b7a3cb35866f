"""Many sequences at once through a stock model, for the offline stages: answers and hidden states of a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from primitives.contract import Ints
from primitives.eos import eos_cut
from primitives.models.causal_lm import decoder_layers
from primitives.models.pooled_cache import PooledCache, cache_keyword


@torch.inference_mode()
def greedy_answers(
    model: PreTrainedModel, prompts: Sequence[Ints], max_new_tokens: int, eos_ids: Iterable[int]
) -> list[list[int]]:
    """Return the model's greedy answer to each prompt, up to and with the first EOS.

    Greedy means the argmax alone, as in the decode loop: a repetition penalty that the model ships is not applied.

    Args:
        model: the model.
        prompts: int64[T_i] ids, none empty; they are padded on the left to one batch.
        max_new_tokens: most tokens of an answer.
        eos_ids: ids that end an answer.
    """
    ends = sorted(eos_ids)
    longest = max(map(len, prompts))
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    layers = model.config.get_text_config().num_hidden_layers
    generate: Any = model.generate  # transformers types it as a tensor
    output = generate(
        input_ids=torch.from_numpy(ids).to(model.device),
        attention_mask=torch.from_numpy(mask).to(model.device),
        max_new_tokens=max_new_tokens,
        do_sample=False,
        temperature=None,
        top_p=None,
        top_k=None,
        eos_token_id=ends or None,
        pad_token_id=ends[0] if ends else 0,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        **{cache_keyword(model): PooledCache(layers, longest + max_new_tokens)},
    )
    answers = output[:, longest:].tolist()
    return [answer[: eos_cut(answer, frozenset(ends))] for answer in answers]


@torch.inference_mode()
def hidden_states(
    model: PreTrainedModel, sequences: Sequence[Ints], layer: int | None = None
) -> list[NDArray[np.float32]]:
    """Return the hidden states float32[T_i, h] of every token of each sequence.

    Sequences of one batch are padded on the right, where a causal model cannot look.

    Args:
        model: the model.
        sequences: int64[T_i] ids, none empty.
        layer: take the states entering this decoder layer (0 is the first, and is entered by the embeddings), as
            `Target.capture` does; None takes the final ones, after the last norm.

    Raises:
        ValueError: a layer that the model does not have.
    """
    longest = max(map(len, sequences))
    ids = np.zeros((len(sequences), longest), np.int64)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
    hidden = _states(model, torch.from_numpy(ids).to(model.device), layer)
    return [hidden[row, : len(sequence)].float().cpu().numpy() for row, sequence in enumerate(sequences)]


def check_layer(model: PreTrainedModel, layer: int | None) -> None:
    """Raise ValueError if the model has no such decoder layer; None, the state after the last norm, is always there."""
    if layer is None:
        return
    count = len(decoder_layers(model))
    if not 0 <= layer < count:
        raise ValueError(
            f"datastore.layer={layer} does not exist: the model has layers 0 to {count - 1}, and null is the state "
            "after the last norm"
        )


class _Reached(Exception):
    """What enters a decoder layer is known, so that the layers from there on need not run."""

    def __init__(self, states: torch.Tensor) -> None:
        self.states = states


def _states(model: PreTrainedModel, ids: torch.Tensor, layer: int | None) -> torch.Tensor:
    check_layer(model, layer)
    decoder = model.get_decoder()
    if layer is None:
        return cast(torch.Tensor, decoder(input_ids=ids, use_cache=False).last_hidden_state)

    def stop(_module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        raise _Reached(inputs[0])

    handle = decoder_layers(model)[layer].register_forward_pre_hook(stop)
    try:
        decoder(input_ids=ids, use_cache=False)
    except _Reached as reached:
        return reached.states
    finally:
        handle.remove()
    raise RuntimeError(f"the model never entered its layer {layer}")

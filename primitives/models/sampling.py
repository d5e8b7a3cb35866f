"""Texts drawn from a stock model, several at once, for offline stages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from primitives.contract import Ints
from primitives.models.pooled_cache import PooledCache, cache_keyword
from primitives.models.segments import SegmentEnds


@torch.inference_mode()
def sampled(
    model: PreTrainedModel,
    text: Ints,
    count: int,
    max_new_tokens: int,
    eos_ids: Iterable[int],
    temperature: float,
    top_p: float,
    seed: int,
    ends: SegmentEnds | None = None,
) -> list[Ints]:
    """Return so many continuations of a text, each up to and with the first EOS; the same for the same seed.

    Args:
        model: the model.
        text: int64[T] ids, not empty.
        count: continuations.
        max_new_tokens: longest one.
        eos_ids: ids that end one.
        temperature: above 0.
        top_p: share of the probability mass that is drawn from.
        seed: of the draws.
        ends: where given, the end of a segment ends a continuation, too.
    """
    stops = sorted(eos_ids)
    layers = model.config.get_text_config().num_hidden_layers
    generate: Any = model.generate  # transformers types it as a tensor
    ids = torch.from_numpy(np.ascontiguousarray(text[None])).to(model.device)
    devices = [model.device] if model.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(seed)
        output = generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            num_return_sequences=count,
            max_new_tokens=max_new_tokens,
            do_sample=True,
            temperature=temperature,
            top_p=top_p,
            top_k=0,
            eos_token_id=stops or None,
            pad_token_id=stops[0] if stops else 0,
            repetition_penalty=1.0,
            no_repeat_ngram_size=0,
            stopping_criteria=StoppingCriteriaList([] if ends is None else [_AtSegmentEnd(ends)]),
            **{cache_keyword(model): PooledCache(layers, len(text) + max_new_tokens)},
        )
    rows = output[:, len(text) :].cpu().numpy()
    last = np.isin(rows, stops)
    if ends is not None:
        before = np.concatenate([np.full((count, 1), text[-1]), rows[:, :-1]], axis=1)
        last |= ends.after(before, rows)
    lengths = np.where(last.any(1), last.argmax(1) + 1, rows.shape[1])
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


class _AtSegmentEnd(StoppingCriteria):
    def __init__(self, ends: SegmentEnds) -> None:
        self._ends = ends

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return bool[count]: whether a segment ends with the last token of each row."""
        before, last = input_ids[:, -2:].cpu().numpy().T
        return torch.from_numpy(self._ends.after(before, last)).to(input_ids.device)

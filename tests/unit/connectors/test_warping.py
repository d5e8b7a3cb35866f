from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.warping import Warping
from primitives.contract import DraftTree, TargetView
from primitives.drafting.none import EmptyDrafter
from primitives.models.causal_lm import CausalLMTarget
from primitives.verification.exact import ExactVerifier
from tests.rigs import random_prompt, tiny_model, tree_of

VOCABULARY = 100
TEXT = np.array([7, 3, 7, 50])
#   1 - 7 - 60
#     - 8 - 3
TREE = tree_of([1, 7, 8, 60, 3], [-1, 0, 0, 1, 2])
ALL: dict[str, Any] = {
    "temperature": 0.7,
    "top_k": 30,
    "top_p": 0.9,
    "min_p": 0.02,
    "repetition_penalty": 1.3,
    "logit_bias": {5: 4.0, 60: -3.0},
}


def view_of(rows: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> TargetView:
    logits = torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 3
    return TargetView(logits.to(dtype), torch.arange(rows * 2.0).reshape(rows, 2))


def of_transformers(logits: torch.Tensor, history: list[int], settings: DecodeSettings) -> torch.Tensor:
    """Return what transformers' own `generate` would make of the scores after a text."""
    config = GenerationConfig(
        do_sample=not settings.greedy,
        temperature=settings.temperature or 1.0,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p or None,
        repetition_penalty=settings.repetition_penalty,
        sequence_bias=[[[token], bias] for token, bias in settings.logit_bias.items()] or None,
    )
    model: Any = tiny_model()
    processors = model._get_logits_processor(
        config, input_ids_seq_length=len(history), logits_processor=[], device="cpu"
    )
    return processors(torch.tensor([history]), logits[None].float())[0]


@pytest.mark.parametrize(
    "changes",
    [
        ALL,
        *({"temperature": 0.7, name: value} for name, value in ALL.items() if name != "temperature"),
        {"temperature": 1.0, "top_p": 0.5},
        {"temperature": 1.0, "top_k": 1000},
        {
            "temperature": 0.0,
            "repetition_penalty": 1.5,
            "logit_bias": {5: -1.0},
            "top_k": 3,
            "top_p": 0.1,
            "min_p": 0.9,
        },
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_row_is_what_transformers_would_make_of_it(changes: dict[str, Any], dtype: torch.dtype) -> None:
    settings = DecodeSettings(**changes)
    raw = view_of(len(TREE) + 1, dtype)
    warped = Warping(settings)(raw, TEXT, TREE)
    for row in range(len(TREE) + 1):
        drafted = [] if row == 0 else TREE.tokens[TREE.path_to(row - 1)].tolist()
        expected = of_transformers(raw.logits[row], [*TEXT.tolist(), *drafted], settings)
        torch.testing.assert_close(warped.logits[row], expected, rtol=0, atol=1e-6)


def test_with_no_processor_on_the_very_same_view_goes_through() -> None:
    raw = view_of(6)
    off: list[dict[str, Any]] = [{}, {"top_k": 5, "top_p": 0.5, "min_p": 0.5}, {"temperature": 1.0}]
    for changes in off:
        assert Warping(DecodeSettings(**changes))(raw, TEXT, TREE) is raw


def test_the_raw_view_is_left_as_it_is() -> None:
    raw = view_of(6)
    before = raw.logits.clone()
    warped = Warping(DecodeSettings(**ALL))(raw, TEXT, TREE)
    assert not torch.equal(warped.logits, before)
    assert torch.equal(raw.logits, before)
    assert torch.equal(warped.hidden, raw.hidden)


@pytest.mark.parametrize("looked_at_first", [True, False])
def test_selected_rows_are_processed_alone(looked_at_first: bool) -> None:
    warping = Warping(DecodeSettings(**ALL))
    whole, part = (warping(view_of(6), TEXT, TREE) for _ in range(2))
    if looked_at_first:
        assert len(part.logits) == 6
    chosen = part.select(np.array([4, 0])).select(np.array([1, 0]))
    torch.testing.assert_close(chosen.logits, whole.logits[[0, 4]], rtol=0, atol=1e-6)
    assert torch.equal(chosen.hidden, whole.hidden[[0, 4]])
    torch.testing.assert_close(part.last.logits, whole.logits[-1:], rtol=0, atol=1e-6)


def test_the_prefill_row_has_the_prompt_as_its_history() -> None:
    settings = DecodeSettings(repetition_penalty=2.0)
    raw = view_of(1)
    warped = Warping(settings)(raw, TEXT, DraftTree.empty())
    torch.testing.assert_close(warped.logits[0], of_transformers(raw.logits[0], TEXT.tolist(), settings))


def test_fine_logits_stay_fine() -> None:
    raw = TargetView(torch.tensor([[0.0, 1e-12]], dtype=torch.float64), torch.zeros(1, 1))
    warped = Warping(DecodeSettings(temperature=0.5))(raw, np.array([0]), DraftTree.empty())
    assert warped.logits.tolist() == [[0.0, 2e-12]]


@pytest.mark.parametrize("settings", [ALL, {"repetition_penalty": 1.4, "logit_bias": {5: 1.5}}])
def test_greedy_and_filtered_texts_are_those_of_generate(settings: dict[str, Any]) -> None:
    # top_k = 1 makes sampling deterministic, so that whole texts can be compared.
    model: Any = tiny_model()
    changes = {**settings, **({"top_k": 1} if "top_k" in settings else {})}
    decode = DecodeSettings(max_new_tokens=24, **changes)
    prompt = random_prompt(3)
    ids = torch.tensor([prompt])
    expected = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=24,
        do_sample=not decode.greedy,
        temperature=decode.temperature or 1.0,
        top_k=decode.top_k,
        top_p=decode.top_p,
        repetition_penalty=decode.repetition_penalty,
        sequence_bias=[[[token], bias] for token, bias in decode.logit_bias.items()],
        pad_token_id=0,
    )[0, len(prompt) :].tolist()
    target = CausalLMTarget(model, eos_ids=())
    connector = Connector(target, EmptyDrafter(), ExactVerifier(), lambda ids: str(list(ids)), 8)
    assert connector.generate(prompt, decode).ids == expected

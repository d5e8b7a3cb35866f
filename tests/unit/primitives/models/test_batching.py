from __future__ import annotations

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree
from primitives.models.batching import greedy_answers, hidden_states
from primitives.models.causal_lm import CausalLMTarget
from tests.rigs import greedy_of, random_prompt, tiny_model

LENGTHS = (1, 9, 4, 17)


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma"])
def test_answers_of_a_batch_are_those_given_one_by_one(name: str) -> None:
    model = tiny_model(name)
    prompts = [random_prompt(seed, length) for seed, length in enumerate(LENGTHS)]
    answers = greedy_answers(model, [np.array(prompt) for prompt in prompts], 20, ())
    assert answers == [greedy_of(model, prompt, 20) for prompt in prompts]


def test_an_answer_ends_with_its_first_eos() -> None:
    model = tiny_model()
    prompts = [random_prompt(seed, length) for seed, length in enumerate(LENGTHS)]
    plain = [greedy_of(model, prompt, 20) for prompt in prompts]
    ends = {plain[1][4], plain[2][9]}
    answers = greedy_answers(model, [np.array(prompt) for prompt in prompts], 20, ends)
    for answer, whole in zip(answers, plain, strict=True):
        stops = [index for index, token in enumerate(whole) if token in ends]
        assert answer == whole[: stops[0] + 1 if stops else 20]
    assert len(answers[1]) <= 5


def test_hidden_states_of_a_batch_are_those_of_each_text_alone() -> None:
    model = tiny_model()
    texts = [np.array(random_prompt(seed, length)) for seed, length in enumerate(LENGTHS)]
    together = hidden_states(model, texts)
    assert [len(states) for states in together] == list(LENGTHS)
    for text, states in zip(texts, together, strict=True):
        assert states.dtype == np.float32
        (alone,) = hidden_states(model, [text])
        assert states == pytest.approx(alone, abs=1e-5)
        with torch.inference_mode():
            stock = model(torch.from_numpy(text)[None], output_hidden_states=True).hidden_states[-1][0]
        assert states == pytest.approx(stock.numpy(), abs=1e-5)


@pytest.mark.parametrize("layer", [0, 1])
def test_an_inner_layers_states_are_those_that_enter_it(layer: int) -> None:
    model = tiny_model()
    texts = [np.array(random_prompt(seed, length)) for seed, length in enumerate(LENGTHS)]
    for text, states in zip(texts, hidden_states(model, texts, layer), strict=True):
        with torch.inference_mode():
            stock = model(torch.from_numpy(text)[None], output_hidden_states=True).hidden_states[layer][0]
        assert states == pytest.approx(stock.numpy(), abs=1e-4)


@pytest.mark.parametrize("layer", [-1, 99])
def test_a_layer_that_is_not_there_is_refused(layer: int) -> None:
    with pytest.raises(ValueError, match=f"datastore.layer={layer} does not exist: the model has layers 0 to "):
        hidden_states(tiny_model(), [np.array([1, 2])], layer)


def test_a_state_taken_in_a_cached_step_is_that_of_a_whole_forward() -> None:
    """Keys are made in forwards without a cache, queries with one."""
    model = tiny_model()
    target = CausalLMTarget(model)
    text = np.array(random_prompt(3, 12))
    for layer in (None, 1):
        (whole,) = hidden_states(model, [text], layer)
        target.capture([] if layer is None else [layer])
        target.prefill(text[:6])
        view = target.verify(DraftTree.chain(text[6:]))
        states = view.hidden if layer is None else view.features
        assert states is not None
        assert states.numpy() == pytest.approx(whole[5:], abs=1e-4)

from __future__ import annotations

import numpy as np
import pytest
import torch

from primitives.models.batching import greedy_answers, hidden_states
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

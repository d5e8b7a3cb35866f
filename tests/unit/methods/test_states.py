from __future__ import annotations

import numpy as np
import pytest

from methods.offline import states
from methods.offline.states import states_of
from primitives.models.batching import hidden_states
from tests.rigs import random_prompt, tiny_model

PROMPTS, ANSWERS = (5, 3, 9, 4, 2), (7, 30, 1, 12, 3)


@pytest.mark.parametrize("budget", [1, 60, 10_000])
def test_states_come_in_the_order_of_the_texts_whatever_shares_a_forward(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "TOKENS_PER_FORWARD", budget)
    model = tiny_model()
    pairs = [
        (np.array(random_prompt(seed, prompt)), np.array(random_prompt(seed + 50, answer)))
        for seed, (prompt, answer) in enumerate(zip(PROMPTS, ANSWERS, strict=True))
    ]
    made = list(states_of(model, pairs, None))
    assert [len(answer) for answer in made] == list(ANSWERS)
    for (prompt, answer), found in zip(pairs, made, strict=True):
        (alone,) = hidden_states(model, [np.concatenate([prompt, answer])])
        assert found == pytest.approx(alone[len(prompt) - 1 : -1], abs=1e-5)

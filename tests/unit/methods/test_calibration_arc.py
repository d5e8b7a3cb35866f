"""ARC's constants against plain loops over the published procedure."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, exp, floor, inf, log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from corpora.loading import load_corpus
from methods.calibration import arc
from methods.calibration.arc import constants_of, js_divergence, path_budget
from methods.calibration.stage import calibrate
from methods.settings import compose
from primitives.contract import Floats
from primitives.models.loading import load_model, render_prompt

Words = Callable[..., list[str]]


def softmax(row: list[float], support: list[int]) -> dict[int, float]:
    weights = {token: exp(row[token] - max(row)) for token in support}
    return {token: weight / sum(weights.values()) for token, weight in weights.items()}


def naive_js(first: list[float], second: list[float], size: int) -> float:
    """Jensen-Shannon divergence over the union of the likeliest tokens of both, token by token."""
    likeliest = [sorted(range(len(row)), key=lambda i: -row[i])[:size] for row in (first, second)]
    union = sorted(set(likeliest[0]) | set(likeliest[1]))
    p, q = softmax(first, union), softmax(second, union)
    total = 0.0
    for token in union:
        mean = (p[token] + q[token]) / 2
        total += p[token] * log(p[token] / mean) / 2 + q[token] * log(q[token] / mean) / 2
    return total


def naive_quantile(values: list[float], level: float) -> float:
    """The quantile of a list without its highest ranks, by linear interpolation."""
    kept = sorted(values)[: max(1, ceil(0.995 * len(values)))]
    place = level * (len(kept) - 1)
    below = floor(place)
    above = min(below + 1, len(kept) - 1)
    return kept[below] + (place - below) * (kept[above] - kept[below])


def naive_constants(shift: list[float], distance: list[float], margin: list[float], delta: float) -> dict[str, float]:
    level = 1 - delta
    c_e = naive_quantile([js / e for js, e in zip(shift, distance, strict=True)], level)
    c_l = naive_quantile([js / m**2 for js, m in zip(shift, margin, strict=True)], level)
    total = [min(c_e * e, c_l * m**2) for e, m in zip(distance, margin, strict=True)]
    return {
        "c_e": c_e,
        "c_l": c_l,
        "tau_delta": naive_quantile(total, level),
        "margin_bound": naive_quantile(margin, level),
        "logit_bound": naive_quantile([c_l * m**2 for m in margin], level),
    }


def samples(seed: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 400))
    return rng.uniform(0, log(2), count), rng.gamma(3, 300, count), rng.gamma(1, 2, count)


def test_constants_are_those_of_the_published_procedure_on_1000_random_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arc, "PATH_DRAWS", 4)
    for seed in range(1000):
        shift, distance, margin = samples(seed)
        delta = (0.01, 0.05, 0.1, 0.5)[seed % 4]
        found = constants_of(shift, distance, margin, delta)
        expected = naive_constants(shift.tolist(), distance.tolist(), margin.tolist(), delta)
        assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-9), seed


def test_the_divergence_is_the_published_one_on_1000_random_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arc, "SUPPORT", 4)
    rng = np.random.default_rng(0)
    first = rng.normal(size=(1000, 12)) * rng.choice([0.5, 2.0, 8.0], (1000, 1))
    second = np.where(rng.random((1000, 12)) < 0.5, first, rng.normal(size=(1000, 12)) * 2)
    found = js_divergence(torch.from_numpy(first), torch.from_numpy(second))
    expected = [naive_js(p, q, 4) for p, q in zip(first.tolist(), second.tolist(), strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_the_divergence_lies_between_0_and_ln_2() -> None:
    apart = torch.tensor([[50.0, 0.0, 0.0], [0.0, 50.0, 0.0]])
    assert js_divergence(apart, apart).tolist() == pytest.approx([0, 0], abs=1e-12)
    assert js_divergence(apart[:1], apart[1:]).tolist() == pytest.approx([log(2)])


def test_places_that_nothing_can_be_learned_from_are_left_out() -> None:
    shift, distance, margin = samples(1)
    expected = constants_of(shift, distance, margin, 0.05)
    shift, distance = np.append(shift, [0.3, 0.3, 0.3]), np.append(distance, [0.0, 900.0, 900.0])
    assert constants_of(shift, distance, np.append(margin, [1.0, 0.0, inf]), 0.05) == expected
    with pytest.raises(ValueError, match="found no position to compare"):
        constants_of(np.empty(0), np.empty(0), np.empty(0), 0.05)


def test_a_larger_risk_gives_smaller_constants() -> None:
    drawn = samples(3)
    for key in ("c_e", "c_l", "tau_delta", "margin_bound", "logit_bound"):
        found = [constants_of(*drawn, delta)[key] for delta in (0.01, 0.05, 0.2, 0.5)]
        assert found == sorted(found, reverse=True), key


def test_the_path_budget_is_a_quantile_of_sums() -> None:
    shifts = np.linspace(0, 1, 1001)
    budget = path_budget(shifts)
    assert len(budget) == 32
    assert budget == sorted(budget)
    assert budget[0] == pytest.approx(0.95, abs=0.01)
    # The sum of 12 uniform numbers is close to a normal one of mean 6 and deviation 1.
    assert budget[11] == pytest.approx(6 + 1.645, abs=0.06)
    assert path_budget(shifts) == budget


def naive_samples(model: Any, prompt: list[int], positions: int, longest: int) -> list[tuple[float, float, float]]:
    """Shift, distance and margin along a greedy answer, one forward a token."""

    def row(ids: list[int]) -> list[float]:
        with torch.inference_mode():
            return model(torch.tensor([ids])).logits[0, -1].double().tolist()

    answer: list[int] = []
    while len(answer) < longest:
        scores = row(prompt + answer)
        answer.append(scores.index(max(scores)))
        if answer[-1] == model.generation_config.eos_token_id:
            answer.pop()
            break
    rows = model.get_input_embeddings().weight.double().tolist()
    spread = []
    for i in range(len(rows[0])):
        column = [each[i] for each in rows]
        mean = sum(column) / len(column)
        spread.append(sqrt(sum((x - mean) ** 2 for x in column) / len(column)) + 1e-6)
    found = []
    for step in sorted({int(x) for x in np.linspace(0, len(answer) - 1, positions)}):
        scores = row(prompt + answer[:step])
        first, second = sorted(range(len(scores)), key=lambda i: -scores[i])[:2]
        total = log(sum(exp(score) for score in scores))
        shift = naive_js(row([*prompt, *answer[:step], first]), row([*prompt, *answer[:step], second]), 128)
        apart = sum(((rows[second][i] - rows[first][i]) / spread[i]) ** 2 for i in range(len(spread)))
        found.append((shift, apart, (scores[first] - total) - (scores[second] - total)))
    return found


def test_a_calibration_measures_what_the_published_procedure_does(words: Words, tiny_folder: Any) -> None:
    small = ("calibration.num_prompts=3", "calibration.positions=5", "calibration.max_new_tokens=8")
    settings = compose(words("pld", "verifier=arc", *small))
    found = calibrate(settings, {})
    auto: Any = AutoModelForCausalLM
    model = auto.from_pretrained(tiny_folder)
    tokenizer = load_model(settings.model, torch.device("cpu"), torch.float32, found.path).tokenizer
    drawn: list[tuple[float, float, float]] = []
    for text in stored_prompts(settings, found.facts["prompts"]):
        drawn += naive_samples(model, render_prompt(tokenizer, text, settings.model), 5, 8)
    shift, distance, margin = (list(column) for column in zip(*drawn, strict=True))
    assert found.facts["samples"] == len(drawn) == 15
    expected = naive_constants(shift, distance, margin, 0.05)
    assert {key: found.constants[key] for key in expected} == pytest.approx(expected, rel=1e-3)


def stored_prompts(settings: Any, ids: list[str]) -> list[str]:
    examples = {example.id: example.instruction for example in load_corpus(settings.dataset, "train").examples}
    return [examples[name] for name in ids]

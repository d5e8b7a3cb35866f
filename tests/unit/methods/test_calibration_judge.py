"""The classifier of judge: mined labels against a plain replay, the head against scikit-learn's own pipeline."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from connectors.connector import Connector
from corpora.example import Example
from methods.calibration.easd import EasdRecipe
from methods.calibration.judge import JudgeRecipe, train_head
from methods.calibration.recipe import Amounts, Arrays
from methods.calibration.stage import calibrate
from methods.pipeline import assemble
from methods.settings import compose
from primitives.contract import Context, Drafter, DraftTree
from primitives.drafting.none import EmptyDrafter
from primitives.models.causal_lm import CausalLMTarget
from primitives.verification.exact import ExactVerifier
from tests.rigs import LiarDrafter, OracleDrafter, greedy_of, random_prompt, tiny_model

Words = Callable[..., list[str]]
Answer = Callable[[list[int]], object]
EXAMPLE = Example("train-0", "?", "")
LONGEST = 14


class Numbers:
    """Stands in the place of a bench: a tiny model, a prompt of numbers, answers as numbers."""

    def __init__(
        self,
        drafter: Drafter,
        prompt: Sequence[int],
        positions: int,
        answer: Answer,
        eos_ids: Sequence[int] = (),
    ) -> None:
        target = CausalLMTarget(tiny_model(), eos_ids=eos_ids)

        def joined(drafter: Drafter) -> Connector:
            return Connector(target, drafter, ExactVerifier(), lambda ids: " ".join(map(str, ids)), 64)

        self.amounts = Amounts(1, positions, LONGEST)
        self.embeddings = target.model.get_input_embeddings().weight
        self.pipeline = SimpleNamespace(
            target=target,
            model=SimpleNamespace(model=tiny_model()),
            connector=joined(drafter),
            baseline=joined(EmptyDrafter()),
        )
        self._prompt = np.array(prompt)
        self._answer = answer

    def final_answer(self, text: str, example: Example) -> object:
        return self._answer(list(map(int, text.split())))

    def prompt(self, example: Example) -> Any:
        return self._prompt


def parity(ids: list[int]) -> int:
    return sum(ids[-3:]) % 2


def replay(
    prompt: list[int], truth: list[int], count: int, positions: int, answer: Answer
) -> tuple[list[list[int]], list[bool]]:
    """Mine by hand: what was tried, and whether the final answer changed; tokens of transformers' own `generate`."""

    def follow(text: list[int], length: int) -> list[int]:
        return greedy_of(tiny_model(), prompt + text, length) if length else []

    expected = answer(follow([], LONGEST))
    text: list[int] = []
    tried: list[list[int]] = []
    changed: list[bool] = []
    while len(text) < LONGEST - 1:
        done = len(text)
        text += follow(text, 1)
        for token in [(token + 1) % 100 for token in truth[done + 1 : done + 1 + count]]:
            if len(text) == LONGEST:
                break
            if token != follow(text, 1)[0]:
                if len(tried) == positions:
                    break
                whole = [*text, token, *follow([*text, token], LONGEST - len(text) - 1)]
                tried.append([*prompt, *text, token])
                changed.append(answer(whole) != expected)
                if changed[-1]:
                    break
            text.append(token)
    return tried, changed


@pytest.mark.parametrize("positions", [4, 30])
@pytest.mark.parametrize("seed", range(4))
def test_labels_are_what_a_plain_replay_finds(seed: int, positions: int) -> None:
    prompt = random_prompt(seed)
    truth = [*prompt, *greedy_of(tiny_model(), prompt, LONGEST + 8)]
    bench: Any = Numbers(LiarDrafter(truth, 3), prompt, positions, parity)
    mined = JudgeRecipe().meter(bench)(EXAMPLE)
    tried, changed = replay(prompt, truth[len(prompt) :], 3, positions, parity)
    assert mined["important"].tolist() == changed
    assert len(tried) == positions if positions == 4 else len(tried) > 4
    for state, ids in zip(mined["states"], tried, strict=True):
        expected = bench.pipeline.target.teacher_forced(np.array(ids)).hidden[-1]
        torch.testing.assert_close(torch.from_numpy(state), expected, rtol=0, atol=1e-4)


def test_labels_are_of_both_kinds() -> None:
    kinds = set()
    for seed in range(4):
        prompt = random_prompt(seed)
        truth = [*prompt, *greedy_of(tiny_model(), prompt, LONGEST + 8)]
        bench: Any = Numbers(LiarDrafter(truth, 3), prompt, 30, parity)
        kinds |= set(JudgeRecipe().meter(bench)(EXAMPLE)["important"].tolist())
    assert kinds == {True, False}


def test_a_text_without_a_final_answer_teaches_nothing() -> None:
    prompt = random_prompt(0)
    truth = [*prompt, *greedy_of(tiny_model(), prompt, LONGEST + 8)]
    bench: Any = Numbers(LiarDrafter(truth, 3), prompt, 30, lambda ids: None)
    mined = JudgeRecipe().meter(bench)(EXAMPLE)
    assert mined["states"].shape == (0, 32)
    assert mined["important"].shape == (0,)


def test_a_text_that_was_cut_has_no_final_answer() -> None:
    prompt = random_prompt(1)
    text = greedy_of(tiny_model(), prompt, LONGEST + 8)
    never = next(token for token in range(100) if token not in text)
    cut: Any = Numbers(LiarDrafter([*prompt, *text], 3), prompt, 4, parity, [never])
    assert len(JudgeRecipe().meter(cut)(EXAMPLE)["important"]) == 0
    # The text ends with its eighth token now, and what is longer without an end has no answer, so it is another one.
    end = text[7]
    assert end not in text[:7]
    ended: Any = Numbers(LiarDrafter([*prompt, *text], 3), prompt, 4, lambda ids: 0, [end])
    mined = JudgeRecipe().meter(ended)(EXAMPLE)
    expected = []
    for place in range(1, 5):
        swapped = [*text[:place], (text[place] + 1) % 100]
        whole = swapped + greedy_of(tiny_model(), prompt + swapped, LONGEST - place - 1)
        expected.append(end not in whole)
        if not expected[-1]:
            break
    assert mined["important"].tolist()[: len(expected)] == expected


def test_where_the_draft_has_the_targets_choice_nothing_is_tried() -> None:
    prompt = random_prompt(0)
    truth = [*prompt, *greedy_of(tiny_model(), prompt, LONGEST + 8)]
    bench: Any = Numbers(OracleDrafter(truth, 3, tree=True), prompt, 30, parity)
    assert len(JudgeRecipe().meter(bench)(EXAMPLE)["important"]) == 0


def labelled(seed: int, count: int = 400, prompts: int = 20) -> tuple[Any, Any, Any]:
    """States whose first coordinate tells, with some noise, what is important."""
    rng = np.random.default_rng(seed)
    states = (rng.normal(size=(count, 5)) * [1, 1, 10, 0.1, 1] + [3, 0, 100, 0, 0]).astype(np.float32)
    important = states[:, 0] - 3 + rng.normal(size=count) * 0.3 > 0.5
    return states, important, rng.integers(0, prompts, count)


def probability(head: dict[str, Any], states: Any) -> Any:
    return 1 / (1 + np.exp(-(states.astype(np.float64) @ np.array(head["weights"]) + head["bias"])))


def test_the_head_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    states, important, owner = labelled(0)
    head = train_head(states, important, owner, 0.9)
    reference = make_pipeline(StandardScaler(), LogisticRegression(C=head["strength"], max_iter=1000))
    expected = reference.fit(states.astype(np.float64), important).predict_proba(states)[:, 1]
    assert probability(head, states) == pytest.approx(expected, abs=1e-6)
    assert ((probability(head, states) > 0.5) == important).mean() > 0.9


@pytest.mark.parametrize("recall", [0.5, 0.9, 1.0])
def test_the_threshold_recalls_what_it_should_on_new_prompts(recall: float) -> None:
    states, important, owner = labelled(1, 2000, 50)
    head = train_head(states, important, owner, recall)
    new, truth, _ = labelled(2, 2000)
    found = (probability(head, new)[truth] > head["threshold"]).mean()
    assert found == pytest.approx(recall, abs=0.07)
    assert head["important"] + head["unimportant"] == 2000
    passed = (probability(head, new)[~truth] <= head["threshold"]).mean()
    assert head["unimportant_passed"] == pytest.approx(passed, abs=0.05)


def test_more_recall_means_a_lower_threshold() -> None:
    thresholds = [train_head(*labelled(3), recall)["threshold"] for recall in (0.0, 0.5, 0.8, 0.95, 1.0)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[0] == 1.0


@pytest.mark.parametrize(
    ("important", "owner"),
    [
        ([], []),
        ([True, True, False, False], [0, 0, 1, 1]),
        ([False] * 4, [0, 1, 2, 3]),
        ([True] * 4, [0, 1, 2, 3]),
        ([True, False, True, True], [0, 0, 1, 2]),
    ],
)
def test_too_few_samples_are_refused(important: list[bool], owner: list[int]) -> None:
    states = np.zeros((len(owner), 3), np.float32)
    with pytest.raises(ValueError, match=r"too few to train .* raise calibration\.num_prompts"):
        train_head(states, np.array(important, bool), np.array(owner, np.int64), 0.9)


def letters(text: str, example: Example) -> int:
    return sum(map(ord, text)) % 2


def endless(folder: Path, copy: Path) -> Path:
    """Copy a model without its EOS, which it never writes: its texts are whole when the budget is spent."""
    shutil.copytree(folder, copy)
    for name in ("config.json", "generation_config.json"):
        content = json.loads((copy / name).read_text("utf-8"))
        (copy / name).write_text(json.dumps({**content, "eos_token_id": None}), "utf-8")
    return copy


def test_it_is_calibrated_and_used_from_the_command_line_on(words: Words, tiny_folder: Path, tmp_path: Path) -> None:
    model = endless(tiny_folder, tmp_path / "endless")
    small = ("calibration.num_prompts=8", "calibration.positions=6", "calibration.max_new_tokens=16")
    settings = compose(words("pld", "verifier=judge", "verifier.recall=0.5", *small, model=model))
    found = calibrate(settings, {"number_accuracy": letters})
    assert len(found.constants["weights"]) == 64
    assert 0 <= found.constants["threshold"] <= 1
    again = calibrate(settings, {"number_accuracy": letters})
    assert again == found
    pipeline = assemble(compose(words("pld", "verifier=judge", "verifier.recall=0.5", model=model)))
    done = pipeline.generate("a b a b a b", max_new_tokens=24)
    assert len(done.ids) == 24


class Unsure(Drafter):
    """Drafts the greedy text as a chain, each token with a distribution of known entropy."""

    provides = frozenset({"q"})

    def __init__(self, text: Sequence[int], count: int) -> None:
        self.text = list(text)
        self.count = count

    def propose(self, context: Context) -> DraftTree:
        done = len(context.tokens) - 1
        tokens = [context.pending, *self.text[done + 1 : done + 1 + self.count]]
        q = torch.zeros(len(tokens), 100)
        for row, token in enumerate(tokens):
            # Half of the mass on the token, the rest spread over as many tokens as its place in the draft.
            q[row, :row] = 0.5 / max(row, 1)
            q[row, token] += 0.5
        return DraftTree(np.array(tokens), np.arange(-1, len(tokens) - 1), q=q)


def test_percentiles_are_those_of_the_entropies_on_the_way() -> None:
    prompt = random_prompt(3)
    truth = [*prompt, *greedy_of(tiny_model(), prompt, 40)]
    wrong = truth[:14] + [(token + 1) % 100 for token in truth[14:15]] + truth[15:]
    bench: Any = Numbers(Unsure(wrong, 3), prompt, 100, parity)
    measured = EasdRecipe().meter(bench)(EXAMPLE)
    target, drafter = [], []
    done = len(prompt)
    while done < len(prompt) + LONGEST - 1:
        tree = Unsure(wrong, 3).propose(Context(np.array(truth[: done + 1]), torch.zeros(1), torch.zeros(1), 9))
        budget = len(prompt) + LONGEST - done
        q = tree.q
        assert q is not None
        rows = bench.pipeline.target.teacher_forced(np.array(truth[: done + 4])).logits.double()
        for place in range(1, min(len(tree), budget)):
            p = torch.softmax(rows[done + place - 1], -1)
            target.append(float(torch.special.entr(p).sum() / np.log(100)))
            drafter.append(float(torch.special.entr(q[place].double()).sum() / np.log(100)))
            if tree.tokens[place] != truth[done + place]:
                break
        else:
            place = min(len(tree), budget)
        done += place
    assert measured["target"].tolist() == pytest.approx(target, abs=1e-5)
    assert measured["drafter"].tolist() == pytest.approx(drafter, abs=1e-5)
    prompts: list[Arrays] = [{key: array[:5] for key, array in measured.items()}]
    prompts += [{key: array[5:] for key, array in measured.items()}]
    found = EasdRecipe().constants(prompts, {"percentile": 75.0})
    assert found == pytest.approx(
        {"theta_t": np.percentile(target, 75), "theta_d": np.percentile(drafter, 75)}, abs=1e-5
    )


def test_a_drafter_that_proposes_nothing_cannot_be_calibrated() -> None:
    nothing: Arrays = {"target": np.empty(0), "drafter": np.empty(0)}
    with pytest.raises(ValueError, match="the drafter proposed nothing"):
        EasdRecipe().constants([nothing], {"percentile": 90.0})


def test_amounts_that_are_set_win_over_the_recipes() -> None:
    settings = compose(["verifier=judge", "calibration.positions=3"]).calibration
    assert Amounts(10, 20, 30).changed(settings) == Amounts(10, 3, 30)

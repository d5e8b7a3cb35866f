from __future__ import annotations

from math import exp
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.contract import DraftTree, TargetView
from primitives.verification.exact import ExactVerifier
from primitives.verification.judge import JudgeVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import RNG, case, certain, judge

HEAD: dict[str, Any] = {"weights": [2.0, -1.0], "bias": 0.5, "threshold": 0.4}


def with_states(view: TargetView, seed: int) -> TargetView:
    states = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(view.logits), 2))).float()
    return TargetView(view.logits, states)


def naive(tree: DraftTree, view: TargetView, threshold: float) -> list[int]:
    """The longest path by the rule, token by token; ties: exact matches, score, first."""
    ranked = []
    for index, path in enumerate(tree.paths.tolist()):
        accepted: list[int] = []
        exact = 0
        for node in (node for node in path if node >= 0):
            row, state = view.logits[tree.rows[node]].tolist(), view.hidden[node + 1].double().tolist()
            matches = int(tree.tokens[node]) == row.index(max(row))
            important = 1 / (1 + exp(-(2.0 * state[0] - state[1] + 0.5)))
            if not matches and important > threshold:
                break
            accepted.append(node)
            exact += matches
        assert tree.scores is not None
        score = float(tree.scores[accepted[-1] if accepted else path[0]])
        ranked.append(((len(accepted), exact, score, -index), accepted))
    return max(ranked)[1]


def test_it_is_the_published_rule() -> None:
    relaxed = 0
    for seed in range(300):
        tree, view = case(seed)
        view = with_states(view, seed)
        threshold = (0.1, 0.4, 0.7)[seed % 3]
        verdict = judge(JudgeVerifier({**HEAD, "threshold": threshold}), tree, view)
        assert verdict.path.tolist() == naive(tree, view, threshold)
        exact = tree.tokens[verdict.path] == view.logits.argmax(-1).numpy()[tree.rows[verdict.path]]
        assert verdict.pathways.tolist() == np.where(exact, 0, 3).tolist()
        relaxed += int((~exact).sum())
    assert relaxed > 100


def test_the_state_after_the_token_decides() -> None:
    view = TargetView(torch.tensor([certain(0), certain(1), certain(2)]), torch.tensor([[9.0, 0], [9.0, 0], [-9.0, 0]]))
    tree = DraftTree.chain([0, 5])
    assert judge(JudgeVerifier(HEAD), tree, view).path.tolist() == [0, 1]
    view.hidden[2] = torch.tensor([9.0, 0])
    assert judge(JudgeVerifier(HEAD), tree, view).path.tolist() == [0]


def test_the_longest_path_may_lead_through_a_mismatch() -> None:
    #   0 - 1 (the choice)
    #     - 2 - 3
    tree = tree_of([0, 1, 2, 3], [-1, 0, 0, 2])
    logits = torch.tensor([certain(0), certain(1), certain(5), certain(3), certain(0)])
    states = torch.tensor([[0.0, 0], [0, 0], [0, 0], [-9.0, 0], [0, 0]])
    assert judge(JudgeVerifier(HEAD), tree, TargetView(logits, states)).pathways.tolist() == [0, 3, 0]
    assert judge(JudgeVerifier(HEAD), tree, TargetView(logits, -states)).path.tolist() == [0, 1]


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_the_neutral_setting_is_exact(seed: int) -> None:
    tree, view = case(seed)
    # States so far away that P(important) is 0 in floating point.
    view = TargetView(view.logits, torch.full((len(view.logits), 2), -1e30))
    verdict = judge(JudgeVerifier(threshold=0.0), tree, view)
    assert verdict.path.tolist() == ExactVerifier().judge(tree, view, RNG).path.tolist()
    assert not verdict.pathways.any()


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_more_relaxed_never_accepts_less(seed: int) -> None:
    tree, view = case(seed)
    view = with_states(view, seed)
    values = (0.0, 0.1, 0.3, 0.6, 0.9, 1.0)
    lengths = [len(judge(JudgeVerifier(HEAD, threshold=value), tree, view).path) for value in values]
    assert lengths == sorted(lengths)
    assert lengths[-1] == tree.depths.max()


def test_rivals_of_the_pending_token_are_judged_after_the_forward() -> None:
    rivals, row = np.array([1, 2]), torch.tensor(certain(0))
    assert JudgeVerifier(HEAD).admits(rivals, row).tolist() == [True, True]
    assert JudgeVerifier(HEAD, threshold=0.0).admits(rivals, row).tolist() == [False, False]


def test_half_precision_states_are_taken_as_they_are() -> None:
    for seed in range(20):
        tree, view = case(seed)
        half = TargetView(view.logits, with_states(view, seed).hidden.bfloat16())
        same = TargetView(view.logits, half.hidden.float())
        assert (
            judge(JudgeVerifier(HEAD), tree, half).path.tolist() == judge(JudgeVerifier(HEAD), tree, same).path.tolist()
        )


@pytest.mark.parametrize(
    ("knobs", "awaited"),
    [
        ({}, {"weights", "bias", "threshold"}),
        ({"threshold": 0.5}, {"weights", "bias"}),
        ({"threshold": 0.0}, set()),
    ],
)
def test_it_says_what_it_takes_from_the_calibration(knobs: dict[str, Any], awaited: set[str]) -> None:
    assert JudgeVerifier(**knobs).awaits == awaited


def test_a_head_that_is_not_there_is_an_error() -> None:
    tree, view = case(0, agreeing=0.0)
    with pytest.raises(ValueError, match="verifier 'judge' has no weights: measure it with"):
        judge(JudgeVerifier(threshold=0.5), tree, view)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"threshold": 1.5}, "threshold=1.5 is out of range; it must lie between 0 and 1"),
        ({"threshold": float("nan")}, "threshold=nan is out of range"),
        ({"recall": -0.1}, "recall=-0.1 is out of range"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="verifier 'judge'") as caught:
        JudgeVerifier(**knobs)
    assert message in str(caught.value)

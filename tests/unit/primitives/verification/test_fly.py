from __future__ import annotations

from collections.abc import Sequence
from math import inf, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.contract import DraftTree, Pathway, TargetView
from primitives.verification.fly import FlyVerifier, top3_entropy
from primitives.verification.soft_gated import SoftGatedVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import case, certain, entropy, flat, judge, softmax, view_of

WIDE = 12


def draft(seed: int, longest: int = 24, agreeing: float = 0.85) -> tuple[DraftTree, TargetView]:
    """A chain over rows that are sure, undecided or flat, and mostly agree with it."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, WIDE, rng.integers(1, longest + 1))
    logits = rng.normal(size=(len(tokens) + 1, WIDE)) * rng.choice([0.3, 2.0, 8.0], (len(tokens) + 1, 1))
    agree = rng.random(len(tokens)) < agreeing
    rows = np.flatnonzero(agree)
    logits[rows, tokens[agree]] = logits[rows].max(1) + 0.1
    return DraftTree.chain(tokens), TargetView(torch.from_numpy(logits).float(), torch.zeros(len(logits), 2))


def released(tokens: Sequence[int], rows: Sequence[Sequence[float]], threshold: float, win_len: int) -> int:
    """How many tokens the released code accepts of a draft, from the specification, one position at a time."""
    count = len(tokens)
    same = [token == max(range(len(row)), key=row.__getitem__) for token, row in zip(tokens, rows, strict=True)]
    for j in range(count):
        if same[j]:
            continue
        p = softmax(rows[j])
        if -sum(x * log(x) for x in sorted(p)[-3:] if x > 0) < threshold:
            return j
        pattern = [same[i] if i < count else False for i in range(j, j + win_len)]
        if j >= count - win_len or pattern != [False] + [True] * (win_len - 1):
            return j
    return count


def paper(tokens: Sequence[int], rows: Sequence[Sequence[float]], theta: float, window: int) -> int:
    """How many tokens the paper's two tests accept of a draft: the gate, and the deferred look at what follows."""
    count = len(tokens)
    same = [token == max(range(len(row)), key=row.__getitem__) for token, row in zip(tokens, rows, strict=True)]
    rejected = [count]
    for j in range(1, count + 1):
        if same[j - 1]:
            continue
        gate = entropy(softmax(rows[j - 1])) / log(len(rows[0])) < theta
        deferred = j + window > count or not all(same[i - 1] for i in range(j + 1, j + window + 1))
        if gate or deferred:
            rejected.append(j - 1)
    return min(rejected)


def rows_of(tree: DraftTree, view: TargetView, path: Sequence[int]) -> tuple[list[int], list[list[float]]]:
    return tree.tokens[path].tolist(), view.logits[tree.rows[path]].double().tolist()


@pytest.mark.parametrize(("threshold", "win_len", "cases"), [(0.3, 6, 1000), (0.8, 4, 200), (0.0, 3, 200)])
def test_the_released_form_is_the_specification_on_random_drafts(threshold: float, win_len: int, cases: int) -> None:
    relaxed = 0
    for seed in range(cases):
        tree, view = draft(seed)
        verdict = judge(FlyVerifier(theta=threshold, window=win_len), tree, view)
        tokens, rows = rows_of(tree, view, range(len(tree)))
        assert len(verdict.path) == released(tokens, rows, threshold, win_len)
        relaxed += int((verdict.pathways == Pathway.WINDOW).sum())
    assert relaxed > 20


@pytest.mark.parametrize(("theta", "window", "cases"), [(0.3, 6, 1000), (0.8, 3, 200), (0.0, 2, 200)])
def test_the_paper_form_is_the_specification_on_random_drafts(theta: float, window: int, cases: int) -> None:
    relaxed = 0
    for seed in range(cases):
        tree, view = draft(seed)
        verdict = judge(FlyVerifier("paper", theta, window), tree, view)
        tokens, rows = rows_of(tree, view, range(len(tree)))
        assert len(verdict.path) == paper(tokens, rows, theta, window)
        relaxed += int((verdict.pathways == Pathway.WINDOW).sum())
    assert relaxed > 20


@pytest.mark.parametrize("form", ["paper", "released"])
def test_on_a_tree_every_path_is_judged_as_a_draft(form: str) -> None:
    rule = paper if form == "paper" else released
    relaxed = 0
    for seed in range(150):
        tree, view = case(seed, agreeing=0.9, length=9)
        verdict = judge(FlyVerifier(form, 0.2, 3), tree, view)
        paths = [path[path >= 0].tolist() for path in tree.paths]
        lengths = [rule(*rows_of(tree, view, path), 0.2, 3) for path in paths]
        assert len(verdict.path) == max(lengths)
        assert verdict.path.tolist() in [path[:length] for path, length in zip(paths, lengths, strict=True)]
        relaxed += int((verdict.pathways == Pathway.WINDOW).sum())
    assert relaxed > 10


@settings(max_examples=150)
@given(seed=st.integers(0, 10**6), agreeing=st.sampled_from([0.6, 0.9]), window=st.integers(1, 7))
def test_without_gate_it_is_soft_gated_with_a_forward_window_and_one_error(
    seed: int, agreeing: float, window: int
) -> None:
    fly = FlyVerifier("paper", 0.0, window)
    soft = SoftGatedVerifier(0.0, 1, window + 1, 1 / (window + 1), alignment="forward", border="mismatch")
    for tree, view in (case(seed, agreeing, length=9), draft(seed, 9, agreeing)):
        ours, theirs = judge(fly, tree, view), judge(soft, tree, view)
        assert ours.path.tolist() == theirs.path.tolist()
        assert ours.pathways.tolist() == theirs.pathways.tolist()


def lengths(errors: Sequence[int], count: int, row: list[float], **knobs: Any) -> int:
    """How many of `count` tokens are accepted, all rows alike and all tokens right but those at `errors`."""
    tokens = [5 if place in errors else 0 for place in range(count)]
    return len(judge(FlyVerifier(**knobs), DraftTree.chain(tokens), view_of(*[row] * (count + 1))).path)


def test_windows_and_borders_of_both_forms() -> None:
    row = flat(0)
    # W = 3 followers in the paper; win_len = 3 holds two, and none of the last three positions is relaxed.
    assert lengths([2], 6, row, form="paper", window=3) == 6
    assert lengths([2], 5, row, form="paper", window=3) == 2
    assert lengths([2, 5], 9, row, form="paper", window=3) == 2
    assert lengths([2, 6], 10, row, form="paper", window=3) == 10
    assert lengths([2], 6, row, window=3) == 6
    assert lengths([2], 5, row, window=3) == 2
    assert lengths([2, 5], 9, row, window=3) == 9
    assert lengths([2, 4], 9, row, window=3) == 2
    assert lengths([2, 3], 9, row, window=1) == 9
    # The same border with the other way to count.
    assert lengths([2], 5, row, form="paper", window=3, window_includes_self=True) == 5
    assert lengths([2, 5], 9, row, window=3, window_includes_self=False) == 2


def test_patterns_are_those_before_any_token_is_let_in() -> None:
    # The first mismatch sees the second one in its window, although that one would pass.
    assert lengths([0, 2], 12, flat(0), window=4) == 0
    assert lengths([2], 12, flat(0), window=4) == 12


def test_the_gate_is_closed_where_the_target_is_sure() -> None:
    tree = DraftTree.chain([0, 5, 0, 0, 0])
    for form in ("paper", "released"):
        sure = view_of(*[certain(0)] * 6)
        unsure = view_of(certain(0), flat(0), *[certain(0)] * 4)
        assert judge(FlyVerifier(form, window=2), tree, sure).path.tolist() == [0]
        assert judge(FlyVerifier(form, window=2), tree, unsure).pathways.tolist() == [0, Pathway.WINDOW, 0, 0, 0]


def test_one_threshold_means_two_things_on_two_scales() -> None:
    # The entropy is 0.315 of ln 10, the part of the three likeliest in it 0.343 nats.
    p = [0.85, 0.05, *[0.0125] * 8]
    row = torch.tensor([p]).log()
    assert entropy(p) / log(10) == pytest.approx(0.315, abs=1e-3)
    assert top3_entropy(row)[0] == pytest.approx(entropy([0.85, 0.05, 0.0125]), abs=1e-6)
    assert top3_entropy(row)[0] == pytest.approx(0.343, abs=1e-3)
    rivals = np.array([3])
    assert FlyVerifier(theta=0.33).admits(rivals, row[0]).all()
    assert not FlyVerifier(theta=0.33, entropy_mode="normalized").admits(rivals, row[0]).any()
    assert not FlyVerifier("paper", theta=0.33).admits(rivals, row[0]).any()
    assert FlyVerifier("paper", theta=0.33, entropy_mode="top3_nats").admits(rivals, row[0]).all()


def test_the_longer_of_two_relaxed_paths_wins() -> None:
    #   0 - 1 (both the target's choice)
    #     - 5 - 0 - 0 (let in, then matches)
    tree = tree_of([0, 1, 5, 0, 0], [-1, 0, 0, 2, 3])
    view = view_of(flat(0), flat(1), flat(5), flat(0), flat(0), flat(0))
    assert judge(FlyVerifier("paper", window=2), tree, view).path.tolist() == [0, 2, 3, 4]
    assert judge(FlyVerifier("paper", window=3), tree, view).path.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"theta": -0.1}, "theta=-0.1 is out of range; it must lie between 0 and 1.09861"),
        ({"theta": 1.2}, "theta=1.2 is out of range; it must lie between 0 and 1.09861"),
        ({"theta": float("nan")}, "theta=nan is out of range"),
        ({"form": "paper", "theta": 3.5}, "theta=3.5 is out of range; it must lie between 0 and 1"),
        ({"window": 0}, "window=0 is out of range; it must be at least 1"),
        ({"form": "code"}, "form=code is unknown"),
        ({"entropy_mode": "normalised"}, "entropy_mode=normalised is unknown: did you mean 'normalized'?"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="verifier 'fly'") as caught:
        FlyVerifier(**knobs)
    assert message in str(caught.value)


def test_a_vocabulary_of_two_has_a_top_3() -> None:
    assert top3_entropy(torch.zeros(1, 2)) == pytest.approx([log(2)])
    assert FlyVerifier(theta=inf).admits(np.array([1]), torch.zeros(2)).tolist() == [False]

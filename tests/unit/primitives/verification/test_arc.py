from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.contract import DraftTree, TargetView
from primitives.verification._arc_surrogate import Whitening
from primitives.verification.arc import ArcVerifier
from primitives.verification.exact import ExactVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.arc_cases import (
    CONSTANTS,
    RNG,
    VOCABULARY,
    arc,
    case,
    embeddings_of,
    flat_view,
    surrogate,
    verdict_of,
)


def naive(tree: DraftTree, view: TargetView, embeddings: torch.Tensor, **knobs: Any) -> tuple[list[int], list[bool]]:
    """The winning path by the published rule, path by path and token by token; also which of its tokens are relaxed."""
    ranked: list[Any] = []
    for index, path in enumerate(tree.paths.tolist()):
        accepted: list[int] = []
        relaxed: list[bool] = []
        likelihood = margins = logits = shifts = 0.0
        for node in (node for node in path if node >= 0):
            row, token = view.logits[tree.rows[node]].double().tolist(), int(tree.tokens[node])
            margin, logit, shift = surrogate(embeddings, row, token, knobs["c_e"], knobs["c_l"])
            p = exp(row[token]) / sum(map(exp, row))
            exact = token == row.index(max(row))
            if not exact:
                margins, logits, shifts = margins + margin, logits + logit, shifts + shift
                length = len(accepted) + 1
                budget = knobs.get("budget_table", [inf])
                within = {
                    "none": True,
                    "linear": margins <= knobs.get("margin_bound", inf) * length
                    and logits <= knobs.get("logit_bound", inf) * length,
                    "table": shifts <= budget[min(length, len(budget)) - 1],
                }[knobs.get("budget", "none")]
                if not (
                    1 - shift / knobs["tau_delta"] >= knobs["theta"]
                    and (not knobs.get("margin") or margin <= knobs["margin_bound"])
                    and (not knobs.get("logit") or logit <= knobs["logit_bound"])
                    and p >= knobs.get("p_min", 0.0)
                    and within
                ):
                    break
            accepted.append(node)
            relaxed.append(not exact)
            likelihood += log(p)
        ranked.append(((len(accepted), likelihood, -index), accepted, relaxed))
    best = max(ranked, key=lambda entry: (entry[0][0], round(entry[0][1], 9), entry[0][2]))
    return best[1], best[2]


RULES: list[dict[str, Any]] = [
    {},
    {"p_min": 0.05},
    {"margin": True, "margin_bound": 0.8},
    {"logit": True, "logit_bound": 0.3},
    {"budget": "linear", "margin_bound": 0.3, "logit_bound": 0.2},
    {"budget": "table", "budget_table": [0.3, 0.35, 0.4]},
    {"p_min": 0.1, "margin": True, "margin_bound": 1.0, "budget": "table", "budget_table": [0.6, 0.8]},
]


def test_it_is_the_published_rule_on_1000_random_cases() -> None:
    relaxed_tokens = paths = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        knobs = {
            "c_e": float(rng.uniform(0.01, 0.3)),
            "c_l": float(rng.uniform(0.1, 1.0)),
            "tau_delta": float(rng.uniform(0.1, 2.0)),
            "theta": float(rng.uniform(0.05, 0.95)),
            **RULES[seed % len(RULES)],
        }
        tree, view = case(seed)
        verdict = verdict_of(tree, view, arc(seed, **knobs))
        path, relaxed = naive(tree, view, embeddings_of(seed), **knobs)
        assert verdict.path.tolist() == path, (seed, knobs)
        assert verdict.pathways.tolist() == [3 * one for one in relaxed]
        relaxed_tokens += sum(relaxed)
        paths += any(relaxed)
    assert paths > 250
    assert relaxed_tokens > 300


def test_the_whitened_distance_takes_the_spread_over_the_vocabulary() -> None:
    embeddings = torch.tensor([[0.0, 0.0], [2.0, 400.0], [4.0, 800.0], [6.0, 1200.0]])
    spread = sqrt(5.0)
    whitening = Whitening(embeddings)
    assert whitening.scale.tolist() == pytest.approx([1 / (spread + 1e-6), 1 / (200 * spread + 1e-6)])
    found = whitening.distance(torch.tensor([0, 1, 2]), torch.tensor([0, 2, 0]))
    assert found.tolist() == pytest.approx([0, 2 * 4 / 5, 2 * 16 / 5], rel=1e-5)


def test_a_dimension_that_is_the_same_for_all_tokens_tells_nothing() -> None:
    embeddings = torch.tensor([[7.0, 0.0], [7.0, 1.0]])
    assert Whitening(embeddings).distance(torch.tensor([0]), torch.tensor([1])).item() == pytest.approx(4, rel=1e-4)


def test_the_smaller_estimate_counts() -> None:
    embeddings = torch.tensor([[0.0], [0.1], [9.0], [10.0]])
    logits = torch.tensor([[5.0, -5.0, 4.9, -5.0]])
    view = TargetView(logits.repeat(2, 1), torch.zeros(2, 1))
    for token, passes in ((1, True), (2, True), (3, False)):
        verifier = ArcVerifier(embeddings, c_e=1.0, c_l=1.0, tau_delta=0.1, theta=0.0)
        assert len(verifier.judge(DraftTree.chain([token]), view, RNG).path) == passes


def test_tau_delta_of_the_calibration_is_divided_if_asked() -> None:
    tree, logits = DraftTree.chain([1]), torch.zeros(2, VOCABULARY)
    logits[:, 0] = 1.0
    view = TargetView(logits, torch.zeros(2, 1))
    # The token's shift is c_l = 0.6, between 0.5 * tau_delta and tau_delta.
    constants = {**CONSTANTS, "c_e": 1e9, "tau_delta": 1.0}
    paper = ArcVerifier(embeddings_of(0), constants, theta=0.5)
    code = ArcVerifier(embeddings_of(0), constants, theta=0.5, tau_divided=True)
    own = ArcVerifier(embeddings_of(0), constants, theta=0.5, tau_delta=1.0, tau_divided=True)
    assert [len(one.judge(tree, view, RNG).path) for one in (paper, code, own)] == [0, 1, 0]


def test_own_constants_win_over_the_calibration() -> None:
    tree, view = case(3)
    calibration = {"c_e": 0.05, "c_l": 0.6, "tau_delta": 1.0, "unused": 5}
    expected = verdict_of(tree, view, arc(0, c_l=0.01)).path.tolist()
    found = ArcVerifier(embeddings_of(0), calibration, c_l=0.01).judge(tree, view, RNG).path.tolist()
    assert found == expected


@pytest.mark.parametrize(
    ("knobs", "awaited"),
    [
        ({}, {"c_e", "c_l", "tau_delta"}),
        ({"c_e": 1.0, "c_l": 1.0}, {"tau_delta"}),
        ({"theta": 1.0}, set()),
        ({"tau_delta": 0.0}, set()),
        ({"margin": True}, {"c_e", "c_l", "tau_delta", "margin_bound"}),
        ({"margin": True, "form": "soft"}, {"c_e", "c_l", "tau_delta"}),
        ({"logit": True, "logit_bound": 3.0}, {"c_e", "c_l", "tau_delta"}),
        ({"budget": "linear"}, {"c_e", "c_l", "tau_delta", "margin_bound", "logit_bound"}),
        ({"budget": "table"}, {"c_e", "c_l", "tau_delta", "budget_table"}),
    ],
)
def test_it_says_which_constants_it_takes_from_the_calibration(knobs: dict[str, Any], awaited: set[str]) -> None:
    assert ArcVerifier(embeddings_of(0), **knobs).awaits == awaited


def test_a_constant_that_nothing_gives_is_an_error() -> None:
    tree, view = case(0)
    with pytest.raises(ValueError, match="verifier 'arc' has no tau_delta: measure it with"):
        ArcVerifier(embeddings_of(0), {"c_e": 1.0}, c_l=1.0).judge(tree, view, RNG)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([{"tau_delta": 0.0}, {"theta": 1.0}]))
def test_neutral_settings_are_exact(seed: int, knobs: dict[str, Any]) -> None:
    tree, view = case(seed)
    verdict = verdict_of(tree, view, arc(seed, **knobs))
    assert verdict.path.tolist() == ExactVerifier().judge(tree, view, RNG).path.tolist()
    assert not verdict.pathways.any()


@pytest.mark.parametrize("knobs", ArcVerifier.neutral)
def test_neutral_settings_refuse_even_a_token_that_ties_with_the_choice(knobs: dict[str, Any]) -> None:
    view = TargetView(torch.zeros(2, VOCABULARY), torch.zeros(2, 1))
    assert verdict_of(DraftTree.chain([1]), view, arc(0, **knobs)).path.tolist() == []
    assert verdict_of(DraftTree.chain([1]), view, arc(0)).path.tolist() == [0]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(range(len(RULES))))
def test_more_relaxed_never_accepts_less(seed: int, rule: int) -> None:
    tree, view = case(seed)
    for knob, values in {
        "theta": (1.0, 0.7, 0.3, 0.0),
        "tau_delta": (0.0, 0.3, 1.0, 3.0),
        "c_e": (5.0, 0.5, 0.05),
        "c_l": (5.0, 0.5, 0.05),
        "p_min": (1.0, 0.2, 0.05, 0.0),
        "margin_bound": (0.0, 0.5, 2.0),
        "logit_bound": (0.0, 0.5, 2.0),
        "most_children": (1, 2, 3),
    }.items():
        lengths = [len(verdict_of(tree, view, arc(seed, **{**RULES[rule], knob: v})).path) for v in values]
        assert lengths == sorted(lengths), knob


@settings(max_examples=200)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.9]), st.sampled_from(range(len(RULES))), st.booleans())
def test_what_is_cut_before_the_forward_would_not_have_been_accepted(
    seed: int, agreeing: float, rule: int, few: bool
) -> None:
    tree, view = case(seed, agreeing)
    verifier = arc(seed, **RULES[rule], most_children=1 if few else None)
    first = np.flatnonzero((tree.parents < 0) & (tree.tokens != int(view.logits[0].argmax())))
    admitted = dict(zip(first.tolist(), verifier.admits(tree.tokens[first], view.logits[0]).tolist(), strict=True))
    for top in first:
        below = tree.keep(tree.ancestor_mask[:, top])
        rows = np.concatenate([[0], np.flatnonzero(tree.ancestor_mask[:, top]) + 1])
        if len(verifier.judge(below, view.select(rows), RNG).path):
            assert admitted[int(top)]


def test_rivals_that_are_too_far_away_are_cut() -> None:
    embeddings = torch.tensor([[0.0], [0.1], [9.0], [10.0]])
    verifier = ArcVerifier(embeddings, c_e=1.0, c_l=1.0, tau_delta=0.1, theta=0.0)
    logits = torch.tensor([5.0, -5.0, 4.9, -5.0])
    assert verifier.admits(np.array([0, 1, 2, 3]), logits).tolist() == [True, True, True, False]
    assert ArcVerifier(embeddings, **CONSTANTS, form="soft").admits(np.array([1, 2]), logits).tolist() == [False, False]


def test_a_token_that_is_ruled_out_is_never_accepted() -> None:
    embeddings = torch.tensor([[0.0], [0.0], [9.0]])
    view = TargetView(torch.tensor([[1.0, -inf, 0.0]] * 2), torch.zeros(2, 1))
    verifier = ArcVerifier(embeddings, **CONSTANTS)
    assert verifier.judge(DraftTree.chain([1]), view, RNG).path.tolist() == []
    assert not verifier.admits(np.array([1]), view.logits[0]).any()


def test_of_equally_long_paths_the_likelier_wins_and_the_likeliest_may_be_short() -> None:
    #   0 - 1
    #     - 2 (the choice)
    #   3
    tree = tree_of([0, 1, 2, 3], [-1, 0, 0, -1], [5, 5, 1, 1])
    assert verdict_of(tree, flat_view(0, 2, 0, 0, 0), arc()).path.tolist() == [0, 2]
    assert verdict_of(tree, flat_view(3, 2, 0, 0, 0), arc()).path.tolist() == [0, 2]
    assert verdict_of(tree, flat_view(3, 2, 0, 0, 0), arc(select="likeliest")).path.tolist() == [3]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"theta": -0.1}, "theta=-0.1 is out of range; it must lie between 0 and 1"),
        ({"theta": float("nan")}, "theta=nan is out of range"),
        ({"delta": 1.5}, "delta=1.5 is out of range"),
        ({"c_e": -1.0}, "c_e=-1.0 is out of range; it must be at least 0"),
        ({"c_l": float("nan")}, "c_l=nan is out of range"),
        ({"tau_delta": -1.0}, "tau_delta=-1.0 is out of range"),
        ({"margin_bound": -1.0}, "margin_bound=-1.0 is out of range"),
        ({"logit_bound": -1.0}, "logit_bound=-1.0 is out of range"),
        ({"budget_table": [1.0, -2.0]}, "budget_table=-2.0 is out of range"),
        ({"budget": "table", "budget_table": []}, "budget_table=[] must be a list of numbers"),
        ({"budget_table": ["a", "b"]}, "budget_table=['a', 'b'] must be a list of numbers"),
        ({"budget_table": [1.0, None]}, "budget_table=[1.0, None] must be a list of numbers"),
        ({"budget_table": float("nan")}, "budget_table=nan must be a list of numbers"),
        ({"budget_table": 2.0}, "budget_table=2.0 must be a list of numbers"),
        ({"p_min": 1.1}, "p_min=1.1 is out of range"),
        ({"lam": 2.0}, "lam=2.0 is out of range"),
        ({"lam_shallow": -1.0}, "lam_shallow=-1.0 is out of range"),
        ({"shallow": 0}, "shallow=0 is out of range; it must be at least 1"),
        ({"window": 0}, "window=0 is out of range"),
        ({"most_relaxed": -1}, "most_relaxed=-1 is out of range; it must be at least 0"),
        ({"most_occurrences": 0}, "most_occurrences=0 is out of range"),
        ({"third_ratio": 1.2}, "third_ratio=1.2 is out of range"),
        ({"most_children": 0}, "most_children=0 is out of range"),
        ({"form": "hrad"}, "form=hrad is unknown: did you mean 'hard'?"),
        ({"budget": "tabel"}, "budget=tabel is unknown: did you mean 'table'?"),
        ({"select": "longer"}, "select=longer is unknown: did you mean 'longest'?"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="verifier 'arc'") as caught:
        arc(**knobs)
    assert message in str(caught.value)

from __future__ import annotations

from functools import partial
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import DraftTree, Pathway, TargetView, Verdict, Verifier
from primitives.models.causal_lm import CausalLMTarget
from primitives.verification._arc_soft import descend
from primitives.verification._arc_surrogate import Whitening
from primitives.verification._laws import Laws
from primitives.verification.arc import ArcVerifier
from primitives.verification.exact import ExactVerifier
from primitives.verification.tree_sampling import TreeSamplingVerifier
from tests.rigs import LiarDrafter, greedy_of, random_prompt, tiny_model, tree_of
from tests.unit.primitives.verification.enumeration import outcomes

VOCABULARY = 6
WIDTH = 3
RNG = torch.Generator()
CONSTANTS: dict[str, Any] = {"c_e": 0.05, "c_l": 0.6, "tau_delta": 1.0}


def embeddings_of(seed: int) -> torch.Tensor:
    """Dimensions of very different spread, so that whitening matters."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(VOCABULARY, WIDTH)) * [0.01, 1.0, 30.0]).float()


def case(seed: int, agreeing: float = 0.5, scale: float = 2.0) -> tuple[DraftTree, TargetView]:
    """A random tree whose nodes are the target's choice with some probability, and the target's view."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, 4)
    tree = DraftTree.from_candidates([rng.integers(0, 4, n).tolist() for n in lengths], rng.random(4))
    logits = torch.from_numpy(rng.normal(size=(len(tree) + 1, VOCABULARY)) * scale).float()
    for row, token in zip(tree.rows, tree.tokens, strict=True):
        if rng.random() < agreeing:
            logits[row, token] = logits[row].max() + 0.1
    return tree, TargetView(logits, torch.zeros(len(logits), 2))


def arc(seed: int = 0, **knobs: Any) -> ArcVerifier:
    return ArcVerifier(embeddings_of(seed), **{**CONSTANTS, **knobs})


def verdict_of(tree: DraftTree, view: TargetView, verifier: ArcVerifier) -> Verdict:
    return verifier.judge(tree, view, RNG)


def surrogate(embeddings: torch.Tensor, row: list[float], token: int, c_e: float, c_l: float) -> tuple[float, ...]:
    """Margin, logit part and shift of a token, one number at a time."""
    rows = embeddings.tolist()
    choice = row.index(max(row))
    apart = 0.0
    for i in range(len(rows[0])):
        column = [each[i] for each in rows]
        mean = sum(column) / len(column)
        spread = sqrt(sum((x - mean) ** 2 for x in column) / len(column))
        apart += ((rows[token][i] - rows[choice][i]) / (spread + 1e-6)) ** 2
    total = sum(exp(x) for x in row)
    margin = log(exp(row[choice]) / total) - log(exp(row[token]) / total)
    return margin, c_l * margin**2, min(c_e * apart, c_l * margin**2)


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


def flat(choice: int) -> list[float]:
    return [1.0 if token == choice else 0.5 for token in range(VOCABULARY)]


def flat_view(*choices: int) -> TargetView:
    """A view whose rows let every token pass under `CONSTANTS`."""
    return TargetView(torch.tensor([flat(choice) for choice in choices]), torch.zeros(len(choices), 1))


def test_of_equally_long_paths_the_likelier_wins_and_the_likeliest_may_be_short() -> None:
    #   0 - 1
    #     - 2 (the choice)
    #   3
    tree = tree_of([0, 1, 2, 3], [-1, 0, 0, -1], [5, 5, 1, 1])
    assert verdict_of(tree, flat_view(0, 2, 0, 0, 0), arc()).path.tolist() == [0, 2]
    assert verdict_of(tree, flat_view(3, 2, 0, 0, 0), arc()).path.tolist() == [0, 2]
    assert verdict_of(tree, flat_view(3, 2, 0, 0, 0), arc(select="likeliest")).path.tolist() == [3]


def test_at_most_so_many_relaxed_tokens_in_the_window() -> None:
    tree, view = DraftTree.chain([1, 0, 1, 0, 1]), flat_view(*[0] * 6)
    for most, length in ((0, 0), (1, 2), (2, 4), (3, 5)):
        verifier = arc(most_relaxed=most)
        verifier.start(np.array([5]))
        assert len(verdict_of(tree, view, verifier).path) == length
    verifier = arc(most_relaxed=2, window=4)
    verifier.start(np.array([5]))
    assert verdict_of(tree, view, verifier).pathways.tolist() == [3, 0, 3, 0]
    # In the next pass the window of 4 holds both; one token on the first one has left it.
    assert verdict_of(DraftTree.chain([1]), view, verifier).path.tolist() == []
    assert len(verdict_of(DraftTree.chain([0]), view, verifier).path) == 1
    assert len(verdict_of(DraftTree.chain([1, 1]), view, verifier).path) == 1
    verifier.start(np.array([5]))
    assert len(verdict_of(tree, view, verifier).path) == 4


def test_a_token_that_occurs_too_often_is_not_accepted_relaxed() -> None:
    view = flat_view(*[0] * 6)
    verifier = arc(most_occurrences=2)
    verifier.start(np.array([1, 3, 3]))
    assert len(verdict_of(DraftTree.chain([1, 0, 1]), view, verifier).path) == 2
    verifier.start(np.array([3, 3, 1]))
    assert len(verdict_of(DraftTree.chain([2, 2, 2]), view, verifier).path) == 2
    assert len(verdict_of(DraftTree.chain([3]), view, verifier).path) == 0
    near = arc(most_occurrences=2, window=2)
    near.start(np.array([3, 3, 1]))
    assert len(verdict_of(DraftTree.chain([3, 0]), view, near).path) == 2


def test_a_third_repeat_needs_a_close_race() -> None:
    rows = torch.tensor([flat(0)] * 3)
    verifier = arc(third_ratio=0.98)
    verifier.start(np.array([4, 1]))
    view = TargetView(rows, torch.zeros(3, 1))
    assert verdict_of(DraftTree.chain([1, 1]), view, verifier).path.tolist() == [0]
    rows[1, 1] = 0.99
    verifier.start(np.array([4, 1]))
    assert verdict_of(DraftTree.chain([1, 1]), view, verifier).path.tolist() == [0, 1]
    verifier.start(np.array([1, 1]))
    assert verdict_of(DraftTree.chain([1]), view, verifier).path.tolist() == []
    verifier.start(np.array([1]))
    assert verdict_of(DraftTree.chain([1]), view, verifier).path.tolist() == [0]


def test_bounds_on_repetition_want_to_know_where_a_text_begins() -> None:
    with pytest.raises(RuntimeError, match="no text has been started"):
        verdict_of(DraftTree.chain([1]), flat_view(0, 0), arc(most_relaxed=1))


def test_only_the_best_children_are_relaxed() -> None:
    tree = tree_of([1, 2, 3], [-1, -1, -1], [0.1, 0.3, 0.2])
    rivals = torch.tensor([[1.0, 0.6, 0.0, 0.5, 0.0, 0.0]] * 4)
    view = TargetView(rivals, torch.zeros(4, 1))
    assert verdict_of(tree, view, arc()).path.tolist() == [0]
    assert verdict_of(tree, view, arc(most_children=2)).path.tolist() == [2]
    assert verdict_of(tree, flat_view(0, 0, 0, 0), arc(most_children=1)).path.tolist() == [1]


# The soft form.


def soft_case(seed: int, q: bool) -> tuple[DraftTree, TargetView, torch.Tensor]:
    """A pending token with two drafted children, q of both, and p of the place below the pending token."""
    rng = np.random.default_rng(seed)
    law = torch.from_numpy(rng.dirichlet(np.ones(VOCABULARY)))
    tokens = rng.choice(VOCABULARY, 2, replace=False).tolist()
    tree = DraftTree(np.array([0, *tokens]), np.array([-1, 0, 0]), q=law.repeat(3, 1) if q else None)
    logits = torch.from_numpy(rng.normal(size=(4, VOCABULARY)))
    return tree, TargetView(logits, torch.zeros(4, 1)), law


def soft_chances(
    tree: DraftTree, view: TargetView, law: torch.Tensor, verifier: ArcVerifier, lam: float
) -> list[float]:
    """The chances of both children, the first one's and the second one's after the first was rejected, by the paper."""
    row = view.logits[1].tolist()
    p = torch.softmax(view.logits[1], -1)
    left, chances = p.clone(), []
    for token in tree.tokens[1:].tolist():
        q = law if tree.q is not None else torch.nn.functional.one_hot(torch.tensor(token), VOCABULARY)
        first = min(1.0, float(left[token] / q[token]))
        shift = surrogate(embeddings_of(0), row, token, CONSTANTS["c_e"], CONSTANTS["c_l"])[2]
        second = (float(p[token]) >= verifier.p_min) * max(
            0.0, 1 - shift / (CONSTANTS["tau_delta"] * (1 - verifier.theta))
        )
        chances.append(min(1.0, first + lam * (1 - first) * second))
        left = torch.clamp(left - q, min=0)
        left /= left.sum()
    return chances


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("q", [False, True])
def test_the_soft_form_accepts_with_the_published_chance(q: bool, eager: bool) -> None:
    verifier = arc(form="soft", lam=0.5, p_min=0.1)
    for seed in range(20):
        tree, view, law = soft_case(seed, q)
        first, second = soft_chances(tree, view, law, verifier, 0.5)
        laws = Laws(tree, view)
        laws.eager = eager
        expected = {(0, 1): first, (0, 2): (1 - first) * second, (0,): (1 - first) * (1 - second)}
        found = dict.fromkeys(expected, 0.0)
        for (path, _, _), chance in outcomes(partial(descend, laws, second=verifier._second_chance)):
            found[tuple(path)] += chance
        # The whitened distance is made in float32.
        assert found == pytest.approx(expected, abs=1e-6), seed


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([{"lam": 0.0}, {"theta": 1.0}, {"tau_delta": 0.0}]))
def test_the_soft_form_without_a_second_chance_is_tree_sampling(seed: int, q: bool, knobs: dict[str, Any]) -> None:
    tree, view, _ = soft_case(seed, q)
    one, other = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    for _ in range(5):
        found, expected = (
            arc(form="soft", **knobs).judge(tree, view, one),
            TreeSamplingVerifier().judge(tree, view, other),
        )
        assert found.path.tolist() == expected.path.tolist()
        assert not found.pathways.any()
        assert (found.residual is None) == (expected.residual is None)
        if found.residual is not None and expected.residual is not None:
            torch.testing.assert_close(found.residual, expected.residual)


def test_the_soft_form_leaves_what_rejected_tokens_leave_of_p() -> None:
    tree, view, _ = soft_case(1, q=False)
    verifier = arc(form="soft", p_min=1.0)
    for seed in range(50):
        verdict = verifier.judge(tree, view, torch.Generator().manual_seed(seed))
        if len(verdict.path) == 1:
            assert verdict.residual is not None
            left = torch.softmax(view.logits[1], -1)
            left[torch.from_numpy(tree.tokens[1:])] = 0
            torch.testing.assert_close(verdict.residual / verdict.residual.sum(), left / left.sum())
            return
    raise AssertionError("no draw rejected both")


def test_second_chances_are_traced_and_depend_on_the_depth() -> None:
    # p of the drafted tokens is near 0, but their embedding is the choice's own: only the second chance lets them in.
    embeddings = torch.tensor([[0.0], [0.0], [9.0]])
    view = TargetView(torch.tensor([[0.0, -40.0, -40.0]] * 4), torch.zeros(4, 1))
    tree = DraftTree.chain([0, 1, 1])
    knobs: dict[str, Any] = {**CONSTANTS, "form": "soft", "lam": 0.0, "lam_shallow": 1.0}
    relaxed = int(Pathway.RELAXED)
    for shallow, ways in ((1, [0]), (2, [0, relaxed]), (3, [0, relaxed, relaxed])):
        verdict = ArcVerifier(embeddings, **knobs, shallow=shallow).judge(tree, view, RNG)
        assert verdict.pathways.tolist() == ways


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


def test_in_the_loop_the_soft_form_samples_and_without_second_chances_it_is_tree_sampling() -> None:
    model, prompt = tiny_model(), random_prompt(2)
    truth = [*prompt, *greedy_of(model, prompt, 40)]
    embeddings = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    wanted = DecodeSettings(max_new_tokens=24, temperature=1.0, seed=5)

    def sampled(verifier: Verifier) -> Generation:
        target = CausalLMTarget(model, eos_ids=())
        return Connector(target, LiarDrafter(truth, 4, tree=True), verifier, str, 32).generate(prompt, wanted)

    lossless = sampled(TreeSamplingVerifier())
    assert sampled(ArcVerifier(embeddings, **CONSTANTS, form="soft", lam=0.0)).ids == lossless.ids
    relaxed = sampled(ArcVerifier(embeddings, **CONSTANTS, form="soft", lam=1.0))
    assert relaxed.trace.tau > lossless.trace.tau
    assert 3 in {way for record in relaxed.trace.passes for way in record.pathways}

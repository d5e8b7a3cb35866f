"""What holds of every relaxed verifier, and the search for the path that wins."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.contract import Bools, DraftTree, Ints, TargetView, Verifier
from primitives.registry import VERIFIERS
from primitives.statistics import log_total_and_entropy
from primitives.verification._relaxed import RelaxedPaths, exact_first, longest
from primitives.verification.exact import ExactVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import VOCABULARY, case, entropy, judge, softmax

# Name, then each knob from strict to relaxed, the others at what makes it count.
LADDERS: list[tuple[str, dict[str, Any], str, tuple[Any, ...]]] = [
    ("top_k", {}, "k", (1, 2, 3, 6)),
    ("mars", {}, "threshold", (1.0, 0.9, 0.5, 0.0)),
    ("typical", {}, "epsilon", (1.0, 0.3, 0.1, 0.0)),
    ("typical", {"epsilon": 1.0}, "alpha", (5.0, 0.9, 0.3, 0.0)),
    ("aasd", {}, "alpha", (0.0, 0.05, 0.1, 1.0)),
    ("aasd", {"alpha": 0.0}, "beta", (1.0, 0.4, 0.1, 0.0)),
    ("prob_floor", {}, "epsilon", (1.0, 0.3, 0.1, 0.0)),
    ("prob_floor", {"epsilon": 0.0}, "rho", (1.0, 0.5, 0.1, 0.0)),
    ("fly", {"window": 3}, "theta", (inf, log(3), 0.6, 0.2, 0.0)),
    ("fly", {"theta": 0.1}, "window", (6, 4, 2, 1)),
    ("fly", {"form": "paper", "window": 2}, "theta", (inf, 1.0, 0.6, 0.2, 0.0)),
    ("fly", {"form": "paper", "theta": 0.1}, "window", (6, 4, 2, 1)),
]
LOOSEST: list[tuple[str, dict[str, Any]]] = [
    ("top_k", {"k": VOCABULARY}),
    ("typical", {"epsilon": 0.0}),
    ("aasd", {"alpha": 0.0, "beta": 0.0}),
    ("prob_floor", {"epsilon": 0.0}),
    ("fly", {"form": "paper", "theta": 0.0, "window": 1, "window_includes_self": True}),
]
NAMES = sorted({name for name, *_ in LADDERS})
NEUTRAL = [(name, dict(knobs)) for name in NAMES for knobs in VERIFIERS.get(name).neutral]


def built(name: str, **knobs: Any) -> Verifier:
    return VERIFIERS.build(name, knobs, {})


@pytest.mark.parametrize(("name", "knobs"), NEUTRAL)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), dtype=st.sampled_from([torch.float32, torch.bfloat16]))
def test_neutral_settings_are_exact(name: str, knobs: dict[str, Any], seed: int, dtype: torch.dtype) -> None:
    tree, view = case(seed)
    view = TargetView(view.logits.to(dtype), view.hidden)
    verdict = judge(built(name, **knobs), tree, view)
    assert verdict.path.tolist() == judge(ExactVerifier(), tree, view).path.tolist()
    assert not verdict.pathways.any()
    assert verdict.residual is None


@pytest.mark.parametrize(("name", "knobs"), NEUTRAL)
def test_neutral_settings_are_exact_where_scores_tie(name: str, knobs: dict[str, Any]) -> None:
    view = TargetView(torch.full((3, VOCABULARY), 2.0), torch.zeros(3, 2))
    assert judge(built(name, **knobs), DraftTree.chain([0, 1]), view).path.tolist() == [0]


@pytest.mark.parametrize(("name", "knobs", "knob", "values"), LADDERS)
@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), agreeing=st.sampled_from([0.3, 0.6, 0.9]))
def test_more_relaxed_never_accepts_less(
    name: str, knobs: dict[str, Any], knob: str, values: tuple[Any, ...], seed: int, agreeing: float
) -> None:
    tree, view = case(seed, agreeing)
    lengths = [len(judge(built(name, **knobs, **{knob: value}), tree, view).path) for value in values]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize(("name", "knobs", "knob", "values"), LADDERS)
def test_every_knob_counts(name: str, knobs: dict[str, Any], knob: str, values: tuple[Any, ...]) -> None:
    cases = [case(seed, 0.9) for seed in range(60)]
    lengths = [sum(len(judge(built(name, **knobs, **{knob: v}), *one).path) for one in cases) for v in values]
    assert lengths[0] < lengths[-1]


@pytest.mark.parametrize(("name", "knobs"), LOOSEST)
def test_the_loosest_settings_accept_every_draft(name: str, knobs: dict[str, Any]) -> None:
    for seed in range(40):
        tree, view = case(seed, agreeing=0.2)
        assert len(judge(built(name, **knobs), tree, view).path) == tree.depths.max()


@pytest.mark.parametrize(
    ("name", "knobs"),
    [*LOOSEST, ("mars", {"threshold": 0.0}), ("soft_gated", {"theta_e": 0.0, "k": VOCABULARY, "tau_c": 1.0})],
)
def test_a_forbidden_token_is_never_let_in(name: str, knobs: dict[str, Any]) -> None:
    row = [2.0, 1.9, 1.8, -inf, -inf, -inf]
    view = TargetView(torch.tensor([row] * 4), torch.zeros(4, 2))
    verifier = built(name, **knobs)
    assert judge(verifier, DraftTree.chain([0, 1, 3]), view).path.tolist() == [0, 1]
    single = TargetView(torch.tensor([[2.0, *[-inf] * 5]] * 2), torch.zeros(2, 2))
    assert judge(verifier, DraftTree.chain([1]), single).path.tolist() == []
    assert name == "soft_gated" or not verifier.admits(np.array([1, 2]), single.logits[0]).any()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), agreeing=st.sampled_from([0.3, 0.9]), data=st.data())
def test_what_is_cut_before_the_forward_would_not_have_been_accepted(
    name: str, seed: int, agreeing: float, data: st.DataObject
) -> None:
    _, knobs, knob, values = data.draw(st.sampled_from([ladder for ladder in LADDERS if ladder[0] == name]))
    verifier = built(name, **knobs, **{knob: data.draw(st.sampled_from(values))})
    tree, view = case(seed, agreeing)
    first = np.flatnonzero(tree.parents < 0)
    admitted = verifier.admits(tree.tokens[first], view.logits[0])
    for top, let_in in zip(first, admitted, strict=True):
        # Each level-1 node alone with its branches, so that no other path hides what would be accepted below it.
        chosen = tree.ancestor_mask[:, top]
        below = view.select(np.concatenate([[0], np.flatnonzero(chosen) + 1]))
        accepted = len(judge(verifier, tree.keep(chosen), below).path)
        assert let_in or not accepted
        assert name == "fly" or bool(accepted) == let_in


@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_is_a_root_path_and_a_chain_is_judged_like_a_branch(name: str) -> None:
    verifier = built(name)
    for seed in range(60):
        tree, view = case(seed, candidates=1)
        assert tree.is_chain
        alone = judge(verifier, tree, view)
        assert alone.path.tolist() == list(range(len(alone.path)))
        # The same chain beside a level-1 node that nothing lets in.
        other = DraftTree(np.append(tree.tokens, 5), np.append(tree.parents, -1))
        logits = torch.cat([view.logits, view.logits[-1:]])
        logits[0, 5] = -100
        verdict = judge(verifier, other, TargetView(logits, torch.zeros(len(logits), 2)))
        chain = view.logits.clone()
        chain[0, 5] = -100
        expected = judge(verifier, tree, TargetView(chain, view.hidden))
        assert verdict.path.tolist() == expected.path.tolist()
        assert verdict.pathways.tolist() == expected.pathways.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_bfloat16_rows_give_the_verdict_of_their_values_in_float32(name: str) -> None:
    for seed in range(30):
        tree, view = case(seed)
        half = TargetView(view.logits.bfloat16(), view.hidden)
        same = TargetView(half.logits.float(), view.hidden)
        assert judge(built(name), tree, half).path.tolist() == judge(built(name), tree, same).path.tolist()


def test_statistics_of_a_row_are_those_of_its_softmax() -> None:
    rows = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [500.0, 0.0, -inf]]
    log_total, nats = log_total_and_entropy(torch.tensor(rows))
    assert log_total == pytest.approx([log(sum(np.exp(rows[0]))), log(3), 500.0], abs=1e-5)
    assert nats == pytest.approx([entropy(softmax(row)) for row in rows[:2]] + [0.0], abs=1e-6)


def tables(seed: int) -> tuple[DraftTree, Bools, Bools, Bools, Bools]:
    """A tree and, drawn at random, what is exact, what passes anywhere, what passes isolated, and what is isolated."""
    tree, _ = case(seed, candidates=6)
    rng = np.random.default_rng(seed)
    exact = rng.random(len(tree)) < 0.5
    anywhere, lonely = (rng.random((2, len(tree))) < 0.5) & ~exact
    return tree, exact, anywhere, lonely, rng.random(tree.paths.shape) < 0.5


def all_at_once(seed: int, by_length: bool) -> list[int]:
    """The winning path, with everything known from the start and one path looked at after the other."""
    tree, exact, anywhere, lonely, isolated = tables(seed)
    assert tree.scores is not None
    ranked = []
    for index, path in enumerate(tree.paths.tolist()):
        accepted: list[int] = []
        for cell, node in enumerate(path):
            if node < 0 or not (exact[node] or anywhere[node] or (lonely[node] and isolated[index, cell])):
                break
            accepted.append(node)
        prefix = next((i for i, node in enumerate(accepted) if not exact[node]), len(accepted))
        keys = (len(accepted), sum(exact[accepted])) if by_length else (prefix, len(accepted))
        ranked.append(((*keys, tree.scores[accepted[-1] if accepted else path[0]], -index), accepted))
    return max(ranked)[1]


@pytest.mark.parametrize("by_length", [False, True])
def test_asking_as_little_as_needed_finds_the_path_that_wins(by_length: bool) -> None:
    asked = nodes = 0
    for seed in range(300):
        tree, exact, anywhere, lonely, isolated = tables(seed)
        seen: list[int] = []

        def rule(
            nodes: Ints, seen: list[int] = seen, anywhere: Bools = anywhere, lonely: Bools = lonely
        ) -> tuple[Bools, Bools]:
            seen.extend(nodes.tolist())
            return anywhere[nodes], lonely[nodes]

        race = RelaxedPaths(tree, exact, rule, np.ones(len(tree), bool), isolated)
        assert race.winner(longest if by_length else exact_first).tolist() == all_at_once(seed, by_length)
        assert len(set(seen)) == len(seen)
        assert not exact[seen].any()
        asked += len(seen)
        nodes += int((~exact).sum())
    assert asked < 0.7 * nodes


def never(nodes: Ints) -> tuple[Bools, Bools]:
    raise AssertionError(f"asked about {nodes}")


@pytest.mark.parametrize(
    ("hopeful", "rule"),
    [
        # Node 3, the only other hope, reaches no deeper than the exact path 0 - 1 - 2.
        ([False, False, False, True, True], never),
        ([False] * 5, never),
    ],
)
def test_what_cannot_win_is_not_asked_about(hopeful: list[bool], rule: Callable[[Ints], tuple[Bools, Bools]]) -> None:
    tree = tree_of([0, 1, 2, 3, 4], [-1, 0, 1, 0, 3])
    exact = np.array([True, True, True, False, False])
    assert RelaxedPaths(tree, exact, rule, np.array(hopeful)).winner(longest).tolist() == [0, 1, 2]


def test_contested_is_what_tells_the_longest_paths_apart() -> None:
    #   0 - 1 - 2
    #     - 3 - 4
    #         - 5
    tree = tree_of([0, 1, 2, 3, 4, 5], [-1, 0, 1, 0, 3, 3])
    passes = np.array([True, True, True, True, False, True])
    race = RelaxedPaths(tree, np.zeros(6, bool), lambda nodes: (passes[nodes], passes[nodes]), passes)
    assert len(race.winner(longest)) == 3
    assert np.flatnonzero(race.contested(3)).tolist() == [1, 2, 3, 5]

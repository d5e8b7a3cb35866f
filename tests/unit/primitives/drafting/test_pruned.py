from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from primitives.contract import Context, DraftTree, Outcome, TargetView
from primitives.drafting.pruned import PrunedDrafter
from primitives.registry import DRAFTERS
from tests.rigs import FixedDrafter, tree_of

VOCABULARY = 8


def context_of(pending: int = 0, row: list[float] | None = None) -> Context:
    logits = torch.tensor(row or [0.0] * VOCABULARY)
    return Context(np.array([3, pending]), logits, torch.zeros(2), 10)


def pruned(tree: DraftTree, context: Context | None = None, **knobs: Any) -> DraftTree:
    drafter = PrunedDrafter(FixedDrafter(tree), **{"fewest": 0, "least_leaf": 0.0, **knobs})
    return drafter.propose(context or context_of())


def texts(tree: DraftTree) -> list[list[int]]:
    return [tree.tokens[tree.path_to(node)].tolist() for node in range(len(tree))]


def with_log_q(tokens: list[int], parents: list[int], q: list[float]) -> DraftTree:
    return DraftTree(np.array(tokens), np.array(parents), log_q=np.log(q))


CHAIN = ([0, 1, 2, 3], [-1, 0, 1, 2], [1.0, 0.5, 0.5, 0.5])


def test_unlikely_nodes_are_cut_with_all_below_them() -> None:
    tree = with_log_q(*CHAIN)
    sure = context_of(row=[50.0] + [0.0] * 7)
    assert [len(pruned(tree, sure, least=least)) for least in (0.1, 0.2, 0.3, 0.6)] == [4, 3, 2, 1]


def test_an_unsure_target_shortens_the_draft_by_the_published_factor() -> None:
    tree = with_log_q(*CHAIN)
    # The target's row is uniform, so H is 1: the weights are 1, 0.5/e, 0.25/e^2, 0.125/e^3.
    for least, count in ((0.125 * exp(-3) - 1e-6, 4), (0.125 * exp(-3) + 1e-6, 3), (0.5 * exp(-1) - 1e-6, 2)):
        assert len(pruned(tree, least=least)) == count
    assert len(pruned(tree, least=0.124, entropy_weight=0.0)) == 4
    assert len(pruned(tree, least=0.5 * exp(-2) - 1e-6, entropy_weight=2.0)) == 2


def test_without_probabilities_scores_give_the_shares() -> None:
    #   0 - 1 (3 of 4) - 2 (1 of 2)
    #                  - 3 (1 of 2)
    #     - 4 (1 of 4)
    tree = tree_of([0, 1, 2, 3, 4], [-1, 0, 1, 1, 0], [9, 3, 1, 1, 1])
    kept = {least: texts(pruned(tree, least=least, entropy_weight=0.0)) for least in (0.2, 0.3, 0.5)}
    assert kept[0.2] == [[0], [0, 1], [0, 1, 2], [0, 1, 3], [0, 4]]
    assert kept[0.3] == [[0], [0, 1], [0, 1, 2], [0, 1, 3]]
    assert kept[0.5] == [[0], [0, 1]]
    assert len(pruned(tree_of([0, 1, 4], [-1, 0, 0]), least=0.5, entropy_weight=0.0)) == 3
    assert len(pruned(tree_of([0, 1, 4], [-1, 0, 0], [-1, -2, -3]), least=0.51, entropy_weight=0.0)) == 1


def test_the_best_nodes_stay_in_any_case_but_for_hopeless_leaves() -> None:
    tree = with_log_q(*CHAIN)
    assert len(pruned(tree, least=0.9, fewest=3, entropy_weight=0.0)) == 3
    assert len(pruned(tree, least=0.9, fewest=3, entropy_weight=0.0, least_leaf=0.3)) == 2
    # Only leaves: the node below the threshold that has a child stays.
    assert len(pruned(tree, least=0.9, fewest=4, entropy_weight=0.0, least_leaf=0.2)) == 3


def test_the_pending_token_is_never_cut() -> None:
    tree = with_log_q([5, 0, 1], [-1, -1, 1], [0.9, 0.001, 0.9])
    assert texts(pruned(tree, least=1.0, least_leaf=1.0)) == [[0]]
    assert texts(pruned(tree, least=0.9, entropy_weight=0.0)) == [[5], [0], [0, 1]]
    assert len(pruned(DraftTree.empty())) == 0


def test_what_is_left_counts_as_proposed_with_certainty() -> None:
    tree = DraftTree(
        np.array([0, 1]), np.array([-1, 0]), log_q=np.log([1.0, 0.5]), q=torch.full((2, 8), 0.125), scores=np.ones(2)
    )
    kept = pruned(tree)
    assert kept.q is None
    assert kept.log_q is None
    assert kept.scores is not None


@settings(max_examples=80)
@given(st.integers(0, 10**6))
def test_it_is_the_published_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drafts = [[0, *rng.integers(0, 3, rng.integers(0, 5)).tolist()] for _ in range(5)]
    tree = DraftTree.from_candidates(drafts)
    q = rng.uniform(0.05, 1, len(tree))
    tree = DraftTree(tree.tokens, tree.parents, log_q=np.log(q))
    row = rng.normal(size=VOCABULARY) * 2
    p = np.exp(row) / np.exp(row).sum()
    entropy = -sum(x * log(x) for x in p.tolist()) / log(VOCABULARY)
    least, weight = float(rng.uniform(0.001, 0.3)), float(rng.uniform(0, 2))
    expected = []
    for node in range(len(tree)):
        path = tree.path_to(node).tolist()
        kept = all(
            np.prod([q[above] for above in path[1 : place + 1]]) * exp(-weight * entropy * place) >= least
            for place in range(len(path))
        )
        if kept:
            expected.append(tree.tokens[path].tolist())
    found = pruned(tree, context_of(row=row.tolist()), least=least, entropy_weight=weight)
    assert texts(found) == expected


def test_the_drafter_within_is_told_everything() -> None:
    inner = FixedDrafter(DraftTree.chain([0, 1]))
    drafter = PrunedDrafter(inner)
    view = TargetView(torch.zeros(3, 8), torch.zeros(3, 2))
    drafter.start(np.array([3]), view)
    tree = drafter.propose(context_of())
    drafter.observe(Outcome(tree, view, np.array([0, 1])))
    drafter.finish()
    assert (inner.prompt, inner.observed[0][0], inner.finished) == ([3], [0, 1], 1)
    assert drafter.sources == inner.sources
    assert drafter.layers == inner.layers


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"entropy_weight": -1.0}, "entropy_weight=-1.0 is out of range; it must be at least 0"),
        ({"least": 1.5}, "least=1.5 is out of range; it must lie between 0 and 1"),
        ({"least_leaf": float("nan")}, "least_leaf=nan is out of range"),
        ({"fewest": -1}, "fewest=-1 is out of range"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="drafter 'pruned'") as caught:
        PrunedDrafter(FixedDrafter(), **knobs)
    assert message in str(caught.value)


def test_a_pruned_drafter_needs_one_to_prune() -> None:
    with pytest.raises(ValueError, match="drafter 'pruned': drafter is missing; give the name of the drafter"):
        DRAFTERS.bare("pruned")


def test_what_is_left_is_what_the_drafter_within_gives_but_for_q() -> None:
    for name in ("sps", "pld", "semanticspec", "sen"):
        inner = DRAFTERS.bare(name)
        assert PrunedDrafter(inner).provides == inner.provides - {"q"}

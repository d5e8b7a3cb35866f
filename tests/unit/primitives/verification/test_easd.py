from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import DraftTree, Pathway, TargetView
from primitives.verification.easd import EntropyAwareVerifier
from primitives.verification.exact import ExactVerifier
from tests.rigs import FixedDrafter, TableTarget, successor_table, tree_of
from tests.unit.primitives.verification.relaxed_rig import RNG, case, certain, entropy, flat, judge, softmax, view_of

LOOSE: dict[str, Any] = {"theta_t": 0.5, "theta_d": 0.5, "n": 2, "omega": 1.0}


def with_q(tree: DraftTree, *rows: Sequence[float]) -> DraftTree:
    """The tree with these logits of the drafter at each node's parent."""
    return replace(tree, q=torch.softmax(torch.tensor(rows), -1))


CHAIN = DraftTree.chain([0, 1, 2])
UNSURE = view_of(flat(0), flat(1, (3,)), flat(2), certain(0))


@pytest.mark.parametrize(
    ("drafter", "target", "length"),
    [
        (flat(1, (3,)), flat(1, (3,)), 1),
        (flat(3, (1,)), flat(1, (3,)), 1),
        (certain(1), flat(1, (3,)), 3),
        (flat(1, (3,)), certain(1), 3),
        (flat(1, (4,)), flat(1, (3,)), 3),
    ],
    ids=["unsure and of one mind", "the order does not count", "drafter sure", "target sure", "of two minds"],
)
def test_a_match_is_rejected_where_both_are_unsure_and_of_one_mind(
    drafter: list[float], target: list[float], length: int
) -> None:
    tree = with_q(CHAIN, flat(0), drafter, certain(2))
    verdict = judge(EntropyAwareVerifier(**LOOSE), tree, view_of(flat(0), target, flat(2), certain(0)))
    assert verdict.path.tolist() == list(range(length))
    assert not verdict.pathways.any()
    if length == 1:
        assert verdict.residual is not None
        assert verdict.residual.tolist() == [0, 0, 0, 1, 0, 0]
    else:
        assert verdict.residual is None


def test_a_mismatch_is_rejected_as_ever() -> None:
    tree = with_q(DraftTree.chain([0, 4]), flat(0), certain(4))
    verdict = judge(EntropyAwareVerifier(**LOOSE), tree, view_of(certain(0), certain(1), certain(1)))
    assert verdict.path.tolist() == [0]
    assert verdict.residual is None


def test_the_pending_token_is_certain_even_if_it_is_a_second_choice() -> None:
    tree = with_q(DraftTree.chain([3, 1]), flat(0), certain(1))
    verdict = judge(EntropyAwareVerifier(**LOOSE), tree, view_of(flat(0, (3,)), certain(1), certain(1)))
    assert verdict.path.tolist() == [0, 1]
    assert verdict.pathways.tolist() == [Pathway.RELAXED, Pathway.EXACT]


def test_it_follows_the_targets_choices_through_a_tree() -> None:
    #   0 - 4
    #     - 1 - 2
    tree = with_q(tree_of([0, 4, 1, 2], [-1, 0, 0, 2]), flat(0), flat(1, (3,)), flat(1, (3,)), flat(2, (5,)))
    view = view_of(certain(0), certain(1), certain(0), flat(2, (5,)), certain(0))
    verdict = judge(EntropyAwareVerifier(**LOOSE), tree, view)
    assert verdict.path.tolist() == [0, 2]
    assert verdict.residual is not None
    assert verdict.residual.argmax() == 5


def test_nothing_is_rejected_of_a_draft_without_entropy() -> None:
    assert judge(EntropyAwareVerifier(theta_t=0.0, theta_d=0.0), CHAIN, UNSURE).path.tolist() == [0, 1, 2]


@pytest.mark.parametrize("omega", [0.6, 0.8, 1.0])
def test_the_share_counts_common_tokens(omega: float) -> None:
    # The five likeliest are 0 to 4 and 1 to 5: four in common.
    p, q = [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    verifier = EntropyAwareVerifier(theta_t=0.1, theta_d=0.1, omega=omega)
    tree = with_q(DraftTree.chain([0, 0]), q, q)
    assert len(judge(verifier, tree, view_of(p, p, p)).path) == (2 if omega > 0.8 else 1)


def naive(tree: DraftTree, view: TargetView, theta_t: float, theta_d: float, n: int, omega: float) -> list[int]:
    """The path of the target's choices, one node at a time."""
    path: list[int] = []
    while True:
        row = 0 if not path else path[-1] + 1
        logits = view.logits[row].double().tolist()
        below = [i for i in range(len(tree)) if tree.rows[i] == row and tree.tokens[i] == logits.index(max(logits))]
        if not below:
            return path
        assert tree.q is not None
        p, q = softmax(logits), tree.q[below[0]].double().tolist()
        tops = [set(sorted(range(len(x)), key=lambda i: -x[i])[:n]) for x in (p, q)]
        unsure = entropy(p) / log(len(p)) > theta_t and entropy(q) / log(len(q)) > theta_d
        if path and unsure and len(tops[0] & tops[1]) / n >= omega:
            return path
        path.append(below[0])


def drafted(seed: int) -> tuple[DraftTree, TargetView]:
    """A random tree whose level 1 is the pending token, with a drafter that often thinks like the target."""
    tree, view = case(seed, agreeing=0.8)
    pending = int(view.logits[0].argmax())
    tokens = np.where(tree.parents < 0, pending, tree.tokens)
    tree = tree.keep(tree.ancestor_mask[:, 0])
    tokens = tokens[: len(tree)].copy()
    view = TargetView(view.logits[: len(tree) + 1], view.hidden[: len(tree) + 1])
    noise = torch.from_numpy(np.random.default_rng(seed).normal(size=(len(tree), view.logits.shape[1]))).float()
    q = torch.softmax(view.logits[torch.from_numpy(tree.rows)] + noise, -1)
    return replace(tree, tokens=tokens, q=q), view


@pytest.mark.parametrize("knobs", [LOOSE, {"theta_t": 0.7, "theta_d": 0.3, "n": 3, "omega": 0.6}])
def test_it_is_the_plain_rule(knobs: dict[str, Any]) -> None:
    rejected = 0
    for seed in range(200):
        tree, view = drafted(seed)
        verdict = judge(EntropyAwareVerifier(**knobs), tree, view)
        assert verdict.path.tolist() == naive(tree, view, **knobs)
        rejected += verdict.residual is not None
    assert rejected > 10


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_higher_thresholds_never_accept_less(seed: int) -> None:
    tree, view = drafted(seed)
    for knob, values in {"theta_t": (0.0, 0.4, 1.0), "theta_d": (0.0, 0.4, 1.0), "omega": (0.0, 0.5, 1.0)}.items():
        lengths = [len(judge(EntropyAwareVerifier(**{**LOOSE, knob: value}), tree, view).path) for value in values]
        assert lengths == sorted(lengths), knob


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from(EntropyAwareVerifier.neutral))
def test_neutral_settings_are_exact_with_any_q(seed: int, knobs: dict[str, Any]) -> None:
    tree, view = drafted(seed)
    verdict = judge(EntropyAwareVerifier(**knobs), tree, view)
    assert verdict.path.tolist() == ExactVerifier().judge(tree, view, RNG).path.tolist()
    assert verdict.residual is None


def test_thresholds_come_from_the_calibration_unless_they_are_set() -> None:
    tree = with_q(CHAIN, flat(0), flat(1, (3,)), certain(2))
    measured = {"theta_t": 0.5, "theta_d": 0.5}
    assert len(judge(EntropyAwareVerifier(measured, n=2), tree, UNSURE).path) == 1
    assert len(judge(EntropyAwareVerifier(measured, theta_t=0.9999, n=2), tree, UNSURE).path) == 3
    assert EntropyAwareVerifier().awaits == {"theta_t", "theta_d"}
    assert EntropyAwareVerifier(theta_t=0.5).awaits == {"theta_d"}
    assert EntropyAwareVerifier(theta_t=1.0).awaits == frozenset()
    with pytest.raises(ValueError, match=r"verifier 'easd' has no theta_d: set verifier.theta_d, or calibrate"):
        judge(EntropyAwareVerifier(theta_t=0.5), tree, UNSURE)


def test_the_loop_writes_the_second_choice_and_goes_on() -> None:
    table = successor_table([1, 2, 3, 4, 5, 6], size=8)
    table[2] = torch.tensor([0, 0, 0, 1.1, 0, 1, 0, 0])
    target = TableTarget(table)
    rows = [[0.0] * 8, table[2].tolist()]
    drafter = FixedDrafter(with_q(DraftTree.chain([2, 3]), *rows))
    verifier = EntropyAwareVerifier(**{**LOOSE, "n": 1})
    connector = Connector(target, drafter, verifier, lambda ids: " ".join(map(str, ids)), 8)
    done = connector.generate([0, 1], DecodeSettings(max_new_tokens=3))
    assert done.ids == [2, 5, 6]
    # 5 is pending by a draw from what the rejection left, and certain, although the table prefers 3.
    assert done.trace.passes[0].committed == 1


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"theta_t": -0.1}, "theta_t=-0.1 is out of range; it must lie between 0 and 1"),
        ({"theta_d": 2.0}, "theta_d=2.0 is out of range"),
        ({"omega": 1.5}, "omega=1.5 is out of range"),
        ({"n": 0}, "n=0 is out of range; it must be at least 1"),
        ({"percentile": 101.0}, "percentile=101.0 is out of range; it must lie between 0 and 100"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="verifier 'easd'") as caught:
        EntropyAwareVerifier(**knobs)
    assert message in str(caught.value)

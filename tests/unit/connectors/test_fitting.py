from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.fitting import fit
from primitives.contract import Bools, Context, DraftTree, Ints, TargetView, Verdict, Verifier
from primitives.verification.exact import ExactVerifier
from primitives.verification.soft_gated import SoftGatedVerifier
from tests.rigs import tree_of

PENDING = 1


class Lenient(Verifier):
    """Admits all level-1 tokens but those above a limit."""

    guarantee = "lossy"

    def __init__(self, limit: int = 10**6) -> None:
        self.limit = limit

    def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
        raise NotImplementedError

    def admits(self, tokens: Ints, logits: torch.Tensor) -> Bools:
        admitted: Bools = tokens <= self.limit
        return admitted


def context(budget: int = 99) -> Context:
    logits = torch.zeros(10)
    logits[PENDING] = 1
    return Context(np.array([7, PENDING]), logits, torch.zeros(2), budget)


def words(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))]


def test_an_empty_draft_becomes_the_pending_token() -> None:
    assert words(fit(DraftTree.empty(), context(), ExactVerifier(), 8)) == [(PENDING,)]


def test_a_draft_without_the_pending_token_gets_it_beside() -> None:
    tree = fit(tree_of([2, 3, 4], [-1, 0, -1], [0.5, 0.4, 0.3]), context(), Lenient(), 8)
    assert words(tree) == [(PENDING,), (2,), (2, 3), (4,)]
    assert tree.scores is not None
    assert tree.scores.tolist() == [np.inf, 0.5, 0.4, 0.3]


def test_a_draft_with_the_pending_token_stays_as_it_is() -> None:
    draft = tree_of([2, PENDING, 5], [-1, -1, 1])
    assert fit(draft, context(), Lenient(), 8) is draft


def test_level_1_nodes_that_cannot_be_accepted_are_cut_with_all_below_them() -> None:
    draft = tree_of([2, 3, 9, 5, PENDING, 6], [-1, 0, -1, 2, -1, 4])
    assert words(fit(draft, context(), Lenient(limit=5), 8)) == [(2,), (2, 3), (PENDING,), (PENDING, 6)]
    assert words(fit(draft, context(), ExactVerifier(), 8)) == [(PENDING,), (PENDING, 6)]


def test_the_pending_token_stays_whatever_the_verifier_admits() -> None:
    assert words(fit(tree_of([PENDING, 3], [-1, 0]), context(), Lenient(limit=0), 8)) == [(PENDING,), (PENDING, 3)]


def test_nodes_beyond_the_budget_are_cut() -> None:
    draft = DraftTree.chain([PENDING, 2, 3, 4])
    assert words(fit(draft, context(2), ExactVerifier(), 8)) == [(PENDING,), (PENDING, 2)]
    assert words(fit(draft, context(4), ExactVerifier(), 8)) == words(draft)


@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (1, [(1,)]),
        (2, [(1,), (2,)]),
        (3, [(1,), (2,), (2, 4)]),
        (4, [(1,), (1, 3), (2,), (2, 4)]),
    ],
)
def test_the_best_nodes_are_kept_with_the_pending_token(most: int, kept: list[tuple[int, ...]]) -> None:
    draft = tree_of([1, 3, 2, 4, 5], [-1, 0, -1, 2, 3], [0.1, 0.1, 0.9, 0.8, 0.05])
    assert words(fit(draft, context(), Lenient(), most)) == kept


def test_a_chain_without_scores_keeps_its_beginning() -> None:
    assert words(fit(DraftTree.chain([1, 2, 3, 4]), context(), ExactVerifier(), 2)) == [(1,), (1, 2)]


@st.composite
def drafts(draw: st.DrawFn) -> DraftTree:
    n = draw(st.integers(0, 12))
    parents = [draw(st.integers(-1, node - 1)) for node in range(n)]
    tokens = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    scores = draw(st.none() | st.lists(st.sampled_from([0.1, 0.5, 0.9]), min_size=n, max_size=n))
    return tree_of(tokens, parents, scores)


@given(drafts(), st.integers(1, 9), st.integers(1, 14), st.sampled_from([Lenient(), Lenient(2), ExactVerifier()]))
def test_what_goes_through_the_forward(draft: DraftTree, budget: int, most: int, verifier: Verifier) -> None:
    tree = fit(draft, context(budget), verifier, most)
    kept = words(tree)
    assert 1 <= len(tree) <= most
    assert (PENDING,) in kept
    assert set(kept) <= {*words(draft), (PENDING,)}
    assert {word[:-1] for word in kept if len(word) > 1} <= set(kept)
    assert tree.depths.max() <= budget
    first = tree.tokens[tree.parents < 0]
    assert (verifier.admits(first, context().logits) | (first == PENDING)).all()
    hopeful = [
        word
        for word in words(draft)
        if len(word) <= budget and (word[0] == PENDING or verifier.admits(np.array(word[:1]), context().logits)[0])
    ]
    whole = len(hopeful) + ((PENDING,) not in hopeful)
    assert len(tree) == min(most, whole)


def test_a_drafter_that_gives_q_must_propose_the_pending_token() -> None:
    draft = DraftTree.chain([2], log_q=np.zeros(1))
    with pytest.raises(ValueError, match="a drafter that gives q must propose the pending token itself"):
        fit(draft, context(), Lenient(), 8)


def test_soft_gating_leaves_level_1_rivals_in_where_the_target_is_unsure() -> None:
    draft = tree_of([2, PENDING], [-1, -1])
    flat = context()
    sure = Context(flat.tokens, flat.logits * 60, flat.hidden, flat.budget)
    assert words(fit(draft, flat, SoftGatedVerifier(k=4), 8)) == [(2,), (PENDING,)]
    assert words(fit(draft, sure, SoftGatedVerifier(k=4), 8)) == [(PENDING,)]

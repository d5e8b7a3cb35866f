from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.fitting import fit
from primitives.contract import Bools, Context, DraftTree, Ints, TargetView, Verdict, Verifier
from primitives.decoding import GREEDY, Decoding
from primitives.registry import VERIFIERS
from primitives.verification._lossless import LosslessVerifier
from primitives.verification.exact import ExactVerifier
from primitives.verification.soft_gated import SoftGatedVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.enumeration import (
    distance,
    drawn_trees,
    law_over_drafts,
    random_model,
    target_law,
)

PENDING = 1
SAMPLED = Decoding(greedy=False)


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


def context(budget: int = 99, decoding: Decoding = GREEDY) -> Context:
    logits = torch.zeros(10)
    logits[PENDING] = 1
    return Context(np.array([7, PENDING]), logits, torch.zeros(2), budget, decoding=decoding)


def fitted(tree: DraftTree, place: Context, verifier: Verifier, most: int) -> DraftTree:
    return fit(tree, place, verifier, most, TargetView(place.logits[None], place.hidden[None]))


def words(tree: DraftTree) -> list[tuple[int, ...]]:
    return [tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))]


def test_an_empty_draft_becomes_the_pending_token() -> None:
    assert words(fitted(DraftTree.empty(), context(), ExactVerifier(), 8)) == [(PENDING,)]


def test_a_draft_without_the_pending_token_gets_it_beside() -> None:
    tree = fitted(tree_of([2, 3, 4], [-1, 0, -1], [0.5, 0.4, 0.3]), context(), Lenient(), 8)
    assert words(tree) == [(PENDING,), (2,), (2, 3), (4,)]
    assert tree.scores is not None
    assert tree.scores.tolist() == [np.inf, 0.5, 0.4, 0.3]


def test_a_draft_with_the_pending_token_stays_as_it_is() -> None:
    draft = tree_of([2, PENDING, 5], [-1, -1, 1])
    assert fitted(draft, context(), Lenient(), 8) is draft


def test_level_1_nodes_that_cannot_be_accepted_are_cut_with_all_below_them() -> None:
    draft = tree_of([2, 3, 9, 5, PENDING, 6], [-1, 0, -1, 2, -1, 4])
    assert words(fitted(draft, context(), Lenient(limit=5), 8)) == [(2,), (2, 3), (PENDING,), (PENDING, 6)]
    assert words(fitted(draft, context(), ExactVerifier(), 8)) == [(PENDING,), (PENDING, 6)]


def test_the_pending_token_stays_whatever_the_verifier_admits() -> None:
    assert words(fitted(tree_of([PENDING, 3], [-1, 0]), context(), Lenient(limit=0), 8)) == [(PENDING,), (PENDING, 3)]


def test_nodes_beyond_the_budget_are_cut() -> None:
    draft = DraftTree.chain([PENDING, 2, 3, 4])
    assert words(fitted(draft, context(2), ExactVerifier(), 8)) == [(PENDING,), (PENDING, 2)]
    assert words(fitted(draft, context(4), ExactVerifier(), 8)) == words(draft)


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
    assert words(fitted(draft, context(), Lenient(), most)) == kept


def test_a_chain_without_scores_keeps_its_beginning() -> None:
    assert words(fitted(DraftTree.chain([1, 2, 3, 4]), context(), ExactVerifier(), 2)) == [(1,), (1, 2)]


@st.composite
def drafts(draw: st.DrawFn) -> DraftTree:
    n = draw(st.integers(0, 12))
    parents = [draw(st.integers(-1, node - 1)) for node in range(n)]
    tokens = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    scores = draw(st.none() | st.lists(st.sampled_from([0.1, 0.5, 0.9]), min_size=n, max_size=n))
    return tree_of(tokens, parents, scores)


@given(drafts(), st.integers(1, 9), st.integers(1, 14), st.sampled_from([Lenient(), Lenient(2), ExactVerifier()]))
def test_what_goes_through_the_forward(draft: DraftTree, budget: int, most: int, verifier: Verifier) -> None:
    tree = fitted(draft, context(budget), verifier, most)
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
    with pytest.raises(ValueError, match="gives q or hidden states must propose the pending token itself"):
        fitted(draft, context(), Lenient(), 8)


def test_soft_gating_leaves_level_1_rivals_in_where_the_target_is_unsure() -> None:
    draft = tree_of([2, PENDING], [-1, -1])
    flat = context()
    sure = Context(flat.tokens, flat.logits * 60, flat.hidden, flat.budget)
    assert words(fitted(draft, flat, SoftGatedVerifier(k=4), 8)) == [(2,), (PENDING,)]
    assert words(fitted(draft, sure, SoftGatedVerifier(k=4), 8)) == [(PENDING,)]


def test_a_pending_token_that_was_drawn_has_no_rivals() -> None:
    draft = tree_of([2, 3, PENDING, 5], [-1, 0, -1, 2])
    assert words(fit(draft, context(), Lenient(), 8, None)) == [(PENDING,), (PENDING, 5)]


def test_rivals_are_judged_by_the_logits_that_are_given() -> None:
    draft = tree_of([2, PENDING], [-1, -1])
    flat = context()
    forbidding = flat.logits.clone()
    forbidding[2] = -torch.inf
    judged = TargetView(forbidding[None], flat.hidden[None])
    assert words(fitted(draft, flat, SoftGatedVerifier(k=4), 8)) == [(2,), (PENDING,)]
    assert words(fit(draft, flat, SoftGatedVerifier(k=4), 8, judged)) == [(PENDING,)]


# Drawn nodes: what is kept must not hang on what was drawn.


def test_of_drawn_nodes_the_first_ones_stay_whatever_their_scores() -> None:
    draft = tree_of([PENDING, 4, 5, 6, 7], [-1, 0, 0, 1, 2], [1.0, 0.1, 0.9, 0.1, 0.9])
    drawn = replace(draft, q=torch.full((5, 10), 0.1))
    assert words(fitted(draft, context(), ExactVerifier(), 3)) == [(1,), (1, 5), (1, 5, 7)]
    assert words(fitted(drawn, context(), ExactVerifier(), 3)) == [(1,), (1, 5), (1, 5, 7)], "nothing is drawn"
    kept = fitted(drawn, context(decoding=SAMPLED), ExactVerifier(), 3)
    assert words(kept) == [(1,), (1, 4), (1, 5)]
    assert kept.q is not None
    assert len(kept.q) == 3
    assert words(fitted(drawn, context(2, SAMPLED), ExactVerifier(), 9)) == [(1,), (1, 4), (1, 5)]


@pytest.mark.parametrize("name", ["tree_sampling", "traversal"])
@pytest.mark.parametrize(("most", "budget"), [(2, 9), (4, 9), (9, 2), (3, 3)])
def test_what_is_cut_off_a_drawn_tree_leaves_the_distribution_as_it_is(name: str, most: int, budget: int) -> None:
    p, q = random_model(1, 3), random_model(2, 3)
    verifier = VERIFIERS.build(name, {}, {})
    assert isinstance(verifier, LosslessVerifier)

    def cut(tree: DraftTree) -> DraftTree:
        # A drafter's usual score is the probability of what it has drawn: the very thing that must not count.
        assert tree.q is not None
        scored = replace(tree, scores=tree.q[torch.arange(len(tree)), torch.from_numpy(tree.tokens)].numpy())
        place = Context(np.array([7, 0]), torch.zeros(3), torch.zeros(2), budget, decoding=SAMPLED)
        return fitted(scored, place, verifier, most)

    drafts = ((cut(tree), chance) for tree, chance in drawn_trees([-1, 0, 0, 1, 2], q, replacement=False))
    law, _ = law_over_drafts(verifier, drafts, p, 3)
    assert distance(law, target_law(p, 0, 3)) < 1e-9

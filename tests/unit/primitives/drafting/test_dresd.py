from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from primitives.contract import Context, DraftTree
from primitives.datastores.vector_store import VectorStore
from primitives.drafting.dresd import DenseRetrievalDrafter
from primitives.drafting.sen import SemanticDrafter
from tests.unit.primitives.drafting.planar_rig import leaves, lone, store_of, unit, view_of


def ask(store: VectorStore, pending: int, angle: float = 0.0, inner: float | None = None, **knobs: Any) -> DraftTree:
    features = None if inner is None else torch.from_numpy(unit(inner)[0])
    context = Context(np.array([1, pending]), torch.zeros(10), torch.from_numpy(unit(angle)[0]), 50, features)
    return DenseRetrievalDrafter(store, **knobs).propose(context)


def test_only_neighbours_that_led_to_the_pending_token_survive() -> None:
    store = store_of(lone(5, 50, at=0), lone(7, 70, at=30), lone(7, 71, at=80))
    assert leaves(ask(store, pending=7, neighbours=3)) == [[7, 70], [7, 71]]
    assert leaves(ask(store, pending=5, neighbours=3)) == [[5, 50]]


def test_without_a_survivor_nothing_is_drafted() -> None:
    store = store_of(lone(5, 50, at=0), lone(7, at=30), lone(7, 71, at=80))
    assert len(ask(store, pending=9, neighbours=3)) == 0
    # The second nearest led to the pending token, but has nothing behind it; the third is not looked up.
    assert len(ask(store, pending=7, neighbours=2)) == 0


def test_the_nearest_distinct_drafts_are_taken() -> None:
    store = store_of(lone(7, 1, at=40), lone(7, 2, at=20), lone(7, 2, at=10), lone(7, 3, at=30))
    taken = []
    for drafts in range(1, 4):
        tree = ask(store, pending=7, neighbours=4, drafts=drafts)
        assert len(leaves(tree)) == drafts
        taken += [leaf for leaf in leaves(tree) if leaf not in taken]
    assert taken == [[7, 2], [7, 3], [7, 1]]


def test_a_draft_has_its_length_behind_the_pending_token_and_ends_with_its_document_or_an_eos() -> None:
    store = store_of(lone(7, 1, 2, 3, 4, at=0), lone(7, 0, 8, at=10), lone(7, 9, at=20))
    knobs: dict[str, Any] = {"neighbours": 3, "length": 3, "eos_ids": frozenset({0})}
    assert leaves(ask(store, pending=7, **knobs)) == [[7, 0], [7, 1, 2, 3], [7, 9]]


def test_a_node_scores_what_agrees_on_it() -> None:
    store = store_of(lone(7, 6, at=0), lone(7, 6, at=60), lone(7, 8, at=0), lone(9, 9, at=0), counts=[1, 4, 1, 1])
    tree = ask(store, pending=7, neighbours=4, sharpness=2.0)
    assert tree.tokens.tolist() == [7, 6, 8]
    # The second is off by 60 degrees, similarity 0.5, and stands four times in the corpus.
    far = 4 * np.exp(2 * (0.5 - 1))
    assert tree.scores == pytest.approx([2 + far, 1 + far, 1], abs=1e-5)


def test_the_states_are_those_of_the_layer_that_the_store_was_made_of() -> None:
    store = store_of(lone(7, 1, at=0), lone(7, 2, at=90), layer=0)
    assert DenseRetrievalDrafter(store).layers == (0,)
    assert leaves(ask(store, pending=7, angle=0, inner=90, neighbours=1)) == [[7, 2]]
    with pytest.raises(RuntimeError, match="made of layer 0, which the target does not show"):
        ask(store, pending=7)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 359)), min_size=1, max_size=20))
def test_it_is_sen_with_its_filter_on_and_the_running_text_off(documents: list[tuple[int, int, int]]) -> None:
    store = store_of(*[lone(first, second, at=angle) for first, second, angle in documents])
    sen = SemanticDrafter(store, length=11, dynamic=False, require_hit=True)
    sen.start(np.array([1]), view_of(0))
    context = Context(np.array([1, 2]), torch.zeros(10), torch.from_numpy(unit(0)[0]), 50)
    # A candidate that is the pending token alone drafts nothing.
    theirs = [leaf for leaf in leaves(sen.propose(context)) if len(leaf) > 1]
    assert leaves(ask(store, pending=2)) == theirs


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"neighbours": 0}, "neighbours=0 is out of range; it must be at least 1"),
        ({"drafts": 0}, "drafts=0"),
        ({"length": 0}, "length=0"),
        ({"sharpness": -0.5}, "sharpness=-0.5 is out of range; it must be at least 0"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'dresd': {message}"):
        DenseRetrievalDrafter(store_of(lone(5, at=0)), **knobs)

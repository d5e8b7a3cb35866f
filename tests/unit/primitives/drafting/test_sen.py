from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from primitives.contract import Context, DraftTree
from primitives.datastores.store_builder import StoreBuilder
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import VectorStore
from primitives.drafting._retrieval import states_for
from primitives.drafting.sen import SemanticDrafter
from primitives.models.batching import hidden_states
from primitives.models.causal_lm import CausalLMTarget
from tests.rigs import greedy_of, passed, random_prompt, tiny_model
from tests.unit.primitives.drafting.planar_rig import leaves, lone, store_of, unit, view_of


def static_drafter(store: VectorStore, **knobs: Any) -> SemanticDrafter:
    drafter = SemanticDrafter(store, dynamic=False, **knobs)
    drafter.start(np.array([1]), view_of(0))
    return drafter


def dynamic_drafter(**knobs: Any) -> SemanticDrafter:
    """A drafter that searches only the running text, and has none yet."""
    drafter = SemanticDrafter(store_of(lone(5, 50, at=120)), static=False, prompt_in_dynamic=False, **knobs)
    drafter.start(np.array([1, 2]), view_of(0, 0))
    return drafter


def ask(drafter: SemanticDrafter, pending: int, angle: float = 0.0, inner: float | None = None) -> DraftTree:
    features = None if inner is None else torch.from_numpy(unit(inner)[0])
    context = Context(np.array([1, pending]), torch.zeros(10), torch.from_numpy(unit(angle)[0]), 50, features)
    return drafter.propose(context)


def test_a_hit_goes_before_every_miss_and_then_the_nearer() -> None:
    store = store_of(lone(5, 50, at=0), lone(6, 60, at=10), lone(7, 70, at=40), lone(7, 71, at=60))
    order = []
    for candidates in range(1, 5):
        tree = ask(static_drafter(store, candidates=candidates, length=2, neighbours=4), pending=7)
        order += [leaf for leaf in leaves(tree) if leaf not in order]
    assert order == [[7, 70], [7, 71], [5, 50], [6, 60]]


def test_a_small_alpha_lets_a_near_miss_win() -> None:
    store = store_of(lone(5, 50, at=0), lone(7, 70, at=80))
    drafter = static_drafter(store, candidates=1, length=2, neighbours=2, alpha=0.1, beta=1.0)
    assert leaves(ask(drafter, pending=7)) == [[5, 50]]


def test_require_hit_keeps_only_what_begins_with_the_pending_token() -> None:
    store = store_of(lone(5, 50, at=0), lone(7, 70, at=80))
    drafter = static_drafter(store, length=2, neighbours=2, require_hit=True)
    assert leaves(ask(drafter, pending=7)) == [[7, 70]]
    assert len(ask(drafter, pending=8)) == 0


def test_duplicates_and_proper_prefixes_take_no_place_of_a_candidate() -> None:
    store = store_of(*[lone(5, 6, 7, at=1)] * 20, lone(5, 6, at=0), lone(5, at=0), lone(5, 8, at=30), lone(9, 9, at=40))
    drafter = static_drafter(store, candidates=3, length=3, neighbours=24)
    assert sorted(leaves(ask(drafter, pending=5))) == [[5, 6, 7], [5, 8], [9, 9]]


def test_a_node_scores_what_agrees_on_it() -> None:
    store = store_of(lone(5, 6, at=0), lone(5, 6, at=0), lone(5, 8, at=0), lone(9, at=60))
    tree = ask(static_drafter(store, length=2, neighbours=4, sharpness=2.0), pending=5)
    assert tree.tokens.tolist() == [5, 6, 8, 9]
    assert tree.scores is not None
    # One neighbour is off by 60 degrees: its similarity is 0.5 and its weight exp(2 * (0.5 - 1)).
    assert tree.scores == pytest.approx([3.0, 2.0, 1.0, np.exp(-1)], abs=1e-5)


def test_a_document_weighs_as_often_as_the_corpus_has_it() -> None:
    tree = ask(static_drafter(store_of(lone(5, 6, at=0), lone(5, 8, at=0), counts=[7, 1]), neighbours=2), pending=5)
    assert tree.scores is not None
    assert dict(zip(tree.tokens.tolist(), tree.scores.tolist(), strict=True)) == {5: 8.0, 6: 7.0, 8: 1.0}


def test_the_best_nodes_are_kept_if_it_has_a_budget_of_its_own() -> None:
    store = store_of(lone(5, 6, 7, at=0), lone(5, 6, 8, at=0), lone(9, 4, at=60))
    kept = []
    for nodes in range(1, 6):
        tree = ask(static_drafter(store, length=3, neighbours=3, nodes=nodes), pending=5)
        assert len(tree) == nodes
        kept += [token for token in tree.tokens.tolist() if token not in kept]
    # The two neighbours at the query's own angle agree on 5 and 6; of equal scores the shallower goes first.
    assert kept == [5, 6, 7, 8, 9]


def test_a_draft_ends_with_its_document_and_with_its_length() -> None:
    store = store_of(([1, 2, 8, 9], [180, 180, 180, 0]), ([5, 6], [90, 90]))
    assert leaves(ask(static_drafter(store, neighbours=1), pending=9)) == [[9]]
    long = store_of(([3, 4, 5, 6], [0, 180, 180, 180]))
    assert leaves(ask(static_drafter(long, length=3, neighbours=1), pending=3)) == [[3, 4, 5]]


def test_the_running_text_is_searched_once_it_is_observed_and_forgotten_at_the_next_start() -> None:
    drafter = dynamic_drafter(length=3)
    assert len(ask(drafter, pending=7)) == 0
    # Row i of the view predicted token i: the state at angle 0 predicted the 7.
    drafter.observe(passed([6, 7], view_of(90, 0, 90)))
    drafter.observe(passed([8], view_of(90, 90)))
    assert leaves(ask(drafter, pending=7)) == [[6, 7, 8], [7, 8], [8]]
    drafter.finish()
    drafter.start(np.array([1, 2]), view_of(0, 0))
    assert len(ask(drafter, pending=7)) == 0


def test_the_nearest_of_the_running_text_comes_first() -> None:
    drafter = dynamic_drafter(length=3, dynamic_neighbours=1)
    drafter.observe(passed([6, 7, 8], view_of(90, 0, 90, 90)))
    assert leaves(ask(drafter, pending=7)) == [[7, 8]]
    assert leaves(ask(drafter, pending=7, angle=80)) == [[6, 7, 8]]


def test_the_states_are_those_of_the_layer_that_the_store_was_made_of() -> None:
    store = store_of(lone(5, 50, at=0), lone(6, 60, at=90), layer=1)
    drafter = SemanticDrafter(store, length=2, candidates=1, neighbours=1, dynamic_neighbours=1, alpha=0.0)
    assert drafter.layers == (1,)
    assert SemanticDrafter(store_of(lone(5, at=0))).layers == ()
    drafter.start(np.array([1, 7, 70]), view_of(0, 0, 0, inner=[45, 180, 180]))
    assert leaves(ask(drafter, pending=5, angle=90, inner=0)) == [[5, 50]]
    assert leaves(ask(drafter, pending=5, angle=0, inner=90)) == [[6, 60]]
    assert leaves(ask(drafter, pending=5, angle=0, inner=45)) == [[7, 70]]
    drafter.observe(passed([8], view_of(0, 0, inner=[225, 180])))
    assert leaves(ask(drafter, pending=5, angle=0, inner=225)) == [[8]]
    with pytest.raises(RuntimeError, match="made of layer 1, which the target does not show"):
        ask(drafter, pending=5)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_prompt_is_in_the_running_text_if_asked_for(wanted: bool) -> None:
    drafter = SemanticDrafter(
        store_of(lone(5, 50, at=120)), length=2, static=False, prompt_in_dynamic=wanted, dynamic_neighbours=1
    )
    # The state of token 1, at angle 0, predicted the 2 behind it.
    drafter.start(np.array([1, 2, 3]), view_of(0, 90, 90))
    assert leaves(ask(drafter, pending=2)) == ([[2, 3]] if wanted else [])


def test_each_store_can_be_switched_off() -> None:
    store = store_of(lone(5, at=0))
    found = {}
    for static, dynamic in ((True, True), (True, False), (False, True)):
        drafter = SemanticDrafter(store, length=2, static=static, dynamic=dynamic)
        drafter.start(np.array([1]), view_of(90))
        drafter.observe(passed([6], view_of(0, 90)))
        found[static, dynamic] = sorted(leaves(ask(drafter, pending=6)))
    assert found == {
        (True, True): [[5], [6]],
        (True, False): [[5]],
        (False, True): [[6]],
    }


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"candidates": 0}, "candidates=0"),
        ({"length": 0}, "length=0"),
        ({"neighbours": 0}, "neighbours=0"),
        ({"dynamic_neighbours": -1}, "dynamic_neighbours=-1"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"beta": -0.1}, "beta=-0.1"),
        ({"sharpness": -1.0}, "sharpness=-1.0"),
        ({"nodes": 0}, "nodes=0"),
        ({"static": False, "dynamic": False}, "static"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'sen': .*{message}"):
        SemanticDrafter(store_of(lone(5, at=0)), **knobs)


@pytest.mark.parametrize("layer", [None, 1])
@pytest.mark.parametrize("cached", [True, False])
def test_a_text_is_found_in_its_own_store_at_every_position(cached: bool, layer: int | None) -> None:
    """Case 21. One text and the store of its states: the top hit is the position itself, the draft the true text."""
    model = tiny_model()
    prompt = random_prompt(3, 6)
    text = np.array(prompt + greedy_of(model, prompt, 44))
    (states,) = hidden_states(model, [text], layer)
    builder = StoreBuilder(TokenStore.build([text[1:]]), 16, layer=layer)
    builder.add(states[:-1])
    store = builder.finish()
    drafter = static_drafter(store, candidates=1, length=10, neighbours=1)
    target = CausalLMTarget(model, eos_ids=())
    target.capture(drafter.layers)
    # One token a pass over the cache, or one forward over the whole text.
    views = [target.prefill(text[:1] if cached else text)]
    for token in text[1:] if cached else []:
        views.append(target.verify(DraftTree.chain([token])).select(np.array([1])))
        target.commit(np.array([0]))
    rows = torch.cat([states_for(store, view) for view in views])
    assert rows.numpy() == pytest.approx(states, abs=1e-4)
    for position in range(len(text) - 1):
        similarities, ids = store.search(store.projection(rows[position : position + 1].numpy())[0], 1)
        assert ids.tolist() == [position]
        assert similarities[0] == pytest.approx(1, abs=1e-4)
        context = Context(text[: position + 2], torch.zeros(10), rows[position], 50, rows[position])
        assert leaves(drafter.propose(context)) == [text[position + 1 : position + 11].tolist()]

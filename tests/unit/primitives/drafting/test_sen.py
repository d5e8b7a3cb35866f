from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from primitives.contract import Context, DraftTree, TargetView
from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.datastores.projection import Projection
from primitives.datastores.store_builder import StoreBuilder
from primitives.drafting.sen import SemanticDrafter
from primitives.models.batching import hidden_states
from primitives.models.causal_lm import CausalLMTarget
from tests.rigs import greedy_of, passed, random_prompt, tiny_model

WIDTH = 4


def unit(*degrees: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Keys in the plane of the first two dimensions, by their angle."""
    angle = np.radians(degrees)
    keys = np.zeros((len(angle), WIDTH), np.float32)
    keys[:, 0], keys[:, 1] = np.cos(angle), np.sin(angle)
    return keys


def store_of(*documents: tuple[Sequence[int], Sequence[float]]) -> HiddenStateStore:
    """A store whose keys are hidden states themselves: (tokens, angle of the state that predicts each)."""
    index = faiss.IndexFlatIP(WIDTH)
    index.add(np.concatenate([unit(*angles) for _, angles in documents]))
    tokens = np.concatenate([np.array(tokens, np.uint32) for tokens, _ in documents])
    offsets = np.cumsum([0, *(len(tokens) for tokens, _ in documents)], dtype=np.int64)
    identity = Projection(np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32))
    return HiddenStateStore(identity, index, tokens, offsets)


def static_drafter(store: HiddenStateStore, **knobs: Any) -> SemanticDrafter:
    drafter = SemanticDrafter(store, dynamic=False, **knobs)
    drafter.start(np.array([1]), view_of(0))
    return drafter


def dynamic_drafter(**knobs: Any) -> SemanticDrafter:
    """A drafter that searches only the running text, and has none yet."""
    drafter = SemanticDrafter(store_of(lone(5, 50, at=120)), static=False, prompt_in_dynamic=False, **knobs)
    drafter.start(np.array([1, 2]), view_of(0, 0))
    return drafter


def view_of(*angles: float) -> TargetView:
    return TargetView(torch.zeros(len(angles), 10), torch.from_numpy(unit(*angles)))


def ask(drafter: SemanticDrafter, pending: int, angle: float = 0.0) -> DraftTree:
    context = Context(np.array([1, pending]), torch.zeros(10), torch.from_numpy(unit(angle)[0]), 50)
    return drafter.propose(context)


def leaves(tree: DraftTree) -> list[list[int]]:
    return [tree.tokens[path[path >= 0]].tolist() for path in tree.paths]


def lone(*tokens: int, at: float) -> tuple[list[int], list[float]]:
    """A document that is found by its first token only."""
    return list(tokens), [at] + [180.0] * (len(tokens) - 1)


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
        ({"static": False, "dynamic": False}, "static"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'sen': .*{message}"):
        SemanticDrafter(store_of(lone(5, at=0)), **knobs)


@pytest.mark.parametrize("cached", [True, False])
def test_a_text_is_found_in_its_own_store_at_every_position(cached: bool) -> None:
    """The states of one text, its own store: the top hit is the position itself and the draft its true continuation."""
    model = tiny_model()
    prompt = random_prompt(3, 6)
    answer = greedy_of(model, prompt, 44)
    text = np.array(prompt + answer)
    (states,) = hidden_states(model, [text])
    builder = StoreBuilder(len(text) - 1, 16)
    builder.add(text[1:], states[:-1])
    store = builder.finish()
    target = CausalLMTarget(model, eos_ids=())
    rows = states
    if cached:
        # One token a pass over the cache instead of one forward over the whole text.
        view = target.prefill(text[:1])
        rows = np.empty_like(states)
        rows[0] = view.hidden[-1].numpy()
        for position in range(1, len(text)):
            rows[position] = target.verify(DraftTree.chain(text[position : position + 1])).hidden[-1].numpy()
            target.commit(np.array([0]))
        assert rows == pytest.approx(states, abs=1e-4)
    drafter = static_drafter(store, candidates=1, length=10, neighbours=1)
    for position in range(len(text) - 1):
        key = store.projection(rows[position : position + 1])[0]
        similarities, ids = store.search(key, 1)
        assert ids.tolist() == [position]
        assert similarities[0] == pytest.approx(1, abs=1e-4)
        context = Context(text[: position + 2], torch.zeros(10), torch.from_numpy(rows[position]), budget=50)
        assert leaves(drafter.propose(context)) == [text[position + 1 : position + 11].tolist()]

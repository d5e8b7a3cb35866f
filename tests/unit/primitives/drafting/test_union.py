from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.drafting.none import EmptyDrafter
from primitives.drafting.pld import PromptLookupDrafter
from primitives.drafting.union import UnionDrafter
from primitives.registry import DRAFTERS
from primitives.verification.exact import ExactVerifier
from tests.rigs import TableTarget, successor_table, tree_of

VOCABULARY = 40
PENDING = 5


class Fixed(Drafter):
    """Proposes one tree again and again, and keeps what it is shown.

    Args:
        name: the name behind its nodes.
        tree: what it proposes.
        layers: the layers it asks for.
    """

    def __init__(self, name: str, tree: DraftTree, layers: tuple[int, ...] = ()) -> None:
        self.name = name  # type: ignore[misc]
        self.tree = tree
        self._layers = layers
        self.shown: list[torch.Tensor | None] = []
        self.finished = 0

    @property
    def layers(self) -> tuple[int, ...]:
        return self._layers

    def start(self, prompt: Ints, view: TargetView) -> None:
        self.shown.append(view.features)

    def propose(self, context: Context) -> DraftTree:
        self.shown.append(context.features)
        return self.tree

    def observe(self, outcome: Outcome) -> None:
        self.shown.append(outcome.view.features)

    def finish(self) -> None:
        self.finished += 1


def chain(name: str, *tokens: int) -> Fixed:
    return Fixed(name, DraftTree.chain(tokens))


def ask(drafter: Drafter) -> DraftTree:
    return drafter.propose(Context(np.array([3, PENDING]), torch.zeros(VOCABULARY), torch.zeros(4), 50))


def view_of(rows: int, features: torch.Tensor | None = None) -> TargetView:
    return TargetView(torch.zeros(rows, VOCABULARY), torch.zeros(rows, 4), features)


def commit(drafter: Drafter, tree: DraftTree, *path: int) -> None:
    drafter.observe(Outcome(tree, view_of(len(tree) + 1), np.array(path)))


def by_word(tree: DraftTree, values: Any) -> dict[tuple[int, ...], Any]:
    return {tuple(tree.tokens[tree.path_to(node)].tolist()): value for node, value in enumerate(values.tolist())}


def test_what_two_drafters_agree_on_is_one_branch_of_both() -> None:
    union = UnionDrafter([chain("a", PENDING, 6, 7), chain("b", PENDING, 6, 8), chain("c")])
    tree = ask(union)
    assert union.sources == ("a", "b", "c")
    assert by_word(tree, tree.sources) == {(5,): 0b011, (5, 6): 0b011, (5, 6, 7): 0b001, (5, 6, 8): 0b010}


def test_a_path_that_ends_inside_another_keeps_its_source() -> None:
    tree = ask(UnionDrafter([chain("a", PENDING, 6), chain("b", PENDING, 6, 7)]))
    assert by_word(tree, tree.sources) == {(5,): 0b11, (5, 6): 0b11, (5, 6, 7): 0b10}


def test_unions_within_unions_name_every_drafter() -> None:
    inner = UnionDrafter([chain("b", PENDING, 6), chain("c", PENDING, 7)])
    union = UnionDrafter([chain("a", PENDING, 7), inner, chain("d", PENDING, 8)])
    tree = ask(union)
    assert union.sources == ("a", "b", "c", "d")
    assert by_word(tree, tree.sources) == {(5,): 0b1111, (5, 6): 0b0010, (5, 7): 0b0101, (5, 8): 0b1000}


def test_nothing_from_anyone_is_nothing() -> None:
    assert len(ask(UnionDrafter([EmptyDrafter(), chain("a")]))) == 0


def test_chances_multiply_along_a_path_and_agreement_adds() -> None:
    tree = ask(UnionDrafter([chain("a", PENDING, 6, 7), chain("b", PENDING, 6, 8)]))
    scores = by_word(tree, tree.scores)
    assert scores[5,] == 1
    assert scores[5, 6] == pytest.approx(1 - 0.3**2)
    assert scores[5, 6, 7] == scores[5, 6, 8] == pytest.approx(0.7**2)


def test_scores_divide_a_parents_chance_and_their_scale_means_nothing() -> None:
    for scale in (1.0, 1e-6, 1e6):
        counted = tree_of([PENDING, 6, 7, 8], [-1, 0, 0, 1], [8 * scale, 6 * scale, 2 * scale, 3 * scale])
        tree = ask(UnionDrafter([Fixed("a", counted)]))
        shares = {(5,): 1.0, (5, 6): 0.7 * 6 / 8, (5, 7): 0.7 * 2 / 8, (5, 6, 8): 0.7**2 * 6 / 8 * 3 / 6}
        assert by_word(tree, tree.scores) == pytest.approx(shares)


@pytest.mark.parametrize("scores", [None, [-0.1, -0.5, -2.0]])
def test_siblings_without_shares_share_alike(scores: list[float] | None) -> None:
    tree = ask(UnionDrafter([Fixed("a", tree_of([PENDING, 6, 7], [-1, 0, 0], scores))]))
    assert by_word(tree, tree.scores) == pytest.approx({(5,): 1.0, (5, 6): 0.35, (5, 7): 0.35})


def test_rivals_of_the_pending_token_share_what_level_1_has() -> None:
    tree = ask(UnionDrafter([Fixed("a", tree_of([PENDING, 6, 7], [-1, -1, 1], [3.0, 1.0, 1.0]))]))
    assert by_word(tree, tree.scores) == pytest.approx({(5,): 1.0, (6,): 0.7 / 4, (6, 7): 0.7**2 / 4})


def test_what_was_accepted_decides_whose_nodes_come_first() -> None:
    union = UnionDrafter([chain("right", PENDING, 6, 7), chain("wrong", PENDING, 8, 9)])
    for _ in range(4):
        tree = ask(union)
        at = {word: node for node, word in enumerate(by_word(tree, tree.tokens))}
        commit(union, tree, at[5,], at[5, 6], at[5, 6, 7])
    scores = by_word(ask(union), ask(union).scores)
    # Right: 8 of 8 tries, wrong: 0 of 4; each beside 4 tries at 0.7, over all depths and then at a depth.
    usual = {"right": (8 + 2.8) / 12, "wrong": 2.8 / 8}
    assert scores[5, 6] == pytest.approx((4 + 4 * usual["right"]) / 8)
    assert scores[5, 8] == pytest.approx(4 * usual["wrong"] / 8)
    assert scores[5, 8, 9] == pytest.approx(scores[5, 8] * usual["wrong"])
    assert scores[5, 6, 7] > scores[5, 8]


def test_what_was_cut_or_never_reached_counts_for_nothing() -> None:
    union = UnionDrafter([chain("a", PENDING, 6, 7, 8)])
    before = ask(union)
    commit(union, DraftTree.chain([PENDING]), 0)
    assert ask(union).scores == pytest.approx(before.scores)
    # The first drafted token is refused: what hangs below it has not been tried.
    commit(union, ask(union), 0)
    after = ask(union).scores
    usual = 2.8 / 5
    assert after == pytest.approx([1, 4 * usual / 5, 4 * usual / 5 * usual, 4 * usual / 5 * usual**2])


def test_a_pass_is_found_again_in_the_tree_of_the_connector() -> None:
    union = UnionDrafter([chain("a", 6, 7)])
    ask(union)
    # The connector has put the pending token before the rival that the verifier let in.
    commit(union, tree_of([PENDING, 6, 7], [-1, -1, 1]), 1, 2)
    assert ask(union).scores == pytest.approx([(1 + 4 * 4.8 / 6) / 5, ((1 + 4 * 4.8 / 6) / 5) ** 2])


def test_a_new_sequence_begins_without_estimates() -> None:
    union = UnionDrafter([chain("a", PENDING, 6)])
    fresh = ask(union).scores
    commit(union, ask(union), 0)
    assert ask(union).scores != pytest.approx(fresh)
    union.start(np.array([1]), view_of(1))
    assert ask(union).scores == pytest.approx(fresh)


def test_weights_are_factors_of_the_chances() -> None:
    union = UnionDrafter([chain("a", PENDING, 6), chain("b", PENDING, 7)], weights=[0.5, 3])
    tree = ask(union)
    assert by_word(tree, tree.scores) == pytest.approx({(5,): 1.0, (5, 6): 0.35, (5, 7): 1.0})


def test_each_drafter_sees_its_own_layers_and_is_told_everything() -> None:
    parts = [Fixed("a", DraftTree.empty(), (3,)), Fixed("b", DraftTree.empty()), Fixed("c", DraftTree.empty(), (0, 7))]
    union = UnionDrafter(parts)
    assert union.layers == (3, 0, 7)
    features = torch.arange(12.0).reshape(2, 6)
    union.start(np.array([1, 2]), view_of(2, features))
    context = Context(np.array([3, PENDING]), torch.zeros(VOCABULARY), torch.zeros(4), 50, features[0])
    union.propose(context)
    union.observe(Outcome(DraftTree.chain([PENDING]), view_of(2, features), np.array([0])))
    union.finish()
    a, b, c = (part.shown for part in parts)
    assert [shown.tolist() for shown in a if shown is not None] == [[[0, 1], [6, 7]], [0, 1], [[0, 1], [6, 7]]]
    assert b == [None] * 3
    rest = [[2, 3, 4, 5], [8, 9, 10, 11]]
    assert [shown.tolist() for shown in c if shown is not None] == [rest, rest[0], rest]
    assert [part.finished for part in parts] == [1, 1, 1]


def test_the_registry_makes_it_of_names_and_settings() -> None:
    knobs = {"drafters": ["none", {"name": "pld", "num_tokens": 5}, {"name": "union", "drafters": ["pld"]}]}
    union = DRAFTERS.build("union", knobs, {"eos_ids": frozenset({9})})
    assert isinstance(union, UnionDrafter)
    lookup = union.drafters[1]
    assert isinstance(lookup, PromptLookupDrafter)
    assert lookup.num_tokens == 5
    assert union.sources == ("none", "pld", "pld")


def test_the_trace_names_whose_draft_was_accepted() -> None:
    target = TableTarget(successor_table([*range(10), 0], VOCABULARY))
    union = UnionDrafter([PromptLookupDrafter(num_tokens=3), chain("wrong", 39), PromptLookupDrafter(num_tokens=2)])
    trace = Connector(target, union, ExactVerifier(), str, 24).generate([*range(10), 0], DecodeSettings(8)).trace
    assert trace.passes[0].drafted_by == ["", "pld+pld", "pld+pld", "pld"]


def test_with_few_nodes_the_drafter_that_is_right_gets_them() -> None:
    """The wrong one drafts as much as the right one, and stands before it in every order."""
    text = [*range(10, 30), 10]
    target = TableTarget(successor_table(text, VOCABULARY))
    lookup = PromptLookupDrafter(num_tokens=6)
    alone = Connector(target, lookup, ExactVerifier(), str, 7)
    joined = Connector(target, UnionDrafter([_Wrong(), lookup]), ExactVerifier(), str, 7)
    taus = [side.generate(text, DecodeSettings(120)).trace.tau for side in (alone, joined)]
    assert taus[0] == pytest.approx(7, abs=0.3)
    assert taus[1] > 0.85 * taus[0]


class _Wrong(Drafter):
    name = "wrong"

    def propose(self, context: Context) -> DraftTree:
        return DraftTree.chain([context.pending, *range(6)])


def test_a_single_drafter_needs_no_list() -> None:
    union = DRAFTERS.build("union", {"drafters": "pld"}, {})
    assert union.sources == ("pld",)


@pytest.mark.parametrize("drafters", [[], None])
def test_a_union_of_nothing_is_refused(drafters: Any) -> None:
    with pytest.raises(ValueError, match="drafter 'union': drafters is empty; give the names"):
        UnionDrafter(drafters)


@pytest.mark.parametrize("weights", [[1.0], [1, 0], [1, -1.0], [1, float("nan")], [1, float("inf")], 2, "ab", [1, "b"]])
def test_weights_that_are_not_one_for_each_are_refused(weights: Any) -> None:
    with pytest.raises(ValueError, match=r"drafter 'union': weights=.* one positive number for each of its 2 drafters"):
        UnionDrafter([chain("a"), chain("b")], weights)


def test_only_a_union_of_one_chain_is_a_chain() -> None:
    chain, other, tree = (DRAFTERS.bare(name) for name in ("sps", "pld", "sps_tree"))
    assert UnionDrafter([chain]).provides == {"chain"}
    assert not UnionDrafter([tree]).provides
    assert not UnionDrafter([chain, other]).provides

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context, DraftTree, Ints, Outcome, TargetView
from primitives.drafting.token_recycling import SUCCESSORS, TokenRecyclingDrafter, best_tokens, template
from primitives.verification.exact import ExactVerifier
from tests.rigs import TableTarget, passed, successor_table, tree_of

VOCABULARY = 40


def view_of(*rows: torch.Tensor) -> TargetView:
    return TargetView(torch.stack(rows), torch.zeros(len(rows), 4))


def favouring(*tokens: int, size: int = VOCABULARY) -> torch.Tensor:
    """Scores whose best tokens are these, in this order, and then those with the highest ids."""
    scores = torch.arange(size) / size
    scores[list(tokens)] = 2.0 + torch.arange(len(tokens), 0, -1)
    return scores


def started(prompt_end: int = 0, **knobs: object) -> TokenRecyclingDrafter:
    drafter = TokenRecyclingDrafter(**{"vocab_size": VOCABULARY, **knobs})  # type: ignore[arg-type]
    drafter.start(np.array([prompt_end]), view_of(favouring(1)))
    return drafter


def ask(drafter: TokenRecyclingDrafter, pending: int) -> DraftTree:
    return drafter.propose(Context(np.array([3, pending]), torch.zeros(VOCABULARY), torch.zeros(4), 50))


def teach(drafter: TokenRecyclingDrafter, table: dict[int, list[int]]) -> None:
    """Show, in one pass, what follows each token."""
    rows = (favouring(*best) for best in table.values())
    drafter.observe(passed(list(table), view_of(torch.zeros(VOCABULARY), *rows)))


def words(tree: DraftTree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))}


def ranks_of_template() -> list[tuple[int, ...]]:
    _, parents, ranks, _ = template()
    paths: list[tuple[int, ...]] = [()]
    for parent, rank in zip(parents[1:].tolist(), ranks[1:].tolist(), strict=True):
        paths.append((*paths[parent], rank))
    return paths[1:]


def test_the_template_has_the_published_sizes_and_corners() -> None:
    levels, parents, _, scores = template()
    assert Counter(levels.tolist()) == {0: 1, 1: 8, 2: 21, 3: 25, 4: 15, 5: 8, 6: 3}
    assert (parents[1:] < np.arange(1, 81)).all()
    assert (scores[1:] < scores[parents[1:]]).all()
    paths = ranks_of_template()
    assert [path for path in paths if len(path) == 6] == [(0,) * 6, (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0)]
    assert {(7, 0), (2, 2), (3, 1), (5, 0, 0), (1, 1, 0), (0, 2, 1), (3, 0, 0, 0), (0, 0, 1, 1)} <= set(paths)
    assert not {(4, 1), (2, 1, 0), (6, 0, 0), (0, 1, 1, 0)} & set(paths)


def test_the_template_prefers_better_ranks_everywhere() -> None:
    paths = set(ranks_of_template())
    for path in paths:
        assert len(path) == 1 or path[:-1] in paths
        assert all((*path[:at], rank - 1, *path[at + 1 :]) in paths for at, rank in enumerate(path) if rank)


@given(seed=st.integers(0, 1000), width=st.sampled_from([3, 8, 255, 256, 700, 5000]), half=st.booleans())
def test_the_best_tokens_are_those_of_a_full_sort(seed: int, width: int, half: bool) -> None:
    logits = torch.randn(4, width, generator=torch.Generator().manual_seed(seed))
    logits = logits.bfloat16() if half else logits
    best, k = best_tokens(logits, 8), min(8, width)
    values = logits.float().numpy()
    wanted = np.lexsort((np.broadcast_to(np.arange(width), values.shape), -values))[:, :k]
    assert np.array_equal(np.take_along_axis(values, best, 1), np.take_along_axis(values, wanted, 1))
    assert np.array_equal(best[:, 0], wanted[:, 0])
    assert all(len(set(row)) == k for row in best.tolist())
    if not half:
        assert np.array_equal(best, wanted)


def test_the_tree_is_the_template_over_the_matrix() -> None:
    rng = np.random.default_rng(0)
    table = {token: rng.permutation(VOCABULARY)[:SUCCESSORS].tolist() for token in range(VOCABULARY)}
    drafter = started()
    teach(drafter, table)
    tree = ask(drafter, pending=5)
    wanted: set[tuple[int, ...]] = {(5,)}
    for path in ranks_of_template():
        text = [5]
        for rank in path:
            text.append(table[text[-1]][rank])
        wanted.add(tuple(text))
    assert words(tree) == wanted
    assert len(tree) == 81
    assert tree.scores is not None
    assert (tree.scores[1:] < tree.scores[tree.parents[1:]]).all()


def test_a_token_never_seen_proposes_nothing() -> None:
    drafter = started(prompt_end=3)
    assert len(ask(drafter, pending=7)) == 0
    teach(drafter, {7: [8]})
    tree = ask(drafter, pending=7)
    assert {word for word in words(tree) if len(word) < 3} == {(7,), *((7, token) for token in [8, *range(33, 40)])}
    assert not {word for word in words(tree) if len(word) > 2}


def test_the_last_token_of_the_prompt_is_known() -> None:
    assert (9, 1) in words(ask(started(prompt_end=9), pending=9))


def test_rejected_nodes_are_learned_from_too() -> None:
    drafter = started()
    rejected = tree_of([4, 5, 6], [-1, 0, 0])
    view = view_of(favouring(4), favouring(5), favouring(20), favouring(21))
    drafter.observe(Outcome(rejected, view, np.array([0, 1])))
    assert (6, 21) in words(ask(drafter, pending=6))
    assert (4, 5, 20) in words(ask(drafter, pending=4))


@pytest.mark.parametrize(("path", "follows"), [([0, 1], 20), ([0, 2, 3], 30)])
def test_where_a_token_occurs_twice_the_committed_place_counts(path: list[int], follows: int) -> None:
    drafter = started()
    twice = tree_of([4, 6, 5, 6], [-1, 0, 0, 2])
    view = view_of(favouring(4), favouring(5), favouring(20), favouring(6), favouring(30))
    drafter.observe(Outcome(twice, view, np.array(path)))
    assert ask(drafter, pending=6).tokens[1] == follows


def test_the_latest_row_replaces_the_one_before() -> None:
    drafter = started()
    teach(drafter, {4: [10, 11]})
    teach(drafter, {4: [12]})
    tree = ask(drafter, pending=4)
    assert tree.tokens[:2].tolist() == [4, 12]
    assert not {10, 11} & set(tree.tokens.tolist())


def test_nothing_is_proposed_after_eos() -> None:
    drafter = started(eos_ids=frozenset({8}))
    teach(drafter, {7: [8], 8: [9]})
    found = words(ask(drafter, pending=7))
    assert (7, 8) in found
    assert not {word for word in found if word[:2] == (7, 8) and len(word) > 2}


@pytest.mark.parametrize("size", [5, 30])
def test_padding_rows_of_the_output_are_never_proposed(size: int) -> None:
    drafter = TokenRecyclingDrafter(vocab_size=size)
    drafter.start(np.array([0]), view_of(favouring(1)))
    teach(drafter, {token: [39, 38, 2] for token in range(size)})
    tree = ask(drafter, pending=2)
    assert tree.tokens.max() < size
    assert tree.tokens[:2].tolist() == [2, 2]
    siblings = list(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))
    assert len(set(siblings)) == len(siblings)


@pytest.mark.parametrize("carry_over", [True, False])
def test_the_matrix_outlives_a_sequence_if_asked_to(carry_over: bool) -> None:
    drafter = started(carry_over=carry_over)
    teach(drafter, {7: [8]})
    drafter.finish()
    drafter.start(np.array([0]), view_of(favouring(1)))
    assert len(ask(drafter, pending=7)) == (9 if carry_over else 0)


def test_a_text_that_repeats_is_drafted_as_deep_as_the_template() -> None:
    loop: Ints = np.arange(10)
    target = TableTarget(successor_table([*loop.tolist(), 0], VOCABULARY))
    connector = Connector(target, TokenRecyclingDrafter(VOCABULARY), ExactVerifier(), str, 81)
    trace = connector.generate([0], DecodeSettings(max_new_tokens=60)).trace
    committed = [record.committed for record in trace.passes]
    # The pending token and the six levels below it; then what is left of the budget.
    assert committed == [1] * 9 + [7] * 7 + [2]

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context, DraftTree
from primitives.datastores.token_store import TokenStore
from primitives.drafting.rest import ExactSuffixDrafter
from primitives.verification.exact import ExactVerifier
from tests.rigs import VOCABULARY, TableTarget, successor_table

Prefixes = dict[tuple[int, ...], float]


def store_of(*documents: Sequence[int], counts: Sequence[int] | None = None) -> TokenStore:
    ids = [np.array(document, np.int64) for document in documents]
    return TokenStore.build(ids, None if counts is None else np.array(counts, np.int64))


def drafter_of(store: TokenStore, **knobs: Any) -> ExactSuffixDrafter:
    return ExactSuffixDrafter(store, knobs.pop("vocab_size", VOCABULARY), **knobs)


def ask(drafter: ExactSuffixDrafter, *text: int) -> DraftTree:
    tree = drafter.propose(Context(np.array(text), torch.zeros(10), torch.zeros(4), 50))
    assert not len(tree) or (tree.tokens[0] == text[-1] and (tree.parents == -1).sum() == 1)
    return tree


def prefixes(tree: DraftTree) -> Prefixes:
    """The nodes below the pending token, by the tokens that lead to them, with their scores."""
    assert tree.scores is not None or not len(tree)
    scores = [] if tree.scores is None else tree.scores.tolist()
    return {tuple(tree.tokens[tree.path_to(node)][1:].tolist()): scores[node] for node in range(1, len(tree))}


def test_every_prefix_of_every_continuation_is_counted() -> None:
    store = store_of([1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 6], [9, 2, 7])
    tree = ask(drafter_of(store), 8, 1, 2)
    assert prefixes(tree) == {(3,): 2, (6,): 1, (3, 4): 1, (3, 5): 1}
    assert tree.scores is not None
    assert tree.scores[0] == 3


def test_the_longest_passage_decides_even_if_a_shorter_one_is_more_frequent() -> None:
    store = store_of([7, 1, 2, 3], [1, 2, 4], [1, 2, 4, 4])
    assert prefixes(ask(drafter_of(store), 7, 1, 2)) == {(3,): 1}
    assert prefixes(ask(drafter_of(store, max_span=2), 7, 1, 2)) == {(4,): 2, (4, 4): 1, (3,): 1}


def test_a_passage_shorter_than_the_shortest_span_is_not_looked_up() -> None:
    store = store_of([1, 2, 3])
    assert len(ask(drafter_of(store), 9, 2)) == 0
    assert prefixes(ask(drafter_of(store, min_span=1), 9, 2)) == {(3,): 1}
    assert len(ask(drafter_of(store), 2)) == 0


def test_no_draft_runs_into_the_next_document() -> None:
    store = store_of([1, 2, 8, 9], [5, 6, 7])
    assert len(ask(drafter_of(store), 8, 9)) == 0
    assert prefixes(ask(drafter_of(store), 2, 8)) == {(9,): 1}
    assert len(ask(drafter_of(store), 9, 5)) == 0


def test_a_document_counts_as_often_as_the_corpus_has_it() -> None:
    store = store_of(*[[1, 2, 3]] * 1000, [1, 2, 4])
    assert prefixes(ask(drafter_of(store), 1, 2)) == {(3,): 1000, (4,): 1}
    assert prefixes(ask(drafter_of(store, nodes=1), 1, 2)) == {(3,): 1000}
    assert prefixes(ask(drafter_of(store_of([1, 2, 3], [1, 2, 4], counts=[2, 5]), nodes=1), 1, 2)) == {(4,): 5}


def test_a_repeated_token_gives_a_chain_within_the_limit() -> None:
    tree = ask(drafter_of(store_of([5] * 10), nodes=4), 1, 5, 5)
    assert tree.is_chain
    # The two tokens have 9 places, the last one without a continuation: 8 times one more token, 7 times two, ...
    assert prefixes(tree) == {(5,): 8, (5, 5): 7, (5, 5, 5): 6, (5, 5, 5, 5): 5}


def test_of_equal_counts_the_shallower_wins_and_then_the_smaller_tokens() -> None:
    store = store_of([1, 2, 9, 4], [1, 2, 7, 5], [1, 2, 8])
    order: list[tuple[int, ...]] = []
    for nodes in range(1, 7):
        order += [prefix for prefix in prefixes(ask(drafter_of(store, nodes=nodes), 1, 2)) if prefix not in order]
    assert order == [(7,), (8,), (9,), (7, 5), (9, 4)]


def test_only_the_first_hits_are_read_in_the_order_of_what_follows() -> None:
    store = store_of([1, 2, 9], [1, 2, 3], [1, 2, 6])
    assert prefixes(ask(drafter_of(store, hits=2), 1, 2)) == {(3,): 1, (6,): 1}


def test_a_draft_ends_with_its_length_and_with_the_first_eos() -> None:
    store = store_of([1, 2, 3, 4, 5, 6], [1, 2, 3, 0, 7])
    assert prefixes(ask(drafter_of(store, length=2), 1, 2)) == {(3,): 2, (3, 0): 1, (3, 4): 1}
    drafter = drafter_of(store, eos_ids=frozenset({0, 5}))
    assert prefixes(ask(drafter, 1, 2)) == {(3,): 2, (3, 0): 1, (3, 4): 1, (3, 4, 5): 1}


def test_ids_beyond_16_bits_stay_what_they_are() -> None:
    store = store_of([1, 2, 151_000, 3])
    assert prefixes(ask(drafter_of(store, vocab_size=151_936), 1, 2)) == {(151_000,): 1, (151_000, 3): 1}


def test_an_id_that_the_target_does_not_have_is_refused() -> None:
    drafter = drafter_of(store_of([1, 2, 100]), vocab_size=100)
    with pytest.raises(ValueError, match="holds id 100, but the model's ids go from 0 to 99; build the store again"):
        ask(drafter, 1, 2)


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"max_span": 0}, "max_span=0 is out of range; it must be at least 1"),
        ({"min_span": 0}, "min_span=0"),
        ({"hits": 0}, "hits=0"),
        ({"length": 0}, "length=0"),
        ({"nodes": -1}, "nodes=-1"),
        ({"max_span": 2, "min_span": 3}, "min_span=3 is above max_span=2; lower min_span"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'rest': {message}"):
        drafter_of(store_of([1]), **knobs)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_drafts_that_find_nothing_count_nothing(length: int) -> None:
    # Each token is followed by the next one, and the corpus goes the other way.
    target = TableTarget(successor_table(range(30), 30))
    drafter = drafter_of(store_of(list(range(29, -1, -1))), vocab_size=30)
    done = Connector(target, drafter, ExactVerifier(), str, 32).generate(
        [3, 4, 5][-length:], DecodeSettings(max_new_tokens=15)
    )
    assert done.ids == list(range(6, 21))
    assert len(done.trace.passes) >= 10
    assert {(one.proposed, one.accepted, one.committed) for one in done.trace.passes} == {(0, 0, 1)}


def naive(
    documents: list[list[int]], text: list[int], spans: range, hits: int, length: int, nodes: int, eos: set[int]
) -> Prefixes:
    """Look at every place of every document, and sort all prefixes by the rule."""
    for span in spans:
        end = text[-span:] if span <= len(text) else None
        found = [doc[i + span :] for doc in documents for i in range(len(doc) - span + 1) if doc[i : i + span] == end]
        if found:
            break
    else:
        return {}
    counts: Counter[tuple[int, ...]] = Counter()
    for rest in sorted(found)[:hits]:
        for depth in range(1, min(length, len(rest)) + 1):
            counts[tuple(rest[:depth])] += 1
            if rest[depth - 1] in eos:
                break
    best = sorted(counts, key=lambda prefix: (-counts[prefix], len(prefix), prefix))[:nodes]
    return {prefix: counts[prefix] for prefix in best}


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=20), min_size=1, max_size=12, unique_by=tuple),
    st.lists(st.integers(0, 3), min_size=1, max_size=6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([2, 5, 1000]),
    st.integers(1, 5),
    st.integers(1, 20),
    st.sampled_from([(), (3,), (0, 2)]),
)
def test_the_tree_is_what_counting_one_by_one_finds(
    documents: list[list[int]],
    text: list[int],
    longest: int,
    shortest: int,
    hits: int,
    length: int,
    nodes: int,
    eos: tuple[int, ...],
) -> None:
    shortest, longest = sorted((shortest, longest))
    drafter = drafter_of(
        store_of(*documents),
        max_span=longest,
        min_span=shortest,
        hits=hits,
        length=length,
        nodes=nodes,
        eos_ids=frozenset(eos),
    )
    expected = naive(documents, text, range(longest, shortest - 1, -1), hits, length, nodes, set(eos))
    assert prefixes(ask(drafter, *text)) == expected

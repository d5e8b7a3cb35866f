from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context, DraftTree, TargetView
from primitives.datastores.token_store import TokenStore
from primitives.drafting._suffix_automaton import SuffixAutomaton
from primitives.drafting.pld import PromptLookupDrafter
from primitives.drafting.sam import SuffixAutomatonDrafter
from primitives.registry import DRAFTERS
from primitives.verification.exact import ExactVerifier
from tests.rigs import FixedDrafter, TableTarget, passed, tree_of

HISTORY = [1, 2, 3, 4, 9, 7, 2, 3, 5, 9, 8, 3, 6, 9, 1, 2, 3]
VIEW = TargetView(torch.zeros(1, 10), torch.zeros(1, 4))
texts = st.lists(st.integers(0, 2), min_size=1, max_size=25)


def store(*documents: Sequence[int]) -> TokenStore:
    return TokenStore.build([np.array(document) for document in documents or [[90, 91]]])


def started(prompt: Sequence[int], *documents: Sequence[int], **knobs: Any) -> SuffixAutomatonDrafter:
    drafter = SuffixAutomatonDrafter(store(*documents), 100, **knobs)
    drafter.start(np.array(prompt), VIEW)
    return drafter


def ask(drafter: SuffixAutomatonDrafter, text: Sequence[int]) -> DraftTree:
    return drafter.propose(Context(np.array(text), torch.zeros(10), torch.zeros(4), 99))


def draft(text: Sequence[int], *documents: Sequence[int], **knobs: Any) -> list[int]:
    """What is drafted as a chain below the last token of a text."""
    tree = ask(started(text[:-1], *documents, **knobs), text)
    assert tree.is_chain
    assert not len(tree) or tree.tokens[0] == text[-1]
    return tree.tokens[1:].tolist()


def leaves(tree: DraftTree) -> list[list[int]]:
    return [tree.tokens[path[path >= 0]].tolist() for path in tree.paths]


def earliest(text: Sequence[int]) -> tuple[int, int]:
    """Length of the longest end of a text that occurs before, and where its first occurrence ends; (0, -1) if none."""
    for length in range(len(text) - 1, 0, -1):
        for end in range(length - 1, len(text) - 1):
            if list(text[end - length + 1 : end + 1]) == list(text[-length:]):
                return length, end
    return 0, -1


@given(texts)
def test_the_longest_match_and_its_first_end_are_found_at_every_token(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for place, token in enumerate(text):
        state, length = automaton.match(token)
        assert (length, automaton.ends[state]) == earliest(text[: place + 1])
        automaton.extend(token)
    assert len(automaton.links) <= 2 * len(text) + 1


@given(texts, texts)
def test_find_returns_the_longest_end_that_a_text_has(text: list[int], query: list[int]) -> None:
    automaton = SuffixAutomaton()
    automaton.read(text)
    state, length = automaton.find(query)
    ends = [
        (size, start + size - 1)
        for size in range(len(query) + 1)
        for start in range(len(text) - size + 1)
        if query[len(query) - size :] == text[start : start + size]
    ]
    longest = max(size for size, _ in ends)
    assert length == longest
    assert not length or automaton.ends[state] == min(end for size, end in ends if size == longest)


@given(texts, st.integers(2, 12), st.sampled_from([0.5, 1.0, 4.0]))
def test_this_text_is_copied_from_the_first_place_of_the_longest_match(
    text: list[int], max_tokens: int, slope: float
) -> None:
    drafter = started(text[:1], static=False, max_tokens=max_tokens, slope=slope)
    for place in range(1, len(text)):
        length, end = earliest(text[: place + 1])
        copied = text[end + 1 : place + 1][: min(max_tokens - 1, int(slope * length))] if length else []
        expected = [text[place], *copied] if copied else []
        assert ask(drafter, text[: place + 1]).tokens.tolist() == expected
        drafter.observe(passed([text[place]], VIEW))


def test_the_longest_match_decides_and_its_length_bounds_the_draft() -> None:
    assert draft(HISTORY) == [4, 9, 7, 2, 3, 5, 9, 8, 3, 6, 9, 1]
    assert draft(HISTORY, slope=1.0) == [4, 9, 7]
    assert draft(HISTORY, max_tokens=3) == [4, 9]
    assert draft([3, 8, 8, 1, 2, 3, 4, 9, 1, 2, 3], slope=1.0) == [4, 9, 1]


def test_repeats_never_match_themselves_and_never_run_past_the_end() -> None:
    assert draft([5, 5, 5, 5]) == [5]
    assert draft([5, 5]) == [5]
    assert draft([5, 6, 5, 6, 5, 6]) == [5, 6]


@pytest.mark.parametrize("text", [[4], [0], [4, 5], [4, 5, 6], [7, 8, 9, 3, 4, 2]])
@pytest.mark.parametrize("branches", [1, 8])
def test_without_a_match_nothing_is_drafted(text: list[int], branches: int) -> None:
    assert draft(text, branches=branches) == []


def test_token_zero_is_drafted_like_any_other() -> None:
    assert draft([7, 0, 0, 3, 7]) == [0, 0, 3, 7]


def test_a_draft_ends_with_the_first_eos() -> None:
    ends = frozenset({9})
    assert draft([1, 5, 9, 6, 2, 1], eos_ids=ends) == [5, 9]
    assert draft([1, 2], [1, 2, 9, 7], bias=0, eos_ids=ends) == [9]


def test_the_corpus_counts_only_where_its_match_is_longer_by_more_than_the_bias() -> None:
    corpus = [11, 12, 13, 14, 15, 16, 17, 50, 51]
    text = [16, 17, 60, 11, 12, 13, 14, 15, 16, 17]
    assert draft(text, corpus)[:2] == [60, 11]
    # 7 tokens in the corpus, 2 in this text.
    assert draft(text, corpus, bias=5)[:2] == [60, 11]
    assert draft(text, corpus, bias=4) == [50, 51]
    assert draft(text, corpus, bias=4, static=False)[:2] == [60, 11]
    # A limit of 6 tokens hides how long the match is.
    assert draft(text, corpus, bias=4, max_span=6)[:2] == [60, 11]


def test_the_first_place_in_the_corpus_that_goes_on_is_copied() -> None:
    documents = [1, 2], [5, 1, 2, 8, 4], [6, 1, 2, 7, 3]
    assert draft([9, 1, 2], *documents, bias=0) == [8, 4]
    assert draft([9, 1, 2], [1, 2], [3, 4], bias=0) == []


def test_branches_are_the_most_frequent_continuations() -> None:
    documents = [[number, 1, 2, *tail] for number, tail in enumerate(([7, 3], [7, 4], [8, 3], [7, 3], [9]), start=50)]
    tree = ask(started([40, 1], *documents, bias=0, branches=2), [40, 1, 2])
    assert leaves(tree) == [[2, 7, 3], [2, 7, 4], [2, 8]]
    assert tree.scores is not None
    assert tree.tokens.tolist() == [2, 7, 3, 4, 8]
    np.testing.assert_allclose(tree.scores, [1.0, 0.6, 0.4, 0.2, 0.2])
    everything = ask(started([40, 1], *documents, bias=0, branches=8), [40, 1, 2])
    assert leaves(everything) == [[2, 7, 3], [2, 7, 4], [2, 8, 3], [2, 9]]


def test_a_tree_has_no_more_nodes_than_the_match_allows() -> None:
    documents = [[50 + number, 2, *range(10 * number, 10 * number + 9)] for number in (3, 4, 5)]
    tree = ask(started([40], *documents, bias=0, branches=3), [40, 2])
    assert len(tree) == 1 + 4
    assert tree.tokens[tree.depths == 2].tolist() == [30, 40, 50]


def test_copies_of_a_document_weigh_more() -> None:
    documents = [1, 2, 7], [1, 2, 8], [1, 2, 8], [1, 2, 8]
    tree = ask(started([40, 1], *documents, bias=0, branches=2), [40, 1, 2])
    assert tree.scores is not None
    assert dict(zip(tree.tokens.tolist(), tree.scores.tolist(), strict=True)) == {2: 1.0, 7: 0.25, 8: 0.75}


def test_a_corpus_of_another_tokenizer_is_refused() -> None:
    drafter = SuffixAutomatonDrafter(store([1, 2, 70]), vocab_size=50, bias=0)
    drafter.start(np.array([1]), VIEW)
    with pytest.raises(ValueError, match=r"holds id 70, but the model's ids go from 0 to 49; build the store again"):
        ask(drafter, [1, 2])


def test_the_fallback_drafts_where_the_match_is_short_and_hears_of_everything() -> None:
    other = tree_of([3, 55, 56], [-1, 0, 0])
    fallback = FixedDrafter(other, other)
    drafter = started(HISTORY[:-1], threshold=4, fallback=fallback)
    assert fallback.prompt == HISTORY[:-1]
    assert ask(drafter, HISTORY).tokens.tolist() == [3, 55, 56]
    drafter.observe(passed([3, 4], VIEW.followed_by(VIEW).followed_by(VIEW)))
    assert [tokens for tokens, _ in fallback.observed] == [[3, 4]]
    # 1 2 3 4 9 is a match of 5 tokens.
    assert ask(drafter, [*HISTORY, 4, 9]).tokens.tolist()[:3] == [9, 7, 2]
    drafter.finish()
    assert fallback.finished == 1


def test_a_match_in_the_corpus_counts_less_against_the_threshold() -> None:
    corpus = [11, 12, 13, 14, 15, 16, 17, 50, 51]
    text = [60, 11, 12, 13, 14, 15, 16, 17]
    fallback = FixedDrafter(*[tree_of([17, 77], [-1, 0])] * 2)
    assert draft(text, corpus, fallback=fallback, threshold=3) == [77]
    assert draft(text, corpus, fallback=fallback, threshold=2) == [50, 51]


def test_the_trees_say_who_drafted() -> None:
    drafter = SuffixAutomatonDrafter(store(), 100)
    assert drafter.sources == ("sam",)
    nested = DRAFTERS.build("sam", {"static": False, "fallback": "pld"}, {"token_store": store(), "vocab_size": 100})
    outer = DRAFTERS.build(
        "sam",
        {"fallback": {"name": "sam", "threshold": 3, "static": False, "fallback": {"name": "pld", "max_ngram": 1}}},
        {"token_store": store(), "vocab_size": 100, "eos_ids": frozenset()},
    )
    assert nested.sources == ("sam", "pld")
    assert outer.sources == ("sam", "sam", "pld")
    bits = {}
    for text in ([1, 2, 1], [1, 2, 3, 4, 1, 2, 3], [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5]):
        outer.start(np.array(text[:-1]), VIEW)
        tree = outer.propose(Context(np.array(text), torch.zeros(10), torch.zeros(4), 99))
        assert tree.sources is not None
        bits[len(text)] = set(tree.sources.tolist())
    assert bits == {3: {4}, 7: {2}, 11: {1}}


def test_it_looks_at_what_the_fallback_looks_at() -> None:
    class Deep(PromptLookupDrafter):
        layers = (1, 3)

    assert SuffixAutomatonDrafter(store(), 100, fallback=Deep()).layers == (1, 3)
    assert SuffixAutomatonDrafter(store(), 100).layers == ()


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"max_tokens": 1}, "max_tokens=1 is out of range; it must be at least 2"),
        ({"slope": -1.0}, "slope=-1.0 is out of range; it must be at least 0"),
        ({"bias": -1}, "bias=-1 is out of range; it must be at least 0"),
        ({"threshold": -1}, "threshold=-1 is out of range"),
        ({"branches": 0}, "branches=0 is out of range; it must be at least 1"),
        ({"max_span": 0}, "max_span=0 is out of range"),
        ({"hits": 0}, "hits=0 is out of range"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'sam': {message}"):
        SuffixAutomatonDrafter(store(), 100, **knobs)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_prompts_decode_greedily_and_empty_drafts_count_nothing(length: int) -> None:
    # The greedy text is 1 2 3 ... without a repeat, until the target's own choice is token 0 for good.
    table = torch.zeros(20, 20)
    for token in range(19):
        table[token, token + 1 if token < 12 else 0] = 5.0
    table[12, 0] = table[0, 0] = table[19, 0] = 9.0
    target = TableTarget(table)
    prompt = [19, 18, 1][-length:]
    connector = Connector(target, SuffixAutomatonDrafter(store(), 20), ExactVerifier(), str, 32)
    done = connector.generate(prompt, DecodeSettings(max_new_tokens=20))
    assert done.ids == target.greedy(prompt, 20)
    empty = [record for record in done.trace.passes if record.nodes == 1]
    assert len(empty) >= 10
    assert {(record.proposed, record.accepted, record.committed) for record in empty} == {(0, 0, 1)}
    assert any(record.accepted for record in done.trace.passes)

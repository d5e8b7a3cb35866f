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
from primitives.drafting._counted_suffixes import CountedSuffixes
from primitives.drafting.suffix import SuffixDrafter
from primitives.verification.exact import ExactVerifier
from tests.rigs import TableTarget, passed

Counts = dict[tuple[int, ...], int]
Draft = tuple[float, list[int], list[int], list[float]]

VIEW = TargetView(torch.zeros(1, 10), torch.zeros(1, 4))
texts = st.lists(st.integers(0, 2), min_size=1, max_size=25)


def counted(*texts: Sequence[int], depth: int) -> Counts:
    """Every passage of at most `depth` tokens with its count, in the order in which the passages first end."""
    counts: Counts = {}
    for text in texts:
        for end in range(len(text)):
            for start in range(max(0, end + 1 - depth), end + 1):
                passage = tuple(text[start : end + 1])
                counts[passage] = counts.get(passage, 0) + 1
    return counts


def counts_of(tree: CountedSuffixes) -> Counts:
    found: Counts = {}
    stack: list[tuple[tuple[int, ...], int]] = [((), 0)]
    while stack:
        passage, state = stack.pop()
        for token, child in tree.transitions[state].items() if len(passage) < tree.depth else ():
            longer = (*passage, token)
            found[longer] = tree.counts[child]
            stack.append((longer, child))
    return {passage: count for passage, count in found.items() if count}


def grown(counts: Counts, match: tuple[int, ...], limit: int, least: float, chain: bool, eos: int | None) -> Draft:
    """The most probable nodes below a match, found without any data structure."""
    tokens: list[int] = []
    parents: list[int] = []
    shares: list[float] = []
    frontier: list[tuple[float, int, int, tuple[int, ...]]] = []

    def offer(passage: tuple[int, ...], share: float, parent: int) -> None:
        children = [longer for longer in counts if longer[:-1] == passage]
        if chain:
            children = sorted(children, key=lambda longer: -counts[longer])[:1]
        offers = [(share * counts[child] / counts[passage], child) for child in children]
        frontier.extend((-part, parent, place, child) for place, (part, child) in enumerate(offers) if part >= least)

    offer(match, 1.0, -1)
    while frontier and len(tokens) < limit:
        best = min(frontier)
        frontier.remove(best)
        if best[3][-1] != eos:
            offer(best[3], -best[0], len(tokens))
        tokens.append(best[3][-1])
        parents.append(best[1])
        shares.append(-best[0])
    return sum(shares), tokens, parents, shares


def naive(counts: Counts, text: Sequence[int], knobs: dict[str, Any], eos: int | None) -> Draft:
    """The draft with the best score over every match length, one after the other; ties go to the longer match."""
    best: Draft = (0.0, [], [], [])
    depth = knobs["max_depth"]
    for length in range(1, min(len(text), depth) + 1):
        match = tuple(text[-length:])
        if match not in counts:
            break
        budget = int(knobs["factor"] * length + knobs["offset"] + 1e-6)
        limit = max(0, min(knobs["max_tokens"], budget, depth - length))
        draft = grown(counts, match, limit, knobs["min_probability"], knobs["form"] == "chain", eos)
        best = draft if draft[0] >= best[0] else best
    return best


def ask(drafter: SuffixDrafter, text: Sequence[int]) -> DraftTree:
    return drafter.propose(Context(np.array(text), torch.zeros(10), torch.zeros(4), 99))


def started(prompt: Sequence[int], **knobs: Any) -> SuffixDrafter:
    drafter = SuffixDrafter(**knobs)
    drafter.start(np.array(prompt), VIEW)
    return drafter


def chain(text: Sequence[int], **knobs: Any) -> list[int]:
    """What is drafted as a chain below the last token of a text."""
    tree = ask(started(text[:-1] or text, form="chain", **knobs), text)
    assert tree.is_chain
    return tree.tokens[1:].tolist()


def put_out(drafter: SuffixDrafter, prompt: Sequence[int], output: Sequence[int]) -> None:
    """Let a sequence pass by."""
    drafter.start(np.array(prompt), VIEW)
    drafter.observe(passed(output, VIEW))
    drafter.finish()


@given(st.lists(texts, min_size=1, max_size=3), st.integers(1, 6))
def test_counts_are_those_of_a_counted_suffix_tree(several: list[list[int]], depth: int) -> None:
    tree = CountedSuffixes(depth)
    for text in several:
        tree.begin()
        tree.read(text)
    assert counts_of(tree) == counted(*several, depth=depth)
    assert len(tree.links) <= 2 * sum(map(len, several)) + 1


@given(texts, st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(1, 6))
def test_a_token_taken_back_leaves_nothing_behind(text: list[int], others: list[int], depth: int) -> None:
    tree = CountedSuffixes(depth)
    for place in range(len(text)):
        for other in others:
            tree.extend(other)
            tree.retract()
        tree.extend(text[place])
        assert counts_of(tree) == counted(text[: place + 1], depth=depth)


@given(st.lists(texts, min_size=2, max_size=4), st.integers(1, 6))
def test_a_text_can_be_forgotten(several: list[list[int]], depth: int) -> None:
    tree = CountedSuffixes(depth)
    for text in several:
        tree.begin()
        tree.read(text)
    tree.forget(several[0])
    assert counts_of(tree) == counted(*several[1:], depth=depth)
    tree.read(several[0])
    assert counts_of(tree) == counted(*several, depth=depth)


@given(
    text=texts,
    earlier=st.lists(texts, max_size=2),
    form=st.sampled_from(["chain", "tree"]),
    max_depth=st.integers(2, 9),
    max_tokens=st.integers(1, 9),
    factor=st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]),
    offset=st.sampled_from([-1.0, 0.0, 2.0]),
    min_probability=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
    eos=st.sampled_from([None, 2]),
)
def test_the_draft_is_the_best_one_of_two_counted_suffix_trees(
    text: list[int], earlier: list[list[int]], eos: int | None, **knobs: Any
) -> None:
    drafter = SuffixDrafter(eos_ids=frozenset() if eos is None else frozenset({eos}), **knobs)
    for number, output in enumerate(earlier):
        put_out(drafter, [100 + number], output)
    drafter.start(np.array(text[:1]), VIEW)
    for end in range(1, len(text) + 1):
        depth = knobs["max_depth"]
        local = naive(counted(text[:end], depth=depth), text[:end], knobs, eos)
        past = naive(counted(*earlier, depth=depth), text[:end], knobs, eos)
        _, tokens, parents, shares = past if past[0] > local[0] else local
        tree = ask(drafter, text[:end])
        assert tree.tokens.tolist() == ([text[end - 1], *tokens] if tokens else [])
        assert tree.parents[1:].tolist() == [parent + 1 for parent in parents]
        assert len(tree) == 0 or tree.scores is not None
        assert tree.scores is None or tree.scores.tolist() == [1.0, *shares]


def test_the_length_of_a_draft_is_bound_by_the_match_and_the_depth() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3]
    assert chain(text) == [4, 5, 6]
    assert chain(text, factor=2.0) == [4, 5, 6, 7, 8, 9]
    assert chain(text, factor=0.5) == [4]
    assert chain(text, factor=0.0, offset=4.0) == [4, 5, 6, 7]
    assert chain(text, offset=1.0) == [4, 5, 6, 7]
    assert chain(text, factor=9.0, max_tokens=5) == [4, 5, 6, 7, 8]
    # Five levels leave two below the match of three tokens and three below the one of two.
    assert chain(text, factor=9.0, max_depth=5) == [4, 5, 6, 7]


def test_the_text_s_own_end_counts_as_an_occurrence_without_a_continuation() -> None:
    tree = ask(started([1, 2, 3, 4, 9, 1, 2]), [1, 2, 3, 4, 9, 1, 2])
    assert tree.tokens.tolist() == [2, 3, 4]
    assert tree.scores is not None
    # 1 2 occurs twice, and goes on once.
    assert tree.scores.tolist() == [1.0, 0.5, 0.5]


def test_a_branch_is_drafted_with_its_share() -> None:
    text = [7, 8, 1, 0, 7, 8, 1, 0, 7, 8, 2, 0, 7, 8]
    tree = ask(started(text, factor=2.5, max_tokens=5), text)
    assert tree.tokens.tolist() == [8, 1, 0, 7, 8, 2]
    assert tree.parents.tolist() == [-1, 0, 1, 2, 3, 0]
    assert tree.scores is not None
    assert tree.scores.tolist() == [1.0, 0.5, 0.5, 0.5, 0.5, 0.25]
    assert chain(text, factor=2.5, max_tokens=5) == [1, 0, 7, 8, 1]
    assert len(ask(started(text, factor=2.5, max_tokens=5, min_probability=0.3), text)) == 6 - 1


def test_of_equal_counts_the_first_continuation_is_followed() -> None:
    assert chain([3, 9, 3, 1, 3]) == [9]
    assert chain([3, 1, 3, 9, 3]) == [1]


def test_repeats_never_run_past_what_the_text_holds() -> None:
    assert chain([5, 5]) == [5]
    assert set(chain([5, 5, 5, 5], factor=3.0)) == {5}
    assert len(chain([5, 5, 5, 5], factor=3.0)) <= 3


@pytest.mark.parametrize("text", [[4], [0], [4, 5], [4, 5, 6], [7, 8, 9, 3, 4, 2]])
@pytest.mark.parametrize("form", ["chain", "tree"])
def test_without_a_match_nothing_is_drafted(text: list[int], form: Any) -> None:
    assert len(ask(started(text, form=form), text)) == 0


def test_token_zero_is_drafted_like_any_other() -> None:
    assert chain([7, 0, 0, 3, 7, 0]) == [0, 3]


def test_nothing_is_drafted_behind_an_eos() -> None:
    text = [1, 2, 3, 4, 5, 9, 1, 2, 3]
    assert chain(text) == [4, 5, 9]
    assert chain(text, eos_ids=frozenset({5})) == [4, 5]
    assert ask(started(text, eos_ids=frozenset({4, 9})), text).tokens.tolist() == [3, 4]


@given(texts, st.integers(0, 2), st.integers(0, 2))
def test_a_pending_token_that_was_not_committed_is_forgotten(text: list[int], pending: int, then: int) -> None:
    drafter = started(text)
    ask(drafter, [*text, pending])
    later = [*text, then, 1]
    fresh = started(later)
    for tree, other in [(ask(drafter, later), ask(fresh, later))] * 2:
        assert tree.tokens.tolist() == other.tokens.tolist()
        assert tree.parents.tolist() == other.parents.tolist()


def test_earlier_outputs_are_searched_but_not_their_prompts() -> None:
    drafter = SuffixDrafter(form="chain")
    put_out(drafter, [1, 2, 3, 4], [5, 6, 7, 8, 9])
    drafter.start(np.array([0]), VIEW)
    assert ask(drafter, [0, 5, 6]).tokens.tolist() == [6, 7, 8]
    drafter.start(np.array([0]), VIEW)
    assert len(ask(drafter, [0, 2, 3])) == 0


def test_the_better_of_both_trees_wins_and_then_this_text() -> None:
    drafter = SuffixDrafter(form="chain")
    put_out(drafter, [0], [5, 6, 1, 5, 6, 1])
    # Earlier outputs go on after 5 6 each time, this text only once of twice.
    drafter.start(np.array([5]), VIEW)
    assert ask(drafter, [5, 6, 2, 3, 5, 6]).tokens.tolist() == [6, 1, 5]
    equal = SuffixDrafter(form="chain")
    put_out(equal, [0], [6, 1, 0, 6])
    equal.start(np.array([6]), VIEW)
    assert ask(equal, [6, 2, 6]).tokens.tolist() == [6, 2]


def test_earlier_outputs_are_left_alone_if_they_are_not_asked_for() -> None:
    drafter = SuffixDrafter(global_tree=False)
    put_out(drafter, [1], [5, 6, 7, 8, 9])
    drafter.start(np.array([0]), VIEW)
    assert len(ask(drafter, [0, 5, 6])) == 0


def test_an_output_to_the_same_prompt_is_no_help() -> None:
    drafter = SuffixDrafter(form="chain")
    put_out(drafter, [1, 2], [5, 6, 7, 8])
    put_out(drafter, [1, 3], [0, 5, 6, 9])
    drafter.start(np.array([1, 2]), VIEW)
    assert ask(drafter, [1, 2, 5, 6]).tokens.tolist() == [6, 9]
    drafter.finish()
    drafter.start(np.array([4, 2]), VIEW)
    assert ask(drafter, [4, 2, 5, 6]).tokens.tolist() == [6, 9]


def test_the_oldest_outputs_go_when_there_are_too_many() -> None:
    drafter = SuffixDrafter(form="chain", global_tokens=8)
    for prompt, output in ((1, [11, 12, 13]), (2, [21, 22, 23]), (3, [31, 32, 33])):
        put_out(drafter, [prompt], output)
    drafter.start(np.array([0]), VIEW)
    assert len(ask(drafter, [0, 11, 12])) == 0
    drafter.start(np.array([0]), VIEW)
    assert ask(drafter, [0, 31, 32]).tokens.tolist() == [32, 33]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"max_depth": 1}, "max_depth=1 is out of range; it must be at least 2"),
        ({"max_tokens": 0}, "max_tokens=0 is out of range; it must be at least 1"),
        ({"factor": -0.5}, "factor=-0.5 is out of range; it must be at least 0"),
        ({"global_tokens": 0}, "global_tokens=0 is out of range"),
        ({"min_probability": 0.0}, "min_probability=0.0 is out of range; it must be above 0 and at most 1"),
        ({"min_probability": 1.5}, "min_probability=1.5 is out of range"),
        ({"form": "trees"}, "form='trees' is unknown; set it to 'chain' or 'tree'"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'suffix': {message}"):
        SuffixDrafter(**knobs)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_prompts_decode_greedily_and_empty_drafts_count_nothing(length: int) -> None:
    # The greedy text is 1 2 3 ... without a repeat, until the target's own choice is token 0 for good.
    table = torch.zeros(20, 20)
    for token in range(19):
        table[token, token + 1 if token < 12 else 0] = 5.0
    table[12, 0] = table[0, 0] = table[19, 0] = 9.0
    target = TableTarget(table)
    prompt = [19, 18, 1][-length:]
    connector = Connector(target, SuffixDrafter(), ExactVerifier(), str, 32)
    done = connector.generate(prompt, DecodeSettings(max_new_tokens=20))
    assert done.ids == target.greedy(prompt, 20)
    empty = [record for record in done.trace.passes if record.nodes == 1]
    assert len(empty) >= 10
    assert {(record.proposed, record.accepted, record.committed) for record in empty} == {(0, 0, 1)}
    assert any(record.accepted for record in done.trace.passes)

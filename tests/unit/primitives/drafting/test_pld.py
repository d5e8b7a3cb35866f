from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context
from primitives.drafting.pld import PromptLookupDrafter
from primitives.verification.exact import ExactVerifier
from tests.rigs import TableTarget

HISTORY = [1, 2, 3, 4, 9, 7, 2, 3, 5, 9, 8, 3, 6, 9, 1, 2, 3]


def draft(drafter: PromptLookupDrafter, text: list[int], budget: int = 50) -> list[int]:
    """Return what is drafted below the pending token, the last one of `text`."""
    tree = drafter.propose(Context(np.array(text), torch.zeros(10), torch.zeros(4), budget))
    assert tree.is_chain
    assert not len(tree) or tree.tokens[0] == text[-1]
    return tree.tokens[1:].tolist()


@pytest.mark.parametrize("form", ["transformers", "original"])
@pytest.mark.parametrize(
    ("match", "max_ngram", "expected"),
    [
        ("earliest", 3, [4, 9]),
        ("earliest", 2, [4, 9]),
        ("earliest", 1, [4, 9]),
        ("latest", 3, [4, 9]),
        ("latest", 2, [5, 9]),
        ("latest", 1, [6, 9]),
    ],
)
def test_the_tie_rule_decides_among_matches_of_the_longest_ngram(
    form: str, match: str, max_ngram: int, expected: list[int]
) -> None:
    drafter = PromptLookupDrafter(max_ngram=max_ngram, num_tokens=2, form=form, match=match)
    assert draft(drafter, HISTORY) == expected


def test_the_original_form_wants_a_full_continuation_and_takes_a_shorter_ngram_for_it() -> None:
    # The bigram 2 3 has three tokens behind it, the unigram 3 has seven.
    text = [3, 8, 7, 2, 3, 4, 2, 3]
    cut, full = (PromptLookupDrafter(max_ngram=2, num_tokens=4, form=form) for form in ("transformers", "original"))
    assert draft(cut, text) == [4, 2, 3]
    assert draft(full, text) == [8, 7, 2, 3]
    assert draft(PromptLookupDrafter(max_ngram=2, num_tokens=8, form="original"), text) == []


def test_the_original_form_never_continues_with_the_ngram_it_looked_up() -> None:
    # The bigram 5 5 at the start has 2 tokens behind it, but they are the very ones that were looked up.
    assert draft(PromptLookupDrafter(max_ngram=2, min_ngram=2, num_tokens=2, form="original"), [5, 5, 5, 5]) == []
    assert draft(PromptLookupDrafter(max_ngram=2, num_tokens=2, form="original"), [5, 5, 5, 5]) == [5, 5]


def test_a_longer_ngram_goes_before_an_earlier_match() -> None:
    text = [3, 8, 8, 1, 2, 3, 4, 9, 1, 2, 3]
    assert draft(PromptLookupDrafter(max_ngram=3, num_tokens=2), text) == [4, 9]
    assert draft(PromptLookupDrafter(max_ngram=1, num_tokens=2), text) == [8, 8]
    assert draft(PromptLookupDrafter(max_ngram=3, min_ngram=3, num_tokens=2), [3, 8, 7, 2, 3]) == []


def test_repeats_never_match_themselves_and_never_run_past_the_end() -> None:
    assert draft(PromptLookupDrafter(max_ngram=2, num_tokens=3), [5, 5, 5, 5]) == [5, 5]
    assert draft(PromptLookupDrafter(max_ngram=3, num_tokens=10), [5, 5]) == [5]
    assert draft(PromptLookupDrafter(max_ngram=2, num_tokens=3, match="latest"), [5, 5, 5, 5]) == [5]


@pytest.mark.parametrize("text", [[4], [4, 5], [4, 5, 6], [0], [1, 0], [7, 8, 9, 3, 4, 2]])
def test_without_a_match_nothing_is_drafted(text: list[int]) -> None:
    drafter = PromptLookupDrafter()
    tree = drafter.propose(Context(np.array(text), torch.zeros(10), torch.zeros(4), 9))
    assert len(tree) == 0


def test_token_zero_is_drafted_like_any_other() -> None:
    assert draft(PromptLookupDrafter(num_tokens=3), [7, 0, 0, 3, 7]) == [0, 0, 3]


def test_a_draft_ends_with_the_first_eos() -> None:
    drafter = PromptLookupDrafter(max_ngram=1, num_tokens=5, eos_ids=frozenset({2, 9}))
    assert draft(drafter, [1, 5, 9, 6, 2, 1]) == [5, 9]
    assert draft(drafter, [1, 5, 6, 7, 3, 1]) == [5, 6, 7, 3, 1]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"max_ngram": 0}, "max_ngram=0 is out of range; it must be at least 1"),
        ({"num_tokens": 0}, "num_tokens=0 is out of range"),
        ({"min_ngram": 0}, "min_ngram=0 is out of range"),
        ({"max_ngram": 2, "min_ngram": 3}, "min_ngram=3 is above max_ngram=2; lower min_ngram"),
        ({"form": "orignal"}, "form=orignal is unknown: did you mean 'original'"),
        ({"match": "last"}, "match=last is unknown: .*Allowed: earliest, latest"),
    ],
)
def test_bad_settings_are_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"drafter 'pld': {message}"):
        PromptLookupDrafter(**knobs)


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from([(), (3,)]),
)
def test_it_drafts_what_transformers_drafts(text: list[int], max_ngram: int, tokens: int, eos: tuple[int, ...]) -> None:
    ours = PromptLookupDrafter(max_ngram=max_ngram, num_tokens=tokens, eos_ids=frozenset(eos))
    theirs: Any = PromptLookupCandidateGenerator(
        eos_token_id=torch.tensor(eos) if eos else None,
        num_output_tokens=tokens,
        max_matching_ngram_size=max_ngram,
        max_length=1000,
    )
    for end in range(1, len(text) + 1):
        ids, _ = theirs.get_candidates(torch.tensor([text[:end]]))
        drafted = draft(ours, text[:end])
        # transformers leaves the EOS itself to the target.
        if drafted and drafted[-1] in eos:
            drafted = drafted[:-1]
        assert drafted == ids[0, end:].tolist()


def naive(text: list[int], sizes: range, tokens: int, form: str, match: str) -> list[int]:
    """Try every n and every start one by one."""
    for n in sizes:
        starts = range(n, len(text)) if match == "earliest" else reversed(range(n, len(text)))
        for start in starts:
            full = start + tokens <= len(text) and start < len(text) - n
            if text[start - n : start] == text[-n:] and (full or form == "transformers"):
                return text[start : start + tokens]
    return []


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 8),
    st.sampled_from(["transformers", "original"]),
    st.sampled_from(["earliest", "latest"]),
)
def test_it_drafts_what_a_search_one_by_one_finds(
    text: list[int], longest: int, shortest: int, tokens: int, form: str, match: str
) -> None:
    shortest, longest = sorted((shortest, longest))
    ours = PromptLookupDrafter(longest, tokens, shortest, form, match)
    assert draft(ours, text) == naive(text, range(longest, shortest - 1, -1), tokens, form, match)


def test_its_trees_are_declared_chains() -> None:
    assert "chain" in PromptLookupDrafter.provides


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_prompts_decode_greedily_and_empty_drafts_count_nothing(length: int) -> None:
    # The greedy text is 1 2 3 ... without a repeat, until the target's own choice is token 0 for good.
    table = torch.zeros(20, 20)
    for token in range(19):
        table[token, token + 1 if token < 12 else 0] = 5.0
    table[12, 0] = table[0, 0] = 9.0
    table[19, 0] = 9.0
    target = TableTarget(table)
    prompt = [19, 18, 1][-length:]
    connector = Connector(target, PromptLookupDrafter(), ExactVerifier(), str, 32)
    done = connector.generate(prompt, DecodeSettings(max_new_tokens=16))
    assert done.ids == target.greedy(prompt, 16)
    assert done.ids[-3:] == [0, 0, 0]
    empty = [record for record in done.trace.passes if record.nodes == 1]
    assert len(empty) >= 10
    assert {(record.proposed, record.accepted, record.committed) for record in empty} == {(0, 0, 1)}

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.fitting import fit
from connectors.settings import DecodeSettings
from primitives.contract import Context, DraftTree, TargetView
from primitives.drafting._ngram_pool import NgramPool
from primitives.drafting.logitspec import LogitSpecDrafter
from primitives.verification.exact import ExactVerifier
from tests.rigs import TableTarget, passed

VIEW = TargetView(torch.zeros(1, 10), torch.zeros(1, 4))
texts = st.lists(st.integers(0, 2), min_size=1, max_size=25)


def ranked(*best: int, size: int = 100) -> torch.Tensor:
    """Logits whose best tokens are these, in this order, and then the others from the lowest id on."""
    order = [*best, *(token for token in range(size) if token not in best)]
    logits = torch.empty(size)
    logits[order] = torch.arange(float(size), 0, -1)
    return logits


def context(text: Sequence[int], logits: torch.Tensor | None = None) -> Context:
    return Context(np.array(text), ranked(text[-1]) if logits is None else logits, torch.zeros(4), 99)


def started(text: Sequence[int], **knobs: Any) -> LogitSpecDrafter:
    drafter = LogitSpecDrafter(**knobs)
    drafter.start(np.array(text), VIEW)
    return drafter


def leaves(tree: DraftTree) -> list[list[int]]:
    return [tree.tokens[path[path >= 0]].tolist() for path in tree.paths]


def published(text: Sequence[int], longest: int, length: int) -> dict[tuple[int, ...], list[int]]:
    """The pool as it is published: later occurrences overwrite earlier ones unless their continuation is shorter."""
    pool: dict[tuple[int, ...], list[int]] = {}
    for start in range(len(text)):
        for end in range(start + 1, min(start + longest, len(text) - 1) + 1):
            ngram, continuation = tuple(text[start:end]), list(text[end : end + length])
            if len(continuation) >= len(pool.get(ngram, [])):
                pool[ngram] = continuation
    return pool


@given(texts, st.integers(1, 4), st.integers(1, 6))
def test_the_pool_holds_what_the_published_rule_keeps(text: list[int], longest: int, length: int) -> None:
    pool = NgramPool(longest, length)
    for end in range(len(text)):
        pool.read(text[end : end + 1])
        expected = published(text[: end + 1], longest, length)
        for start in range(end + 1):
            for stop in range(start + 1, min(start + longest, end + 1) + 1):
                tokens = text[start:stop]
                known = [tokens[-n:] for n in range(min(longest, len(tokens)), 0, -1) if tuple(tokens[-n:]) in expected]
                assert pool.after(tokens) == (expected[tuple(known[0])] if known else [])


def test_the_runners_up_guess_the_token_after_the_pending_one() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 2]
    # 2 is pending; 2 was followed by 3 4 5 ..., the guess 6 by 7 8 9, and the guess 50 never occurred.
    tree = started(text[:-1], num_tokens=5, capacity=11).propose(context(text, ranked(2, 6, 50)))
    assert leaves(tree) == [[2, 3, 4, 5, 6, 7], [2, 6, 7, 8, 9], [2, 50]]


def test_the_ngram_of_a_guess_has_the_pending_token_in_it() -> None:
    text = [2, 6, 11, 12, 13, 0, 6, 21, 22, 23, 0, 2]
    tree = started(text[:-1], num_tokens=3, capacity=8).propose(context(text, ranked(2, 6)))
    # 2 6 goes on with 11, though 6 alone was followed by 21 the last time.
    assert leaves(tree)[0] == [2, 6, 11, 12, 13]


def test_chains_get_shorter_with_their_rank() -> None:
    text = [*range(100), 40]
    tree = started(text[:-1], num_tokens=10, capacity=200).propose(context(text, ranked(40)))
    chains = {leaf[1]: len(leaf) - 1 for leaf in leaves(tree)}
    # Rank 0 is the pending token; the guesses are 0, 1, 2 ... from rank 1 on.
    assert [chains[guess] for guess in range(8)] == [4] * 8
    assert [chains[guess] for guess in range(8, 32)] == [3] * 24
    assert [chains[guess] for guess in range(32, 39)] == [1] * 7
    assert chains[41] == 10


def test_the_capacity_counts_the_pending_token() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]
    for capacity in range(2, 20):
        tree = started(text[:-1], capacity=capacity).propose(context(text, ranked(1, *range(30, 60))))
        assert len(tree) == capacity
    assert leaves(started(text[:-1], capacity=4).propose(context(text))) == [[1, 2, 3, 4]]


def test_equal_beginnings_are_merged() -> None:
    text = [1, 2, 3, 4, 5, 6, 1]
    tree = started(text[:-1], num_tokens=3, capacity=9).propose(context(text, ranked(1, 2, 40, 41)))
    # 2 3 4 follows 1, and the guess 2 brings 2 3 4 5.
    assert leaves(tree) == [[1, 2, 3, 4, 5], [1, 40]]
    assert len(set(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))) == len(tree)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=30), st.integers(2, 30))
def test_a_smaller_node_budget_keeps_the_chains_of_a_smaller_capacity(text: list[int], nodes: int) -> None:
    # Ids from 10 on never occurred, so no chain begins like another.
    asked = context(text, ranked(text[-1], *range(10, 60)))
    whole = started(text[:-1]).propose(asked)
    cut = fit(whole, asked, ExactVerifier(), nodes)
    assert leaves(cut) == leaves(started(text[:-1], capacity=nodes).propose(asked))


def test_a_drawn_pending_token_is_no_guess_and_keeps_the_ranks() -> None:
    text = [1, 2, 3, 7]
    tree = started(text[:-1], capacity=4).propose(context(text, ranked(50, 7, 51)))
    assert leaves(tree) == [[7, 0], [7, 50], [7, 51]]


def test_a_chain_ends_with_the_first_eos() -> None:
    text = [1, 2, 9, 3, 4, 1]
    tree = started(text[:-1], capacity=5, eos_ids=frozenset({9})).propose(context(text, ranked(1, 9, 30)))
    assert leaves(tree) == [[1, 2, 9], [1, 9], [1, 30]]


def test_guesses_stay_within_a_small_vocabulary() -> None:
    tree = started([0, 1]).propose(context([0, 1, 2], ranked(2, size=4)))
    assert set(tree.tokens.tolist()) <= {0, 1, 2, 3}
    lone = started([0]).propose(context([0, 0], ranked(0, size=1)))
    assert len(lone) == 0


def test_committed_tokens_join_the_pool() -> None:
    drafter = started([1, 2])
    drafter.observe(passed([30, 31, 32], VIEW))
    tree = drafter.propose(context([1, 2, 30, 31, 32, 30], ranked(30, 60)))
    assert [30, 31, 32] in leaves(tree)
    drafter.finish()
    drafter.start(np.array([1, 2]), VIEW)
    assert [30, 31, 32] not in leaves(drafter.propose(context([1, 2, 30], ranked(30, 60))))


@pytest.mark.parametrize("knob", ["max_ngram", "num_tokens", "capacity"])
def test_bad_settings_are_refused(knob: str) -> None:
    knobs: dict[str, Any] = {knob: 0}
    with pytest.raises(ValueError, match=f"drafter 'logitspec': {knob}=0 is out of range; it must be at least"):
        LogitSpecDrafter(**knobs)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_prompts_decode_greedily(length: int) -> None:
    # The greedy text is 1 2 3 ... without a repeat, until the target's own choice is token 0 for good.
    table = torch.zeros(20, 20)
    for token in range(19):
        table[token, token + 1 if token < 12 else 0] = 5.0
    table[12, 0] = table[0, 0] = table[19, 0] = 9.0
    target = TableTarget(table)
    prompt = [19, 18, 1][-length:]
    connector = Connector(target, LogitSpecDrafter(), ExactVerifier(), str, 32)
    done = connector.generate(prompt, DecodeSettings(max_new_tokens=20))
    assert done.ids == target.greedy(prompt, 20)
    assert all((tree.tokens < 20).all() for tree in target.trees)

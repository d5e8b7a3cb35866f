from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context, DraftTree, Outcome, TargetView
from primitives.drafting.lookahead import LookaheadDrafter
from primitives.verification.exact import ExactVerifier
from tests.rigs import TableTarget, random_prompt, successor_table

VOCABULARY = 40
Words = list[tuple[int, ...]]


class Reference:
    """The window and the pool in plain lists, by the definition; the target's choice is a function of a text."""

    def __init__(self, first_row: Sequence[int], level: int, guess: int) -> None:
        self.columns = [[token] for token in first_row]
        self.level = level
        self.guess = guess
        self.pool: dict[int, Words] = {}

    def branches(self, pending: int) -> Words:
        self.columns[0][0] = pending
        chain = [column[0] for column in self.columns]
        window = [(*chain[: place + 1], *column[1:]) for place, column in enumerate(self.columns)]
        return [*((pending, *gram) for gram in self.pool.get(pending, [])), *window]

    def learn(self, choose: Any) -> None:
        chain = [column[0] for column in self.columns]
        results = [choose([*chain[:place], *column]) for place, column in enumerate(self.columns)]
        for column, result in zip(self.columns, results, strict=True):
            if len(column) == self.level - 1:
                grams = self.pool.setdefault(column[0], [])
                gram = (*column[1:], result)
                self.pool[column[0]] = [*(one for one in grams if one != gram), gram][-self.guess :]
                del column[0]
            column.append(result)


def started(prompt: Sequence[int] = (1, 2, 3), **knobs: Any) -> LookaheadDrafter:
    drafter = LookaheadDrafter(**knobs)
    drafter.start(np.array(prompt), TargetView(torch.zeros(1, VOCABULARY), torch.zeros(len(prompt), 4)))
    return drafter


def ask(drafter: LookaheadDrafter, pending: int) -> DraftTree:
    return drafter.propose(Context(np.array([3, pending]), torch.zeros(VOCABULARY), torch.zeros(4), 50))


def answer(drafter: LookaheadDrafter, tree: DraftTree, choices: dict[int, int] | int) -> None:
    """Verify a tree with a target that chooses by the last token, or always the same."""
    last = [0, *tree.tokens.tolist()]
    best = [choices if isinstance(choices, int) else choices[token] for token in last]
    logits = torch.nn.functional.one_hot(torch.tensor(best), VOCABULARY).float()
    drafter.observe(Outcome(tree, TargetView(logits, torch.zeros(len(logits), 4)), np.array([0])))


def words(tree: DraftTree) -> set[tuple[int, ...]]:
    return {tuple(tree.tokens[tree.path_to(node)].tolist()) for node in range(len(tree))}


def prefixes(branches: Words) -> set[tuple[int, ...]]:
    return {branch[:end] for branch in branches for end in range(1, len(branch) + 1)}


@pytest.mark.parametrize(("level", "window", "guess"), [(5, 7, 7), (3, 4, 2), (2, 3, 2), (4, 1, 3), (2, 1, 1)])
def test_window_and_pool_follow_the_definition(level: int, window: int, guess: int) -> None:
    rng = np.random.default_rng(level)
    # Few tokens and few choices: equal cells, equal n-grams and columns that begin alike are common.
    table = rng.integers(0, 6, (6, 6))
    drafter = started(rng.integers(0, 6, 9).tolist(), level=level, window=window, guess=guess)
    first = ask(drafter, pending=0)
    chain = first.tokens[first.paths[0]].tolist()
    assert len(first) == window
    reference = Reference(chain, level, guess)
    for _ in range(25):
        pending = int(rng.integers(0, 6))
        tree = ask(drafter, pending)
        assert words(tree) == prefixes(reference.branches(pending))

        def choose(text: Sequence[int]) -> int:
            return int(table[text[-2] if len(text) > 1 else 0, text[-1]])

        texts = [[0]] + [tree.tokens[tree.path_to(node)].tolist() for node in range(len(tree))]
        best = torch.tensor([choose(text) for text in texts])
        view = TargetView(torch.nn.functional.one_hot(best, VOCABULARY).float(), torch.zeros(len(best), 4))
        drafter.observe(Outcome(tree, view, np.array([0])))
        reference.learn(choose)


def test_the_window_starts_with_tokens_of_the_prompt_by_its_seed() -> None:
    chains = {seed: ask(started([4, 5, 6, 7, 9], seed=seed), pending=1).tokens.tolist() for seed in (0, 1)}
    for chain in chains.values():
        assert chain[0] == 1
        assert set(chain[1:]) <= {4, 5, 6, 7, 9}
        assert len(chain) == 7
    assert chains[0] != chains[1]
    again = started([4, 5, 6, 7, 9])
    ask(again, pending=1)
    again.start(np.array([4, 5, 6, 7, 9]), TargetView(torch.zeros(1, VOCABULARY), torch.zeros(5, 4)))
    assert ask(again, pending=1).tokens.tolist() == chains[0]


def test_of_the_n_grams_of_a_token_the_latest_stay() -> None:
    drafter = started(level=2, window=1, guess=3)
    for choice in (10, 11, 12, 10, 13):
        answer(drafter, ask(drafter, pending=5), choice)
    tree = ask(drafter, pending=5)
    assert words(tree) == {(5,), (5, 12), (5, 10), (5, 13)}
    assert tree.scores is not None
    assert tree.tokens[np.argsort(-tree.scores)].tolist() == [5, 13, 10, 12]


def test_a_column_that_was_cut_waits() -> None:
    drafter = started(level=3, window=3, guess=7)
    follow = {token: (token + 1) % VOCABULARY for token in range(VOCABULARY)}
    answer(drafter, ask(drafter, pending=20), follow)
    before = ask(drafter, pending=20)
    first, second, third = sorted(before.leaves.tolist(), key=lambda node: int(before.depths[node]))
    assert before.depths[[first, second, third]].tolist() == [2, 3, 4]
    answer(drafter, before.keep(np.arange(len(before)) != third), follow)
    cut = before.tokens[before.path_to(third)].tolist()
    after = words(ask(drafter, pending=30))
    # The first two columns have moved up; the third still holds what it had, behind the chain as it is now.
    chain = [30, int(before.tokens[second]), cut[2]]
    assert after == prefixes([(30, 22), (*chain[:2], chain[1] + 1), (*chain, cut[3])])
    assert words(ask(drafter, pending=20)) >= {(20, 21, 22)}


def test_eos_ends_an_n_gram_and_never_stands_in_the_window() -> None:
    drafter = started([1, 8, 8, 8], level=3, window=4, eos_ids=frozenset({8}))
    for _ in range(6):
        tree = ask(drafter, pending=1)
        inner = tree.parents[tree.parents >= 0]
        assert 8 not in tree.tokens[inner]
        answer(drafter, tree, 8)
    assert (1, 1, 8) in words(ask(drafter, pending=1))


def test_a_prompt_of_eos_alone_is_no_trouble() -> None:
    drafter = started([8, 0], eos_ids=frozenset({8, 0}))
    assert set(ask(drafter, pending=5).tokens.tolist()) == {5, 1}


def test_n_grams_of_one_text_are_not_offered_in_the_next() -> None:
    drafter = started(level=2, window=1)
    answer(drafter, ask(drafter, pending=5), 10)
    assert (5, 10) in words(ask(drafter, pending=5))
    drafter.finish()
    drafter.start(np.array([1, 2, 3]), TargetView(torch.zeros(1, VOCABULARY), torch.zeros(3, 4)))
    assert words(ask(drafter, pending=5)) == {(5,)}


def test_trajectories_of_a_text_that_repeats_become_drafts() -> None:
    target = TableTarget(successor_table([*range(10), 0], VOCABULARY))
    connector = Connector(target, LookaheadDrafter(), ExactVerifier(), str, 64)
    done = connector.generate([0, 1, 2], DecodeSettings(max_new_tokens=60))
    assert done.ids == target.greedy([0, 1, 2], 60)
    assert [record.committed for record in done.trace.passes][:4] == [1] * 4
    assert max(record.committed for record in done.trace.passes) >= 5


def test_a_small_budget_leaves_the_text_as_it_is() -> None:
    prompt = [token % VOCABULARY for token in random_prompt(3)]
    table = torch.randn(VOCABULARY, VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(0))
    for max_nodes in (1, 3, 12, 24):
        target = TableTarget(table)
        connector = Connector(target, LookaheadDrafter(), ExactVerifier(), str, max_nodes)
        assert connector.generate(prompt, DecodeSettings(max_new_tokens=40)).ids == target.greedy(prompt, 40)
        assert all(len(tree) <= max_nodes for tree in target.trees)


@pytest.mark.parametrize(("knob", "value", "least"), [("level", 1, 2), ("window", 0, 1), ("guess", 0, 1)])
def test_settings_out_of_range_are_refused(knob: str, value: int, least: int) -> None:
    with pytest.raises(ValueError, match=f"drafter 'lookahead': {knob}={value} is out of range; .* at least {least}"):
        LookaheadDrafter(**{knob: value})  # type: ignore[arg-type]

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from primitives.contract import DraftTree, TargetView, Verdict
from primitives.verification.exact import ExactVerifier
from tests.rigs import tree_of


def choosing(choices: Sequence[int], size: int = 10, dtype: torch.dtype = torch.float32) -> TargetView:
    """A view whose row i chooses `choices[i]`."""
    logits = torch.nn.functional.one_hot(torch.tensor(choices), size).to(dtype)
    return TargetView(logits, torch.zeros(len(choices), 2))


def judge(tree: DraftTree, view: TargetView) -> Verdict:
    return ExactVerifier().judge(tree, view, torch.Generator())


@pytest.mark.parametrize(
    ("choices", "path"),
    [
        ([1, 2, 3, 4], [0, 1, 2]),
        ([1, 2, 9, 4], [0, 1]),
        ([1, 9, 3, 4], [0]),
        ([9, 2, 3, 4], []),
    ],
)
def test_a_chain_is_accepted_up_to_its_first_mismatch(choices: list[int], path: list[int]) -> None:
    verdict = judge(DraftTree.chain([1, 2, 3]), choosing(choices))
    assert verdict.path.tolist() == path
    assert verdict.pathways.tolist() == [0] * len(path)
    assert verdict.residual is None


def test_the_longest_path_of_a_tree_wins() -> None:
    #   1 - 2 - 3
    #     - 4 - 5
    tree = tree_of([1, 2, 3, 4, 5], [-1, 0, 1, 0, 3])
    assert judge(tree, choosing([1, 4, 3, 0, 5, 0])).path.tolist() == [0, 3, 4]
    assert judge(tree, choosing([1, 2, 0, 0, 5, 0])).path.tolist() == [0, 1]


def test_of_equal_nodes_the_first_wins() -> None:
    assert judge(tree_of([1, 1], [-1, -1]), choosing([1, 0, 0])).path.tolist() == [0]


def test_the_first_and_the_last_id_of_the_vocabulary_are_tokens() -> None:
    assert judge(DraftTree.chain([0, 9]), choosing([0, 9, 0])).path.tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_equal_scores_go_to_the_lower_id(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 5.0, 5.0, 0.0]] * 2, dtype=dtype)
    view = TargetView(logits, torch.zeros(2, 2))
    assert judge(DraftTree.chain([1]), view).path.tolist() == [0]
    assert judge(DraftTree.chain([2]), view).path.tolist() == []


@given(st.integers(0, 1000), st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=6))
def test_it_walks_the_tree_as_greedy_decoding_would(seed: int, drafts: list[list[int]]) -> None:
    tree = DraftTree.from_candidates(drafts)
    choices = np.random.default_rng(seed).integers(0, 4, len(tree) + 1)
    expected: list[int] = []
    row = 0
    while True:
        below = np.flatnonzero((tree.rows == row) & (tree.tokens == choices[row]))
        if not len(below):
            break
        expected.append(int(below[0]))
        row = expected[-1] + 1
    assert judge(tree, choosing(choices.tolist(), 4)).path.tolist() == expected


def test_no_rival_of_the_targets_own_choice_is_worth_a_forward() -> None:
    logits = torch.tensor([0.0, 3.0, 3.0, 1.0])
    assert ExactVerifier().admits(np.array([0, 2, 3]), logits).tolist() == [False, False, False]

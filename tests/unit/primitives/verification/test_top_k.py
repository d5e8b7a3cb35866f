from __future__ import annotations

import pytest
import torch

from primitives.contract import DraftTree, Pathway
from primitives.verification.soft_gated import SoftGatedVerifier
from primitives.verification.top_k import TopKVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import case, judge, naive, view_of

ROW = [1.0, 4.0, 3.0, 2.0, 0.0, -1.0]


@pytest.mark.parametrize(("k", "length"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (100, 4)])
def test_a_token_passes_up_to_rank_k(k: int, length: int) -> None:
    # Ranks 1, 2, 3 and 5.
    verdict = judge(TopKVerifier(k), DraftTree.chain([1, 2, 3, 4]), view_of(*[ROW] * 5))
    assert verdict.path.tolist() == list(range(length))
    assert verdict.pathways.tolist() == [Pathway.EXACT, *[Pathway.TOP_K] * (length - 1)]


def test_siblings_under_one_row_are_ranked_each_for_itself() -> None:
    tree = tree_of([1, 5, 2, 3, 1], [-1, 0, 0, 0, 3])
    assert judge(TopKVerifier(2), tree, view_of(*[ROW] * 6)).path.tolist() == [0, 2]
    assert judge(TopKVerifier(3), tree, view_of(*[ROW] * 6)).path.tolist() == [0, 3, 4]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ties_go_to_the_lower_id(dtype: torch.dtype) -> None:
    view = view_of([2.0, 2.0, 2.0, 0.0, 0.0, 0.0], [0.0] * 6, dtype=dtype)
    accepted = {
        (token, k): len(judge(TopKVerifier(k), DraftTree.chain([token]), view).path)
        for token in range(3)
        for k in (1, 2, 3)
    }
    assert accepted == {(token, k): int(token < k) for token in range(3) for k in (1, 2, 3)}


@pytest.mark.parametrize("k", [1, 2, 4])
def test_it_is_the_plain_rule(k: int) -> None:
    def passes(row: list[float], token: int) -> bool:
        return sum(other > row[token] for other in row) < k

    for seed in range(150):
        tree, view = case(seed)
        assert judge(TopKVerifier(k), tree, view).path.tolist() == naive(tree, view, passes)


def test_it_is_soft_gated_without_gate_and_window() -> None:
    soft = SoftGatedVerifier(theta_e=0.0, k=2, window=False)
    for seed in range(50):
        tree, view = case(seed)
        ours, theirs = judge(TopKVerifier(2), tree, view), judge(soft, tree, view)
        assert (ours.path.tolist(), ours.pathways.tolist()) == (theirs.path.tolist(), theirs.pathways.tolist())


@pytest.mark.parametrize("k", [0, -1])
def test_a_k_below_1_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"verifier 'top_k': k={k} is out of range; it must be at least 1"):
        TopKVerifier(k)

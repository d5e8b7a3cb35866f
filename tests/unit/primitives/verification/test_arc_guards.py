from __future__ import annotations

from typing import Any

import numpy as np
import torch

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import DraftTree, TargetView
from primitives.verification.arc import ArcVerifier
from tests.rigs import LiarDrafter, TableTarget, successor_table, tree_of
from tests.unit.primitives.verification.arc_cases import arc, flat, flat_view, verdict_of


def test_at_most_so_many_relaxed_tokens_in_the_window() -> None:
    tree, view = DraftTree.chain([1, 0, 1, 0, 1]), flat_view(*[0] * 6)
    for most, length in ((0, 0), (1, 2), (2, 4), (3, 5)):
        verifier = arc(most_relaxed=most)
        verifier.start(np.array([5]))
        assert len(verdict_of(tree, view, verifier).path) == length
    verifier = arc(most_relaxed=2, window=4)
    verifier.start(np.array([5]))
    assert verdict_of(tree, view, verifier).pathways.tolist() == [3, 0, 3, 0]
    # In the next pass the window of 4 holds both; one token on the first one has left it.
    assert verdict_of(DraftTree.chain([1]), view, verifier).path.tolist() == []
    assert len(verdict_of(DraftTree.chain([0]), view, verifier).path) == 1
    assert len(verdict_of(DraftTree.chain([1, 1]), view, verifier).path) == 1
    verifier.start(np.array([5]))
    assert len(verdict_of(tree, view, verifier).path) == 4


def test_a_token_that_occurs_too_often_is_not_accepted_relaxed() -> None:
    view = flat_view(*[0] * 6)
    verifier = arc(most_occurrences=2)
    verifier.start(np.array([1, 3, 3]))
    assert len(verdict_of(DraftTree.chain([1, 0, 1]), view, verifier).path) == 2
    verifier.start(np.array([3, 3, 1]))
    assert len(verdict_of(DraftTree.chain([2, 2, 2]), view, verifier).path) == 2
    assert len(verdict_of(DraftTree.chain([3]), view, verifier).path) == 0
    near = arc(most_occurrences=2, window=2)
    near.start(np.array([3, 3, 1]))
    assert len(verdict_of(DraftTree.chain([3, 0]), view, near).path) == 2


def test_a_third_repeat_needs_a_close_race() -> None:
    rows = torch.tensor([flat(0)] * 3)
    verifier = arc(third_ratio=0.98)
    verifier.start(np.array([4, 1]))
    view = TargetView(rows, torch.zeros(3, 1))
    assert verdict_of(DraftTree.chain([1, 1]), view, verifier).path.tolist() == [0]
    rows[1, 1] = 0.99
    verifier.start(np.array([4, 1]))
    assert verdict_of(DraftTree.chain([1, 1]), view, verifier).path.tolist() == [0, 1]
    verifier.start(np.array([1, 1]))
    assert verdict_of(DraftTree.chain([1]), view, verifier).path.tolist() == []
    verifier.start(np.array([1]))
    assert verdict_of(DraftTree.chain([1]), view, verifier).path.tolist() == [0]


def test_only_the_best_children_are_relaxed() -> None:
    tree = tree_of([1, 2, 3], [-1, -1, -1], [0.1, 0.3, 0.2])
    rivals = torch.tensor([[1.0, 0.6, 0.0, 0.5, 0.0, 0.0]] * 4)
    view = TargetView(rivals, torch.zeros(4, 1))
    assert verdict_of(tree, view, arc()).path.tolist() == [0]
    assert verdict_of(tree, view, arc(most_children=2)).path.tolist() == [2]
    assert verdict_of(tree, flat_view(0, 0, 0, 0), arc(most_children=1)).path.tolist() == [1]


def test_in_the_loop_bounds_on_repetition_see_the_text() -> None:
    table = successor_table(range(60))
    text = list(range(60))

    def written(**knobs: Any) -> list[int]:
        verifier = ArcVerifier(torch.eye(60), c_e=0.0, c_l=0.0, tau_delta=1.0, **knobs)
        connector = Connector(TableTarget(table), LiarDrafter(text, 3), verifier, str, 64)
        return connector.generate([0], DecodeSettings(max_new_tokens=20)).ids

    assert written() != text[1:21]
    assert written(most_relaxed=0) == text[1:21]

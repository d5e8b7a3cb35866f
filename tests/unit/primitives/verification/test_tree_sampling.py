from __future__ import annotations

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree
from primitives.verification._laws import Laws
from primitives.verification.tree_sampling import TreeSamplingVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.enumeration import ScriptedCoin, view_of

P = np.array([0.5, 0.3, 0.2])


def chances(rule: str, tree: DraftTree) -> tuple[list[float], list[float]]:
    """Return the chances of the children of node 0, all rejected, and what is left in the end."""
    judge = TreeSamplingVerifier(rule)
    coin = ScriptedCoin([False] * (len(tree) - 1))
    path, residual = judge.decide(Laws(tree, view_of(tree, lambda _: P), judge.uses_q), coin)
    assert path == [0]
    assert residual is not None
    return [1 - chance for chance in coin.chances], (residual / residual.sum()).tolist()


def test_a_child_is_tried_on_what_its_siblings_have_left() -> None:
    tried, left = chances("eagle", tree_of([0, 2, 1], [-1, 0, 0]))
    assert tried == pytest.approx([0.2, 0.3 / 0.8])
    assert left == pytest.approx([1, 0, 0])


def test_an_equal_sibling_has_no_second_chance() -> None:
    tried, left = chances("eagle", tree_of([0, 2, 2, 1], [-1, 0, 0, 0]))
    assert tried == pytest.approx([0.2, 0, 0.3 / 0.8])
    assert left == pytest.approx([1, 0, 0])


def test_drawn_siblings_leave_the_difference_of_the_laws() -> None:
    q = np.array([0.2, 0.6, 0.2])
    laws = torch.from_numpy(np.stack([q, q, q]))
    tried, left = chances("specinfer", DraftTree(np.array([0, 1, 1]), np.array([-1, 0, 0]), q=laws))
    # max(0, p - q) = (0.3, 0, 0): the second one, drawn from the same law, has nothing left to be accepted by.
    assert tried == pytest.approx([0.5, 0])
    # p' = (1, 0, 0), and max(0, p' - q) is all on token 0 again.
    assert left == pytest.approx([1, 0, 0])


def test_without_replacement_the_second_law_lacks_the_first_token() -> None:
    laws = torch.tensor([[1, 0, 0], [0.4, 0.4, 0.2], [2 / 3, 0, 1 / 3]], dtype=torch.float64)
    tried, left = chances("specinfer", DraftTree(np.array([0, 1, 2]), np.array([-1, 0, 0]), q=laws))
    # p - q = (0.1, -0.1, 0): all that is left is token 0.
    assert tried == pytest.approx([0.75, 0])
    assert left == pytest.approx([1, 0, 0])


def test_eagles_form_ignores_q() -> None:
    q = torch.from_numpy(np.stack([P, P, P]))
    drawn = DraftTree(np.array([0, 2, 1]), np.array([-1, 0, 0]), q=q)
    assert chances("eagle", drawn) == chances("eagle", tree_of([0, 2, 1], [-1, 0, 0]))

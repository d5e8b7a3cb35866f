from __future__ import annotations

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree
from primitives.verification._laws import Laws
from primitives.verification.traversal import TraversalVerifier
from primitives.verification.tree_sampling import TreeSamplingVerifier
from tests.unit.primitives.verification.enumeration import (
    ScriptedCoin,
    drawn_trees,
    law_over_drafts,
    random_model,
    view_of,
)


@pytest.mark.parametrize("replacement", [True, False])
def test_it_accepts_no_fewer_tokens_than_from_the_root_down(replacement: bool) -> None:
    gains = []
    for seed in range(3):
        p, q = random_model(seed, 3), random_model(seed + 50, 3)
        means = []
        for judge in (TraversalVerifier(), TreeSamplingVerifier()):
            _, accepted = law_over_drafts(judge, drawn_trees([-1, 0, 0, 1, 2], q, replacement), p, 3)
            means.append((accepted * np.arange(4)).sum())
        gains.append(means[0] - means[1])
    assert min(gains) > -1e-9
    assert max(gains) > 0.001


def test_leaves_are_tried_first_and_leave_the_rest_to_their_parent() -> None:
    #   0 - 1 - 2
    #     - 2
    p = np.array([0.5, 0.3, 0.2])
    q = torch.tensor([[1, 0, 0], [0.25, 0.5, 0.25], [0.5, 0.1, 0.4], [0.5, 0, 0.5]], dtype=torch.float64)
    tree = DraftTree(np.array([0, 1, 2, 2]), np.array([-1, 0, 1, 0]), q=q)
    coin = ScriptedCoin([False, False, False])
    path, residual = TraversalVerifier().decide(Laws(tree, view_of(tree, lambda _: p)), coin)
    assert path == [0]
    # The leaf: w(1) = 0.3 / 0.5, w(2) = 0.6 * 0.2 / 0.4. Its parent: max(0, 0.6 p - q) = (0, 0.08, 0), and so
    # 0.08 / (0.08 + 0.4). The other leaf: max(0, p - q) = (0.25, 0, 0), normed, gives its token nothing.
    assert [1 - chance for chance in coin.chances[:3]] == pytest.approx([0.3, 0.08 / 0.48, 0])
    assert residual is not None
    # max(0, (1, 0, 0) - (0.5, 0, 0.5)), normed.
    assert residual.tolist() == pytest.approx([1, 0, 0])

from __future__ import annotations

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree, TargetView
from primitives.verification._laws import Laws
from primitives.verification.speculative_sampling import SpeculativeSamplingVerifier
from tests.unit.primitives.verification.enumeration import ScriptedCoin, view_of

P = {(): [0.0, 1.0, 0.0], (1,): [0.5, 0.3, 0.2], (1, 0): [0.1, 0.2, 0.7], (1, 0, 2): [0.2, 0.2, 0.6]}


def model(text: tuple[int, ...]) -> np.ndarray:
    return np.array(P[text])


def chain(q: torch.Tensor | None) -> DraftTree:
    return DraftTree(np.array([1, 0, 2]), np.arange(-1, 2), q=q)


def test_the_chances_are_p_over_q() -> None:
    tree = chain(torch.tensor([[0, 1, 0], [0.8, 0.1, 0.1], [0.3, 0.3, 0.4]], dtype=torch.float64))
    coin = ScriptedCoin([True, True])
    path, residual = SpeculativeSamplingVerifier().decide(Laws(tree, view_of(tree, model)), coin)
    assert (path, residual) == ([0, 1, 2], None)
    assert coin.chances == pytest.approx([0.5 / 0.8, 1.0])
    path, residual = SpeculativeSamplingVerifier().decide(Laws(tree, view_of(tree, model)), ScriptedCoin([False]))
    assert path == [0]
    assert residual is not None
    # max(0, p - q) = (0, 0.2, 0.1), normed.
    assert residual.tolist() == pytest.approx([0, 2 / 3, 1 / 3])


def test_without_q_a_token_is_accepted_with_its_probability_and_taken_out_if_not() -> None:
    tree = chain(None)
    coin = ScriptedCoin([True, False])
    path, residual = SpeculativeSamplingVerifier().decide(Laws(tree, view_of(tree, model)), coin)
    assert path == [0, 1]
    assert coin.chances == pytest.approx([0.5, 1 - 0.7])
    assert residual is not None
    assert (residual / residual.sum()).tolist() == pytest.approx([1 / 3, 2 / 3, 0])


def test_the_pending_token_is_certain_whatever_its_row_says() -> None:
    tree = DraftTree.chain([1])
    view = TargetView(torch.tensor([[9.0, -9.0, 0.0]] * 2), torch.zeros(2, 1))
    rng = torch.Generator().manual_seed(0)
    before = rng.get_state()
    verdict = SpeculativeSamplingVerifier().judge(tree, view, rng)
    assert (verdict.path.tolist(), verdict.pathways.tolist(), verdict.residual) == ([0], [0], None)
    # An empty draft uses up no draw.
    assert bool((rng.get_state() == before).all())


def test_a_seed_decides() -> None:
    tree, view = chain(None), view_of(chain(None), model)
    lengths = [
        [len(SpeculativeSamplingVerifier().judge(tree, view, torch.Generator().manual_seed(s)).path) for s in range(40)]
        for _ in range(2)
    ]
    assert lengths[0] == lengths[1]
    assert set(lengths[0]) == {1, 2, 3}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_half_precision_rows_are_normed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(2, 5000, generator=torch.Generator().manual_seed(1)).to(dtype)
    tree = DraftTree.chain([3, 17])
    view = TargetView(torch.cat([logits[:1], logits]), torch.zeros(3, 1))
    coin = ScriptedCoin([False])
    _, residual = SpeculativeSamplingVerifier().decide(Laws(tree, view), coin)
    exact = logits[0].double().softmax(0)
    assert coin.chances == pytest.approx([1 - float(exact[17])], abs=1e-7)
    assert residual is not None
    assert residual.dtype == torch.float64
    assert float(residual.sum()) == pytest.approx(1 - float(exact[17]), abs=1e-5)

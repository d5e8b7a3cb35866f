from __future__ import annotations

from math import log

import numpy as np
import pytest
import torch

from primitives.statistics import draw, normalised_entropy, probabilities, top_tokens


def test_probabilities_are_the_softmax_in_float64() -> None:
    logits = torch.tensor([[0.0, log(3.0)], [-torch.inf, 2.0]])
    law = probabilities(logits)
    assert law.dtype == torch.float64
    assert law.tolist() == [pytest.approx([0.25, 0.75]), [0, 1]]
    fine = torch.tensor([[0.0, 1e-12]], dtype=torch.float64)
    assert float(probabilities(fine)[0, 1]) > 0.5


def test_draws_follow_the_law_also_where_it_is_not_normed() -> None:
    rng = torch.Generator().manual_seed(0)
    law = torch.tensor([0.0, 3.0, 0.0, 1.0, 0.0])
    counts = np.bincount([draw(law, rng) for _ in range(20_000)], minlength=5) / 20_000
    assert counts == pytest.approx([0, 0.75, 0, 0.25, 0], abs=0.015)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("uniform", [0.0, 0.25, 1 - 2**-53])
@pytest.mark.parametrize("law", [[0.0, 0.1, 0.2, 0.0], [0.0, 1e-300, 1e-300, 0.0], [0.0, 7.0, 0.3, 0.0]])
def test_a_draw_at_the_edge_is_a_token_that_has_a_chance(
    law: list[float], uniform: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda *_args, **_kwargs: torch.tensor(uniform, dtype=torch.float64))
    assert draw(torch.tensor(law, dtype=torch.float64), torch.Generator()) in (1, 2)


def test_a_draw_uses_up_one_number() -> None:
    rng, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    draw(torch.ones(10), rng)
    torch.rand((), generator=other, dtype=torch.float64)
    assert bool((rng.get_state() == other.get_state()).all())


def test_forbidden_tokens_have_no_part_in_the_entropy() -> None:
    row = torch.tensor([[0.0, 0.0, -torch.inf, -torch.inf]])
    assert normalised_entropy(row).tolist() == pytest.approx([log(2) / log(4)])
    assert normalised_entropy(torch.tensor([[-torch.inf, 5.0]])).tolist() == [0]


@pytest.mark.parametrize("size", [5, 64, 1000, 151_936])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_best_tokens_are_found_block_by_block(size: int, dtype: torch.dtype) -> None:
    rows = torch.randn(4, size, generator=torch.Generator().manual_seed(size)).to(dtype)
    rows[0] = -torch.inf
    rows[0, :5] = 1
    found = top_tokens(rows, 5)
    assert all(len(set(ids)) == 5 for ids in found.tolist())
    assert torch.equal(rows.gather(1, found).sort(-1).values, rows.topk(5).values.sort(-1).values)

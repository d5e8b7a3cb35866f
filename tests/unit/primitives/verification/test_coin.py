from __future__ import annotations

import pytest
import torch

from primitives.verification._coin import Coin


def test_a_coin_follows_its_chance_and_its_seed() -> None:
    flips = [[Coin(torch.Generator().manual_seed(seed)).flip(0.3) for seed in range(2000)] for _ in range(2)]
    assert flips[0] == flips[1]
    assert sum(flips[0]) / 2000 == pytest.approx(0.3, abs=0.04)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2**-53])
def test_no_chance_is_never_taken_and_certainty_always(uniform: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda *_args, **_kwargs: torch.tensor(uniform, dtype=torch.float64))
    coin = Coin(torch.Generator())
    assert not coin.flip(0.0)
    assert coin.flip(1.0)

"""On an accelerator a verifier looks at all rows there, and waits for one transfer of what it found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree, TargetView, Verdict
from primitives.registry import VERIFIERS
from primitives.verification._coin import Coin
from tests.conformance.conftest import any_calibration

TOKENS, WIDTH = 12, 4
# All ways in which a number of a tensor comes to the host.
WAYS = ("cpu", "item", "tolist", "__bool__", "__int__", "__float__", "__index__")
NAMES = [name for name in VERIFIERS.names() if VERIFIERS.get(name).grain == "token"]


@contextmanager
def as_on_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Let rows on the CPU be treated as those of a GPU; yields how often a number came to the host, by ways."""
    found: Counter[str] = Counter()

    def counted(way: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            found[way] += 1
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for module in ("statistics", "verification._look", "verification._laws", "verification.exact"):
            patch.setattr(f"primitives.{module}.on_accelerator", lambda rows: True)
        for way in WAYS:
            patch.setattr(torch.Tensor, way, counted(way, getattr(torch.Tensor, way)))
        # Chance comes from the host.
        patch.setattr(
            Coin, "flip", lambda coin, chance: torch.rand((), generator=coin._rng, dtype=torch.float64).numpy() < chance
        )
        yield found


def case(name: str, seed: int) -> tuple[DraftTree, TargetView]:
    """A draft below the pending token that the target agrees with here and there, drawn where the verifier wants it."""
    rng, noise = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    branches = 1 if "chain" in VERIFIERS.get(name).needs else 4
    drafts = [[0, *rng.integers(0, 3, 5).tolist()] for _ in range(branches)]
    tree = DraftTree.from_candidates(drafts, rng.random(branches))
    logits = torch.randn(len(tree) + 1, TOKENS, generator=noise)
    agreed = rng.random(len(tree)) < 0.6
    agreed[tree.parents < 0] = True
    logits[tree.rows[agreed], tree.tokens[agreed]] = 3
    if "q" in VERIFIERS.get(name).needs or VERIFIERS.get(name).guarantee == "distribution" or seed % 2:
        tree = replace(tree, q=torch.randn(len(tree), TOKENS, generator=noise).softmax(1))
    return tree, TargetView(logits, torch.randn(len(tree) + 1, WIDTH, generator=noise))


def judged(name: str, knobs: dict[str, Any], seed: int) -> Verdict:
    embeddings = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    offered = {"calibration": any_calibration(WIDTH), "embeddings": embeddings}
    tree, view = case(name, seed)
    return VERIFIERS.build(name, knobs, offered).judge(tree, view, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    ("name", "knobs", "transfers"),
    [
        *((name, {}, 1) for name in NAMES),
        ("arc", {"p_min": 0.01}, 1),
        ("arc", {"form": "soft"}, 2),  # lossless and second chances
        ("fly", {"form": "paper"}, 1),
    ],
)
def test_only_what_decides_comes_to_the_host_and_all_of_it_at_once(
    name: str, knobs: dict[str, Any], transfers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(40):
        wanted = judged(name, knobs, seed)
        with as_on_an_accelerator(monkeypatch) as found:
            verdict = judged(name, knobs, seed)
            assert found.total() <= transfers, found
        assert verdict.path.tolist() == wanted.path.tolist()
        assert verdict.pathways.tolist() == wanted.pathways.tolist()
        assert (verdict.residual is None) == (wanted.residual is None)
        if verdict.residual is not None and wanted.residual is not None:
            assert torch.allclose(verdict.residual, wanted.residual)

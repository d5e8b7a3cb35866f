"""Drafts that a model draws, through the whole loop: every outcome of every draw and flip, with their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from connectors.settings import DecodeSettings
from connectors.warping import Warping
from primitives.contract import DraftTree, Ints, TargetView
from primitives.drafting import sps, sps_tree
from primitives.drafting._draft_model import ModelDrafter
from primitives.drafting.sps import SpsDrafter
from primitives.drafting.sps_tree import SpsTreeDrafter
from primitives.registry import VERIFIERS
from tests.rigs import TableTarget
from tests.unit.connectors.test_sampling import (
    ON_TREES,
    SAMPLING,
    Law,
    Script,
    assert_same,
    generate,
    law_of,
    plain_law,
    random_laws,
    table_of,
)


class TableLM:
    """A draft model without weights: its logits are looked up by the last token."""

    max_positions = None

    def __init__(self, table: torch.Tensor) -> None:
        self.table = table

    def forget(self) -> None:
        pass

    def read(self, text: Ints) -> torch.Tensor:
        return self.table[int(text[-1])]

    feed = read

    def grow(self, tokens: Ints, parents: Ints) -> torch.Tensor:
        return self.table[torch.from_numpy(tokens)]


def with_table(drafter: ModelDrafter, table: torch.Tensor) -> Any:
    drafter.lm = TableLM(table)  # type: ignore[assignment]
    drafter._width, drafter._phantoms = len(table), torch.empty(0, dtype=torch.int64)
    return drafter


def made(name: str, size: int, eos: frozenset[int] = frozenset(), **knobs: Any) -> ModelDrafter:
    cls: Any = {"sps": SpsDrafter, "sps_tree": SpsTreeDrafter}[name]
    return cls(None, None, size, eos, **knobs)


def exact_law(
    monkeypatch: pytest.MonkeyPatch, verifier: str, drafter: ModelDrafter, target: TableTarget, **settings: Any
) -> Law:
    judge = VERIFIERS.build(verifier, {}, {})

    def run(script: Script) -> list[int]:
        monkeypatch.setattr(sps, "draw", lambda p, _rng: script.choose(p.tolist()))
        monkeypatch.setattr(sps_tree, "draw_each", lambda p, _rng: np.array([script.choose(r.tolist()) for r in p]))
        return generate(target, drafter, judge, **settings)

    return law_of(monkeypatch, run)


@pytest.mark.parametrize("verifier", SAMPLING)
@pytest.mark.parametrize("knobs", [{"num_tokens": 2}, {"num_tokens": 3, "confidence": 0.5}])
def test_texts_follow_the_targets_law_when_a_model_drafts(
    verifier: str, knobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    laws, own = random_laws(2, 2), random_laws(3, 2)
    drafter = with_table(made("sps", 2, **knobs), table_of(own))
    law = exact_law(monkeypatch, verifier, drafter, TableTarget(table_of(laws)), max_new_tokens=4)
    assert_same(law, plain_law(laws, 4))


@pytest.mark.parametrize("verifier", ON_TREES)
@pytest.mark.parametrize(
    ("size", "knobs"),
    [
        (2, {"depth": 2, "branching": 2, "width": 1}),
        (3, {"depth": 1, "branching": 2, "width": 1}),
        (2, {"depth": 2, "branching": 2, "width": 2}),
        (2, {"depth": 1, "branching": 3, "width": 1}),
    ],
)
def test_texts_follow_the_targets_law_when_a_model_drafts_a_tree(
    verifier: str, size: int, knobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    laws, own = random_laws(2, size), random_laws(3, size)
    drafter = with_table(made("sps_tree", size, **knobs), table_of(own))
    law = exact_law(monkeypatch, verifier, drafter, TableTarget(table_of(laws)), max_new_tokens=3)
    assert_same(law, plain_law(laws, 3))


@pytest.mark.parametrize("verifier", SAMPLING)
def test_a_draft_that_ends_with_eos_keeps_the_law(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laws, own = random_laws(5, 3), random_laws(6, 3)
    drafter = with_table(made("sps", 3, frozenset({2}), num_tokens=2), table_of(own))
    law = exact_law(monkeypatch, verifier, drafter, TableTarget(table_of(laws), eos_ids=[2]), max_new_tokens=3)
    expected: Law = {}
    for text, chance in plain_law(laws, 3).items():
        cut = text[: text.index(2) + 1] if 2 in text else text
        expected[cut] = expected.get(cut, 0) + chance
    assert_same(law, expected)


@pytest.mark.parametrize("drafter", ["sps", "sps_tree"])
@pytest.mark.parametrize(
    "settings", [{"top_k": 2}, {"top_p": 0.79}, {"temperature": 0.7, "logit_bias": {3: float("-inf")}}]
)
def test_the_draft_is_drawn_by_the_targets_processors(
    drafter: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 12: the emitted law is the target's, and q is what was drawn from."""
    own, target = np.tile([0.5, 0.3, 0.15, 0.05], (4, 1)), np.tile([0.4, 0.4, 0.1, 0.1], (4, 1))
    knobs: dict[str, Any] = {"num_tokens": 1} if drafter == "sps" else {"depth": 1}
    built = with_table(made(drafter, 4, **knobs), table_of(own))
    law = exact_law(monkeypatch, "tree_sampling", built, TableTarget(table_of(target)), max_new_tokens=2, **settings)
    tree, view = DraftTree.empty(), TargetView(table_of(target)[:1], torch.zeros(1, 1))
    warped = Warping(DecodeSettings(**{"temperature": 1.0, **settings}))(view, np.zeros(1, np.int64), tree)
    shares = warped.logits[0].double().softmax(0).numpy()
    assert_same(law, plain_law(np.tile(shares, (4, 1)), 2))

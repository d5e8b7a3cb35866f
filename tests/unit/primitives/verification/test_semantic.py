from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree, Pathway, TargetView
from primitives.registry import VERIFIERS
from primitives.verification._probe import Probe, Probes
from tests.rigs import tree_of

VOCABULARY = 8
# The target's order of tokens in every row: 0 is the likeliest.
ORDER = torch.arange(VOCABULARY, 0, -1.0)


class Fixed:
    """A probe that always says the same, and notes what it is asked."""

    def __init__(self, answer: float) -> None:
        self.answer = answer
        self.asked: list[torch.Tensor] = []

    def __call__(self, states: torch.Tensor) -> torch.Tensor:
        self.asked.append(states)
        return torch.tensor(self.answer)


def semantic(target: float = 0.5, draft: float = 0.5, **knobs: Any) -> Any:
    probes: Any = Probes(Fixed(target), Fixed(draft))  # type: ignore[arg-type]
    return VERIFIERS.build("semantic", knobs, {"probes": probes})


def draft_of(*tokens: int, seed: int = 0) -> DraftTree:
    chain = DraftTree.chain(tokens)
    states = torch.randn(len(tokens), 3, generator=torch.Generator().manual_seed(seed))
    return DraftTree(chain.tokens, chain.parents, hidden=states)


def view_of(tree: DraftTree) -> TargetView:
    rows = len(tree) + 1
    return TargetView(ORDER.expand(rows, -1).clone(), torch.randn(rows, 5, generator=torch.Generator().manual_seed(1)))


def accepted(verifier: Any, tree: DraftTree, seed: int = 0) -> list[int]:
    verdict = verifier.judge(tree, view_of(tree), torch.Generator().manual_seed(seed))
    assert len(verdict.path) in (1, len(tree))
    return verdict.pathways.tolist()


def test_a_segment_of_tokens_that_are_all_near_is_accepted_without_the_probes() -> None:
    verifier = semantic(0.0, 1.0)
    tree = draft_of(7, 0, 1, 1, 0)
    # The pending token is the target's own, wherever it was drawn from.
    assert accepted(verifier, tree) == [Pathway.EXACT, Pathway.EXACT, Pathway.RELAXED, Pathway.RELAXED, Pathway.EXACT]
    assert verifier._probes.target.asked == []
    assert accepted(verifier, draft_of(7, 0, 1, 2, 0)) == [Pathway.EXACT]
    assert len(verifier._probes.target.asked) == 1


@pytest.mark.parametrize("length", [2, 32, 33, 70])
@pytest.mark.parametrize("place", ["first", "last", "none"])
def test_the_fast_path_looks_at_every_token(length: int, place: str) -> None:
    tokens = [0] * (length + 1)
    if place != "none":
        tokens[1 if place == "first" else -1] = 2
    verifier = semantic(rule="none")
    assert len(accepted(verifier, draft_of(*tokens))) == (length + 1 if place == "none" else 1)


def test_a_forbidden_token_is_not_near() -> None:
    tree = draft_of(0, 1)
    view = view_of(tree)
    view.logits[1, 1:] = float("-inf")
    verdict = semantic(rule="none").judge(tree, view, torch.Generator())
    assert verdict.path.tolist() == [0]


@pytest.mark.parametrize(("top_k", "token", "passes"), [(0, 0, False), (1, 0, True), (1, 1, False), (3, 2, True)])
def test_the_fast_path_may_be_wider_or_off(top_k: int, token: int, passes: bool) -> None:
    assert len(accepted(semantic(rule="none", top_k=top_k), draft_of(0, token))) == (2 if passes else 1)


def test_the_neutral_setting_takes_the_pending_token_alone() -> None:
    verifier = semantic(1.0, 0.1, rule="none", top_k=0)
    assert accepted(verifier, draft_of(0, 0, 0)) == [Pathway.EXACT]
    assert not verifier.awaits_probes


@pytest.mark.parametrize(("target", "draft"), [(0.2, 0.8), (0.3, 0.4), (0.5, 0.5), (0.9, 0.2), (0.0, 0.5), (0.4, 0.0)])
def test_the_ratio_decides_by_chance(target: float, draft: float) -> None:
    verifier, tree = semantic(target, draft), draft_of(0, 5, 0)
    share = np.mean([len(accepted(verifier, tree, seed)) == 3 for seed in range(3000)])
    expected = min(1.0, target / draft) if draft else 1.0
    assert share == pytest.approx(expected, abs=0.04 if 0 < expected < 1 else 0)


@pytest.mark.parametrize(("target", "draft", "passes"), [(0.4, 0.5, False), (0.5, 0.5, True), (0.6, 0.5, True)])
def test_the_older_rule_leaves_nothing_to_chance(target: float, draft: float, passes: bool) -> None:
    verifier, tree = semantic(target, draft, rule="greater"), draft_of(0, 5, 0)
    assert {len(accepted(verifier, tree, seed)) for seed in range(50)} == {3 if passes else 1}


def test_the_probes_are_asked_about_means_over_the_segment() -> None:
    verifier, tree = semantic(), draft_of(0, 5, 0, 1)
    view = view_of(tree)
    verifier.judge(tree, view, torch.Generator())
    assert tree.hidden is not None
    torch.testing.assert_close(verifier._probes.target.asked[0], view.hidden[1:].mean(0))
    torch.testing.assert_close(verifier._probes.draft.asked[0], tree.hidden.mean(0))


def test_the_pending_token_alone_asks_nothing() -> None:
    tree = DraftTree.chain([3])
    verifier = VERIFIERS.build("semantic", {}, {})
    verdict = verifier.judge(tree, view_of(tree), torch.Generator())
    assert (verdict.path.tolist(), verdict.pathways.tolist()) == ([0], [Pathway.EXACT])


def test_what_it_cannot_judge_is_named() -> None:
    rng = torch.Generator()
    branches = tree_of([0, 5, 4], [-1, 0, 0])
    with pytest.raises(ValueError, match="takes a draft of one branch, and this one has 2"):
        semantic().judge(branches, view_of(branches), rng)
    bare = DraftTree.chain([0, 5])
    with pytest.raises(ValueError, match="needs the draft model's hidden states: take drafter=semanticspec"):
        semantic().judge(bare, view_of(bare), rng)
    tree = draft_of(0, 5)
    with pytest.raises(ValueError, match=r"has no probes: train them with scripts\.train_semantic_probe"):
        VERIFIERS.build("semantic", {}, {}).judge(tree, view_of(tree), rng)


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"rule": "ratios"}, "verifier 'semantic': rule=ratios is unknown: did you mean 'ratio'"),
        ({"top_k": -1}, "verifier 'semantic': top_k=-1 is out of range; it must be at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        VERIFIERS.build("semantic", knobs, {})


def test_a_probe_is_the_mlp_of_the_source() -> None:
    torch.manual_seed(0)
    probe = Probe(6)
    states = torch.randn(50, 6) * 3 + 2
    probe.standardise(states)
    probe.train(False)
    weights = dict(probe.named_parameters())
    value = (states.double() - states.double().mean(0)) / states.double().std(0, correction=0)
    for number, layer in enumerate(("0", "3", "6", "8")):
        value = value @ weights[f"layers.{layer}.weight"].double().T + weights[f"layers.{layer}.bias"].double()
        value = value.clamp(min=0) if number < 3 else 1 / (1 + (-value).exp())
    assert [len(weights[f"layers.{layer}.bias"]) for layer in ("0", "3", "6", "8")] == [512, 512, 256, 1]
    torch.testing.assert_close(probe(states).double(), value[:, 0], rtol=0, atol=1e-5)


def test_probes_come_back_from_their_weights() -> None:
    torch.manual_seed(0)
    probes = Probes(Probe(6), Probe(4))
    again = Probes.of(probes.weights)
    for side, width in (("target", 6), ("draft", 4)):
        states = torch.randn(5, width)
        probe = getattr(probes, side).train(False)
        torch.testing.assert_close(getattr(again, side)(states), probe(states), rtol=0, atol=0)
        assert not getattr(again, side).training

"""100,000 passes over a tiny model with every processor on: what is emitted against the model's own law."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from connectors.settings import DecodeSettings
from connectors.warping import Warping
from primitives.contract import DraftTree, Floats
from primitives.models.causal_lm import CausalLMTarget
from primitives.registry import VERIFIERS
from primitives.verification import _ascent, _descent
from primitives.verification._coin import Coin
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier
from tests.rigs import random_prompt, tiny_model
from tests.unit.connectors.test_warping import of_transformers
from tests.unit.primitives.verification.enumeration import drawn_trees

PASSES = 100_000
ALPHA = 0.001
SETTINGS = DecodeSettings(
    temperature=1.5,
    top_k=6,
    top_p=0.97,
    min_p=0.02,
    repetition_penalty=1.3,
    logit_bias={5: 2.0, 40: -2.0},
)
PROMPT = tuple(random_prompt(4))


@cache
def law_after(text: tuple[int, ...]) -> Floats:
    """Return the model's law of the next token, from a forward of its own and transformers' processors."""
    model: Any = tiny_model()
    with torch.inference_mode():
        logits = model(torch.tensor([text])).logits[0, -1]
    return of_transformers(logits, list(text), SETTINGS).double().softmax(0).numpy()


PENDING = int(law_after(PROMPT).argmax())


@cache
def drafters_law(text: tuple[int, ...]) -> Floats:
    """Return the law of a drafter that is wrong about the model: of three tokens, and too flat."""
    law = law_after((*PROMPT, *text)).copy()
    law[np.argsort(-law, kind="stable")[3:]] = 0
    law = np.sqrt(law)
    law[np.flatnonzero(law)[0]] *= 2
    return law / law.sum()


def laws_of(tree: DraftTree, verifier: LosslessVerifier) -> Laws:
    target = CausalLMTarget(tiny_model(), eos_ids=())
    target.prefill(np.array(PROMPT))
    view = Warping(SETTINGS)(target.verify(tree), np.array(PROMPT), tree)
    return Laws(tree, view, verifier.uses_q)


class RecordedTrials:
    """What `_ascent.Trials` computes for a tree, computed once."""

    def __init__(self, laws: Laws) -> None:
        trials = _TRIALS(laws)
        self.steps = list(trials)
        self.left = trials.left

    def __iter__(self) -> Iterator[tuple[int, torch.Tensor]]:
        return iter(self.steps)


_TRIALS = _ascent.Trials


class RecordedSiblings:
    """What the children of a node come to, computed once."""

    def __init__(self, siblings: _descent.Siblings) -> None:
        self._chances = list(siblings.chances())
        self._residual = siblings.residual()

    def chances(self) -> list[float]:
        return self._chances

    def residual(self) -> torch.Tensor:
        return self._residual


def recorded_chances(laws: Laws, node: int) -> tuple[_descent.Siblings, list[float]]:
    kind = _descent.DrawnSiblings if laws.drawn else _descent.CertainSiblings
    siblings = RecordedSiblings(kind(laws, node))
    return siblings, siblings.chances()


def emitted(verifier: LosslessVerifier, drafts: list[tuple[DraftTree, float]], seed: int) -> Counter[tuple[int, ...]]:
    """Return how often each pair of tokens followed the pending one."""
    numbers = np.random.default_rng(seed)
    coin = Coin(torch.Generator().manual_seed(seed))
    pairs: Counter[tuple[int, ...]] = Counter()
    for (tree, _), passes in zip(drafts, numbers.multinomial(PASSES, [chance for _, chance in drafts]), strict=True):
        laws = laws_of(tree, verifier)
        ends: Counter[tuple[int, ...]] = Counter()
        residuals: dict[tuple[int, ...], torch.Tensor | None] = {}
        for _ in range(passes):
            path, residual = verifier.decide(laws, coin)
            ends[tuple(path)] += 1
            residuals[tuple(path)] = residual
        for end, count in ends.items():
            left = residuals[end]
            law = laws.p(end[-1]) if left is None else left
            text = tuple(tree.tokens[list(end)].tolist())[1:]
            for following, times in _continued(text, law.numpy(), count, numbers).items():
                pairs[following] += times
    return pairs


def _continued(
    text: tuple[int, ...], law: Floats, count: int, numbers: np.random.Generator
) -> Counter[tuple[int, ...]]:
    """Return how often each pair came about, from a text of any length and the law of its next token."""
    if len(text) >= 2:
        return Counter({text[:2]: count})
    pairs: Counter[tuple[int, ...]] = Counter()
    for token, times in enumerate(numbers.multinomial(count, law / law.sum())):
        if times:
            longer = (*text, token)
            pairs += _continued(longer, law_after((*PROMPT, PENDING, *longer)), int(times), numbers)
    return pairs


DRAWN_CHAIN, DRAWN_TREE = [-1, 0, 1], [-1, 0, 0, 1]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("speculative_sampling", DRAWN_CHAIN),
        ("block", DRAWN_CHAIN),
        ("tree_sampling", DRAWN_TREE),
        ("traversal", DRAWN_TREE),
        ("tree_sampling", None),
    ],
)
def test_the_emitted_tokens_follow_the_models_law(
    name: str, shape: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = VERIFIERS.build(name, {}, {})
    assert isinstance(verifier, LosslessVerifier)
    recorded_trials = cache(RecordedTrials)
    chances = cache(recorded_chances)
    monkeypatch.setattr(_ascent, "Trials", recorded_trials)
    monkeypatch.setattr(_descent, "chances_below", chances)
    if shape is None:
        first = np.argsort(-law_after((*PROMPT, PENDING)))[:3].tolist()
        drafts = [(DraftTree.from_candidates([[PENDING, token, first[0]] for token in first]), 1.0)]
    else:
        drafts = list(drawn_trees(shape, drafters_law, replacement=False, pending=PENDING))
    pairs = emitted(verifier, drafts, seed=11)
    expected = {
        (one, two): p * q
        for one, p in enumerate(law_after((*PROMPT, PENDING)))
        if p > 0
        for two, q in enumerate(law_after((*PROMPT, PENDING, one)))
        if q > 0
    }
    assert len(expected) > 9
    assert set(pairs) <= set(expected)
    counts, shares = (np.array([of[pair] for pair in expected]) for of in (pairs, expected))
    common = shares * PASSES >= 5
    counts = np.append(counts[common], counts[~common].sum())
    shares = np.append(shares[common], shares[~common].sum())
    counts, shares = counts[shares > 0], shares[shares > 0]
    assert chisquare(counts, shares / shares.sum() * PASSES).pvalue > ALPHA

"""Sampling through the whole loop: every outcome of every draw and every flip, with their probabilities."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from connectors import sampler
from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView, Verdict, Verifier
from primitives.drafting.none import EmptyDrafter
from primitives.registry import VERIFIERS
from primitives.verification import _lossless, fly
from primitives.verification._coin import Coin
from primitives.verification.exact import ExactVerifier
from primitives.verification.soft_gated import SoftGatedVerifier
from tests.conformance.conftest import any_calibration
from tests.rigs import LiarDrafter, OracleDrafter, TableTarget, successor_table, tree_of

Law = dict[tuple[int, ...], float]
SAMPLING = [name for name in VERIFIERS.names() if VERIFIERS.get(name).guarantee == "distribution"]
NEUTRAL = [
    (name, dict(knobs))
    for name in VERIFIERS.names()
    if VERIFIERS.get(name).guarantee == "lossy"
    for knobs in VERIFIERS.get(name).neutral
]
ON_TREES = [name for name in SAMPLING if "chain" not in VERIFIERS.get(name).needs]


class Script:
    """The decisions of a run: as they are written, then the first that has a chance."""

    def __init__(self, written: Sequence[int]) -> None:
        self.written = list(written)
        self.taken: list[int] = []
        self.open: list[list[int]] = []
        self.chance = 1.0

    def choose(self, chances: Sequence[float]) -> int:
        possible = [option for option, chance in enumerate(chances) if chance > 0]
        place = len(self.taken)
        option = self.written[place] if place < len(self.written) else possible[0]
        self.open.append([other for other in possible if other > option])
        self.taken.append(option)
        self.chance *= chances[option] / sum(chances)
        return option


class ScriptedCoin(Coin):
    def __init__(self, rng: Any) -> None:
        self.script: Script = rng

    def flip(self, chance: float) -> bool:
        return self.script.choose([chance, 1 - chance]) == 0


def law_of(monkeypatch: pytest.MonkeyPatch, run: Callable[[Script], list[int]]) -> Law:
    """Return the law of what a run returns, over all its decisions."""
    scripts: list[list[int]] = [[]]
    law: Law = defaultdict(float)
    while scripts:
        written = scripts.pop()
        script = Script(written)
        monkeypatch.setattr(_lossless, "Coin", lambda _rng, script=script: ScriptedCoin(script))
        monkeypatch.setattr(sampler, "draw", lambda p, _rng, script=script: script.choose(p.tolist()))
        each = lambda rows, _rng, script=script: np.array([script.choose(p.tolist()) for p in rows])  # noqa: E731
        monkeypatch.setattr(sampler, "draw_each", each)
        monkeypatch.setattr(fly, "draw_each", each)
        law[tuple(run(script))] += script.chance
        for place in range(len(written), len(script.taken)):
            scripts += [[*script.taken[:place], other] for other in script.open[place]]
    return law


def table_of(laws: Floats) -> torch.Tensor:
    """Return the scores of a table target from float[V, V] probabilities after each token."""
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(laws)).float()


def random_laws(seed: int, size: int) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.ones(size), size)


def generate(
    target: TableTarget, drafter: Drafter, verifier: Verifier, prompt: Sequence[int] = (0,), **settings: Any
) -> list[int]:
    connector = Connector(target, drafter, verifier, lambda ids: " ".join(map(str, ids)), 64)
    return connector.generate(prompt, DecodeSettings(**{"temperature": 1.0, **settings})).ids


def plain_law(laws: Floats, length: int, first: int = 0) -> Law:
    law: Law = {(): 1.0}
    for _ in range(length):
        law = {
            (*text, token): chance * p
            for text, chance in law.items()
            for token, p in enumerate(laws[text[-1] if text else first])
            if p > 0
        }
    return law


def assert_same(law: Law, expected: Law, tolerance: float = 1e-6) -> None:
    for text in law.keys() | expected.keys():
        assert law.get(text, 0) == pytest.approx(expected.get(text, 0), abs=tolerance), text


class Below(Drafter):
    """Proposes given paths below the pending token."""

    def __init__(self, *paths: Sequence[int]) -> None:
        self.paths = paths

    def propose(self, context: Context) -> DraftTree:
        return DraftTree.from_candidates([[context.pending, *path] for path in self.paths])


class Drawing(Drafter):
    """Draws a chain below the pending token from laws of its own, by the script."""

    provides = frozenset({"chain", "q"})

    def __init__(self, laws: Floats, length: int, script: Script) -> None:
        self.laws, self.length, self.script = laws, length, script

    def propose(self, context: Context) -> DraftTree:
        tokens, q = [context.pending], [np.eye(len(self.laws))[context.pending]]
        for _ in range(self.length):
            q.append(self.laws[tokens[-1]])
            tokens.append(self.script.choose(q[-1].tolist()))
        return DraftTree(np.array(tokens), np.arange(-1, self.length), q=torch.from_numpy(np.stack(q)))


# The law of whole texts.


@pytest.mark.parametrize("verifier", SAMPLING)
@pytest.mark.parametrize("paths", [[[1, 2]], [[1], [2, 0]], [[0, 0], [1, 1], [2, 2]]])
def test_texts_follow_the_targets_law_whatever_is_proposed(
    verifier: str, paths: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if len(paths) > 1 and verifier not in ON_TREES:
        paths = paths[:1]
    laws = random_laws(1, 3)
    target = TableTarget(table_of(laws))
    judge = VERIFIERS.build(verifier, {}, {})
    law = law_of(monkeypatch, lambda _: generate(target, Below(*paths), judge, max_new_tokens=4))
    assert_same(law, plain_law(laws, 4))


@pytest.mark.parametrize("verifier", SAMPLING)
def test_texts_follow_the_targets_law_when_drafts_are_drawn(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    laws, own = random_laws(2, 2), random_laws(3, 2)
    target = TableTarget(table_of(laws))
    judge = VERIFIERS.build(verifier, {}, {})
    law = law_of(monkeypatch, lambda script: generate(target, Drawing(own, 2, script), judge, max_new_tokens=4))
    assert_same(law, plain_law(laws, 4))


@pytest.mark.parametrize("verifier", [ExactVerifier(), VERIFIERS.build("tree_sampling", {}, {})])
def test_the_baseline_is_plain_sampling(verifier: Verifier, monkeypatch: pytest.MonkeyPatch) -> None:
    laws = random_laws(4, 4)
    target = TableTarget(table_of(laws))
    law = law_of(monkeypatch, lambda _: generate(target, EmptyDrafter(), verifier, max_new_tokens=3))
    assert_same(law, plain_law(laws, 3))


def test_eos_and_the_budget_end_a_sampled_text(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = random_laws(5, 3)
    target = TableTarget(table_of(laws), eos_ids=[2])
    judge = VERIFIERS.build("tree_sampling", {}, {})
    law = law_of(monkeypatch, lambda _: generate(target, Below([1, 2, 1], [0, 2]), judge, max_new_tokens=3))
    expected: Law = defaultdict(float)
    for text, chance in plain_law(laws, 3).items():
        expected[text[: text.index(2) + 1] if 2 in text else text] += chance
    assert_same(law, expected)


# Case 12: the draft's law after the processors.


@pytest.mark.parametrize("verifier", SAMPLING)
@pytest.mark.parametrize(
    ("settings", "q", "p"),
    [
        ({"top_k": 2}, [0.625, 0.375, 0, 0], [0.5, 0.5, 0, 0]),
        ({"top_p": 0.79}, [0.625, 0.375, 0, 0], [0.5, 0.5, 0, 0]),
        ({"temperature": 0.7}, [0.5, 0.3, 0.15, 0.05], [0.4, 0.4, 0.1, 0.1]),
    ],
)
def test_what_is_emitted_follows_the_processed_law(
    verifier: str, settings: dict[str, Any], q: list[float], p: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = np.tile([0.4, 0.4, 0.1, 0.1], (4, 1))
    sharpened = np.array(q) ** (1 / settings.get("temperature", 1))
    drawn = np.tile(sharpened / sharpened.sum(), (4, 1))
    processed = np.array(p) ** (1 / settings.get("temperature", 1))
    judge = VERIFIERS.build(verifier, {}, {})
    target = TableTarget(table_of(raw))
    law = law_of(
        monkeypatch, lambda script: generate(target, Drawing(drawn, 1, script), judge, max_new_tokens=3, **settings)
    )
    assert_same(law, plain_law(np.tile(processed / processed.sum(), (4, 1)), 3))
    if "temperature" not in settings:
        assert all(token in (0, 1) for text in law for token in text)


# Case 13: processors at every position, the drafted prefix in their history.


@pytest.mark.parametrize("verifier", SAMPLING)
def test_min_p_holds_at_every_position(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = TableTarget(table_of(np.tile([0.6, 0.3, 0.1], (3, 1))))
    judge = VERIFIERS.build(verifier, {}, {})
    law = law_of(monkeypatch, lambda _: generate(target, Below([2, 2]), judge, max_new_tokens=3, min_p=0.25))
    assert_same(law, plain_law(np.tile([2 / 3, 1 / 3, 0], (3, 1)), 3))


@pytest.mark.parametrize("verifier", ["exact", "soft_gated", *SAMPLING])
def test_a_penalty_counts_what_was_drafted_before(verifier: str) -> None:
    table = torch.zeros(10, 10)
    table[:, 7], table[:, 8] = 4.0, 3.0
    knobs = {"theta_e": 1.0} if verifier == "soft_gated" else {}
    settings: dict[str, Any] = {"temperature": 0.0, "repetition_penalty": 2.0, "max_new_tokens": 2}
    for draft in (DraftTree.chain([7, 7, 7]), DraftTree.chain([7, 8, 8])):
        target = TableTarget(table)
        drafter = Below(draft.tokens[1:].tolist())
        assert generate(target, drafter, VERIFIERS.build(verifier, knobs, {}), **settings) == [7, 8]


@pytest.mark.parametrize("verifier", SAMPLING)
def test_a_rejected_draft_leaves_no_trace_in_the_penalty(verifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.tensor([0.5, 1.0, 1.5])
    target = TableTarget(scores.repeat(3, 1))
    settings: dict[str, Any] = {"repetition_penalty": 3.0, "max_new_tokens": 3}
    judge = VERIFIERS.build(verifier, {}, {})
    drafted = law_of(monkeypatch, lambda _: generate(target, Below([2, 1]), judge, **settings))
    plain = law_of(monkeypatch, lambda _: generate(target, EmptyDrafter(), judge, **settings))
    assert_same(drafted, plain)
    assert drafted[2, 2, 2] < drafted[2, 1, 0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("verifier", SAMPLING)
def test_a_token_that_a_bias_forbids_is_never_emitted(
    verifier: str, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = TableTarget(table_of(np.tile([0.2, 0.7, 0.1], (3, 1))))
    settings: dict[str, Any] = {"temperature": temperature, "logit_bias": {1: float("-inf")}, "max_new_tokens": 3}
    judge = VERIFIERS.build(verifier, {}, {})
    law = law_of(monkeypatch, lambda _: generate(target, Below([1, 1]), judge, **settings))
    expected = plain_law(np.tile([2 / 3, 0, 1 / 3] if temperature else [1.0, 0, 0], (3, 1)), 3)
    assert_same(law, expected)


def test_drafters_see_what_the_target_says_and_verifiers_what_processors_make_of_it() -> None:
    seen: dict[str, torch.Tensor] = {}

    class Looking(Below):
        def propose(self, context: Context) -> DraftTree:
            seen["context"] = context.logits
            return super().propose(context)

        def observe(self, outcome: Outcome) -> None:
            seen["outcome"] = outcome.view.logits

    class Judge(ExactVerifier):
        def judge(self, tree: DraftTree, view: TargetView, rng: torch.Generator) -> Verdict:
            seen["judged"] = view.logits
            return super().judge(tree, view, rng)

    raw = successor_table(range(5), size=5)
    generate(TableTarget(raw), Looking([2]), Judge(), temperature=0.0, logit_bias={4: 1.0}, max_new_tokens=2)
    assert seen["context"].tolist() == raw[0].tolist()
    assert seen["outcome"].tolist() == raw[[0, 1, 2]].tolist()
    assert (seen["judged"] - seen["outcome"])[:, 4].tolist() == [1, 1, 1]


# Case 10: temperature 0 and next to it.

COUNTING = list(range(60))


@pytest.mark.parametrize("temperature", [0, 0.0, 1e-8, None])
@pytest.mark.parametrize("verifier", ["exact", *SAMPLING])
@pytest.mark.parametrize("drafter", [LiarDrafter, OracleDrafter])
def test_temperature_0_is_greedy(drafter: type[OracleDrafter], verifier: str, temperature: float | None) -> None:
    if temperature == 1e-8 and verifier == "exact":
        verifier = "tree_sampling"
    changes: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
    target = TableTarget(successor_table(COUNTING))
    drafted = drafter(COUNTING, 3, tree=verifier in ON_TREES)
    connector = Connector(target, drafted, VERIFIERS.build(verifier, {}, {}), str, 64)
    done = connector.generate([0], DecodeSettings(max_new_tokens=20, **changes))
    assert done.ids == COUNTING[1:21]
    assert all(record.accepted >= 0 for record in done.trace.passes)
    assert done.trace.tau == 1.0 if drafter is LiarDrafter else done.trace.tau > 3


@pytest.mark.parametrize("verifier", ["exact", *SAMPLING])
def test_a_negative_temperature_is_refused(verifier: str) -> None:
    target = TableTarget(successor_table(COUNTING))
    with pytest.raises(ValueError, match=r"temperature is -0.5; it must be 0 \(greedy decoding\)"):
        generate(target, EmptyDrafter(), VERIFIERS.build(verifier, {}, {}), temperature=-0.5)
    assert target.furthest == -1


def test_greedy_matching_cannot_judge_what_was_drawn() -> None:
    target = TableTarget(table_of(random_laws(1, 3)))
    with pytest.raises(ValueError, match="verifier 'exact' accepts only what greedy decoding writes, and the temper"):
        generate(target, Below([1]), ExactVerifier(), max_new_tokens=5)


def test_a_bias_of_a_token_that_the_model_does_not_have_is_refused() -> None:
    target = TableTarget(table_of(random_laws(1, 3)))
    with pytest.raises(ValueError, match="logit_bias names token 3, but the model's ids go from 0 to 2"):
        generate(target, EmptyDrafter(), ExactVerifier(), logit_bias={3: 1.0})


# A lossy rule over a token that was drawn.


def test_a_drawn_pending_token_is_certain_for_a_lossy_rule_too() -> None:
    laws = np.full((4, 4), 0.25)
    strict = SoftGatedVerifier(theta_e=1.0)
    texts = set()
    for seed in range(20):
        target = TableTarget(table_of(laws))
        ids = generate(target, Below([1, 1]), strict, max_new_tokens=6, seed=seed)
        texts.add(tuple(ids))
        assert len(ids) == 6
        # Rivals of what was drawn are not even verified.
        assert all((tree.parents < 0).sum() == 1 for tree in target.trees)
    assert len(texts) > 10
    rival = tree_of([3, 2], [-1, -1])
    target = TableTarget(table_of(laws))

    class Rivals(Drafter):
        def propose(self, context: Context) -> DraftTree:
            return rival

    assert len(generate(target, Rivals(), SoftGatedVerifier(theta_e=0.0, k=4), max_new_tokens=4)) == 4
    assert all(len(tree) == 1 for tree in target.trees)


def lossy(name: str, knobs: dict[str, Any], size: int) -> Verifier:
    offered = {"embeddings": torch.eye(size), "calibration": any_calibration(32)}
    return VERIFIERS.build(name, knobs, offered)


@pytest.mark.parametrize(("verifier", "knobs"), NEUTRAL)
def test_the_neutral_setting_of_a_lossy_rule_samples_from_the_targets_law(
    verifier: str, knobs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    laws = random_laws(8, 2)
    target = TableTarget(table_of(laws))
    judge = lossy(verifier, {**knobs, **({"dual": False} if verifier == "fly" else {})}, 2)
    law = law_of(monkeypatch, lambda _: generate(target, Below([1, 0]), judge, max_new_tokens=4))
    assert_same(law, plain_law(laws, 4))


def test_a_lossy_rule_lets_its_mismatches_in_against_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = random_laws(9, 3)
    target = TableTarget(table_of(laws))
    # Every token is among the three likeliest, so the draft always passes and only what follows it is drawn.
    law = law_of(monkeypatch, lambda _: generate(target, Below([1]), lossy("top_k", {"k": 3}, 3), max_new_tokens=4))
    expected: Law = defaultdict(float)
    for (first, then), chance in {(a, b): laws[0, a] * laws[1, b] for a in range(3) for b in range(3)}.items():
        expected[first, 1, then, 1] += chance
    assert_same(law, expected)


def test_two_draws_of_fly_match_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    laws = random_laws(10, 2)
    target = TableTarget(table_of(laws))
    judge = lossy("fly", {"theta": math.inf}, 2)
    law = law_of(monkeypatch, lambda _: generate(target, Below([1]), judge, max_new_tokens=3))
    p = laws[:, 1]
    passed = 1 - (1 - p) ** 2
    expected: Law = defaultdict(float)
    # 1 passes if either draw is 1. Where neither is, 0 is pending, and the next pass tries 1 behind it in the same way.
    again = [1 - passed[0], passed[0]]
    for first in range(2):
        for third in range(2):
            expected[first, 1, third] += laws[0, first] * passed[first] * laws[1, third]
            expected[first, 0, third] += laws[0, first] * (1 - passed[first]) * again[third]
    assert_same(law, expected)


def test_a_token_that_easd_rejects_is_drawn_anew_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    laws, own = np.tile([0.5, 0.3, 0.2], (3, 1)), np.tile([0.4, 0.3, 0.3], (3, 1))
    target = TableTarget(table_of(laws))
    judge = lossy("easd", {"theta_t": 0.0, "theta_d": 0.0, "n": 3}, 3)
    law = law_of(monkeypatch, lambda script: generate(target, Drawing(own, 1, script), judge, max_new_tokens=2))
    second = np.zeros(3)
    for drafted in range(3):
        for chosen in range(3):
            left = laws[0] * (np.arange(3) != drafted) if drafted == chosen else np.eye(3)[chosen]
            second += own[0, drafted] * laws[0, chosen] * left / left.sum()
    assert_same(law, {(a, b): laws[0, a] * second[b] for a in range(3) for b in range(3)})


def test_a_lossy_rule_that_draws_for_itself_is_exact_matching_at_temperature_0() -> None:
    target = TableTarget(successor_table(COUNTING))
    soft = lossy("arc", {"form": "soft", "lam": 1.0, "tau_delta": 1e9}, 60)
    assert generate(target, LiarDrafter(COUNTING, 3), soft, temperature=0.0, max_new_tokens=20) == COUNTING[1:21]


def test_a_verifier_is_told_where_a_text_begins() -> None:
    texts: list[list[int]] = []

    class Listening(ExactVerifier):
        def start(self, prompt: Ints) -> None:
            texts.append(prompt.tolist())

    for prompt in ([1, 2], [3]):
        generate(TableTarget(successor_table(COUNTING)), EmptyDrafter(), Listening(), prompt, temperature=0.0)
    assert texts == [[1, 2], [3]]


# S6: seeds.


def test_the_same_seed_writes_the_same_text_in_any_order() -> None:
    target = TableTarget(table_of(random_laws(6, 20)))
    judge = VERIFIERS.build("tree_sampling", {}, {})

    def text(prompt: int, seed: int, drafter: Drafter) -> list[int]:
        return generate(target, drafter, judge, [prompt], max_new_tokens=16, seed=seed)

    first = [text(prompt, 1, Below([3, 4], [5])) for prompt in range(5)]
    again = [text(prompt, 1, Below([3, 4], [5])) for prompt in reversed(range(5))]
    assert first == again[::-1]
    assert all(text(prompt, 2, Below([3, 4], [5])) != first[prompt] for prompt in range(5))


def test_an_empty_draft_uses_up_no_draw() -> None:
    target = TableTarget(table_of(random_laws(6, 20)))

    class Sometimes(Below):
        """Proposes nothing: neither in its tree nor beside it."""

        def propose(self, context: Context) -> DraftTree:
            return DraftTree.chain(context.tokens[-1:]) if len(context.tokens) % 2 else DraftTree.empty()

    judges = [VERIFIERS.build("tree_sampling", {}, {}), ExactVerifier()]
    texts = [
        generate(target, drafter, judge, max_new_tokens=16, seed=3)
        for drafter in (Sometimes(), EmptyDrafter())
        for judge in judges
    ]
    assert texts == [texts[0]] * 4


def test_counted_texts_follow_the_law() -> None:
    # The one test of this file that really draws: 1,500 texts, each frequency within 4 sigma.
    laws = random_laws(7, 3)
    target = TableTarget(table_of(laws))
    judge = VERIFIERS.build("tree_sampling", {}, {})
    texts = [generate(target, Below([1, 2], [0]), judge, max_new_tokens=2, seed=seed) for seed in range(1500)]
    counts = np.bincount([3 * a + b for a, b in texts], minlength=9) / len(texts)
    expected = [plain_law(laws, 2).get((a, b), 0) for a in range(3) for b in range(3)]
    assert counts == pytest.approx(expected, abs=0.052)

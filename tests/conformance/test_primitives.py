"""Every drafter with every verifier of the registries, as a chain and as a tree: what must hold of each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import Context, Drafter, DraftTree, Guarantee, TargetView, Verifier
from primitives.models.causal_lm import CausalLMTarget
from primitives.registry import DRAFTERS, VERIFIERS
from tests.conformance.conftest import any_calibration, any_probes
from tests.eagle_rig import head_resources
from tests.rigs import (
    TINY,
    FirstBranch,
    LiarDrafter,
    OracleDrafter,
    RandomDrafter,
    WatchedTarget,
    WithStates,
    Wrapped,
    drafter_knobs,
    greedy_of,
    random_prompt,
    tiny_draft,
    tiny_model,
    tiny_store,
    tiny_token_store,
    word_tokenizer,
)

Resources = Callable[..., dict[str, Any]]

SHAPES = ("chain", "tree")
EXACT = [name for name in VERIFIERS.names() if VERIFIERS.get(name).guarantee == "exact"]
LOSSY = [name for name in VERIFIERS.names() if VERIFIERS.get(name).guarantee == "lossy"]
SAMPLING = [name for name in VERIFIERS.names() if VERIFIERS.get(name).guarantee == "distribution"]
# A rule for chains is tried on the first branch of every drafter.
SAMPLED = [
    (name, shape)
    for name in SAMPLING
    for shape in SHAPES
    if shape == "chain" or "chain" not in VERIFIERS.get(name).needs
]
NEUTRAL = [(name, dict(knobs)) for name in LOSSY for knobs in VERIFIERS.get(name).neutral]
JUDGED = [
    (name, shape) for name in LOSSY for shape in SHAPES if shape == "chain" or "chain" not in VERIFIERS.get(name).needs
]
WIDEST = [(name, "chain" if "chain" in VERIFIERS.get(name).needs else "tree") for name in LOSSY]
TOKENS = 16
DRAFTED = 5
EOS = frozenset(range(90, 100))


@cache
def reference(model: str, prompt: tuple[int, ...], count: int = TOKENS + DRAFTED + 1) -> list[int]:
    """Return the greedy text of transformers, a little longer than what the tests generate."""
    return greedy_of(tiny_model(model), prompt, count)


@cache
def target_of(model: str = "llama", eos_ids: frozenset[int] = frozenset()) -> CausalLMTarget:
    """Return one target for all tests: every prefill starts it anew, whatever a test before has left in it."""
    return CausalLMTarget(tiny_model(model), eos_ids=eos_ids)


def rig(name: str, model: str, prompt: Sequence[int], shape: str) -> Drafter:
    text = [*prompt, *reference(model, tuple(prompt))]
    kinds = {"oracle": OracleDrafter, "liar": LiarDrafter, "random": RandomDrafter}
    return kinds[name](text, DRAFTED, shape == "tree")


def generate(
    target: CausalLMTarget | WatchedTarget,
    drafter: Drafter,
    verifier: Verifier,
    prompt: Sequence[int],
    count: int = TOKENS,
    max_nodes: int = 64,
    **changes: Any,
) -> Generation:
    connector = Connector(target, drafter, verifier, lambda ids: " ".join(map(str, ids)), max_nodes)
    return connector.generate(prompt, DecodeSettings(max_new_tokens=count, **changes))


def built_drafter(name: str, offered: dict[str, Any], model: str = "llama") -> Drafter:
    """Return a drafter of the registry as its users get it."""
    return DRAFTERS.build(name, drafter_knobs(name), {**offered, **head_resources(name, model)})


def shaped(drafter: Drafter, shape: str) -> Drafter:
    return drafter if shape == "tree" else FirstBranch(drafter)


class Checked(Wrapped):
    """A drafter whose trees are looked at before they are handed on."""

    def __init__(self, inner: Drafter, vocabulary: int) -> None:
        super().__init__(inner)
        self.vocabulary = vocabulary
        self.nodes: list[int] = []

    def propose(self, context: Context) -> DraftTree:
        before = context.tokens.copy()
        tree = self.inner.propose(context)
        assert np.array_equal(context.tokens, before)
        assert ((tree.tokens >= 0) & (tree.tokens < self.vocabulary)).all()
        siblings = list(zip(tree.parents.tolist(), tree.tokens.tolist(), strict=True))
        assert len(set(siblings)) == len(siblings)
        self.nodes.append(len(tree))
        return tree


def test_every_verifier_declares_what_it_guarantees() -> None:
    for name in VERIFIERS.names():
        assert VERIFIERS.get(name).guarantee in get_args(Guarantee)
        assert VERIFIERS.get(name).needs <= {"q", "chain", "hidden", "draft_hidden", "lookahead"}


def test_every_lossy_verifier_has_a_neutral_setting() -> None:
    assert {name for name, _ in NEUTRAL} == set(LOSSY)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verifier", EXACT)
@pytest.mark.parametrize("drafter", DRAFTERS.names())
@pytest.mark.parametrize("model", TINY)
def test_exact_verification_writes_the_greedy_text(
    model: str, drafter: str, verifier: str, shape: str, resources: Resources
) -> None:
    target = target_of(model)
    offered = resources(target, model)
    checked = Checked(shaped(built_drafter(drafter, offered, model), shape), target.vocab_size)
    watched = WatchedTarget(target)
    for seed in (0, 77):
        prompt = random_prompt(seed)
        done = generate(watched, checked, VERIFIERS.build(verifier, {}, offered), prompt)
        assert done.ids == reference(model, tuple(prompt))[:TOKENS]
    assert drafter == "none" or max(checked.nodes) > 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("verifier", EXACT)
@pytest.mark.parametrize("drafter", ["oracle", "liar", "random"])
@pytest.mark.parametrize("model", TINY)
def test_exact_verification_writes_the_greedy_text_whatever_is_drafted(
    model: str, drafter: str, verifier: str, shape: str
) -> None:
    target = WatchedTarget(target_of(model))
    prompt = random_prompt(5)
    done = generate(target, rig(drafter, model, prompt, shape), VERIFIERS.build(verifier, {}, {}), prompt)
    assert done.ids == reference(model, tuple(prompt))[:TOKENS]
    committed = [record.committed for record in done.trace.passes]
    if drafter == "liar":
        assert done.trace.tau == 1.0
        assert all(record.proposed and not record.accepted for record in done.trace.passes[:-1])
    if drafter == "oracle":
        assert committed[:-1] == [DRAFTED + 1] * (len(committed) - 1)
        assert all(record.accepted == record.committed - 1 for record in done.trace.passes)
    if drafter == "random":
        assert max(committed) > 1


@settings(max_examples=30, deadline=None)
@given(
    model=st.sampled_from(sorted(TINY)),
    drafter=st.sampled_from(DRAFTERS.names()),
    verifier=st.sampled_from(EXACT),
    prompt=st.lists(st.integers(0, 12), min_size=1, max_size=30),
    count=st.integers(1, 20),
    max_nodes=st.integers(1, 40),
)
def test_exact_verification_is_lossless_for_any_prompt_budget_and_tree_size(
    model: str, drafter: str, verifier: str, prompt: list[int], count: int, max_nodes: int
) -> None:
    target = target_of(model)
    offered = {
        "vector_store": tiny_store(model),
        "token_store": tiny_token_store(model),
        "eos_ids": target.eos_ids,
        "vocab_size": target.vocab_size,
        "tokenizer": word_tokenizer(),
        "draft_model": tiny_draft(model),
    }
    built = built_drafter(drafter, offered, model), VERIFIERS.build(verifier, {}, offered)
    done = generate(target, *built, prompt, count, max_nodes)
    assert done.ids == greedy_of(tiny_model(model), prompt, count)
    assert all(1 <= record.nodes <= max_nodes for record in done.trace.passes)


def made(drafter: str, prompt: Sequence[int], shape: str, offered: dict[str, Any]) -> Drafter:
    """Return a drafter of the registry, or a rig."""
    if drafter in DRAFTERS.names():
        return shaped(built_drafter(drafter, offered), shape)
    return rig(drafter, "llama", prompt, shape)


def judged_by(verifier: str, name: str, drafter: Drafter) -> Drafter:
    """Return a drafter that gives a verifier the states that it needs."""
    if "draft_hidden" not in VERIFIERS.get(verifier).needs:
        return drafter
    if name in DRAFTERS.names() and "draft_hidden" in DRAFTERS.get(name).provides:
        return drafter.inner if isinstance(drafter, FirstBranch) else drafter
    return WithStates(drafter)


@pytest.mark.parametrize(("verifier", "shape"), SAMPLED)
@pytest.mark.parametrize("drafter", [*DRAFTERS.names(), "oracle", "liar", "random"])
def test_sampling_at_temperature_0_writes_the_greedy_text(
    drafter: str, verifier: str, shape: str, resources: Resources
) -> None:
    target = target_of()
    offered = resources(target)
    prompt = random_prompt(77)
    built = made(drafter, prompt, shape, offered)
    done = generate(WatchedTarget(target), built, VERIFIERS.build(verifier, {}, offered), prompt)
    assert done.ids == reference("llama", tuple(prompt))[:TOKENS]
    assert drafter != "liar" or done.trace.tau == 1.0
    assert drafter != "oracle" or done.trace.passes[0].committed == DRAFTED + 1


@pytest.mark.parametrize(("verifier", "shape"), SAMPLED)
@pytest.mark.parametrize("drafter", [*DRAFTERS.names(), "oracle", "liar", "random"])
def test_sampling_makes_progress_and_ends_in_time(
    drafter: str, verifier: str, shape: str, resources: Resources
) -> None:
    target = target_of(eos_ids=EOS)
    offered = resources(target)
    texts = []
    for seed in (3, 3):
        prompt = random_prompt(seed)
        built, watched = made(drafter, prompt, shape, offered), WatchedTarget(target)
        changes: dict[str, Any] = {
            "temperature": 1.0,
            "top_p": 0.95,
            "repetition_penalty": 1.1,
            "logit_bias": {7: float("-inf")},
        }
        done = generate(
            watched, built, VERIFIERS.build(verifier, {}, offered), prompt, max_nodes=16, seed=seed, **changes
        )
        assert 1 <= len(done.ids) <= TOKENS
        assert not EOS & set(done.ids[:-1])
        assert 7 not in done.ids
        assert done.finish == ("eos" if done.ids[-1] in EOS else "length")
        assert done.finish == "eos" or len(done.ids) == TOKENS
        assert all(1 <= record.committed == record.accepted + 1 for record in done.trace.passes)
        assert all(record.nodes <= 16 for record in done.trace.passes)
        assert {way for record in done.trace.passes for way in record.pathways} <= {0}
        assert [*prompt, *done.ids][: len(watched.text)] == watched.text
        texts.append(done.ids)
    # The same seed writes the same text again, whatever was decoded in between.
    assert texts[-1] == texts[-2]


@pytest.mark.parametrize(("verifier", "shape"), JUDGED)
@pytest.mark.parametrize("drafter", [*DRAFTERS.names(), "oracle", "liar", "random"])
def test_lossy_verification_makes_progress_and_ends_in_time(
    drafter: str, verifier: str, shape: str, resources: Resources
) -> None:
    target = target_of(eos_ids=EOS)
    finishes = set()
    for seed in range(6):
        prompt = random_prompt(seed)
        offered = resources(target)
        built = judged_by(verifier, drafter, made(drafter, prompt, shape, offered))
        watched = WatchedTarget(target)
        done = generate(watched, built, VERIFIERS.build(verifier, {}, offered), prompt, max_nodes=16)
        assert 1 <= len(done.ids) <= TOKENS
        assert not EOS & set(done.ids[:-1])
        assert done.finish == ("eos" if done.ids[-1] in EOS else "length")
        assert done.finish == "eos" or len(done.ids) == TOKENS
        assert all(1 <= record.committed == len(record.pathways) for record in done.trace.passes)
        assert all(record.nodes <= 16 for record in done.trace.passes)
        assert [*prompt, *done.ids][: len(watched.text)] == watched.text
        finishes.add(done.finish)
        if seed and "eos" in finishes:
            break
    assert "eos" in finishes


@pytest.mark.parametrize(("verifier", "shape"), WIDEST)
@pytest.mark.parametrize("drafter", [*DRAFTERS.names(), "oracle", "random"])
def test_a_lossy_rule_over_drawn_tokens_makes_progress_and_ends_in_time(
    drafter: str, verifier: str, shape: str, resources: Resources
) -> None:
    target = target_of(eos_ids=EOS)
    offered, prompt = resources(target), random_prompt(3)
    texts = []
    for seed in (3, 3):
        built = judged_by(verifier, drafter, made(drafter, prompt, shape, offered))
        watched, judge = WatchedTarget(target), VERIFIERS.build(verifier, {}, offered)
        done = generate(watched, built, judge, prompt, max_nodes=16, seed=seed, temperature=1.0, top_p=0.95)
        assert done.finish == ("eos" if done.ids[-1] in EOS else "length")
        assert not EOS & set(done.ids[:-1])
        assert all(1 <= record.committed == len(record.pathways) for record in done.trace.passes)
        assert [*prompt, *done.ids][: len(watched.text)] == watched.text
        texts.append(done.ids)
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("verifier", "shape", "knobs"),
    [(name, shape, knobs) for name, shape in JUDGED for other, knobs in NEUTRAL if other == name],
)
@pytest.mark.parametrize("drafter", [*DRAFTERS.names(), "oracle", "liar", "random"])
def test_the_neutral_setting_of_a_lossy_verifier_is_exact(
    drafter: str, verifier: str, knobs: dict[str, Any], shape: str, resources: Resources
) -> None:
    target = target_of()
    prompt = random_prompt(1)
    offered = resources(target)
    built = judged_by(verifier, drafter, made(drafter, prompt, shape, offered))
    done = generate(target, built, VERIFIERS.build(verifier, knobs, offered), prompt)
    assert done.ids == reference("llama", tuple(prompt))[:TOKENS]
    assert {way for record in done.trace.passes for way in record.pathways} == {0}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    name=st.sampled_from(VERIFIERS.names()),
    drafts=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=5), min_size=1, max_size=6),
)
def test_a_verdict_is_a_root_path_and_never_rejects_the_targets_own_choice(
    seed: int, name: str, drafts: list[list[int]]
) -> None:
    rng = torch.Generator().manual_seed(seed)
    offered = {
        "embeddings": torch.randn(6, 4, generator=rng),
        "calibration": any_calibration(4),
        "probes": any_probes(4),
    }
    verifier = VERIFIERS.build(name, {}, offered)
    sampling = verifier.guarantee == "distribution"
    # Where one token has all probability, what keeps the distribution is exact.
    sharpness = 1e7 if sampling else 2
    root = torch.randn(6, generator=rng) * sharpness
    pending = int(root.argmax())
    chain = "chain" in verifier.needs
    if sampling or chain:
        # No rival of the pending token gets as far as these verifiers.
        drafts = [[pending, *draft] for draft in drafts[: 1 if chain else None]]
    tree = DraftTree.from_candidates([*drafts, [pending]])
    if "draft_hidden" in verifier.needs:
        tree = replace(tree, hidden=torch.randn(len(tree), 4, generator=rng))
    logits = torch.cat([root[None], torch.randn(len(tree), 6, generator=rng) * sharpness])
    verdict = verifier.judge(tree, TargetView(logits, torch.zeros(len(logits), 4)), rng)
    assert len(verdict.path) >= 1
    assert tree.parents[verdict.path].tolist() == [-1, *verdict.path[:-1].tolist()]
    assert len(verdict.pathways) == len(verdict.path)
    exact = tree.tokens[verdict.path] == logits.argmax(-1).numpy()[tree.rows[verdict.path]]
    assert ((verdict.pathways == 0) == exact).all()
    assert exact.all() or verifier.guarantee != "exact"
    winner = tree.tokens[verdict.path[:1]]
    assert winner[0] == int(root.argmax()) or verifier.admits(winner, root).all()

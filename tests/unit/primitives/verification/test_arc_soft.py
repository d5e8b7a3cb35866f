from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from primitives.contract import DraftTree, Pathway, TargetView, Verifier
from primitives.models.causal_lm import CausalLMTarget
from primitives.verification._arc_soft import descend
from primitives.verification._laws import Laws
from primitives.verification.arc import ArcVerifier
from primitives.verification.tree_sampling import TreeSamplingVerifier
from tests.rigs import LiarDrafter, greedy_of, random_prompt, tiny_model
from tests.unit.primitives.verification.arc_cases import CONSTANTS, RNG, VOCABULARY, arc, embeddings_of, surrogate
from tests.unit.primitives.verification.enumeration import outcomes


def soft_case(seed: int, q: bool) -> tuple[DraftTree, TargetView, torch.Tensor]:
    """A pending token with two drafted children, q of both, and p of the place below the pending token."""
    rng = np.random.default_rng(seed)
    law = torch.from_numpy(rng.dirichlet(np.ones(VOCABULARY)))
    tokens = rng.choice(VOCABULARY, 2, replace=False).tolist()
    tree = DraftTree(np.array([0, *tokens]), np.array([-1, 0, 0]), q=law.repeat(3, 1) if q else None)
    logits = torch.from_numpy(rng.normal(size=(4, VOCABULARY)))
    return tree, TargetView(logits, torch.zeros(4, 1)), law


def soft_chances(
    tree: DraftTree, view: TargetView, law: torch.Tensor, verifier: ArcVerifier, lam: float
) -> list[float]:
    """The chances of both children, the first one's and the second one's after the first was rejected, by the paper."""
    row = view.logits[1].tolist()
    p = torch.softmax(view.logits[1], -1)
    left, chances = p.clone(), []
    for token in tree.tokens[1:].tolist():
        q = law if tree.q is not None else torch.nn.functional.one_hot(torch.tensor(token), VOCABULARY)
        first = min(1.0, float(left[token] / q[token]))
        shift = surrogate(embeddings_of(0), row, token, CONSTANTS["c_e"], CONSTANTS["c_l"])[2]
        second = (float(p[token]) >= verifier.p_min) * max(
            0.0, 1 - shift / (CONSTANTS["tau_delta"] * (1 - verifier.theta))
        )
        chances.append(min(1.0, first + lam * (1 - first) * second))
        left = torch.clamp(left - q, min=0)
        left /= left.sum()
    return chances


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("q", [False, True])
def test_the_soft_form_accepts_with_the_published_chance(q: bool, eager: bool) -> None:
    verifier = arc(form="soft", lam=0.5, p_min=0.1)
    for seed in range(20):
        tree, view, law = soft_case(seed, q)
        first, second = soft_chances(tree, view, law, verifier, 0.5)
        laws = Laws(tree, view)
        laws.eager = eager
        expected = {(0, 1): first, (0, 2): (1 - first) * second, (0,): (1 - first) * (1 - second)}
        found = dict.fromkeys(expected, 0.0)
        for (path, _, _), chance in outcomes(partial(descend, laws, second=verifier._second_chance)):
            found[tuple(path)] += chance
        # The whitened distance is made in float32.
        assert found == pytest.approx(expected, abs=1e-6), seed


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([{"lam": 0.0}, {"theta": 1.0}, {"tau_delta": 0.0}]))
def test_the_soft_form_without_a_second_chance_is_tree_sampling(seed: int, q: bool, knobs: dict[str, Any]) -> None:
    tree, view, _ = soft_case(seed, q)
    one, other = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
    for _ in range(5):
        found, expected = (
            arc(form="soft", **knobs).judge(tree, view, one),
            TreeSamplingVerifier().judge(tree, view, other),
        )
        assert found.path.tolist() == expected.path.tolist()
        assert not found.pathways.any()
        assert (found.residual is None) == (expected.residual is None)
        if found.residual is not None and expected.residual is not None:
            torch.testing.assert_close(found.residual, expected.residual)


def test_the_soft_form_leaves_what_rejected_tokens_leave_of_p() -> None:
    tree, view, _ = soft_case(1, q=False)
    verifier = arc(form="soft", p_min=1.0)
    for seed in range(50):
        verdict = verifier.judge(tree, view, torch.Generator().manual_seed(seed))
        if len(verdict.path) == 1:
            assert verdict.residual is not None
            left = torch.softmax(view.logits[1], -1)
            left[torch.from_numpy(tree.tokens[1:])] = 0
            torch.testing.assert_close(verdict.residual / verdict.residual.sum(), left / left.sum())
            return
    raise AssertionError("no draw rejected both")


def test_second_chances_are_traced_and_depend_on_the_depth() -> None:
    # p of the drafted tokens is near 0, but their embedding is the choice's own: only the second chance lets them in.
    embeddings = torch.tensor([[0.0], [0.0], [9.0]])
    view = TargetView(torch.tensor([[0.0, -40.0, -40.0]] * 4), torch.zeros(4, 1))
    tree = DraftTree.chain([0, 1, 1])
    knobs: dict[str, Any] = {**CONSTANTS, "form": "soft", "lam": 0.0, "lam_shallow": 1.0}
    relaxed = int(Pathway.RELAXED)
    for shallow, ways in ((1, [0]), (2, [0, relaxed]), (3, [0, relaxed, relaxed])):
        verdict = ArcVerifier(embeddings, **knobs, shallow=shallow).judge(tree, view, RNG)
        assert verdict.pathways.tolist() == ways


def test_in_the_loop_the_soft_form_samples_and_without_second_chances_it_is_tree_sampling() -> None:
    model, prompt = tiny_model(), random_prompt(2)
    truth = [*prompt, *greedy_of(model, prompt, 40)]
    embeddings = torch.randn(100, 4, generator=torch.Generator().manual_seed(0))
    wanted = DecodeSettings(max_new_tokens=24, temperature=1.0, seed=5)

    def sampled(verifier: Verifier) -> Generation:
        target = CausalLMTarget(model, eos_ids=())
        return Connector(target, LiarDrafter(truth, 4, tree=True), verifier, str, 32).generate(prompt, wanted)

    lossless = sampled(TreeSamplingVerifier())
    assert sampled(ArcVerifier(embeddings, **CONSTANTS, form="soft", lam=0.0)).ids == lossless.ids
    relaxed = sampled(ArcVerifier(embeddings, **CONSTANTS, form="soft", lam=1.0))
    assert relaxed.trace.tau > lossless.trace.tau
    assert 3 in {way for record in relaxed.trace.passes for way in record.pathways}

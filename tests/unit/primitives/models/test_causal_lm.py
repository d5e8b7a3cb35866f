from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree
from primitives.models.causal_lm import CausalLMTarget, configured_eos
from tests.rigs import PADDED_VOCABULARY, TINY, WINDOW, random_prompt, tiny_model, tree_of


def target_of(name: str = "llama") -> CausalLMTarget:
    return CausalLMTarget(tiny_model(name), eos_ids=())


def random_tree(rng: np.random.Generator, nodes: int) -> DraftTree:
    parents = [int(rng.integers(-1, node)) if node else -1 for node in range(nodes)]
    return tree_of(rng.integers(0, 100, nodes).tolist(), parents)


def scores_after(name: str, ids: list[int]) -> torch.Tensor:
    """Logits after the last of some ids, by the stock model in a forward without a cache."""
    with torch.inference_mode():
        logits: torch.Tensor = tiny_model(name)(torch.tensor([ids]), use_cache=False).logits[0, -1]
    return logits


@pytest.mark.parametrize("name", TINY)
def test_a_tree_forward_equals_a_forward_over_each_branch(name: str) -> None:
    target = target_of(name)
    prompt = random_prompt(1)
    tree = random_tree(np.random.default_rng(2), 14)
    assert not tree.is_chain
    target.prefill(np.array(prompt))
    view = target.verify(tree)
    assert view.logits.shape == (15, tiny_model(name).config.vocab_size)
    torch.testing.assert_close(view.logits[0], scores_after(name, prompt), rtol=0, atol=1e-5)
    for node in range(len(tree)):
        branch = prompt + tree.tokens[tree.path_to(node)].tolist()
        torch.testing.assert_close(view.logits[node + 1], scores_after(name, branch), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", TINY)
def test_a_chain_is_the_same_with_and_without_a_mask(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(name)
    prompt, chain = np.array(random_prompt(3)), DraftTree.chain(random_prompt(4, 6))
    target.prefill(prompt)
    assert target._tree_arguments(chain) == {}
    plain = target.verify(chain)
    monkeypatch.setattr(DraftTree, "is_chain", False)
    masked = target.verify(DraftTree.chain(chain.tokens))
    torch.testing.assert_close(plain.logits, masked.logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "qwen3"])
def test_hidden_states_are_those_after_the_last_norm(name: str) -> None:
    target = target_of(name)
    prompt = random_prompt(5)
    view = target.prefill(np.array(prompt))
    with torch.inference_mode():
        stock = tiny_model(name)(torch.tensor([prompt]), output_hidden_states=True, use_cache=False)
    torch.testing.assert_close(view.hidden, stock.hidden_states[-1][0], rtol=0, atol=1e-5)
    assert view.logits.shape[0] == 1
    torch.testing.assert_close(target.model.lm_head(view.hidden[-1:]), view.logits, rtol=0, atol=1e-5)
    tree = tree_of([4, 5, 6], [-1, -1, 0])
    scored = target.verify(tree)
    torch.testing.assert_close(target.model.lm_head(scored.hidden), scored.logits, rtol=0, atol=1e-5)


def pools(target: CausalLMTarget, length: int) -> list[torch.Tensor]:
    return [pool[..., :length, :].clone() for pool in target.cache._pools]


@pytest.mark.parametrize("name", ["llama", "padded"])
def test_twenty_rounds_of_trees_leave_the_cache_of_a_fresh_forward(name: str) -> None:
    target = target_of(name)
    text = random_prompt(6, 5)
    target.prefill(np.array(text))
    rng = np.random.default_rng(7)
    # Node 0 is the root of 1, 2 and 4; 5 is below 2: the paths of case 16, and nothing at all.
    tree_shape = [-1, 0, 0, 1, 0, 2]
    fixed = [[0, 2, 5], [0, 1, 3], [], [0], [0, 4]]
    for turn in range(20):
        tree = tree_of(rng.integers(0, 100, 6).tolist(), tree_shape)
        before = pools(target, len(text))
        view = target.verify(tree)
        torch.testing.assert_close(view.logits[0], scores_after(name, text), rtol=0, atol=1e-4)
        path = np.array(fixed[turn % len(fixed)], np.int64)
        target.commit(path)
        assert all(torch.equal(old, new) for old, new in zip(before, pools(target, len(text)), strict=True))
        text += tree.tokens[path].tolist()
        assert target.cache.length == len(text)
    fresh = target_of(name)
    fresh.prefill(np.array(text))
    for ours, theirs in zip(pools(target, len(text)), pools(fresh, len(text)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_a_tree_that_is_not_committed_leaves_no_trace() -> None:
    target = target_of()
    prompt = np.array(random_prompt(8))
    target.prefill(prompt)
    expected = target.verify(DraftTree.chain([1, 2])).logits
    target.verify(tree_of([5, 6, 7], [-1, -1, 0]))
    target.verify(DraftTree.chain([9]))
    assert torch.equal(target.verify(DraftTree.chain([1, 2])).logits, expected)
    target.commit(np.array([0, 1]))
    assert target.cache.length == len(prompt) + 2


def test_a_forward_that_fails_leaves_the_committed_text(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of()
    prompt = np.array(random_prompt(8))
    target.prefill(prompt)
    expected = target.verify(DraftTree.chain([1, 2])).logits
    with pytest.raises(IndexError):
        target.verify(DraftTree.chain([1, 10**6]))
    assert torch.equal(target.verify(DraftTree.chain([1, 2])).logits, expected)
    assert target.cache.length == len(prompt) + 2


def test_a_prefill_forgets_everything() -> None:
    target = target_of()
    first, second = np.array(random_prompt(1)), np.array(random_prompt(2, 4))
    expected = target.prefill(second).logits
    target.prefill(first)
    target.verify(DraftTree.chain([3, 4]))
    target.commit(np.array([0]))
    assert torch.equal(target.prefill(second).logits, expected)
    assert target.cache.length == 4


def test_a_text_longer_than_the_first_capacity() -> None:
    target = target_of()
    target.cache.capacity = 4
    text = random_prompt(9, 3)
    target.prefill(np.array(text))
    for turn in range(30):
        token = (7 * turn) % 100
        view = target.verify(tree_of([token, token, 1], [-1, -1, 1]))
        torch.testing.assert_close(view.logits[0], scores_after("llama", text), rtol=0, atol=1e-4)
        target.commit(np.array([1, 2]))
        text += [token, 1]
    assert (target.cache.length, target.cache.capacity) == (63, 64)


def test_teacher_forcing_touches_no_cache() -> None:
    target = target_of()
    prompt = np.array(random_prompt(1))
    target.prefill(prompt)
    expected = target.verify(DraftTree.chain([3])).logits
    rows = target.teacher_forced(np.array([5, 6, 7]))
    assert rows.logits.shape[0] == rows.hidden.shape[0] == 3
    torch.testing.assert_close(rows.logits[1], scores_after("llama", [5, 6]), rtol=0, atol=1e-5)
    assert torch.equal(target.verify(DraftTree.chain([3])).logits, expected)


def test_a_sliding_window_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="model type 'mistral' keeps a DynamicSlidingWindow cache in layer 0"):
        CausalLMTarget(tiny_model("mistral", WINDOW))


def test_nothing_is_verified_before_a_prefill_nor_committed_before_a_verification() -> None:
    target = target_of()
    with pytest.raises(RuntimeError, match="must prefill a prompt before"):
        target.verify(DraftTree.chain([1]))
    target.prefill(np.array([1, 2]))
    with pytest.raises(RuntimeError, match="must verify a tree before"):
        target.commit(np.array([0]))


@pytest.mark.parametrize(("configured", "expected"), [(None, []), (2, [2]), ([2, 7], [2, 7])])
def test_eos_may_be_none_one_or_several(configured: Any, expected: list[int]) -> None:
    model: Any = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=configured))
    assert configured_eos(model) == expected
    assert configured_eos(SimpleNamespace()) == []  # type: ignore[arg-type]


def test_what_a_target_says_of_itself() -> None:
    target = CausalLMTarget(tiny_model("padded"), eos_ids=[3, 4])
    assert target.vocab_size == PADDED_VOCABULARY
    assert target.eos_ids == {3, 4}
    assert target.max_positions == 256
    assert CausalLMTarget(tiny_model()).eos_ids == frozenset()
    target.synchronize()

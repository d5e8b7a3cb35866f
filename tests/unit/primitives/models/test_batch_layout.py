from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from connectors.connector import Connector
from connectors.settings import DecodeSettings
from primitives.contract import DraftTree
from primitives.models.batch_layout import PathBatch
from primitives.models.causal_lm import CausalLMTarget
from primitives.verification.exact import ExactVerifier
from primitives.verification.soft_gated import SoftGatedVerifier
from tests.rigs import TINY, RandomDrafter, greedy_of, random_prompt, tiny_model, tree_of


def target_of(name: str = "llama", layout: str = "batch") -> CausalLMTarget:
    target = CausalLMTarget(tiny_model(name), eos_ids=())
    target.layout = layout
    return target


def random_tree(rng: np.random.Generator, nodes: int) -> DraftTree:
    parents = [int(rng.integers(-1, node)) if node else -1 for node in range(nodes)]
    return tree_of(rng.integers(0, 100, nodes).tolist(), parents)


def pools(target: CausalLMTarget) -> list[torch.Tensor]:
    return [pool[..., : target.cache.length, :] for pool in target.cache._pools]


def test_the_paths_of_a_tree_are_the_rows_and_every_node_has_a_cell() -> None:
    # 0 has the children 1 and 2, and 3 stands below 1; 4 is a second root.
    tree = tree_of([10, 11, 12, 13, 14], [-1, 0, 0, 1, -1])
    batch = PathBatch.of(tree)
    assert batch.tokens.tolist() == [[10, 12, 12], [10, 11, 13], [14, 14, 14]]
    assert batch.tokens.ravel()[batch.cells].tolist() == tree.tokens.tolist()
    assert (batch.cells % 3 + 1 == tree.depths).all()


@given(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), min_size=1, max_size=10))
def test_only_tokens_of_the_tree_are_fed_and_each_node_behind_its_own_ancestors(drafts: list[list[int]]) -> None:
    tree = DraftTree.from_candidates(drafts)
    batch = PathBatch.of(tree)
    rows, columns = np.divmod(batch.cells, batch.tokens.shape[1])
    for node in range(len(tree)):
        branch = tree.tokens[tree.path_to(node)]
        assert batch.tokens[rows[node], : columns[node] + 1].tolist() == branch.tolist()
    assert set(batch.tokens.ravel().tolist()) == set(tree.tokens.tolist())


@pytest.mark.parametrize("name", TINY)
def test_both_layouts_give_the_same_view(name: str) -> None:
    as_batch, as_tree = target_of(name), target_of(name, "tree")
    for target in (as_batch, as_tree):
        target.capture([0, 1])
        target.prefill(np.array(random_prompt(1)))
    rng = np.random.default_rng(2)
    for nodes in (2, 9, 30):
        tree = random_tree(rng, nodes)
        ours, theirs = as_batch.verify(tree), as_tree.verify(tree)
        assert ours.features is not None
        for part in ("logits", "hidden", "features"):
            torch.testing.assert_close(getattr(ours, part), getattr(theirs, part), rtol=0, atol=1e-4)
        assert as_batch.cache.length == as_tree.cache.length


@pytest.mark.parametrize("name", TINY)
def test_after_every_commit_the_cache_is_that_of_a_fresh_forward(name: str) -> None:
    target, fresh = target_of(name), target_of(name)
    text = random_prompt(6, 5)
    target.prefill(np.array(text))
    rng = np.random.default_rng(7)
    for _ in range(12):
        tree = random_tree(rng, int(rng.integers(1, 12)))
        target.verify(tree)
        path = tree.path_to(int(rng.integers(0, len(tree))))[: int(rng.integers(0, 4))]
        target.commit(path)
        text += tree.tokens[path].tolist()
        expected = fresh.prefill(np.array(text))
        assert target.cache.length == len(text)
        for ours, theirs in zip(pools(target), pools(fresh), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
        view = target.verify(DraftTree.chain([1]))
        torch.testing.assert_close(view.logits[0], expected.logits[0], rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", TINY)
def test_both_layouts_write_the_same_text(name: str) -> None:
    prompt = random_prompt(3)
    greedy = greedy_of(tiny_model(name), prompt, 24)
    for verifier in (ExactVerifier(), SoftGatedVerifier()):
        written = []
        for layout in ("batch", "tree"):
            target = target_of(name, layout)
            drafter = RandomDrafter([*prompt, *greedy], 5, tree=True, seed=4)
            generation = Connector(target, drafter, verifier, str, 32, layout).generate(
                prompt, DecodeSettings(max_new_tokens=16)
            )
            assert target.layout == layout
            assert max(record.candidates for record in generation.trace.passes) > 1
            written.append((generation.ids, [record.committed for record in generation.trace.passes]))
        assert written[0] == written[1]
        assert verifier.guarantee == "lossy" or written[0][0] == greedy[:16]


def test_a_batch_that_is_not_committed_leaves_no_trace() -> None:
    target = target_of()
    prompt = np.array(random_prompt(8))
    target.prefill(prompt)
    expected = target.verify(DraftTree.chain([1, 2])).logits
    target.verify(tree_of([5, 6, 7], [-1, -1, 0]))
    with pytest.raises(IndexError):
        target.verify(tree_of([1, 10**6], [-1, -1]))
    assert torch.equal(target.verify(DraftTree.chain([1, 2])).logits, expected)
    assert target.cache.length == len(prompt) + 2


def test_a_text_longer_than_the_first_capacity() -> None:
    target = target_of()
    target.cache.capacity = 4
    text = random_prompt(9, 3)
    target.prefill(np.array(text))
    for token in range(10):
        target.verify(tree_of([token, token, 1], [-1, -1, 1]))
        target.commit(np.array([1, 2]))
        text += [token, 1]
    view = target.verify(DraftTree.chain([1]))
    torch.testing.assert_close(view.logits[0], target.teacher_forced(np.array(text)).logits[-1], rtol=0, atol=1e-4)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="layout is 'batches'; it must be one of tree, batch"):
        target_of(layout="batches")

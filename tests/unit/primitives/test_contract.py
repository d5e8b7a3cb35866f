from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from primitives.contract import DraftTree, TargetView
from tests.rigs import tree_of

CANDIDATES = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=12)


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    """Any valid tree, in any order that puts parents first."""
    n = draw(st.integers(0, 12))
    parents = [draw(st.integers(-1, node - 1)) for node in range(n)]
    return tree_of(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), parents, [float(i) for i in range(n)])


def prefixes(candidates: Sequence[Sequence[int]], weights: Sequence[float]) -> dict[tuple[int, ...], float]:
    """The naive trie: a dictionary from each distinct non-empty prefix to the weight of the candidates through it."""
    trie: dict[tuple[int, ...], float] = defaultdict(float)
    for candidate, weight in zip(candidates, weights, strict=True):
        for end in range(1, len(candidate) + 1):
            trie[tuple(candidate[:end])] += weight
    return trie


def climb(tree: DraftTree, node: int) -> list[int]:
    """The nodes from the root down to `node`, by following parents."""
    way = [node]
    while tree.parents[way[0]] >= 0:
        way.insert(0, int(tree.parents[way[0]]))
    return way


def word(tree: DraftTree, node: int) -> tuple[int, ...]:
    return tuple(tree.tokens[climb(tree, node)].tolist())


@given(CANDIDATES, st.randoms(use_true_random=False))
def test_the_loose_trie_equals_a_dictionary_trie(candidates: list[list[int]], random: np.random.Generator) -> None:
    weights = np.array([random.random() for _ in candidates])
    tree = DraftTree.from_candidates(candidates, weights)
    words = {word(tree, node): node for node in range(len(tree))}
    naive = prefixes(candidates, weights.tolist())
    assert words.keys() == naive.keys()
    assert len(tree) == len(naive)
    if len(tree):
        assert tree.scores is not None
        assert tree.scores[list(words.values())] == pytest.approx([naive[key] for key in words])


@given(CANDIDATES)
def test_every_candidate_is_a_root_path_of_the_loose_trie(candidates: list[list[int]]) -> None:
    tree = DraftTree.from_candidates(candidates)
    assert tree.scores is None
    leaves = {tuple(tree.tokens[path[path >= 0]].tolist()) for path in tree.paths}
    for candidate in candidates:
        assert not candidate or any(leaf[: len(candidate)] == tuple(candidate) for leaf in leaves)
    assert leaves <= set(map(tuple, candidates))


@given(CANDIDATES)
def test_the_loose_trie_is_in_preorder(candidates: list[list[int]]) -> None:
    tree = DraftTree.from_candidates(candidates)
    words = [word(tree, node) for node in range(len(tree))]
    assert words == sorted(words)


def test_candidates_of_unequal_length_merge() -> None:
    tree = DraftTree.from_candidates([[5, 6], [5], [5, 6, 7], [4], []], np.array([1.0, 2.0, 4.0, 8.0, 16.0]))
    assert tree.tokens.tolist() == [4, 5, 6, 7]
    assert tree.parents.tolist() == [-1, -1, 1, 2]
    assert tree.scores is not None
    assert tree.scores.tolist() == [8.0, 7.0, 5.0, 4.0]


def test_token_zero_is_a_token_and_not_padding() -> None:
    tree = DraftTree.from_candidates([[0, 0], [0], [0, 0, 0]])
    assert tree.tokens.tolist() == [0, 0, 0]
    assert tree.parents.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("candidates", [[], [[]], [[], []]])
def test_nothing_to_merge_gives_the_empty_tree(candidates: list[list[int]]) -> None:
    tree = DraftTree.from_candidates(candidates)
    assert len(tree) == 0
    assert tree.paths.shape == (0, 0)
    assert tree.depths.shape == (0,)
    assert tree.ancestor_mask.shape == (0, 0)
    assert tree.is_chain


@given(trees())
def test_depths_mask_and_paths_follow_the_parents(tree: DraftTree) -> None:
    ways = [climb(tree, node) for node in range(len(tree))]
    assert tree.depths.tolist() == list(map(len, ways))
    for node, way in enumerate(ways):
        assert np.flatnonzero(tree.ancestor_mask[node]).tolist() == way
        assert tree.path_to(node).tolist() == way
    leaves = [node for node in range(len(tree)) if node not in tree.parents]
    assert [path[path >= 0].tolist() for path in tree.paths] == [ways[leaf] for leaf in leaves]
    assert tree.rows.tolist() == [parent + 1 for parent in tree.parents.tolist()]
    assert tree.is_chain == (len(leaves) <= 1)


@given(trees(), st.data())
def test_keep_takes_the_chosen_nodes_whose_ancestors_are_chosen(tree: DraftTree, data: st.DataObject) -> None:
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(tree), max_size=len(tree))), bool)
    kept = tree.keep(chosen)
    expected = [node for node in range(len(tree)) if chosen[climb(tree, node)].all()]
    assert [word(kept, node) for node in range(len(kept))] == [word(tree, node) for node in expected]
    assert kept.scores is not None
    assert kept.scores.tolist() == [float(node) for node in expected]


def test_keep_carries_what_the_drafter_said_of_each_node() -> None:
    q = torch.arange(6.0).reshape(3, 2)
    tree = DraftTree(np.array([1, 2, 3]), np.array([-1, 0, -1]), log_q=np.array([-1.0, -2.0, -3.0]), q=q)
    kept = tree.keep(np.array([False, True, True]))
    assert kept.tokens.tolist() == [3]
    assert kept.log_q is not None
    assert kept.log_q.tolist() == [-3.0]
    assert kept.q is not None
    assert torch.equal(kept.q, q[2:])


def test_a_chain_is_a_tree_with_one_branch() -> None:
    tree = DraftTree.chain([7, 7, 8], log_q=np.array([-0.1, -0.2, -0.3]))
    assert tree.parents.tolist() == [-1, 0, 1]
    assert tree.is_chain
    assert tree.paths.tolist() == [[0, 1, 2]]
    assert len(DraftTree.chain([])) == 0


@pytest.mark.parametrize(
    ("tokens", "parents", "message"),
    [
        ([1, 2], [-1], "got 2 tokens and 1 parents"),
        ([1, 2], [-1, 1], "every parent must come before its children"),
        ([1, 2], [1, -1], "every parent must come before its children"),
        ([1, 2], [-1, -2], "every parent must come before its children"),
        ([1, -1], [-1, 0], "token id -1; padding must never be proposed"),
        ([1, -2], [-1, 0], "token id -2; padding must never be proposed"),
    ],
)
def test_an_impossible_tree_is_refused(tokens: list[int], parents: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tree_of(tokens, parents)


def test_values_that_are_not_one_a_node_are_refused() -> None:
    with pytest.raises(ValueError, match="a draft tree of 2 nodes needs 2 values in scores, got 1"):
        tree_of([1, 2], [-1, 0], [0.5])
    with pytest.raises(ValueError, match="needs 2 values in log_q, got 3"):
        DraftTree.chain([1, 2], log_q=np.zeros(3))


def test_a_view_is_selected_by_rows() -> None:
    view = TargetView(torch.arange(8.0).reshape(4, 2), torch.arange(4.0)[:, None], torch.arange(12.0).reshape(4, 3))
    some = view.select(np.array([0, 3]))
    assert some.logits.tolist() == [[0.0, 1.0], [6.0, 7.0]]
    assert some.hidden.tolist() == [[0.0], [3.0]]
    assert some.features is not None
    assert some.features.tolist() == [[0.0, 1.0, 2.0], [9.0, 10.0, 11.0]]
    assert TargetView(view.logits, view.hidden).select(np.array([1])).features is None

"""What every verifier that keeps the distribution owes: the law of the emitted tokens is the target's."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from primitives.contract import DraftTree, TargetView
from primitives.registry import VERIFIERS
from primitives.verification._coin import Coin
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier
from primitives.verification.exact import ExactVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.enumeration import (
    Model,
    distance,
    drawn_trees,
    emitted,
    law_over_drafts,
    random_model,
    target_law,
    view_of,
)

CHAIN_ONLY = ("speculative_sampling", "block")
ON_TREES = (("tree_sampling", "specinfer"), ("tree_sampling", "eagle"), ("traversal", None))
ON_CHAINS = (("speculative_sampling", None), ("block", None), *ON_TREES)
TOLERANCE = 1e-9

# Shapes below the pending token at node 0: parents, in the order in which the nodes are drawn.
SHAPES = {
    "two siblings": [-1, 0, 0],
    "three siblings": [-1, 0, 0, 0],
    "only the first has children": [-1, 0, 0, 1, 1],
    "only the second has children": [-1, 0, 0, 2, 2],
    "breadth first": [-1, 0, 0, 1, 1, 2],
    "depth first": [-1, 0, 1, 1, 0, 4],
    "depth 3": [-1, 0, 0, 1, 2, 3],
}


def verifier(name: str, rule: str | None = None) -> LosslessVerifier:
    built = VERIFIERS.build(name, {} if rule is None else {"rule": rule}, {})
    assert isinstance(built, LosslessVerifier)
    return built


def models(seed: int, size: int, holes: float = 0.0) -> tuple[Model, Model]:
    return random_model(seed, size, holes=holes), random_model(seed + 1000, size)


def test_all_that_keep_the_distribution_are_tested_here() -> None:
    names = {name for name in VERIFIERS.names() if VERIFIERS.get(name).guarantee == "distribution"}
    assert names == {name for name, _ in ON_CHAINS}
    assert {name for name in names if "chain" in VERIFIERS.get(name).needs} == set(CHAIN_ONLY)


@pytest.mark.parametrize(("name", "rule"), ON_CHAINS)
@pytest.mark.parametrize(("size", "depth"), [(5, 1), (4, 2), (3, 3)])
def test_a_drawn_chain_keeps_the_distribution(name: str, rule: str | None, size: int, depth: int) -> None:
    p, q = models(size, size, holes=0.3 * (size % 2))
    drafts = drawn_trees(range(-1, depth), q, replacement=True)
    law, accepted = law_over_drafts(verifier(name, rule), drafts, p, depth + 1)
    assert distance(law, target_law(p, 0, depth + 1)) < TOLERANCE
    assert accepted.sum() == pytest.approx(1)


@pytest.mark.parametrize(("name", "rule"), ON_TREES)
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_drawn_tree_keeps_the_distribution(name: str, rule: str | None, replacement: bool, shape: str) -> None:
    # With replacement siblings may be equal; without, the last of three comes from a law of one token.
    p, q = models(len(shape), 3, holes=0.3 * (len(shape) % 2))
    length = {"two siblings": 2, "three siblings": 2, "depth 3": 4}.get(shape, 3)
    law, _ = law_over_drafts(verifier(name, rule), drawn_trees(SHAPES[shape], q, replacement), p, length)
    assert distance(law, target_law(p, 0, length)) < TOLERANCE


@pytest.mark.parametrize(("name", "rule"), ON_TREES)
@pytest.mark.parametrize("seed", range(6))
def test_any_tree_that_was_not_drawn_keeps_the_distribution(name: str, rule: str | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, size = int(rng.integers(2, 9)), int(rng.integers(3, 6))
    parents = [-1, *(int(rng.integers(0, node)) for node in range(1, n))]
    # Equal siblings with branches of their own come up often.
    tree = tree_of([0, *rng.integers(0, size, n - 1).tolist()], parents)
    p, _ = models(seed, size, holes=0.2)
    for eager in (False, True):
        law, accepted = emitted(verifier(name, rule), tree, p, 3, eager)
        assert distance(law, target_law(p, 0, 3)) < TOLERANCE
        assert accepted.sum() == pytest.approx(1)


@pytest.mark.parametrize(("name", "rule"), ON_CHAINS)
def test_repeated_candidates_and_a_repeated_token_keep_the_distribution(name: str, rule: str | None) -> None:
    p, _ = models(7, 3)
    trees = [DraftTree.chain([0, 1, 1, 1]), DraftTree.chain([0])]
    if name not in CHAIN_ONLY:
        trees += [
            DraftTree.from_candidates([[0, 1, 2], [0, 1, 2], [0, 1], [0, 2]]),
            tree_of([0, 1, 1, 2, 2, 1], [-1, 0, 0, 1, 2, 2]),
        ]
    for tree in trees:
        law, _ = emitted(verifier(name, rule), tree, p, 3)
        assert distance(law, target_law(p, 0, 3)) < TOLERANCE


@pytest.mark.parametrize(
    ("name", "rule", "shape"),
    [
        *((name, rule, "chain") for name, rule in ON_CHAINS),
        *((name, rule, shape) for name, rule in ON_TREES for shape in ("two siblings", "breadth first", "depth first")),
    ],
)
def test_all_chances_at_once_are_those_of_one_by_one(name: str, rule: str | None, shape: str) -> None:
    p, q = models(3, 3, holes=0.2)
    for tree, _ in islice(drawn_trees(SHAPES.get(shape, [-1, 0, 1]), q, replacement=True), 0, None, 7):
        lazy, eager = (emitted(verifier(name, rule), tree, p, 3, eager) for eager in (False, True))
        assert distance(lazy[0], eager[0]) < 1e-12
        assert lazy[1] == pytest.approx(eager[1], abs=1e-12)


@pytest.mark.parametrize(("name", "rule"), ON_CHAINS)
def test_a_chain_that_is_proposed_with_certainty_is_one_whose_q_says_so(name: str, rule: str | None) -> None:
    # Block and traversal verification gain by judging several tokens together, and without q there is nothing to gain.
    p, _ = models(5, 4)
    tokens = [0, 2, 1, 3]
    certain = DraftTree.chain(tokens)
    drawn = DraftTree(certain.tokens, certain.parents, q=torch.eye(4, dtype=torch.float64)[torch.tensor(tokens)])
    walked, judged = (emitted(verifier(name, rule), tree, p, 4) for tree in (certain, drawn))
    assert distance(walked[0], judged[0]) < TOLERANCE
    assert walked[1] == pytest.approx(judged[1], abs=TOLERANCE)
    chances = [p((0,))[2], p((0, 2))[1], p((0, 2, 1))[3]]
    assert 1 - walked[1].cumsum()[:-1] == pytest.approx(np.cumprod(chances), abs=TOLERANCE)


@pytest.mark.parametrize("seed", range(12))
def test_a_certain_tree_is_accepted_as_deep_as_the_targets_own_draws_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, _ = models(seed, 3)
    parents = [-1, *(int(rng.integers(0, node)) for node in range(1, 6))]
    words: set[tuple[int, ...]] = {(0,)}
    tokens = [0]
    for node in range(1, 6):
        above = [tokens[at] for at in _path(parents, parents[node])]
        free = [token for token in range(3) if (*above, token) not in words]
        tokens.append(free[0] if free else 0)
        words.add((*above, tokens[-1]))
    tree = tree_of(tokens, parents)
    expected = np.zeros(6)
    for text, chance in target_law(p, 0, 6).items():
        matched = max(len(word) for word in words if (0, *text)[: len(word)] == word)
        expected[matched - 1] += chance
    for name in ("tree_sampling", "traversal"):
        assert emitted(verifier(name), tree, p, 3)[1] == pytest.approx(expected, abs=TOLERANCE)


def _path(parents: list[int], node: int) -> list[int]:
    return [] if node < 0 else [*_path(parents, parents[node]), node]


# Faults met in public: what the wrong rule would emit is not within these tolerances.


def test_tokens_are_tested_against_the_law_they_were_drawn_from() -> None:
    # Case 12: both laws after top-k 2; with the raw q the first token would come out with 0.625.
    p, q = np.array([0.5, 0.5, 0, 0]), np.array([0.625, 0.375, 0, 0])
    for name, rule in ON_CHAINS:
        law, _ = law_over_drafts(verifier(name, rule), drawn_trees([-1, 0], lambda _: q, True), lambda _: p, 1)
        assert [law.get((token,), 0) for token in range(4)] == pytest.approx(p, abs=TOLERANCE)
        assert set(law) <= {(0,), (1,)}


def test_a_residual_is_normed_and_not_softmaxed() -> None:
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    for name, rule in ON_CHAINS:
        law, _ = law_over_drafts(verifier(name, rule), drawn_trees([-1, 0], lambda _: q, True), lambda _: p, 1)
        assert [law[token,] for token in range(3)] == pytest.approx(p, abs=TOLERANCE)


def test_a_rejected_sibling_is_taken_out_before_the_next_is_tried() -> None:
    p = np.array([0.5, 0.3, 0.2])
    for name, rule in ON_TREES:
        law, accepted = emitted(verifier(name, rule), tree_of([0, 0, 1], [-1, 0, 0]), lambda _: p, 1)
        assert [law[token,] for token in range(3)] == pytest.approx(p, abs=TOLERANCE)
        assert accepted == pytest.approx([0.2, 0.8, 0])


class Never(Coin):
    """Draws 1, as near as a draw can be: rejects whatever has a chance to be rejected."""

    def __init__(self) -> None:
        pass

    def flip(self, chance: float) -> bool:
        return chance >= 1


@pytest.mark.parametrize(("name", "rule"), ON_CHAINS)
@pytest.mark.parametrize("drawn", [True, False])
def test_a_residual_is_a_law_also_where_draft_and_target_agree_up_to_rounding(
    name: str, rule: str | None, drawn: bool
) -> None:
    p = np.array([0.7, 0.3 - 1e-17, 1e-17])
    q = torch.from_numpy(np.stack([np.eye(3)[0], p * (1 + 1e-15), p * (1 + 1e-15)])) if drawn else None
    tree = DraftTree(np.array([0, 0, 0]), np.array([-1, 0, 1]), q=q)
    judge = verifier(name, rule)
    path, residual = judge.decide(Laws(tree, view_of(tree, lambda _: p), judge.uses_q), Never())
    assert path == [0]
    assert residual is not None
    expected = p if drawn and rule != "eagle" else [0, *p[1:]]
    assert residual.tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("name", "rule"), ON_CHAINS)
def test_a_token_that_the_target_forbids_is_never_accepted(name: str, rule: str | None) -> None:
    class Always(Coin):
        """Draws exactly 0."""

        def __init__(self) -> None:
            pass

        def flip(self, chance: float) -> bool:
            return chance > 0

    tree = DraftTree.chain([0, 1])
    for q in (None, torch.tensor([[1.0, 0, 0], [0, 1.0, 0]]), torch.tensor([[1.0, 0, 0], [0, 0.0, 1]])):
        drawn = DraftTree(tree.tokens, tree.parents, q=q)
        judge = verifier(name, rule)
        laws = Laws(drawn, view_of(tree, lambda _: np.array([0.5, 0.0, 0.5])), judge.uses_q)
        path, residual = judge.decide(laws, Always())
        assert path == [0]
        assert residual is not None
        assert float(residual[1]) == 0


# Case 10: where one token has all probability, every rule is exact matching.


@pytest.mark.parametrize(("name", "rule"), ON_CHAINS)
@pytest.mark.parametrize("seed", range(5))
def test_a_law_of_one_token_is_greedy(name: str, rule: str | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parents = list(range(-1, 4)) if name in CHAIN_ONLY else [-1, 0, 0, 1, 1, 2]
    q = torch.from_numpy(rng.dirichlet(np.ones(4), len(parents))) if seed % 2 else None
    # Siblings 1 and 2, 1 and 2, so that no two are equal.
    tokens = [0, 1, 2, 1, 2, 3] if name not in CHAIN_ONLY else [0, *rng.integers(1, 3, 4).tolist()]
    tree = DraftTree(np.array(tokens[: len(parents)]), np.array(parents), q=q)
    logits = torch.full((len(tree) + 1, 4), -torch.inf)
    logits[torch.arange(len(logits)), torch.from_numpy(rng.integers(1, 3, len(logits)))] = 0
    logits[0] = torch.tensor([0.0, -torch.inf, -torch.inf, -torch.inf])
    view = TargetView(logits, torch.zeros(len(logits), 1))
    verdict = verifier(name, rule).judge(tree, view, torch.Generator().manual_seed(seed))
    expected = ExactVerifier().judge(tree, view, torch.Generator())
    assert verdict.path.tolist() == expected.path.tolist()
    law = logits[verdict.path[-1] + 1].softmax(0) if verdict.residual is None else verdict.residual
    assert law.double().tolist() == logits[verdict.path[-1] + 1].softmax(0).double().tolist()


@pytest.mark.parametrize("name", CHAIN_ONLY)
def test_a_rule_for_chains_refuses_a_tree(name: str) -> None:
    tree = tree_of([0, 1, 2], [-1, 0, 0])
    with pytest.raises(ValueError, match=rf"verifier '{name}' takes a draft of one branch, and this one has 2"):
        verifier(name).judge(tree, view_of(tree, lambda _: np.ones(3) / 3), torch.Generator())


def test_a_drafter_of_fewer_tokens_never_proposes_the_others() -> None:
    p = np.array([0.25, 0.25, 0.25, 0.25])
    q = np.array([0.5, 0.5])
    for width in (2, 6):
        row = np.pad(q, (0, width - 2))
        tree = DraftTree(np.array([0, 1]), np.array([-1, 0]), q=torch.from_numpy(np.stack([row, row])))
        left, mass = Laws(tree, view_of(tree, lambda _: p)).leftover(torch.from_numpy(p), 1)
        assert left.tolist() == [0, 0, 0.5, 0.5]
        assert float(mass) == 0.5
        law, accepted = emitted(verifier("tree_sampling"), tree, lambda _: p, 1)
        assert accepted == pytest.approx([0.5, 0.5])
        assert [law.get((token,), 0) for token in range(4)] == pytest.approx([0, 0.5, 0.25, 0.25])


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match=r"verifier 'tree_sampling': rule=egle is unknown: did you mean 'eagle'\?"):
        verifier("tree_sampling", "egle")

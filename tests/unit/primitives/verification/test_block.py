from __future__ import annotations

import numpy as np
import pytest

from primitives.contract import DraftTree, Floats
from primitives.verification._laws import Laws
from primitives.verification._lossless import LosslessVerifier
from primitives.verification.block import BlockVerifier
from primitives.verification.speculative_sampling import SpeculativeSamplingVerifier
from primitives.verification.traversal import TraversalVerifier
from tests.unit.primitives.verification.enumeration import (
    Model,
    distance,
    drawn_trees,
    emitted,
    law_over_drafts,
    outcomes,
    random_model,
    view_of,
)


def block_rule(tree: DraftTree, model: Model) -> tuple[Floats, list[Floats | None]]:
    """Return the law of the accepted length and the residual at each length, by the paper's formulas one by one."""
    assert tree.q is not None
    tokens, q = tree.tokens.tolist(), tree.q.numpy()
    p = [model(tuple(tokens[: length + 1])) for length in range(len(tokens))]
    last = len(tokens) - 1
    w = [1.0]
    for i in range(1, last + 1):
        w.append(min(1.0, w[-1] * p[i - 1][tokens[i]] / q[i][tokens[i]]))
    h, residuals = [], []
    for i in range(last):
        rest = np.maximum(0, w[i] * p[i] - q[i + 1])
        h.append(rest.sum() / (rest.sum() + 1 - w[i]) if rest.sum() > 0 else 0.0)
        residuals.append(rest / rest.sum() if rest.sum() > 0 else None)
    h[0] = 1.0
    h.append(w[last])
    law = [h[i] * np.prod([1 - other for other in h[i + 1 :]]) for i in range(last + 1)]
    return np.array(law), [*residuals, None]


@pytest.mark.parametrize("judge", [BlockVerifier(), TraversalVerifier()])
@pytest.mark.parametrize(("size", "depth"), [(4, 2), (3, 3)])
@pytest.mark.parametrize("seed", range(2))
def test_lengths_and_residuals_are_those_of_the_paper(
    judge: LosslessVerifier, size: int, depth: int, seed: int
) -> None:
    p, q = random_model(seed, size), random_model(seed + 50, size)
    for tree, _ in drawn_trees(range(-1, depth), q, replacement=True):
        lengths, residuals = block_rule(tree, p)
        assert emitted(judge, tree, p, 1)[1] == pytest.approx(lengths, abs=1e-9)
        laws = Laws(tree, view_of(tree, p))
        for (path, residual), chance in outcomes(lambda coin, laws=laws: judge.decide(laws, coin)):  # type: ignore[misc]
            expected = residuals[len(path) - 1]
            if chance > 1e-9 and expected is not None:
                assert residual is not None
                assert residual.numpy() == pytest.approx(expected, abs=1e-9)
            if len(path) == len(tree):
                assert residual is None


@pytest.mark.parametrize("seed", range(5))
def test_one_token_is_speculative_sampling(seed: int) -> None:
    p, q = random_model(seed, 5), random_model(seed + 50, 5)
    for tree, _ in drawn_trees([-1, 0], q, replacement=True):
        ours = emitted(BlockVerifier(), tree, p, 2)
        theirs = emitted(SpeculativeSamplingVerifier(), tree, p, 2)
        assert distance(ours[0], theirs[0]) < 1e-9
        assert ours[1] == pytest.approx(theirs[1], abs=1e-9)


def test_it_accepts_no_fewer_tokens_than_one_by_one() -> None:
    gains = []
    for seed in range(4):
        p, q = random_model(seed, 3), random_model(seed + 50, 3)
        means = []
        for judge in (BlockVerifier(), SpeculativeSamplingVerifier()):
            _, accepted = law_over_drafts(judge, drawn_trees([-1, 0, 1, 2], q, True), p, 4)
            means.append((accepted * np.arange(5)).sum())
        gains.append(means[0] - means[1])
    assert min(gains) > -1e-9
    assert max(gains) > 0.005


def test_the_papers_own_example() -> None:
    # Tokens A and B; the target says A with 1/3, the drafter A with 2/3, whatever came before, and two tokens are
    # drafted. One by one 10/9 of them are accepted on average, as a block 11/9: both as the paper works them out.
    p, q = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])
    for judge, mean in ((SpeculativeSamplingVerifier(), 10 / 9), (BlockVerifier(), 11 / 9)):
        _, accepted = law_over_drafts(judge, drawn_trees([-1, 0, 1], lambda _: q, True), lambda _: p, 3)
        assert (accepted * np.arange(4)).sum() == pytest.approx(mean)

from __future__ import annotations

import pytest

from primitives.contract import DraftTree, Pathway
from primitives.verification.mars import MarsVerifier
from tests.rigs import tree_of
from tests.unit.primitives.verification.relaxed_rig import case, judge, naive, view_of


@pytest.mark.parametrize(
    ("first", "second", "accepted"),
    [
        (10.0, 9.1, True),
        (10.0, 9.0, False),
        (10.0, 8.0, False),
        (1.0, -1.0, False),
        (-1.0, -1.05, False),
        (0.0, 0.0, False),
    ],
)
def test_the_second_choice_passes_where_the_two_best_lie_close(first: float, second: float, accepted: bool) -> None:
    row = [first, second, -9.0, -9.0, -9.0, -9.0]
    verdict = judge(MarsVerifier(), DraftTree.chain([0, 1]), view_of(row, row, row))
    assert verdict.pathways.tolist() == [Pathway.EXACT, Pathway.RELAXED][: 1 + accepted]


def test_a_third_choice_never_passes() -> None:
    row = [10.0, 9.99, 9.98, 0.0, 0.0, 0.0]
    tree = tree_of([0, 2, 1], [-1, 0, 0])
    assert judge(MarsVerifier(0.0), tree, view_of(*[row] * 4)).path.tolist() == [0, 2]
    assert MarsVerifier(0.0).admits(tree.tokens, view_of(row).logits[0]).tolist() == [True, False, True]


def test_of_two_that_tie_for_the_second_place_the_lower_id_has_it() -> None:
    row = [10.0, 9.5, 9.5, 0.0, 0.0, 0.0]
    assert MarsVerifier().admits(DraftTree.chain([1, 2]).tokens, view_of(row).logits[0]).tolist() == [True, False]


@pytest.mark.parametrize("threshold", [0.9, 0.5, 0.0])
def test_it_is_the_plain_rule(threshold: float) -> None:
    def passes(row: list[float], token: int) -> bool:
        first, second = sorted(row, reverse=True)[:2]
        return row[token] == second and first > 0 and second / first > threshold

    relaxed = 0
    for seed in range(200):
        tree, view = case(seed)
        verdict = judge(MarsVerifier(threshold), tree, view)
        assert verdict.path.tolist() == naive(tree, view, passes)
        relaxed += int((verdict.pathways == Pathway.RELAXED).sum())
    assert relaxed


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_out_of_range_is_refused(threshold: float) -> None:
    message = f"verifier 'mars': threshold={threshold} is out of range; it must lie between 0 and 1"
    with pytest.raises(ValueError, match=message):
        MarsVerifier(threshold)

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from benchmarks.statistics import Estimate, common_prefix, distinct_n, estimate, mean, ratio_of_totals

TOKENS = st.lists(st.integers(0, 3), max_size=20)


def test_ratio_is_of_totals_not_of_prompts() -> None:
    assert ratio_of_totals(np.array([1.0, 9.0]), np.array([1.0, 3.0])).value == 2.5


def test_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    rng = np.random.default_rng(7)
    below = rng.uniform(50, 100, 40)
    above = below * rng.uniform(1, 3, 40)
    ours = ratio_of_totals(above, below)
    theirs = bootstrap(
        (above, below),
        lambda a, b, axis: a.sum(axis) / b.sum(axis),
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.02)
    assert ours.high == pytest.approx(theirs.high, abs=0.02)


def test_pairs_stay_together() -> None:
    # Every prompt has the ratio 2, so no resample can say otherwise, however different the prompts are.
    below = np.array([1.0, 10.0, 100.0])
    result = ratio_of_totals(2 * below, below)
    assert (result.value, result.low, result.high) == pytest.approx((2.0, 2.0, 2.0))


def test_same_data_same_interval() -> None:
    values = np.arange(9.0)
    assert mean(values) == mean(values)


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        ([], [], Estimate(None)),
        ([3.0], [2.0], Estimate(1.5)),
        ([3.0, 1.0], [0.0, 0.0], Estimate(None)),
    ],
)
def test_what_cannot_be_computed_is_none(above: list[float], below: list[float], expected: Estimate) -> None:
    assert ratio_of_totals(np.array(above), np.array(below)) == expected


def test_undefined_resamples_and_entries_are_left_out() -> None:
    result = ratio_of_totals(np.array([1.0, 1.0]), np.array([0.0, 1.0]))
    assert (result.value, result.low) == (2.0, 1.0)
    assert result.high == 2.0
    assert mean(np.array([1.0, np.nan, 3.0])).value == 2.0


def test_many_prompts_are_drawn_in_blocks() -> None:
    columns = np.ones((500, 2))
    result = estimate(columns, lambda totals: totals[..., 0] / totals[..., 1])
    assert (result.value, result.low, result.high) == (1.0, 1.0, 1.0)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=30))
def test_interval_holds_within_the_data(values: list[float]) -> None:
    result = mean(np.array(values))
    assert result.value is not None
    assert result.low is not None
    assert result.high is not None
    assert min(values) - 1e-9 <= result.low <= result.high <= max(values) + 1e-9


def test_distinct_n_by_hand() -> None:
    assert distinct_n([1, 2, 3, 4, 1, 2, 3, 4, 1]) == 4 / 6
    assert distinct_n([5] * 10) == 1 / 7
    assert distinct_n([1, 2, 3]) is None
    assert distinct_n([1, 2, 1, 2], n=2) == 2 / 3


@given(TOKENS)
def test_distinct_n_counts_like_a_set(tokens: list[int]) -> None:
    grams = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
    assert distinct_n(tokens) == (len(set(grams)) / len(grams) if grams else None)


@given(TOKENS, TOKENS)
def test_common_prefix_counts_like_a_loop(left: list[int], right: list[int]) -> None:
    expected = 0
    while expected < min(len(left), len(right)) and left[expected] == right[expected]:
        expected += 1
    assert common_prefix(left, right) == expected
    assert common_prefix(left, left) == len(left)

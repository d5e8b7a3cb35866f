"""The three verdicts, on a target whose scores come from a table keyed by the last token."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lossless import NEAR_TIE_STEPS, check, rounding_step

VOCABULARY = 8
PROMPT = [7, 0]


def _table(**rows: dict[int, float]) -> torch.Tensor:
    """Return [V, V] logits after each token: by default the next id wins clearly, `after_0={...}` sets others."""
    table = torch.zeros(VOCABULARY, VOCABULARY)
    table[torch.arange(VOCABULARY), torch.arange(1, VOCABULARY + 1) % VOCABULARY] = 23.5
    for name, scores in rows.items():
        for token, score in scores.items():
            table[int(name.removeprefix("after_")), token] = score
    return table


class _TableTarget:
    def __init__(self, table: torch.Tensor, dtype: torch.dtype = torch.bfloat16) -> None:
        self.table = table.to(dtype)
        self.asked: list[list[int]] = []

    def __call__(self, ids: Sequence[int]) -> torch.Tensor:
        self.asked.append(list(ids))
        return self.table[torch.tensor(ids)]


def test_identical_output_asks_no_forward() -> None:
    target = _TableTarget(_table())
    assert check(PROMPT, [1, 2, 3], [1, 2, 3], target, torch.bfloat16).kind == "identical"
    assert target.asked == []


def test_scores_that_swap_by_one_step_are_a_near_tie() -> None:
    # A one-token query says 23.625 for token 3 and 23.5 for token 5; a longer one says 23.5 for both.
    target = _TableTarget(_table(after_2={3: 23.5, 5: 23.5}))
    verdict = check(PROMPT, [1, 2, 5, 6], [1, 2, 3, 4], target, torch.bfloat16)
    assert verdict.kind == "near_tie"
    assert (verdict.position, verdict.tokens, verdict.gap, verdict.steps) == (2, (5, 3), 0.0, 0.0)
    assert target.asked == [[*PROMPT, 1, 2, 5, 6]]


def test_an_unchecked_token_is_a_mismatch() -> None:
    verdict = check(PROMPT, [1, 2, 6, 7], [1, 2, 3, 4], _TableTarget(_table()), torch.bfloat16)
    assert (verdict.kind, verdict.position, verdict.tokens) == ("mismatch", 2, (6, 3))
    assert verdict.gap == 23.5
    assert verdict.steps == 23.5 / 0.125


def test_an_unchecked_token_behind_a_near_tie_is_a_mismatch() -> None:
    target = _TableTarget(_table(after_2={3: 23.5, 5: 23.5}))
    assert check(PROMPT, [1, 2, 5, 1], [1, 2, 3, 4], target, torch.bfloat16).kind == "mismatch"


def test_a_baseline_far_from_the_target_is_no_near_tie() -> None:
    # The method is right and the baseline is not: something is wrong with the baseline.
    assert check(PROMPT, [1, 2, 3], [1, 2, 6], _TableTarget(_table()), torch.bfloat16).kind == "mismatch"


@pytest.mark.parametrize(("steps", "kind"), [(NEAR_TIE_STEPS, "near_tie"), (NEAR_TIE_STEPS + 1, "mismatch")])
def test_the_limit_is_counted_in_rounding_steps(steps: float, kind: str) -> None:
    target = _TableTarget(_table(after_2={3: 23.5, 5: 23.5 - 0.125 * steps}))
    verdict = check(PROMPT, [1, 2, 5, 6], [1, 2, 3, 4], target, torch.bfloat16)
    assert (verdict.kind, verdict.steps) == (kind, steps)


def test_in_float32_on_a_cpu_only_identical_passes() -> None:
    target = _TableTarget(_table(after_2={3: 23.5, 5: 23.5}), torch.float32)
    verdict = check(PROMPT, [1, 2, 5, 6], [1, 2, 3, 4], target, torch.float32)
    assert (verdict.kind, verdict.gap) == ("mismatch", 0.0)
    assert check(PROMPT, [1, 2, 5, 6], [1, 2, 3, 4], target, torch.float32, "cuda").kind == "near_tie"


@pytest.mark.parametrize(
    ("output", "baseline", "tokens"),
    [([1, 2], [1, 2, 3], (None, 3)), ([1, 2, 3], [1, 2], (3, None)), ([], [1], (None, 1))],
)
def test_a_wrong_end_is_a_mismatch(
    output: list[int], baseline: list[int], tokens: tuple[int | None, int | None]
) -> None:
    verdict = check(PROMPT, output, baseline, _TableTarget(_table()), torch.bfloat16)
    assert (verdict.kind, verdict.position, verdict.tokens, verdict.gap) == (
        "mismatch",
        min(len(output), len(baseline)),
        tokens,
        None,
    )


@pytest.mark.parametrize(
    ("value", "dtype", "step"),
    [
        (23.5, torch.bfloat16, 0.125),
        (-23.5, torch.bfloat16, 0.125),
        (16.0, torch.bfloat16, 0.125),
        (15.9, torch.bfloat16, 0.0625),
        (1.0, torch.float16, 2**-10),
        (1.0, torch.float32, 2**-23),
    ],
)
def test_rounding_step_by_hand(value: float, dtype: torch.dtype, step: float) -> None:
    assert float(rounding_step(torch.tensor(value), dtype)) == step


@given(st.floats(0.01, 1000.0))
def test_rounding_step_is_the_distance_to_the_next_number(value: float) -> None:
    number = torch.tensor(value).bfloat16()
    next_one = torch.nextafter(number, torch.tensor(float("inf"), dtype=torch.bfloat16))
    assert float(rounding_step(number, torch.bfloat16)) == float(next_one.double() - number.double())

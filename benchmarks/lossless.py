"""The lossless verdict: is an output that differs from greedy decoding a rounding accident or a fault?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import torch

from benchmarks.statistics import common_prefix

# A one-token and a many-token forward round differently, in the logits and in every layer below them. Measured with
# SmolLM2 in bfloat16: 0 to 2 steps in 10 of 11 outputs that left greedy, and once 4, of a prompt whose float32 outputs
# are identical. Half as much again is allowed; a token that was not checked lies tens of steps away.
NEAR_TIE_STEPS = 6.0

# From the best to the worst.
VERDICTS: Final = ("identical", "near_tie", "mismatch")

_STRICT_DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Lossless:
    """How an output relates to the greedy output of the same prompt.

    Attributes:
        kind: "identical"; "near_tie": every token is the target's own choice up to rounding; "mismatch": it is not.
        position: first output position at which both differ, None if identical.
        tokens: the token of the method and of the baseline there; None for the one that has already ended.
        gap: how far the method's and the baseline's token lie apart in the target's logits there, None if one has
            ended.
        steps: the largest distance of an emitted token from the target's best, in rounding steps of the dtype.
    """

    kind: Literal["identical", "near_tie", "mismatch"]
    position: int | None = None
    tokens: tuple[int | None, int | None] | None = None
    gap: float | None = None
    steps: float | None = None


def check(
    prompt_ids: Sequence[int],
    output_ids: Sequence[int],
    baseline_ids: Sequence[int],
    logits_of: Callable[[list[int]], torch.Tensor],
    dtype: torch.dtype,
    device: str = "cpu",
) -> Lossless:
    """Judge an output of exact verification by feeding it back through the target.

    Args:
        prompt_ids: the prompt, not empty.
        output_ids: what the method generated.
        baseline_ids: what plain greedy decoding generated under the same limits.
        logits_of: the target's logits [len, V] for a sequence, from one fresh forward; called only if the outputs
            differ.
        dtype: what the target computes in. In float32 on a CPU both ways agree far below any tie that is met in
            practice, so that only an identical output passes.
        device: type of the device the target runs on.
    """
    position = common_prefix(output_ids, baseline_ids)
    if position == len(output_ids) == len(baseline_ids):
        return Lossless("identical")
    ours = output_ids[position] if position < len(output_ids) else None
    greedy = baseline_ids[position] if position < len(baseline_ids) else None
    rows = logits_of([*prompt_ids, *output_ids])[len(prompt_ids) - 1 :]
    steps = _worst_distance(rows[: len(output_ids)], output_ids, dtype)
    if ours is None or greedy is None:
        # Equal up to the end of one: it stopped too early or too late, which rounding does not explain.
        return Lossless("mismatch", position, (ours, greedy), None, steps)
    row = rows[position].float()
    gap = float((row[ours] - row[greedy]).abs())
    allowed = NEAR_TIE_STEPS * float(rounding_step(row.max().cpu(), dtype))
    tied = steps <= NEAR_TIE_STEPS and gap <= allowed and not (dtype in _STRICT_DTYPES and device == "cpu")
    return Lossless("near_tie" if tied else "mismatch", position, (ours, greedy), gap, steps)


def rounding_step(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the spacing of a dtype's numbers at the magnitude of a value (bfloat16 at 23.5: 0.125)."""
    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(value.double().abs().clamp_min(limits.tiny))
    return limits.eps * torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), exponent - 1)


def _worst_distance(rows: torch.Tensor, tokens: Sequence[int], dtype: torch.dtype) -> float:
    """Return the largest distance, in rounding steps, of [n, V] rows' best logit from the tokens that were emitted."""
    if not tokens:
        return 0.0
    # Only the picked values are widened: a float32 copy of all rows takes hundreds of megabytes with a large
    # vocabulary.
    best = rows.max(dim=1).values.float().cpu()
    chosen = rows.gather(1, torch.tensor(tokens, device=rows.device)[:, None])[:, 0].float().cpu()
    return float(((best - chosen) / rounding_step(best, dtype)).max())

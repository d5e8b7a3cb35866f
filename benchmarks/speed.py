"""How fast prompts were decoded beside plain decoding, and how many tokens a pass committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.statistics import Estimate, Floats, estimate, mean, ratio_of_totals

Sample = Mapping[str, Any]


def speed(ok: Sequence[Sample]) -> dict[str, Any]:
    """Return tau and speedup in all their forms, of prompts that did not fail, each with its interval."""
    base = baselines(ok)
    passes, committed = column(ok, "passes"), _sums(ok, "committed")
    time, base_time = column(ok, "decode_ms"), column(base, "decode_ms")
    tokens, base_tokens = tokens_of(ok), tokens_of(base)
    whole, base_whole = time + column(ok, "prefill_ms"), base_time + column(base, "prefill_ms")
    with np.errstate(divide="ignore", invalid="ignore"):
        tau_of_prompts = committed / passes
        ratios = (base_time / base_tokens) / (time / tokens)
    figures = {
        "tau": ratio_of_totals(committed, passes),
        "tau_macro": mean(tau_of_prompts),
        "accepted_per_pass": ratio_of_totals(_sums(ok, "accepted"), passes),
        "speedup": _ratio_of_times(base_time, base_tokens, time, tokens),
        "speedup_end_to_end": _ratio_of_times(base_whole, base_tokens, whole, tokens),
        "speedup_mean_of_prompts": mean(ratios),
    }
    return {name: asdict(figure) for name, figure in figures.items()}


def _ratio_of_times(base_time: Floats, base_tokens: Floats, time: Floats, tokens: Floats) -> Estimate:
    columns = np.stack([base_time, base_tokens, time, tokens], axis=1)
    return estimate(columns, lambda t: (t[..., 0] / t[..., 1]) / (t[..., 2] / t[..., 3]))


def baselines(ok: Sequence[Sample]) -> list[Sample]:
    """Return what plain decoding made of the same prompts."""
    return [sample["baseline"] for sample in ok]


def tokens_of(outputs: Sequence[Sample]) -> Floats:
    """Return float[n], how many tokens each output has."""
    return np.array([len(output["output_ids"]) for output in outputs], np.float64)


def column(outputs: Sequence[Sample], key: str) -> Floats:
    """Return float[n], a number of each output."""
    return np.array([output[key] for output in outputs], np.float64)


def _sums(samples: Sequence[Sample], key: str) -> Floats:
    """Return float[n], the total over each prompt's passes."""
    return np.array([sum(sample[key]) for sample in samples], np.float64)

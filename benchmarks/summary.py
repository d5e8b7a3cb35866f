"""Every figure of a run, as a pure function of its manifest and its samples.

Definitions: a pass is a target forward that verifies; tau counts all tokens that passes commit; speedup compares
decode time per generated token over the same prompts. Prompts that failed are in no figure but `failed` and, as wrong
answers, the accuracies. Prompts without a reference are in no figure of quality, failed or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.lossless import VERDICTS
from benchmarks.passes import Passes
from benchmarks.scoring import metric_named
from benchmarks.speed import baselines, column, speed, tokens_of
from benchmarks.statistics import Floats, common_prefix, distinct_n, finite, mean, ratio_of_totals

Sample = Mapping[str, Any]


def summarise(manifest: Mapping[str, Any], samples: Sequence[Sample]) -> dict[str, Any]:
    """Return the content of summary.json; what cannot be computed or does not apply is None.

    Args:
        manifest: content of manifest.json.
        samples: lines of samples.jsonl, in any order.
    """
    place = {prompt: index for index, prompt in enumerate(manifest["prompts"])}
    samples = sorted(samples, key=lambda sample: place[sample["id"]])
    ok = [sample for sample in samples if sample["status"] == "ok"]
    passes = Passes.of_samples(ok)
    figures = speed(ok)
    tau = figures["tau"]["value"]
    ratio = figures["speedup"]["value"]
    return {
        "n": len(ok),
        "failed": len(samples) - len(ok),
        "tokens": _total(tokens_of(ok)),
        "passes": _total(column(ok, "passes")),
        **figures,
        "overhead": passes.overhead,
        "efficiency": None if tau is None or ratio is None else ratio / tau,
        "ms_per_pass": passes.ms_per_pass,
        "ms_per_token": {
            "method": _ratio(column(ok, "decode_ms"), tokens_of(ok)),
            "baseline": _ratio(column(baselines(ok), "decode_ms"), tokens_of(baselines(ok))),
        },
        "quality": _quality(manifest, samples),
        **_likeness(ok),
        "lossless": _lossless(manifest, ok),
        "nodes_per_pass": passes.nodes_per_pass,
        "compression": passes.compression,
        "pathways": passes.pathways,
        "memory_mb": {
            "peak_rss": max((sample["peak_rss_mb"] for sample in ok), default=None),
            "store": manifest.get("store_mb"),
        },
        "acceptance_rate": passes.acceptance_rate,
        "acceptance_by_depth": passes.acceptance_by_depth,
        "drafted_by": passes.drafted_by,
        "empty_drafts": passes.empty_drafts,
        "cut": {"method": _count_cut(ok), "baseline": _count_cut(baselines(ok))},
        "prefill_ms": {
            "method": _mean(column(ok, "prefill_ms")),
            "baseline": _mean(column(baselines(ok), "prefill_ms")),
        },
        "tokenise_ms": _mean(column(ok, "tokenise_ms")),
        "load_seconds": manifest.get("load_seconds"),
        "categories": _categories(samples),
    }


def _categories(samples: Sequence[Sample]) -> dict[str, dict[str, Any]] | None:
    """Return what each category of the prompts shows, by name; None for a set without categories."""
    names = sorted({sample["category"] for sample in samples if sample.get("category") is not None})
    found = {}
    for name in names:
        own = [sample for sample in samples if sample.get("category") == name]
        ok = [sample for sample in own if sample["status"] == "ok"]
        figures = speed(ok)
        counts = {"n": len(ok), "failed": len(own) - len(ok)}
        found[name] = {**counts, "tau": figures["tau"], "speedup": figures["speedup"]}
    return found or None


def _quality(manifest: Mapping[str, Any], samples: Sequence[Sample]) -> dict[str, Any] | None:
    """Return both sides over the same prompts; a failed prompt counts as wrong for both, or is left out of both."""
    if manifest["dataset"]["metric"] is None:
        return None
    metric = metric_named(manifest["dataset"]["metric"])
    scores = _scores(samples, "score", metric.counts_failures)
    method, baseline = mean(scores[:, 0]), mean(scores[:, 1])
    ratio = ratio_of_totals(scores[:, 0], scores[:, 1])
    return {
        "metric": metric.title,
        "method": method.value,
        "baseline": baseline.value,
        "ratio": ratio.value,
        "n": len(scores),
        "failed_prompts": "wrong" if metric.counts_failures else "left out",
        "method_interval": [method.low, method.high],
        "baseline_interval": [baseline.low, baseline.high],
        "ratio_interval": [ratio.low, ratio.high],
        "no_answer": None if metric.answers is None else _no_answers(samples),
        **{name: _beside(_scores(samples, name, metric.counts_failures)) for name in metric.beside},
    }


def _scores(samples: Sequence[Sample], name: str, counts_failures: bool) -> Floats:
    """Return float[n, 2], a figure of method and baseline where both have it.

    Lines of failed prompts from before `referenced` was written are of data sets where every prompt has a reference.
    """
    pairs = [
        (sample[name], sample["baseline"][name]) if sample["status"] == "ok" else (0.0, 0.0)
        for sample in samples
        if sample["status"] == "ok" or (counts_failures and sample.get("referenced", True))
    ]
    return np.array([pair for pair in pairs if None not in pair], np.float64).reshape(-1, 2)


def _beside(scores: Floats) -> dict[str, Any]:
    method, baseline = mean(scores[:, 0]), mean(scores[:, 1])
    return {
        "method": method.value,
        "baseline": baseline.value,
        "method_interval": [method.low, method.high],
        "baseline_interval": [baseline.low, baseline.high],
    }


def _no_answers(samples: Sequence[Sample]) -> dict[str, int]:
    """Return how many outputs to prompts with a reference gave no answer; they count as wrong in the score."""
    ok = [sample for sample in samples if sample["status"] == "ok" and sample["score"] is not None]
    sides = {"method": ok, "baseline": baselines(ok)}
    return {side: sum(output["no_answer"] for output in outputs) for side, outputs in sides.items()}


def _likeness(ok: Sequence[Sample]) -> dict[str, Any]:
    pairs = [(sample["output_ids"], sample["baseline"]["output_ids"]) for sample in ok]
    return {
        "identical_share": _share(np.array([ours == greedy for ours, greedy in pairs], bool)),
        "mean_common_prefix": _mean([common_prefix(ours, greedy) for ours, greedy in pairs]),
        "distinct_n": {
            "method": _mean([distinct_n(ours) for ours, _ in pairs]),
            "baseline": _mean([distinct_n(greedy) for _, greedy in pairs]),
        },
    }


def _lossless(manifest: Mapping[str, Any], ok: Sequence[Sample]) -> dict[str, int] | None:
    kinds = [sample["lossless"]["kind"] for sample in ok if sample.get("lossless")]
    if manifest["guarantee"] != "exact" or not kinds:
        return None
    return {kind: kinds.count(kind) for kind in VERDICTS}


def _count_cut(outputs: Sequence[Sample]) -> int:
    return sum(output["finish"] == "length" for output in outputs)


def _total(values: Floats) -> int:
    return int(values.sum())


def _ratio(above: Floats, below: Floats) -> float | None:
    return finite(above.sum() / below.sum()) if below.sum() else None


def _share(flags: Any) -> float | None:
    return float(flags.mean()) if len(flags) else None


def _mean(values: Sequence[float | None] | Floats) -> float | None:
    known = [value for value in values if value is not None]
    return finite(np.mean(known)) if known else None

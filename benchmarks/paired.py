"""Variants of one method side by side: one model, one store, one baseline, every prompt by all of them in turn."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.measure import prompt_ids, verdict_on
from benchmarks.scoring import metric_named
from benchmarks.statistics import Estimate, common_prefix, distinct_n, mean, ratio_of_totals
from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation
from corpora.corpus import Corpus
from corpora.example import Example
from methods.pipeline import Pipeline, connect
from methods.schema import Settings
from primitives.contract import Pathway

_LOG = logging.getLogger(__name__)
GREEDY = "greedy"
VERDICTS = ("identical", "near_tie", "mismatch")

Row = dict[str, Any]


def compare(pipeline: Pipeline, variants: dict[str, Settings], corpus: Corpus) -> pd.DataFrame:
    """Return a row of figures for greedy decoding and for each variant, with 95 % bootstrap intervals over prompts.

    The order rotates from prompt to prompt, so that no variant always runs first.

    Args:
        pipeline: brings model, target, store and baseline.
        variants: name -> settings that differ from the pipeline's in drafter, verifier or connector only.
        corpus: the prompts.
    """
    sides = {GREEDY: pipeline.baseline}
    for name, settings in variants.items():
        sides[name] = connect(settings, pipeline.model, pipeline.target, pipeline.store)
    names = list(sides)
    rows: dict[str, list[Row]] = {name: [] for name in names}
    _warm_up(pipeline, sides.values(), corpus)
    for turn, example in enumerate(corpus.examples):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        ids = prompt_ids(pipeline, example)
        done = {name: sides[name].generate(ids, pipeline.settings.decode) for name in order}
        for name in names:
            row = _row(done[name], done[GREEDY], example, pipeline.settings.dataset.metric)
            if sides[name].verifier.guarantee == "exact":
                row["verdict"] = verdict_on(pipeline, ids, done[name].ids, done[GREEDY].ids).kind
            rows[name].append(row)
        _LOG.info("prompt %d of %d", turn + 1, len(corpus))
    return pd.DataFrame([_figures(name, pd.DataFrame(rows[name]), pd.DataFrame(rows[GREEDY])) for name in names])


def _warm_up(pipeline: Pipeline, sides: Iterable[Connector], corpus: Corpus) -> None:
    ids = prompt_ids(pipeline, corpus.examples[0])
    for side in sides:
        side.generate(ids, DecodeSettings(max_new_tokens=16))


def _row(generation: Generation, greedy: Generation, example: Example, metric: str) -> Row:
    passes = generation.trace.passes
    ways = np.bincount(list(chain.from_iterable(record.pathways for record in passes)), minlength=len(Pathway))
    return {
        "ms": generation.trace.decode_ms,
        "tokens": len(generation.ids),
        "passes": len(passes),
        "committed": sum(record.committed for record in passes),
        "nodes": sum(record.nodes for record in passes),
        "overhead": [record.total_ms / record.verify_ms - 1 for record in passes],
        "distinct_4": _or_nan(distinct_n(generation.ids)),
        "prefix": common_prefix(generation.ids, greedy.ids),
        "same": float(generation.ids == greedy.ids),
        "score": _or_nan(metric_named(metric).score(generation.text, example)),
        **{way.name.lower(): int(ways[way]) for way in Pathway},
    }


def _figures(name: str, own: pd.DataFrame, greedy: pd.DataFrame) -> Row:
    per_token, baseline = (frame["ms"] / frame["tokens"].sum() for frame in (own, greedy))
    return {
        "variant": name,
        "n": len(own),
        **_spread("speedup", ratio_of_totals(baseline.to_numpy(), per_token.to_numpy())),
        **_spread("tau", ratio_of_totals(own["committed"].to_numpy(float), own["passes"].to_numpy(float))),
        **_spread("quality", mean(own["score"].to_numpy(float))),
        **_spread("distinct_4", mean(own["distinct_4"].to_numpy(float))),
        "distinct_4_ratio": own["distinct_4"].mean() / greedy["distinct_4"].mean(),
        "identical_share": own["same"].mean(),
        "mean_common_prefix": own["prefix"].mean(),
        "nodes_per_pass": own["nodes"].sum() / own["passes"].sum(),
        "overhead": float(np.median(list(chain.from_iterable(own["overhead"])))),
        **{way.name.lower(): int(own[way.name.lower()].sum()) for way in Pathway},
        **{kind: int((own["verdict"] == kind).sum()) if "verdict" in own else None for kind in VERDICTS},
    }


def _spread(name: str, figure: Estimate) -> Row:
    parts = asdict(figure)
    return {name: parts["value"], f"{name}_low": parts["low"], f"{name}_high": parts["high"]}


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value

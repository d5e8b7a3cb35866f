"""Variants of one method side by side: one model, one store, one baseline, every prompt by all of them in turn."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

import pandas as pd

from benchmarks.lossless import VERDICTS
from benchmarks.measure import Answer, answer, verdict_on_turns
from benchmarks.passes import Passes
from benchmarks.scoring import metric_named
from benchmarks.statistics import Estimate, common_prefix, distinct_n, mean, ratio_of_totals
from benchmarks.turns import joined, turn_ids
from connectors.connector import Connector
from connectors.settings import DecodeSettings
from connectors.trace import Generation, PassRecord
from corpora.corpus import Corpus
from corpora.example import Example
from methods.pipeline import Pipeline, connect
from methods.schema import Settings

_LOG = logging.getLogger(__name__)
GREEDY: Final = "greedy"
DEPTHS: Final = 8

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
    passes: dict[str, list[PassRecord]] = {name: [] for name in names}
    _warm_up(pipeline, sides.values(), corpus)
    for turn, example in enumerate(corpus.examples):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        answers: dict[str, list[Answer]] = {name: [] for name in names}
        for _ in range(1 + len(example.followups)):
            said = [turn.generation.text for turn in answers[GREEDY]]
            for name in order:
                answers[name].append(answer(pipeline, sides[name], example, said))
        done = {name: joined([turn.generation for turn in turns]) for name, turns in answers.items()}
        for name in names:
            row = _row(done[name], done[GREEDY], example, pipeline.settings.dataset.metric)
            if sides[name].verifier.guarantee == "exact":
                row["verdict"] = verdict_on_turns(pipeline, answers[name], answers[GREEDY]).kind
            rows[name].append(row)
            passes[name] += done[name].trace.passes
        _LOG.info("prompt %d of %d", turn + 1, len(corpus))
    tables = {name: pd.DataFrame(rows[name]) for name in names}
    return pd.DataFrame(
        {
            "variant": name,
            **_figures(tables[name], tables[GREEDY]),
            **_of_passes(Passes.of_records(passes[name])),
            **_verdicts(tables[name]),
        }
        for name in names
    )


def _warm_up(pipeline: Pipeline, sides: Iterable[Connector], corpus: Corpus) -> None:
    ids = turn_ids(pipeline, corpus.examples[0])
    for side in sides:
        side.generate(ids, DecodeSettings(max_new_tokens=16))


def _row(generation: Generation, greedy: Generation, example: Example, metric: str | None) -> Row:
    passes = generation.trace.passes
    return {
        "ms": generation.trace.decode_ms,
        "tokens": len(generation.ids),
        "passes": len(passes),
        "committed": sum(record.committed for record in passes),
        "distinct_4": _or_nan(distinct_n(generation.ids)),
        "prefix": common_prefix(generation.ids, greedy.ids),
        "same": float(generation.ids == greedy.ids),
        "score": _or_nan(metric_named(metric).score(generation.text, example) if metric else None),
    }


def _figures(own: pd.DataFrame, greedy: pd.DataFrame) -> Row:
    per_token, baseline = (frame["ms"] / frame["tokens"].sum() for frame in (own, greedy))
    return {
        "n": len(own),
        **_spread("speedup", ratio_of_totals(baseline.to_numpy(), per_token.to_numpy())),
        **_spread("tau", ratio_of_totals(own["committed"].to_numpy(float), own["passes"].to_numpy(float))),
        **_spread("quality", mean(own["score"].to_numpy(float))),
        **_spread("distinct_4", mean(own["distinct_4"].to_numpy(float))),
        "distinct_4_ratio": own["distinct_4"].mean() / greedy["distinct_4"].mean(),
        "identical_share": own["same"].mean(),
        "mean_common_prefix": own["prefix"].mean(),
    }


def _of_passes(passes: Passes) -> Row:
    """Return what the passes show; a drafter's share of the accepted tokens includes those that others proposed too."""
    drafted = int(passes.column("accepted").sum())
    by_depth = {f"depth_{row['depth']}": row["share"] for row in passes.acceptance_by_depth}
    return {
        "nodes_per_pass": passes.nodes_per_pass,
        "compression": passes.compression,
        "empty_drafts": passes.empty_drafts,
        "ms_draft": passes.median_draft_ms,
        "overhead": passes.overhead,
        **{key: by_depth.get(key) for key in (f"depth_{depth}" for depth in range(1, DEPTHS + 1))},
        **{f"by_{name}": count / drafted for name, count in passes.drafted_by.items()},
        **passes.pathways,
    }


def _verdicts(own: pd.DataFrame) -> Row:
    return {kind: int((own["verdict"] == kind).sum()) if "verdict" in own else None for kind in VERDICTS}


def _spread(name: str, figure: Estimate) -> Row:
    parts = asdict(figure)
    return {name: parts["value"], f"{name}_low": parts["low"], f"{name}_high": parts["high"]}


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value

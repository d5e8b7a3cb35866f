"""One prompt: the answers of method and baseline to the same ids, and the line that says what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch

from benchmarks.lossless import VERDICTS, Lossless, check
from benchmarks.recording import recorded
from benchmarks.scoring import metric_named
from benchmarks.turns import joined, lengths, turn_ids
from connectors.trace import Generation, PassRecord
from connectors.warping import Warping
from corpora.example import Example
from methods.memory import peak_rss_mb
from primitives.contract import DraftTree, TargetView

if TYPE_CHECKING:
    from connectors.connector import Connector
    from methods.pipeline import Pipeline
    from methods.replay import Replay

Sample = dict[str, Any]

# Digits of the milliseconds of a lap that are written: what lies behind them is noise, and a quarter of a long file.
LAP_DIGITS: Final = 4
_TIMES = ("tokenise_ms", "prefill_ms", "decode_ms")
_SHOWN = ("pieces", "token_texts", "trees")
_SCORED = ("score", "no_answer")
_EMPTY = ("prompt_tokens", "turns", "output_ids", "text", "finish", "passes", *_TIMES, *_SCORED, "baseline", *_SHOWN)


@dataclass(frozen=True)
class Answer:
    """What one side made of a turn.

    Attributes:
        prompt: its ids.
        tokenise_ms: how long they took to make.
        generation: the output.
    """

    prompt: list[int]
    tokenise_ms: float
    generation: Generation


def answer(pipeline: Pipeline | Replay, side: Connector, example: Example, said: Sequence[str] = ()) -> Answer:
    """Let one side, the pipeline's connector or its baseline, answer a prompt, or the turn behind what was `said`."""
    started = perf_counter()
    ids = turn_ids(pipeline, example, said)
    tokenise_ms = (perf_counter() - started) * 1e3
    return Answer(ids, tokenise_ms, side.generate(ids, pipeline.settings.decode))


def sample_of(pipeline: Pipeline | Replay, example: Example, own: Sequence[Answer], plain: Sequence[Answer]) -> Sample:
    """Return the line of samples.jsonl for a prompt.

    Args:
        pipeline: method and baseline over one target.
        example: the prompt.
        own: the method's answer to each turn.
        plain: the baseline's, to which other methods may be compared too.
    """
    method, baseline = (joined([turn.generation for turn in turns]) for turns in (own, plain))
    metric = metric_named(pipeline.settings.dataset.metric)
    promised = pipeline.guarantee == "exact" and pipeline.settings.decode.temperature == 0 and not pipeline.replayed
    shown, shown_of_baseline = recorded(
        pipeline.model.tokenizer,
        pipeline.connector.decode,
        [turn.generation for turn in own],
        [turn.generation for turn in plain],
        pipeline.settings.record_trees,
    )
    return {
        "id": example.id,
        "status": "ok",
        "category": example.category,
        "prompt_tokens": sum(len(turn.prompt) for turn in own),
        "tokenise_ms": sum(turn.tokenise_ms for turn in own),
        "turns": lengths([turn.generation for turn in own]),
        **_output(method),
        **_per_pass(method),
        **metric.judge(method.text, example),
        "lossless": asdict(verdict_on_turns(cast("Pipeline", pipeline), own, plain)) if promised else None,
        "peak_rss_mb": peak_rss_mb(),
        **shown,
        "baseline": {
            "turns": lengths([turn.generation for turn in plain]),
            **_output(baseline),
            **metric.judge(baseline.text, example),
            **shown_of_baseline,
        },
    }


def without_times(sample: Sample) -> Sample:
    """Return a sample without its times, which in a replay are those of nothing."""
    laps = {field.name: [None] * sample["passes"] for field in fields(PassRecord) if field.name.endswith("_ms")}
    plain = sample["baseline"]
    baseline = {**plain, **{name: None for name in _TIMES if name in plain}}
    return {**sample, **dict.fromkeys(_TIMES), **laps, "baseline": baseline}


def failure(example: Example, error: Exception) -> Sample:
    """Return the line for a prompt that raised: its reason, whether it has a reference, and no figure at all."""
    per_pass = [field.name for field in fields(PassRecord)]
    reason = f"{type(error).__name__}: {error}"
    known = {"id": example.id, "status": "failed", "reason": reason, "category": example.category}
    return {**known, "referenced": bool(example.answers), **dict.fromkeys([*_EMPTY, *per_pass])}


def _output(generation: Generation) -> Sample:
    trace = generation.trace
    return {
        "output_ids": generation.ids,
        "text": generation.text,
        "finish": generation.finish,
        "passes": len(trace.passes),
        "prefill_ms": trace.prefill_ms,
        "decode_ms": trace.decode_ms,
    }


def _per_pass(generation: Generation) -> Sample:
    names = [field.name for field in fields(PassRecord)]
    columns = {name: [getattr(record, name) for record in generation.trace.passes] for name in names}
    return columns | {name: [round(lap, LAP_DIGITS) for lap in columns[name]] for name in names if name.endswith("_ms")}


def verdict_on_turns(pipeline: Pipeline, own: Sequence[Answer], plain: Sequence[Answer]) -> Lossless:
    """Return the worst verdict of all turns; its position is that in the joined output."""
    verdicts, before = [], 0
    for ours, greedy in zip(own, plain, strict=True):
        verdict = verdict_on(pipeline, ours.prompt, ours.generation.ids, greedy.generation.ids)
        place = None if verdict.position is None else verdict.position + before
        verdicts.append(replace(verdict, position=place))
        before += len(ours.generation.ids)
    return max(verdicts, key=lambda verdict: VERDICTS.index(verdict.kind))


def verdict_on(pipeline: Pipeline, ids: Sequence[int], output: Sequence[int], baseline: Sequence[int]) -> Lossless:
    """Return how an output of exact verification relates to the greedy output."""
    model = pipeline.model.model

    # A fresh forward of the stock model, so that a fault of our own tree forward or cache cannot vouch for itself.
    @torch.inference_mode()
    def logits_of(sequence: list[int]) -> torch.Tensor:
        logits: torch.Tensor = model(torch.tensor([sequence], device=model.device), use_cache=False).logits[0]
        known, judged = logits[: len(ids) - 1], logits[len(ids) - 1 :]
        written = DraftTree.chain(sequence[len(ids) :])
        warped = Warping(pipeline.settings.decode)(TargetView(judged, judged[:, :0]), np.array(ids), written)
        return torch.cat([known, warped.logits])

    return check(ids, output, baseline, logits_of, model.dtype, model.device.type)

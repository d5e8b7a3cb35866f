"""Prompts of several turns: what each turn asks, and one output made of the outputs to all of them.

Both sides go on from the same answers, the baseline's: so they decode the same prompt in every turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING, Any

from connectors.trace import Generation, Trace
from corpora.example import Example
from corpora.templates import render

if TYPE_CHECKING:
    from methods.pipeline import Pipeline
    from methods.replay import Replay


def turn_ids(pipeline: Pipeline | Replay, example: Example, said: Sequence[str] = ()) -> list[int]:
    """Return the ids of a turn: template, chat format and begin token included.

    Args:
        pipeline: brings the tokenizer and its settings.
        example: the prompt.
        said: the answers to the turns before; none for the first.
    """
    asked = [render(pipeline.settings.dataset.template, example.instruction), *example.followups]
    ids: list[int] = pipeline.encode(asked[len(said)], list(zip(asked, said, strict=False)))
    return ids


def joined(outputs: Sequence[Generation]) -> Generation:
    """Return the outputs to all turns as one: tokens, text and passes one after the other, times added up.

    It was cut if one of them was.
    """
    if len(outputs) == 1:
        return outputs[0]
    finish = "length" if any(output.finish == "length" for output in outputs) else outputs[-1].finish
    traces = [output.trace for output in outputs]
    parts = {field.name: _together([getattr(trace, field.name) for trace in traces]) for field in fields(Trace)}
    ids = list(chain.from_iterable(output.ids for output in outputs))
    return Generation(ids, "".join(output.text for output in outputs), finish, Trace(**parts))


def _together(values: Sequence[Any]) -> Any:
    """Return lists one after the other, the sum of times, and what else is the same in every turn as it is."""
    if isinstance(values[0], list):
        return list(chain.from_iterable(values))
    return sum(values) if isinstance(values[0], float) else values[-1]


def lengths(outputs: Sequence[Generation]) -> list[dict[str, int]] | None:
    """Return what of a joined output belongs to each turn; None if there is but one."""
    if len(outputs) == 1:
        return None
    return [
        {"tokens": len(output.ids), "characters": len(output.text), "passes": len(output.trace.passes)}
        for output in outputs
    ]


def said_in(output: Mapping[str, Any]) -> list[str]:
    """Return the texts of all turns but the last, from one side of a line of samples.jsonl."""
    ends = accumulate((turn["characters"] for turn in output.get("turns") or ()), initial=0)
    return [output["text"][start:end] for start, end in pairwise(ends)][:-1]

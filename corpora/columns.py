"""How the columns of each data set become an instruction, a reference and the answers that count as right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Fields = tuple[str, str, tuple[str, ...]]

# GSM8K marks each computation for a calculator ("<<48/2=24>>"): no model writes that, and no reader should see it.
_CALCULATOR = re.compile(r"<<[^<>]*>>")


@dataclass(frozen=True)
class Columns:
    """The columns that a row must have, and the function that reads them (it raises ValueError on unfit content)."""

    required: tuple[str, ...]
    read: Callable[[Row], Fields]


def _text(row: Row, column: str) -> str:
    value = row[column]
    if not isinstance(value, str):
        raise ValueError(f"column '{column}' must hold text, got {type(value).__name__}")
    return value


def _gsm8k(row: Row) -> Fields:
    answer = _text(row, "answer")
    _, marker, gold = answer.rpartition("####")
    if not marker:
        raise ValueError("column 'answer' must end with '#### <number>'")
    return _text(row, "question"), _CALCULATOR.sub("", answer), (gold.strip().replace(",", ""),)


def _codealpaca(row: Row) -> Fields:
    parts = [_text(row, "instruction"), _text(row, "input")]
    return "\n".join(part for part in parts if part.strip()), _text(row, "output"), ()


def _ultrachat(row: Row) -> Fields:
    messages = row["messages"]
    answers = [m["content"] for m in messages if isinstance(m, Mapping) and m.get("role") == "assistant"]
    if not answers:
        raise ValueError("column 'messages' must hold an answer with the role 'assistant'")
    return _text(row, "prompt"), answers[0], ()


def _triviaqa(row: Row) -> Fields:
    answer = row["answer"]
    if not isinstance(answer, Mapping) or not {"value", "aliases"} <= answer.keys():
        raise ValueError("column 'answer' must hold an object with 'value' and 'aliases'")
    accepted = dict.fromkeys([_text(answer, "value"), *answer["aliases"]])
    return _text(row, "question"), _text(answer, "value"), tuple(accepted)


COLUMNS = {
    "gsm8k": Columns(("question", "answer"), _gsm8k),
    "codealpaca": Columns(("instruction", "input", "output"), _codealpaca),
    "ultrachat": Columns(("prompt", "messages"), _ultrachat),
    "triviaqa": Columns(("question", "answer"), _triviaqa),
}


def columns_of(name: str) -> Columns:
    """Return the column mapping of a data set; ValueError if there is none of that name."""
    if name not in COLUMNS:
        raise ValueError(f"dataset.name '{name}' has no column mapping: use one of {', '.join(sorted(COLUMNS))}")
    return COLUMNS[name]

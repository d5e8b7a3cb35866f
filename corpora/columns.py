"""How the columns of each data set become an instruction, a reference and the answers that count as right."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = Mapping[str, Any]

# GSM8K marks each computation for a calculator ("<<48/2=24>>"): no model writes that, and no reader should see it.
_CALCULATOR = re.compile(r"<<[^<>]*>>")

# The eight categories of MT-bench are one of Spec-Bench's six tasks; translation and summarization keep their names.
MULTI_TURN = "multi-turn conversation"
_MT_BENCH = frozenset({"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"})
_TASKS = {
    "qa": "question answering",
    "math_reasoning": "mathematical reasoning",
    "rag": "retrieval-augmented generation",
}


class Fields(NamedTuple):
    """What a row says; see `Example`. A row without a name of its own is named by its place."""

    instruction: str
    reference: str
    answers: tuple[str, ...] = ()
    category: str | None = None
    followups: tuple[str, ...] = ()
    id: str | None = None


@dataclass(frozen=True)
class Columns:
    """How the rows of a data set are read.

    Attributes:
        required: the columns that a row must have.
        read: reads them; it raises ValueError on unfit content.
        has_train: whether the set has train prompts.
        in_turns: whether samples take from its categories in turns.
    """

    required: tuple[str, ...]
    read: Callable[[Row], Fields]
    has_train: bool = True
    in_turns: bool = False


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
    return Fields(_text(row, "question"), _CALCULATOR.sub("", answer), (gold.strip().replace(",", ""),))


def _codealpaca(row: Row) -> Fields:
    parts = [_text(row, "instruction"), _text(row, "input")]
    return Fields("\n".join(part for part in parts if part.strip()), _text(row, "output"))


def _ultrachat(row: Row) -> Fields:
    messages = row["messages"]
    answers = [m["content"] for m in messages if isinstance(m, Mapping) and m.get("role") == "assistant"]
    if not answers:
        raise ValueError("column 'messages' must hold an answer with the role 'assistant'")
    return Fields(_text(row, "prompt"), answers[0])


def _triviaqa(row: Row) -> Fields:
    answer = row["answer"]
    if not isinstance(answer, Mapping) or not {"value", "aliases"} <= answer.keys():
        raise ValueError("column 'answer' must hold an object with 'value' and 'aliases'")
    accepted = dict.fromkeys([_text(answer, "value"), *answer["aliases"]])
    return Fields(_text(row, "question"), _text(answer, "value"), tuple(accepted))


def _spec_bench(row: Row) -> Fields:
    """Read a row of Spec-Bench's own question.jsonl (`question_id`, `turns`), or of one with `prompt`, `followups`."""
    turns = row["turns"] if "turns" in row else [row.get("prompt"), *row.get("followups", [])]
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn.strip() for turn in turns):
        raise ValueError("columns 'prompt' and 'followups', or 'turns', must hold the texts of the user")
    name, category = row.get("id", row.get("question_id")), _text(row, "category")
    task = MULTI_TURN if category in _MT_BENCH else _TASKS.get(category, category)
    return Fields(turns[0], "", (), task, tuple(turns[1:]), None if name is None else str(name))


COLUMNS = {
    "gsm8k": Columns(("question", "answer"), _gsm8k),
    "codealpaca": Columns(("instruction", "input", "output"), _codealpaca),
    "ultrachat": Columns(("prompt", "messages"), _ultrachat),
    "triviaqa": Columns(("question", "answer"), _triviaqa),
    "spec_bench": Columns(("category",), _spec_bench, has_train=False, in_turns=True),
}


def columns_of(name: str) -> Columns:
    """Return the column mapping of a data set; ValueError if there is none of that name."""
    if name not in COLUMNS:
        raise ValueError(f"dataset.name '{name}' has no column mapping: use one of {', '.join(sorted(COLUMNS))}")
    return COLUMNS[name]

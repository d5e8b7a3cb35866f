"""A user's own prompts: a text file with one a line, or JSON rows with a prompt, and perhaps a reference and an id."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from corpora.example import Example
from corpora.jsonl import numbered_lines, numbered_rows
from corpora.numerals import reference_number
from corpora.settings import DatasetSettings

NAME: Final = "prompts"
JSON_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")
TABLE_SUFFIXES: Final = (".csv", ".tsv", ".parquet", ".arrow", ".xlsx")
_ALLOWED: Final = "give a .jsonl file with one JSON object a line, or a text file with one prompt a line"


def read_prompts(settings: DatasetSettings) -> list[Example]:
    """Return the prompts of the file at `settings.path` in their order.

    A row without id is named by its line. A reference is a text, a number, or a list of accepted texts of which the
    first is the reference.

    Raises:
        ValueError: there is no such file, it is a table or one JSON document, a line of it is unfit (its reference no
            number for dataset.metric=number_accuracy, too), or a metric is asked for and no row has a reference.
    """
    path = Path(settings.path or "").expanduser()
    try:
        examples = _examples(path, settings)
    except ValueError as error:
        raise ValueError(f"dataset.path: {error}") from error
    if settings.metric is not None and not any(example.reference for example in examples):
        raise ValueError(
            f"dataset.metric is '{settings.metric}', but no prompt of {path} has a reference in a column "
            f"'{settings.reference_column}': set dataset.metric=null or dataset.reference_column"
        )
    return examples


def _examples(path: Path, settings: DatasetSettings) -> list[Example]:
    kind = path.suffix.lower()
    if kind in TABLE_SUFFIXES:
        raise ValueError(f"{path} is a table ({kind}), which is not read: {_ALLOWED}")
    if kind not in JSON_SUFFIXES:
        return _of_lines(path)
    first = numbered_lines(path)[0][1].strip()
    if first.startswith(b"[") or first == b"{":
        raise ValueError(f"{path} is one JSON document and no rows: {_ALLOWED}")
    return _of_rows(path, settings)


def _of_lines(path: Path) -> list[Example]:
    examples = []
    for number, line in numbered_lines(path):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number} is not valid UTF-8 ({error.reason}): save it as UTF-8") from error
        examples.append(Example(_name(number), text, ""))
    return examples


def _of_rows(path: Path, settings: DatasetSettings) -> list[Example]:
    examples: list[Example] = []
    lines: dict[str, int] = {}
    for number, row in numbered_rows(path):
        try:
            example = _example(row, number, settings)
            if example.id in lines:
                raise ValueError(f"has the id '{example.id}' of line {lines[example.id]}: every prompt needs its own")
        except ValueError as error:
            raise ValueError(f"{path}, line {number} {error}") from error
        lines[example.id] = number
        examples.append(example)
    return examples


def _example(row: dict[str, Any], number: int, settings: DatasetSettings) -> Example:
    column = settings.prompt_column
    if column not in row:
        raise ValueError(
            f"has no column '{column}', only {', '.join(row) or 'none at all'}: set dataset.prompt_column to the one "
            "with the prompt"
        )
    text, name = row[column], row.get(settings.id_column)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"must hold a text in column '{column}', got {text!r:.40}")
    if name is not None and (isinstance(name, bool) or not isinstance(name, str | int) or name == ""):
        raise ValueError(f"must hold a text or a whole number in column '{settings.id_column}', got {name!r:.40}")
    accepted = _accepted(row.get(settings.reference_column), settings.reference_column)
    if settings.metric == "number_accuracy":
        _check_numbers(accepted, settings.reference_column)
    reference = accepted[0] if accepted else ""
    return Example(_name(number) if name is None else str(name), text, reference, accepted)


def _accepted(value: Any, column: str) -> tuple[str, ...]:
    """Return the texts of a reference, none if there is none."""
    if value is None or value == "":
        return ()
    values: Sequence[Any] = value if isinstance(value, list) and value else [value]
    if not all(map(_is_answer, values)):
        raise ValueError(f"must hold a text, a number or a list of texts in column '{column}', got {value!r:.40}")
    return tuple(map(str, values))


def _check_numbers(accepted: Sequence[str], column: str) -> None:
    for answer in accepted:
        if reference_number(answer) is None:
            raise ValueError(
                f"must hold a number in column '{column}' for dataset.metric=number_accuracy, got {answer!r:.40}"
            )


def _is_answer(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _name(number: int) -> str:
    return f"line-{number:05d}"

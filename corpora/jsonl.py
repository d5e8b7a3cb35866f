"""Reading JSON-lines files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a UTF-8 file with one JSON object a line; blank lines are skipped.

    Raises:
        ValueError: the file does not exist or is empty, or a line is no JSON object (the error names the line).
    """
    return [row for _, row in numbered_rows(path)]


def numbered_rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """Return the number of each line with an object, from 1, and the object; otherwise as `read_jsonl`."""
    return [(number, _parse(line, path, number)) for number, line in numbered_lines(path)]


def numbered_lines(path: Path) -> list[tuple[int, bytes]]:
    """Return the number of each line that is not blank, from 1, and the line.

    Raises:
        ValueError: the file does not exist, or holds nothing else.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    # Split at the newline byte only: text inside a string may hold other line separators (U+2028, U+0085).
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    found = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not found:
        raise ValueError(f"{path} holds no rows")
    return found


def _parse(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number} is not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f"{path}, line {number} must be a JSON object, got {type(row).__name__}")
    return row

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
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    rows = []
    # Split at the newline byte only: text inside a string may hold other line separators (U+2028, U+0085).
    for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            rows.append(_parse(line, path, number))
    if not rows:
        raise ValueError(f"{path} holds no rows")
    return rows


def _parse(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{path}, line {number} is not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError(f"{path}, line {number} must be a JSON object, got {type(row).__name__}")
    return row

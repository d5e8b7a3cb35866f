"""Values as words of a command line: unchanged by Hydra's grammar, and by the shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

_PLAIN = re.compile(r"(?!(null|true|false|nan|inf)\Z)[A-Za-z_/][A-Za-z0-9_./:-]*", re.IGNORECASE)


def quoted(value: object) -> str:
    """Return a value as Hydra's grammar takes it unchanged, whatever characters it holds."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{quoted(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ",".join(map(quoted, value)) + "]"
    if not isinstance(value, str):
        return "null" if value is None else str(value)
    # In Hydra's quotes a backslash stands for itself unless it comes before a quote.
    escaped = re.sub(r"(\\*)('|\Z)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
    return f"'{escaped}'"


def shell_word(key: str, value: object) -> str:
    """Return key=value to be typed into a shell, in quotes only where it needs them."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return f"{key}={value}"
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    return shlex.quote(f"{key}={quoted(value)}")

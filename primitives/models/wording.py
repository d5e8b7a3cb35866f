"""Errors of libraries, cut down to what fits into one sentence of ours."""

from __future__ import annotations

LONGEST = 200


def brief(error: Exception) -> str:
    """Return the first line of an error, or its kind if it says nothing."""
    text = str(error).strip() or type(error).__name__
    return text.split("\n")[0][:LONGEST].rstrip(" .")

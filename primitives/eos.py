"""Where a sequence of tokens ends."""

from __future__ import annotations

from collections.abc import Sequence


def eos_cut(tokens: Sequence[int], eos_ids: frozenset[int]) -> int | None:
    """Return how many tokens to keep so that the first EOS is the last one, or None without an EOS."""
    for index, token in enumerate(tokens):
        if token in eos_ids:
            return index + 1
    return None

"""Where a text ends by a stop string, found inside an accepted block as well as token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def stop_cut(ids: Sequence[int], fresh: int, stop: Sequence[str], decode: Callable[[Sequence[int]], str]) -> int | None:
    """Return how many of `ids` to keep so that the last one completes a stop string, or None without one.

    Args:
        ids: the output so far.
        fresh: how many ids at its end have not been looked at yet.
        stop: stop strings, none empty.
        decode: turns ids into text.
    """
    if not stop:
        return None
    # Token by token: a later token may change the text of the earlier ones (cleaned blanks, joined bytes).
    for keep in range(len(ids) - fresh + 1, len(ids) + 1):
        if _found(decode(ids[:keep]), stop):
            return keep
    return None


def before_stop(text: str, stop: Sequence[str]) -> str:
    """Return the text up to the first stop string."""
    places = [place for place in (text.find(string) for string in stop) if place >= 0]
    return text[: min(places)] if places else text


def _found(text: str, stop: Sequence[str]) -> bool:
    return any(string in text for string in stop)

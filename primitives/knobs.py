"""What a primitive's constructor refuses of its settings, each in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from primitives.registry import nearest


def check_range(owner: str, low: float, high: float, **settings: float | None) -> None:
    """Raise ValueError for a setting that does not lie between low and high, both included.

    Args:
        owner: whose settings they are, as the sentence begins: "drafter 'pld'".
        low: smallest value.
        high: largest value; inf is no bound.
        settings: by name; None is not set.
    """
    allowed = f"be at least {low:g}" if high == inf else f"lie between {low:g} and {high:g}"
    for name, value in settings.items():
        if value is not None and not low <= value <= high:
            raise ValueError(f"{owner}: {name}={value} is out of range; it must {allowed}")


def check_choice(owner: str, allowed: Iterable[str], **settings: str) -> None:
    """Raise ValueError for a setting that is none of the allowed words; the nearest of them is named."""
    allowed = tuple(allowed)
    for name, value in settings.items():
        if value not in allowed:
            raise ValueError(f"{owner}: {name}={value} is unknown: {nearest(value, allowed)}")

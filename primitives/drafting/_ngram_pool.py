"""What followed each n-gram of a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class NgramPool:
    """The continuation of every n-gram of a growing text.

    Of several occurrences the latest with a whole continuation counts, and before there is one the first.

    Args:
        longest: tokens of the longest n-gram.
        length: tokens of a whole continuation.
    """

    def __init__(self, longest: int, length: int) -> None:
        self.longest = longest
        self.length = length
        self._text: list[int] = []
        self._starts: dict[tuple[int, ...], int] = {}

    def read(self, tokens: Iterable[int]) -> None:
        """Extend the text."""
        text, starts = self._text, self._starts
        for token in tokens:
            end = len(text)
            text.append(token)
            whole = end + 1 - self.length
            for n in range(1, self.longest + 1):
                if n <= end:
                    starts.setdefault(tuple(text[end - n : end]), end)
                if n <= whole:
                    starts[tuple(text[whole - n : whole])] = whole

    def after(self, tokens: Sequence[int]) -> list[int]:
        """Return the continuation of the longest n-gram at the end of some tokens that the text has; else nothing."""
        for n in range(min(self.longest, len(tokens)), 0, -1):
            start = self._starts.get(tuple(tokens[-n:]))
            if start is not None:
                return self._text[start : start + self.length]
        return []

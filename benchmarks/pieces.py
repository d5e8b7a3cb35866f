"""An output's text cut into what each of its tokens added."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\ufffd"


def piece_lengths(ids: Sequence[int], text: str, decode: Callable[[Sequence[int]], str]) -> list[int]:
    """Return int[n], how many characters (code points) of the text belong to each token; they add up to `len(text)`.

    A token that ends inside a character has none, and the one that completes it has the whole character. Special tokens
    that the text leaves out, and tokens behind the stop string that ended it, have none.

    Only the tokens since the last whole character are decoded again, so that the work grows with the text's length and
    not with its square. Where a decoder changes text that it has already given (it strips a space, say), borders may
    lie a few characters off; the text itself is never changed.

    Args:
        ids: the output's tokens.
        text: its text.
        decode: turns ids into text, special tokens left out.
    """
    lengths = [0] * len(ids)
    start = read = used = 0
    for end in range(1, len(ids) + 1):
        known, grown = decode(ids[start:read]), decode(ids[start:end])
        if grown.endswith(_BROKEN) and end < len(ids):
            continue
        lengths[end - 1] = min(max(len(grown) - len(known), 0), len(text) - used)
        used += lengths[end - 1]
        # The last piece stays in the window: how a token is written may depend on the one before it.
        start, read = read, end
    if ids:
        lengths[-1] += len(text) - used
    return lengths

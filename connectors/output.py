"""The growing text, and where it must end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from connectors.stopping import before_stop, stop_cut
from connectors.trace import Finish
from primitives.contract import Ints
from primitives.eos import eos_cut


class Output:
    """Prompt and output in one buffer, cut at EOS, at a stop string and at the budget.

    Args:
        prompt: int64[T].
        budget: most tokens that may be added.
        eos_ids: ids that end the text; the first one is kept.
        stop: strings that end the text; the token that completes one is kept.
        decode: turns output ids into text.
    """

    def __init__(
        self,
        prompt: Ints,
        budget: int,
        eos_ids: frozenset[int],
        stop: Sequence[str],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self.finish: Finish | None = None
        self._buffer = np.concatenate([prompt, np.zeros(budget + 1, np.int64)])
        self._start = self._length = len(prompt)
        self._end = len(prompt) + budget
        self._eos_ids = eos_ids
        self._stop = stop
        self._decode = decode

    @property
    def ids(self) -> list[int]:
        """The output without the prompt."""
        return self._buffer[self._start : self._length].tolist()

    @property
    def committed(self) -> Ints:
        """int64[T]: the prompt and the output, as a view."""
        return self._buffer[: self._length]

    @property
    def text(self) -> str:
        """The output as text, up to the stop string that ended it."""
        text = self._decode(self.ids)
        return before_stop(text, self._stop) if self.finish == "stop" else text

    @property
    def remaining(self) -> int:
        """Tokens that may still be added."""
        return self._end - self._length

    def with_pending(self, pending: int) -> Ints:
        """Return int64[T+1]: everything so far and the pending token, as a read-only view."""
        self._buffer[self._length] = pending
        view = self._buffer[: self._length + 1]
        view.flags.writeable = False
        return view

    def ends_with(self, pending: int) -> bool:
        """Return whether the text is over once the pending token is in it, so that nothing is left to ask."""
        return self.remaining == 1 or pending in self._eos_ids

    def extend(self, tokens: Ints) -> int:
        """Add tokens up to where the text ends; return how many were added."""
        fresh = tokens[: self.remaining].tolist()
        keep = eos_cut(fresh, self._eos_ids)
        if keep is not None:
            self.finish = "eos"
            fresh = fresh[:keep]
        kept = stop_cut(self.ids + fresh, len(fresh), self._stop, self._decode) if self._stop else None
        if kept is not None:
            before = self._length - self._start
            self.finish = "eos" if self.finish and kept == before + len(fresh) else "stop"
            fresh = fresh[: kept - before]
        self._buffer[self._length : self._length + len(fresh)] = fresh
        self._length += len(fresh)
        if self.finish is None and self.remaining == 0:
            self.finish = "length"
        return len(fresh)

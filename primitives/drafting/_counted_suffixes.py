"""How often every short passage of a text occurs: a counted suffix tree, kept as a suffix automaton."""

from __future__ import annotations

from collections.abc import Iterable

from primitives.drafting._suffix_automaton import SuffixAutomaton


class CountedSuffixes(SuffixAutomaton):
    """The counts that a suffix tree of bounded depth has in its nodes.

    Passages that end at the same places have the same count, so a state of the automaton stands for many nodes of the
    tree, and a token costs a few steps instead of one for each depth. Passages longer than `depth` are not counted.

    Args:
        depth: tokens of the longest passage that is counted.

    Attributes:
        counts: for each state, how often its passages occur; meaningless where all of them are longer than `depth`.
    """

    def __init__(self, depth: int) -> None:
        self.counts: list[int] = []
        super().__init__()
        self.depth = depth
        # State and length of the longest suffix of the text that is counted, now and before the last token.
        self._tip = self._tip_before = (0, 0)

    def begin(self) -> None:
        """Start a further text: no passage reaches from one into the next."""
        super().begin()
        self._tip = (0, 0)

    def extend(self, token: int) -> None:
        """Extend the text by one token and count its suffixes."""
        super().extend(token)
        self._advance(token, 1)

    def retract(self) -> None:
        """Take back the last `extend`, once; only while a single text is read."""
        self._count(-1)
        super().retract()
        del self.counts[len(self.links) :]
        self._tip = self._tip_before

    def forget(self, tokens: Iterable[int]) -> None:
        """Take back the counts of a whole text, and start a further one; the states stay, some with a count of 0."""
        self.begin()
        for token in tokens:
            self._advance(token, -1)
        self.begin()

    def _advance(self, token: int, step: int) -> None:
        state, length = self._tip_before = self._tip
        length = min(length + 1, self.depth)
        self._tip = (self.suffix(self.transitions[state][token], length), length)
        self._count(step)

    def _count(self, step: int) -> None:
        state, _ = self._tip
        while state:
            self.counts[state] += step
            state = self.links[state]

    def _add(self, length: int, end: int, divided: int | None = None) -> int:
        self.counts.append(0 if divided is None else self.counts[divided])
        return super()._add(length, end, divided)

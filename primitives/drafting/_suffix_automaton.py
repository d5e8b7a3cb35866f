"""Suffix automaton: every passage of a text, grouped by where it ends, read in amortised constant time a token."""

from __future__ import annotations

from collections.abc import Iterable


class SuffixAutomaton:
    """All passages of one or several texts of token ids.

    A state stands for the passages that end at the same places; they are suffixes of each other, of every length
    between two bounds. State 0 is the empty passage. Source: Blumer et al., "The smallest automaton recognizing the
    subwords of a text", 1985.

    Attributes:
        transitions: for each state, token -> state of its passages with the token behind them, in the order in which
            these passages first occurred.
        links: for each state, that of its longest suffix which ends at more places; -1 for the empty passage.
        lengths: tokens of the longest passage of each state.
        ends: where the passages of each state end first: index of their last token among all that were read.
    """

    def __init__(self) -> None:
        self.transitions: list[dict[int, int]] = []
        self.links: list[int] = []
        self.lengths: list[int] = []
        self.ends: list[int] = []
        self.size = 0
        self._add(0, -1)
        self._whole = 0
        self._undo: tuple[int, int, int, int] = (0, 0, 0, 0)

    def begin(self) -> None:
        """Start a further text: no passage reaches from one into the next."""
        self._whole = 0

    def read(self, tokens: Iterable[int]) -> None:
        """Extend the text by several tokens."""
        for token in tokens:
            self.extend(token)

    def extend(self, token: int) -> None:
        """Extend the text by one token."""
        before, states = self._whole, len(self.links)
        self._undo = (token, before, states, 0)
        if token in self.transitions[before]:
            # Only at the start of a further text: an earlier one has the same passage.
            self._whole = self._target(before, token)
        else:
            self._whole = new = self._add(self.lengths[before] + 1, self.size)
            state = before
            while state >= 0 and token not in self.transitions[state]:
                self.transitions[state][token] = new
                state = self.links[state]
            if state >= 0:
                self.links[new] = self._target(state, token)
        self.size += 1

    def retract(self) -> None:
        """Take back the last `extend`, once; only while a single text is read."""
        token, before, states, divided = self._undo
        state = before
        while state >= 0 and self.transitions[state].get(token) == states:
            del self.transitions[state][token]
            state = self.links[state]
        if divided:
            part = states + 1
            while state >= 0 and self.transitions[state].get(token) == part:
                self.transitions[state][token] = divided
                state = self.links[state]
            self.links[divided] = self.links[part]
        for table in (self.transitions, self.links, self.lengths, self.ends):
            del table[states:]
        self._whole = before
        self.size -= 1

    def match(self, token: int) -> tuple[int, int]:
        """Return state and length of the longest suffix of the text and the token that occurs in the text."""
        state = self._whole
        while state >= 0 and token not in self.transitions[state]:
            state = self.links[state]
        return (self.transitions[state][token], self.lengths[state] + 1) if state >= 0 else (0, 0)

    def find(self, tokens: Iterable[int]) -> tuple[int, int]:
        """Return state and length of the longest suffix of some tokens that occurs in a text."""
        state = length = 0
        for token in tokens:
            while state and token not in self.transitions[state]:
                state = self.links[state]
                length = self.lengths[state]
            target = self.transitions[state].get(token)
            if target is not None:
                state, length = target, length + 1
        return state, length

    def suffix(self, state: int, length: int) -> int:
        """Return the state of the suffix of a passage, given the state of the passage."""
        while state and self.lengths[self.links[state]] >= length:
            state = self.links[state]
        return state

    def _target(self, state: int, token: int) -> int:
        """Return the state whose longest passage is that of `state` with the token behind it."""
        target = self.transitions[state][token]
        if self.lengths[target] == self.lengths[state] + 1:
            return target
        part = self._add(self.lengths[state] + 1, self.ends[target], target)
        self.links[part], self.links[target] = self.links[target], part
        while state >= 0 and self.transitions[state].get(token) == target:
            self.transitions[state][token] = part
            state = self.links[state]
        self._undo = (*self._undo[:3], target)
        return part

    def _add(self, length: int, end: int, divided: int | None = None) -> int:
        """Return a new state, which is a part of another one if `divided` names it."""
        self.transitions.append({} if divided is None else self.transitions[divided].copy())
        self.links.append(0 if self.links else -1)
        self.lengths.append(length)
        self.ends.append(end)
        return len(self.links) - 1

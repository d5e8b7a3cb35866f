"""Drafts from the counts of a suffix tree: how far to go from which match of the end of a text."""

from __future__ import annotations

from collections.abc import Iterable, Set
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from primitives.contract import PAD
from primitives.drafting._counted_suffixes import CountedSuffixes

# Minus the probability, the node above, the place among its children, token and state.
_Offer = tuple[float, int, int, int, int]


class SuffixDraft(NamedTuple):
    """Nodes below a match; the score is how many of them are expected to be accepted.

    Attributes:
        score: sum of the probabilities.
        match: tokens of the match.
        tokens: one a node, parents first.
        parents: node above, -1 for those right below the match.
        probabilities: share of the match's occurrences that go on up to the node.
    """

    score: float = 0.0
    match: int = 0
    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()


class SuffixSpeculator:
    """Finds the draft with the best score over all matches of the end of a text.

    Args:
        limits: most tokens of a draft, for each length of the match from 0 on; at most one for each level below it.
        least: smallest probability of a token.
        chain: whether only the most frequent token is followed at every step, the first that came of equal ones.
        eos_ids: nothing is drafted behind one of these.
    """

    def __init__(self, limits: list[int], least: float, chain: bool, eos_ids: Set[int]) -> None:
        self.limits = limits
        self.least = least
        self.chain = chain
        self.eos_ids = eos_ids

    def best(self, counts: CountedSuffixes, text: list[int]) -> SuffixDraft:
        """Return the draft with the best score, of equals the one with the longer match."""
        best = SuffixDraft()
        for limit, match, state in sorted(self._matches(counts, text), reverse=True):
            # No draft scores more than it may have tokens.
            if limit < best.score:
                break
            best = max(best, self._draft(counts, state, match, limit))
        return best

    def _matches(self, counts: CountedSuffixes, text: list[int]) -> list[tuple[int, int, int]]:
        """Return limit, length and state of the matches that a draft may start from.

        Matches of one state occur at the same places, so the one that may have the most tokens speaks for all.
        """
        matches = []
        state, longest = counts.find(text)
        while state:
            link = counts.links[state]
            shorter = counts.lengths[link]
            limit = max(self.limits[shorter + 1 : longest + 1])
            if limit and counts.counts[state]:
                matches.append((limit, longest, state))
            state, longest = link, shorter
        return matches

    def _draft(self, counts: CountedSuffixes, state: int, match: int, limit: int) -> SuffixDraft:
        """Return the `limit` most probable nodes below a match."""
        tokens: list[int] = []
        parents: list[int] = []
        probabilities: list[float] = []
        frontier = self._offers(counts, state, -1.0, PAD)
        heapify(frontier)
        while frontier and len(tokens) < limit:
            negative, parent, _, token, child = heappop(frontier)
            if token not in self.eos_ids:
                for offer in self._offers(counts, child, negative, len(tokens)):
                    heappush(frontier, offer)
            tokens.append(token)
            parents.append(parent)
            probabilities.append(-negative)
        return SuffixDraft(sum(probabilities), match, tuple(tokens), tuple(parents), tuple(probabilities))

    def _offers(self, counts: CountedSuffixes, state: int, negative: float, parent: int) -> list[_Offer]:
        """Return the children of a state that are probable enough."""
        occurs, whole = counts.counts, counts.counts[state]
        children: Iterable[tuple[int, int]] = counts.transitions[state].items()
        if self.chain and counts.transitions[state]:
            children = [max(children, key=lambda child: occurs[child[1]])]
        return [
            (share, parent, place, token, child)
            for place, (token, child) in enumerate(children)
            if (share := negative * occurs[child] / whole) <= -self.least
        ]

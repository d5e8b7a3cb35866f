"""SAM-Decoding: copy what followed the longest match of the end of the text, in this text or in a corpus.

Source: arXiv 2411.10666, section 3; github.com/hyx1999/SAM-Decoding.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np

from primitives.contract import PAD, Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView
from primitives.datastores.token_store import Match, TokenStore
from primitives.drafting._retrieval import best_nodes, up_to_eos
from primitives.drafting._suffix_automaton import SuffixAutomaton
from primitives.knobs import check_range
from primitives.registry import DRAFTERS


@DRAFTERS.register("sam")
class SuffixAutomatonDrafter(Drafter):
    """Copies the tokens behind the longest match, and leaves short matches to another drafter.

    The end of the text, pending token included, is matched with a suffix automaton of this text and with a corpus. This
    text is copied from unless the corpus has a match more than `bias` tokens longer; of several occurrences the first
    counts. A draft has ``min(max_tokens, 1 + slope * match)`` tokens, the pending one included.

    Args:
        token_store: the corpus.
        vocab_size: token ids from here on are none of the target's.
        max_tokens: most tokens of a draft, the pending one included.
        slope: tokens of a draft for each token of the match.
        bias: by how much a match in the corpus must be longer than one in this text.
        threshold: the fallback drafts where the match, in the corpus less `bias`, is shorter; unused without one.
        static: whether the corpus is searched.
        branches: most nodes on a level of a draft from the corpus; with more than one the most frequent continuations
            of the first `hits` occurrences share a tree.
        max_span: most tokens matched in the corpus.
        hits: most occurrences read, in the order of what follows them.
        fallback: drafts where there is no good match.
        eos_ids: a draft is cut after the first of these.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self,
        token_store: TokenStore,
        vocab_size: int,
        max_tokens: int = 40,
        slope: float = 4.0,
        bias: int = 5,
        threshold: int = 5,
        static: bool = True,
        branches: int = 1,
        max_span: int = 64,
        hits: int = 5000,
        fallback: Drafter | None = None,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        check_range("drafter 'sam'", 0, inf, slope=slope, bias=bias, threshold=threshold)
        check_range("drafter 'sam'", 1, inf, branches=branches, max_span=max_span, hits=hits)
        check_range("drafter 'sam'", 2, inf, max_tokens=max_tokens)
        self.token_store = token_store
        self.vocab_size = vocab_size
        self.max_tokens = max_tokens
        self.slope = slope
        self.bias = bias
        self.threshold = threshold
        self.static = static
        self.branches = branches
        self.max_span = max_span
        self.hits = hits
        self.fallback = fallback
        self.eos_ids = np.array(sorted(eos_ids), np.int64)
        self._running = SuffixAutomaton()

    @property
    def sources(self) -> tuple[str, ...]:
        """Itself, and whoever drafts for the fallback."""
        return (self.name,) if self.fallback is None else (self.name, *self.fallback.sources)

    @property
    def layers(self) -> tuple[int, ...]:
        """What the fallback looks at."""
        return () if self.fallback is None else self.fallback.layers

    @property
    def remembers(self) -> bool:
        """Whether the fallback does."""
        return self.fallback is not None and self.fallback.remembers

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Read the prompt."""
        self._running = SuffixAutomaton()
        self._running.read(prompt.tolist())
        if self.fallback is not None:
            self.fallback.start(prompt, view)

    def propose(self, context: Context) -> DraftTree:
        """Return the copied tokens below the pending one, or the fallback's tree.

        Raises:
            ValueError: the corpus holds an id that the target does not have.
        """
        state, dynamic = self._running.match(context.pending)
        static = self._longer_in_corpus(context.tokens, dynamic)
        if self.fallback is not None and max(dynamic, static.length - self.bias) < self.threshold:
            return self._marked(self.fallback.propose(context), self.fallback)
        if static.length:
            return self._tree(context.pending, *self._from_corpus(static), self._length(static.length))
        start, length = self._running.ends[state] + 1, self._length(dynamic)
        return self._tree(context.pending, context.tokens[None, start : start + length], np.ones(1), length)

    def observe(self, outcome: Outcome) -> None:
        """Read what was committed."""
        self._running.read(outcome.committed.tolist())
        if self.fallback is not None:
            self.fallback.observe(outcome)

    def finish(self) -> None:
        """Drop the text."""
        self._running = SuffixAutomaton()
        if self.fallback is not None:
            self.fallback.finish()

    def _length(self, match: int) -> int:
        """Return how many tokens may be copied behind the pending one."""
        return min(self.max_tokens - 1, int(self.slope * match))

    def _longer_in_corpus(self, text: Ints, dynamic: int) -> Match:
        """Return the longest match in the corpus if it is long enough to go before one of `dynamic` tokens here."""
        least = dynamic + self.bias + 1
        if not self.static or least > self.max_span:
            return Match()
        # Most often there is none of the least length, which one search shows.
        found = self.token_store.longest_match(text, least, least)
        return self.token_store.longest_match(text, self.max_span, least) if found.length else found

    def _from_corpus(self, match: Match) -> tuple[Ints, Floats]:
        """Return int64[m, l] tokens behind occurrences of a match, and the share of the corpus that each speaks for."""
        places = self.token_store.positions(match.low, match.high, self.hits)
        places = places[self.token_store.continuations(places, 1, skip=match.length)[:, 0] != PAD]
        if self.branches == 1:
            places = np.sort(places)[:1]
        grid = self.token_store.continuations(places, self._length(match.length), skip=match.length)
        weights = self.token_store.weights(places)
        return grid, weights / max(weights.sum(), 1)

    def _tree(self, root: int, grid: Ints, shares: Floats, length: int) -> DraftTree:
        """Return the tree of candidates below a root, of at most `length` nodes; each node scores its share."""
        if not grid.size:
            return DraftTree.empty()
        grid = _thinned(up_to_eos(grid, self.eos_ids), shares, self.branches)
        tree = DraftTree.from_grid(np.insert(grid, 0, root, axis=1), shares)
        if tree.tokens.max() >= self.vocab_size:
            raise ValueError(
                f"the token store holds id {tree.tokens.max()}, but the model's ids go from 0 to "
                f"{self.vocab_size - 1}; build the store again with the tokenizer of this model"
            )
        tree = best_nodes(tree, length + 1)
        return tree if self.fallback is None else replace(tree, sources=np.ones(len(tree), np.int64))

    def _marked(self, tree: DraftTree, fallback: Drafter) -> DraftTree:
        """Return the fallback's tree with the bits of its sources behind our own."""
        every = (1 << len(fallback.sources)) - 1
        bits = np.full(len(tree), every, np.int64) if tree.sources is None else tree.sources
        return replace(tree, sources=bits << 1)


def _thinned(grid: Ints, weights: Floats, most: int) -> Ints:
    """Return candidates cut where their prefix is not among the `most` heaviest of its length.

    Args:
        grid: int64[m, l], padded at the end with -1.
        weights: float[m].
        most: how many different prefixes of each length may stay.
    """
    if len(grid) <= most:
        return grid
    grid = grid.copy()
    rows, prefix = np.arange(len(grid)), np.zeros(len(grid), np.int64)
    for level in range(grid.shape[1]):
        going_on = grid[rows, level] != PAD
        rows, prefix = rows[going_on], prefix[going_on]
        # Ids have 32 bits, and there are fewer prefixes than candidates.
        _, prefix = np.unique((prefix << 32) + grid[rows, level], return_inverse=True)
        heaviest = np.argsort(-np.bincount(prefix, weights[rows]), kind="stable")[:most]
        stays = np.isin(prefix, heaviest)
        grid[rows[~stays], level:] = PAD
        rows, prefix = rows[stays], prefix[stays]
    return grid

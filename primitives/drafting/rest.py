"""Retrieval-based speculative decoding (REST): what a corpus has behind the longest passage that ends the text.

Source: REST (arXiv 2311.08252), section 3; github.com/FasterDecoding/REST for the numbers. Which of equally frequent
prefixes are kept is left to chance there, and decided here.
"""

from __future__ import annotations

from math import inf

import numpy as np

from primitives.contract import PAD, Bools, Context, Drafter, DraftTree, Ints
from primitives.datastores.token_store import TokenStore
from primitives.drafting._retrieval import within_text
from primitives.knobs import check_range
from primitives.registry import DRAFTERS


@DRAFTERS.register("rest")
class ExactSuffixDrafter(Drafter):
    """Proposes the most frequent continuations of the longest end of the text that a corpus has.

    The end, pending token included, is looked for with `max_span` tokens down to `min_span`, and the longest one found
    decides. Of its first `hits` occurrences, in the order of the suffix array, up to `length` tokens behind each are
    read, never across the end of a document. Every prefix of these counts how often the corpus has it, and the `nodes`
    best by (count descending, depth ascending, tokens ascending) hang below the pending token. A prefix is at least as
    frequent as what it begins, so the choice holds the prefixes of all it holds.

    Args:
        token_store: the corpus.
        vocab_size: token ids from here on are none of the target's.
        max_span: most tokens looked for.
        min_span: fewest tokens looked for.
        hits: most occurrences read.
        length: most tokens read behind an occurrence.
        nodes: most nodes of the tree, the pending token's left out.
        eos_ids: a continuation is cut after the first of these.

    Raises:
        ValueError: a setting below 1, or `min_span` above `max_span`.
    """

    def __init__(
        self,
        token_store: TokenStore,
        vocab_size: int,
        max_span: int = 16,
        min_span: int = 2,
        hits: int = 5000,
        length: int = 10,
        nodes: int = 64,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        name = "drafter 'rest'"
        check_range(name, 1, inf, max_span=max_span, min_span=min_span, hits=hits, length=length, nodes=nodes)
        if min_span > max_span:
            raise ValueError(f"drafter 'rest': min_span={min_span} is above max_span={max_span}; lower min_span")
        self.token_store = token_store
        self.vocab_size = vocab_size
        self.max_span = max_span
        self.min_span = min_span
        self.hits = hits
        self.length = length
        self.nodes = nodes
        self.eos_ids = np.array(sorted(eos_ids), np.int64)

    def propose(self, context: Context) -> DraftTree:
        """Return the tree of the most frequent prefixes; each node scores its count.

        Raises:
            ValueError: the corpus holds an id that the target does not have.
        """
        match = self.token_store.longest_match(context.tokens, self.max_span, self.min_span)
        if not match.length:
            return DraftTree.empty()
        places = self.token_store.positions(match.low, match.high, self.hits)
        # Read from the last matched token on: what follows it may be the start of the next document.
        grid = self.token_store.continuations(places + match.length - 1, self.length + 1)
        levels = np.ascontiguousarray(grid[:, 1:].T)
        real = within_text(levels, self.eos_ids)
        tree = _prefix_counts(levels, real, self.token_store.weights(places), self.nodes, context.pending)
        if len(tree) and tree.tokens.max() >= self.vocab_size:
            raise ValueError(
                f"the token store holds id {tree.tokens.max()}, but the model's ids go from 0 to "
                f"{self.vocab_size - 1}; build the store again with the tokenizer of this model"
            )
        return tree


def _prefix_counts(levels: Ints, real: Bools, weights: Ints, nodes: int, root: int) -> DraftTree:
    """Return the tree of the most frequent prefixes of some sequences, below a root; empty without a prefix.

    Args:
        levels: int64[L, m], the sequences in the columns, in ascending order.
        real: bool[L, m], which tokens count; those of a sequence that do come first.
        weights: int64[m], how often each sequence counts.
        nodes: most nodes below the root.
        root: its token.
    """
    begins = real.copy()
    # A token begins a prefix unless the sequence before agrees with this one from the first token on.
    begins[:, 1:] &= ~np.logical_and.accumulate(levels[:, 1:] == levels[:, :-1], axis=0)
    # Level by level, so by depth and then by tokens: the order in which equal counts are preferred.
    cells = np.flatnonzero(begins)
    if not len(cells):
        return DraftTree.empty()
    counts = np.add.reduceat((real * weights).ravel(), cells)
    chosen = _largest(counts, nodes)
    cells, counts = cells[chosen], counts[chosen]
    # The parent is the last prefix that begins one level up, in the same sequence or in one before.
    parents = np.searchsorted(cells, cells - levels.shape[1], side="right")
    return DraftTree(
        np.concatenate([[root], levels.ravel()[cells]]),
        np.concatenate([[PAD], parents]),
        scores=np.concatenate([[weights.sum()], counts]).astype(np.float64),
    )


def _largest(counts: Ints, size: int) -> Ints:
    """Return the ascending indices of the `size` largest counts, of equals the first."""
    if len(counts) <= size:
        return np.arange(len(counts))
    least = counts.min()
    above = np.flatnonzero(counts > least)
    if len(above) > size:
        # Most counts are the least one, so the search for the last one that fits is left with few.
        least = np.partition(counts[above], -size)[-size]
        above = np.flatnonzero(counts > least)
    return np.sort(np.concatenate([above, np.flatnonzero(counts == least)[: size - len(above)]]))

"""LogitSpec: the runners-up of the pending token as guesses of the token after it, each with an n-gram's continuation.

Source: arXiv 2507.01449, section 3; github.com/smart-lty/LogitSpec.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np

from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.drafting._ngram_pool import NgramPool
from primitives.eos import eos_cut
from primitives.knobs import check_range
from primitives.registry import DRAFTERS

# Longest chain of a guess, itself included, by its rank among the logits (published code: get_draft_length_via_rank).
CHAIN_LENGTHS: Final = ((8, 4), (32, 3))


@DRAFTERS.register("logitspec")
class LogitSpecDrafter(Drafter):
    """Guesses the token after the pending one from the logits that chose the pending one.

    Below the pending token hang what followed the last n-gram of the text, pending token included, and then, in order
    of rank, the other best tokens of the same logits, each with what followed the n-gram that it would end: chains of
    at most 4 tokens up to rank 8, of 3 up to rank 32, of 1 behind. Chains are taken until there are `capacity` nodes;
    a smaller node budget keeps the same chains that a smaller capacity would.

    Args:
        max_ngram: tokens of the longest n-gram.
        num_tokens: most tokens of a continuation.
        capacity: most nodes of the tree, the pending token's and those that chains share counted each time.
        eos_ids: a chain is cut after the first of these.

    Raises:
        ValueError: a setting out of its range.
    """

    def __init__(
        self, max_ngram: int = 3, num_tokens: int = 20, capacity: int = 64, eos_ids: frozenset[int] = frozenset()
    ) -> None:
        check_range("drafter 'logitspec'", 1, inf, max_ngram=max_ngram, num_tokens=num_tokens)
        check_range("drafter 'logitspec'", 2, inf, capacity=capacity)
        self.max_ngram = max_ngram
        self.num_tokens = num_tokens
        self.capacity = capacity
        self.eos_ids = eos_ids
        self._pool = NgramPool(max_ngram, num_tokens)

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Read the prompt's n-grams."""
        self._pool = NgramPool(self.max_ngram, self.num_tokens)
        self._pool.read(prompt.tolist())

    def propose(self, context: Context) -> DraftTree:
        """Return the chains below the pending token, equal beginnings merged."""
        chains, room = [], self.capacity - 1
        for chain in self._chains(context):
            kept = chain[: min(room, eos_cut(chain, self.eos_ids) or room)]
            chains.append([context.pending, *kept])
            room -= len(kept)
            if not room:
                break
        # Only the first chain can share nodes with others, so weights that fall keep the chains in their order.
        weights = 1 / np.arange(1.0, len(chains) + 1)
        return DraftTree.from_candidates(chains, weights / weights.sum())

    def observe(self, outcome: Outcome) -> None:
        """Read the n-grams of what was committed."""
        self._pool.read(outcome.committed.tolist())

    def finish(self) -> None:
        """Drop the n-grams."""
        self._pool = NgramPool(self.max_ngram, self.num_tokens)

    def _chains(self, context: Context) -> Iterator[list[int]]:
        """Yield what to put below the pending token, the best first."""
        end = context.tokens[-self.max_ngram :].tolist()
        continuation = self._pool.after(end)
        if continuation:
            yield continuation
        count = min(self.capacity, len(context.logits))
        for rank, guess in enumerate(context.logits.topk(count).indices.tolist()):
            if guess != context.pending:
                yield [guess, *self._pool.after([*end, guess])][: _chain_length(rank)]


def _chain_length(rank: int) -> int:
    return next((length for last, length in CHAIN_LENGTHS if rank <= last), 1)

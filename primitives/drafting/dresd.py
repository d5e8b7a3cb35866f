"""Dense retrieval for speculative decoding (DReSD): what followed the hidden states nearest to the present one.

Source: DReSD (arXiv 2502.15572), section 3 and its published code for the numbers. The paper verifies the drafts as a
batch of sequences (``connector.layout=batch``); as a tree they give the same tokens.
"""

from __future__ import annotations

from math import inf

import numpy as np

from primitives.contract import PAD, Context, Drafter, DraftTree
from primitives.datastores.vector_store import VectorStore
from primitives.drafting._retrieval import best_candidates, key_of, layers_of, nearness, up_to_eos
from primitives.knobs import check_range
from primitives.registry import DRAFTERS


@DRAFTERS.register("dresd")
class DenseRetrievalDrafter(Drafter):
    """Proposes the continuations of the nearest states that led to the pending token.

    Only neighbours whose first stored token is the pending one survive; what the store has behind it is the draft. The
    nearest `drafts` distinct ones are proposed, and none if no neighbour survives.

    Args:
        vector_store: the corpus and its hidden states.
        neighbours: K, nearest keys looked up.
        drafts: most drafts proposed.
        length: most tokens of a draft, the pending token left out.
        sharpness: how fast a neighbour's weight in the node scores falls with its distance.
        eos_ids: a draft is cut after the first of these.

    Raises:
        ValueError: a count below 1, or a negative sharpness.
    """

    def __init__(
        self,
        vector_store: VectorStore,
        neighbours: int = 50,
        drafts: int = 10,
        length: int = 10,
        sharpness: float = 20.0,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        check_range("drafter 'dresd'", 1, inf, neighbours=neighbours, drafts=drafts, length=length)
        check_range("drafter 'dresd'", 0, inf, sharpness=sharpness)
        self.vector_store = vector_store
        self.neighbours = neighbours
        self.drafts = drafts
        self.length = length
        self.sharpness = sharpness
        self.eos_ids = np.array(sorted(eos_ids), np.int64)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layer that the store's keys are made of, if it is not the final state."""
        return layers_of(self.vector_store)

    def propose(self, context: Context) -> DraftTree:
        """Return the tree of the nearest drafts; each node scores the weight of the neighbours that agree on it."""
        store = self.vector_store
        similarity, ids = store.search(key_of(store, context), self.neighbours)
        grid = up_to_eos(store.continuations(ids, self.length + 1), self.eos_ids)
        survives = (grid[:, 0] == context.pending) & (grid[:, 1] != PAD)
        near = similarity[survives].astype(np.float64)
        weights = nearness(near, store.token_store.weights(ids[survives]), self.sharpness)
        return best_candidates(grid[survives], near, weights, self.drafts)

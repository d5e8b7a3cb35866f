"""Semantic Embedding Navigation (SEN): continuations of the nearest hidden states.

Source: SENSE (arXiv 2606.00021), section 3.2, Eq. 8; what is not public follows DReSD (arXiv 2502.15572), see
docs/fidelity.md.
"""

from __future__ import annotations

from math import inf

import numpy as np

from primitives.contract import Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView
from primitives.datastores.projection import Keys
from primitives.datastores.running_store import RunningStore
from primitives.datastores.vector_store import VectorStore
from primitives.drafting._retrieval import (
    best_candidates,
    best_nodes,
    key_of,
    layers_of,
    nearness,
    states_for,
    up_to_eos,
)
from primitives.knobs import check_range
from primitives.registry import DRAFTERS


@DRAFTERS.register("sen")
class SemanticDrafter(Drafter):
    """Retrieves what followed the hidden states nearest to the present one, whatever token it begins with.

    A candidate scores ``alpha * (its first token is the pending one) + beta * cosine similarity``; the best
    `candidates` distinct ones form the tree. The states are those that the static store's keys are made of: the final
    one, or the one that enters an inner layer.

    Args:
        vector_store: the static store.
        candidates: N, most candidates in the tree.
        length: M, most tokens of a candidate.
        neighbours: K, neighbours looked up in the static store.
        dynamic_neighbours: neighbours looked up in the running sequence.
        alpha: weight of the lexical hit.
        beta: weight of the similarity.
        static: whether the static store is used.
        dynamic: whether the running sequence is used.
        prompt_in_dynamic: whether the running sequence includes the prompt.
        require_hit: keep only candidates that begin with the pending token (DReSD's filter; SENSE "w/o SEN").
        sharpness: how fast a neighbour's weight in the node scores falls with its distance.
        nodes: most nodes of the tree, the best ones; None keeps all, for the connector to choose from.
        eos_ids: a candidate is cut after the first of these.

    Raises:
        ValueError: a count below 1, a negative weight, or both stores off.
    """

    def __init__(
        self,
        vector_store: VectorStore,
        candidates: int = 10,
        length: int = 10,
        neighbours: int = 50,
        dynamic_neighbours: int = 10,
        alpha: float = 1.0,
        beta: float = 0.1,
        static: bool = True,
        dynamic: bool = True,
        prompt_in_dynamic: bool = True,
        require_hit: bool = False,
        sharpness: float = 20.0,
        nodes: int | None = None,
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        name = "drafter 'sen'"
        check_range(name, 1, inf, candidates=candidates, length=length, nodes=nodes)
        check_range(name, 1, inf, neighbours=neighbours, dynamic_neighbours=dynamic_neighbours)
        check_range(name, 0, inf, alpha=alpha, beta=beta, sharpness=sharpness)
        if not (static or dynamic):
            raise ValueError("drafter 'sen': static=false and dynamic=false leave nothing to search; turn one on")
        self.vector_store = vector_store
        self.candidates = candidates
        self.length = length
        self.neighbours = neighbours
        self.dynamic_neighbours = dynamic_neighbours
        self.alpha = alpha
        self.beta = beta
        self.static = static
        self.dynamic = dynamic
        self.prompt_in_dynamic = prompt_in_dynamic
        self.require_hit = require_hit
        self.sharpness = sharpness
        self.nodes = nodes
        self.eos_ids = np.array(sorted(eos_ids), np.int64)
        self._running: RunningStore

    @property
    def layers(self) -> tuple[int, ...]:
        """The layer that the store's keys are made of, if it is not the final state."""
        return layers_of(self.vector_store)

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Begin an empty running store, or one that holds the prompt."""
        self._running = RunningStore(self.vector_store.projection)
        if self.dynamic and self.prompt_in_dynamic:
            self._running.extend(prompt[1:], states_for(self.vector_store, view)[:-1])

    def propose(self, context: Context) -> DraftTree:
        """Return the tree of the best candidates; each node scores the weight of the neighbours that agree on it."""
        similarity, grid, copies = self._search(key_of(self.vector_store, context))
        hit = grid[:, 0] == context.pending
        if self.require_hit:
            similarity, grid, copies, hit = similarity[hit], grid[hit], copies[hit], hit[hit]
        score = self.alpha * hit + self.beta * similarity
        tree = best_candidates(grid, score, nearness(similarity, copies, self.sharpness), self.candidates)
        return best_nodes(tree, self.nodes)

    def observe(self, outcome: Outcome) -> None:
        """Add the states that predicted the committed tokens to the running store."""
        if self.dynamic and len(outcome.path):
            states = states_for(self.vector_store, outcome.view)
            self._running.extend(outcome.committed, states[outcome.tree.rows[outcome.path]])

    def _search(self, key: Keys) -> tuple[Floats, Ints, Ints]:
        """Return similarities float[m], continuations int64[m, length] and copies int64[m] from both stores."""
        found = []
        if self.static:
            near, ids = self.vector_store.search(key, self.neighbours)
            copies = self.vector_store.token_store.weights(ids)
            found.append((near, self.vector_store.continuations(ids, self.length), copies))
        if self.dynamic:
            near, ids = self._running.search(key, self.dynamic_neighbours)
            found.append((near, self._running.continuations(ids, self.length), np.ones(len(ids), np.int64)))
        similarity, grid, copies = (np.concatenate(part) for part in zip(*found, strict=True))
        return similarity.astype(np.float64), up_to_eos(grid, self.eos_ids), copies

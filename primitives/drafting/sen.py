"""Semantic Embedding Navigation (SEN): continuations of the nearest hidden states.

Source: SENSE (arXiv 2606.00021), section 3.2, Eq. 8; what is not public follows DReSD (arXiv 2502.15572), see
docs/fidelity.md.
"""

from __future__ import annotations

import numpy as np

from primitives.contract import PAD, Context, Drafter, DraftTree, Floats, Ints, Outcome, TargetView
from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.datastores.projection import Keys
from primitives.datastores.running_store import RunningStore
from primitives.registry import DRAFTERS


@DRAFTERS.register("sen")
class SemanticDrafter(Drafter):
    """Retrieves what followed the hidden states nearest to the present one, whatever token it begins with.

    A candidate scores ``alpha * (its first token is the pending one) + beta * cosine similarity``; the best
    `candidates` distinct ones form the tree.

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
        eos_ids: a candidate is cut after the first of these.

    Raises:
        ValueError: a count below 1, a negative weight, or both stores off.
    """

    def __init__(
        self,
        vector_store: HiddenStateStore,
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
        eos_ids: frozenset[int] = frozenset(),
    ) -> None:
        counts = {
            "candidates": candidates,
            "length": length,
            "neighbours": neighbours,
            "dynamic_neighbours": dynamic_neighbours,
        }
        for name, count in counts.items():
            if count < 1:
                raise ValueError(f"drafter 'sen': {name}={count} is out of range; it must be at least 1")
        for name, weight in (
            ("alpha", alpha),
            ("beta", beta),
            ("sharpness", sharpness),
        ):
            if weight < 0:
                raise ValueError(f"drafter 'sen': {name}={weight} is out of range; it must not be negative")
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
        self.eos_ids = np.array(sorted(eos_ids), np.int64)
        self._running: RunningStore

    def start(self, prompt: Ints, view: TargetView) -> None:
        """Begin an empty running store, or one that holds the prompt."""
        self._running = RunningStore(self.vector_store.projection)
        if self.dynamic and self.prompt_in_dynamic:
            self._running.extend(prompt[1:], view.hidden[:-1])

    def propose(self, context: Context) -> DraftTree:
        """Return the tree of the best candidates; each node scores the weight of the neighbours that agree on it."""
        key = self.vector_store.projection(context.hidden[None].float().cpu().numpy())[0]
        similarity, found = self._search(key)
        hit = found[:, 0] == context.pending
        if self.require_hit:
            similarity, found, hit = similarity[hit], found[hit], hit[hit]
        if not len(found):
            return DraftTree.empty()
        weights = np.exp(self.sharpness * (similarity - similarity.max()))
        grid, score, weights = _distinct(found, self.alpha * hit + self.beta * similarity, weights)
        best = np.argsort(-score, kind="stable")[: self.candidates]
        return DraftTree.from_grid(grid[best], weights[best])

    def observe(self, outcome: Outcome) -> None:
        """Add the states that predicted the committed tokens to the running store."""
        if self.dynamic and len(outcome.path):
            self._running.extend(outcome.committed, outcome.view.hidden[outcome.tree.rows[outcome.path]])

    def _search(self, key: Keys) -> tuple[Floats, Ints]:
        """Return similarities float[m] and continuations int64[m, length] from both stores, empty ones left out."""
        similarities: list[Floats] = [np.empty(0)]
        grids: list[Ints] = [np.empty((0, self.length), np.int64)]
        for used, store, count in (
            (self.static, self.vector_store, self.neighbours),
            (self.dynamic, self._running, self.dynamic_neighbours),
        ):
            if used:
                near, ids = store.search(key, count)
                similarities.append(near.astype(np.float64))
                grids.append(store.continuations(ids, self.length))
        return np.concatenate(similarities), self._up_to_eos(np.concatenate(grids))

    def _up_to_eos(self, grid: Ints) -> Ints:
        """Return the candidates cut after their first EOS: nothing behind it can be committed."""
        ends = np.isin(grid, self.eos_ids)
        return np.where(np.cumsum(ends, axis=1) - ends > 0, PAD, grid)


def _distinct(grid: Ints, score: Floats, weights: Floats) -> tuple[Ints, Floats, Floats]:
    """Return the candidates without duplicates and proper prefixes of others: best score of each, weights added up."""
    order = np.lexsort(grid.T[::-1])
    grid, score, weights = grid[order], score[order], weights[order]
    # In sorted order a prefix stands right before one of its extensions, so neighbours tell all.
    covered = ((grid[:-1] == grid[1:]) | (grid[:-1] == PAD)).all(1)
    group = np.concatenate([[0], np.cumsum(~covered)])
    last = np.flatnonzero(np.concatenate([~covered, [True]]))
    best: Floats = np.full(len(last), -np.inf)
    np.maximum.at(best, group, score)
    return grid[last], best, np.bincount(group, weights=weights).astype(np.float64)

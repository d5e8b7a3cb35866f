"""Draft trees grown level by level with an EAGLE head: one forward a level, no loop over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from primitives.contract import PAD, DraftTree, Ints
from primitives.models.eagle_head import EagleHead
from primitives.models.pooled_cache import PooledCache

# EAGLE-1's tree (github.com/SafeAILab/EAGLE, choices.py): each node by the ranks on its path.
MC_SIM_7B_63: Final = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)


class Walk:
    """The frontier of a tree that grows below the pending token.

    Args:
        head: rates tokens.
        cache: of the pairs so far; what a walk adds to it is removed by `end`.
        state: [1, h], the state after the pair of the pending token.
        position: of the next pair.
    """

    def __init__(self, head: EagleHead, cache: PooledCache, state: torch.Tensor, position: int) -> None:
        self._head = head
        self._cache = cache
        self._position = position
        self._base = cache.length
        self._states = state
        self._seen = torch.empty(1, 0, dtype=torch.bool, device=state.device)

    @property
    def device(self) -> torch.device:
        """Where the head computes."""
        return self._states.device

    def best(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the target ids int64[n, k] and log-probabilities float[n, k] of the likeliest children, best first."""
        logits = self._head.logits(self._states).float()
        top = logits.topk(min(k, logits.shape[-1]))
        return self._head.target_ids(top.indices), top.values - logits.logsumexp(-1, keepdim=True)

    def feed(self, tokens: torch.Tensor, rows: torch.Tensor) -> None:
        """Make int64[m] tokens the frontier; int64[m] `rows` are their parents' places in the present one."""
        count = len(tokens)
        own = torch.eye(count, dtype=torch.bool, device=tokens.device)
        self._seen = torch.cat([self._seen[rows], own], dim=1)
        mask = torch.cat([self._seen.new_ones(count, self._base), self._seen], dim=1)
        positions = torch.full_like(tokens, self._position)
        self._states = self._head.step(tokens, self._states[rows], positions, self._cache, mask)
        self._position += 1

    def end(self) -> None:
        """Drop what the walk added to the cache."""
        self._cache.truncate(self._base)


def dynamic_tree(walk: Walk, depth: int, top_k: int, nodes: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return tokens, parents and log-probabilities [n] of the best nodes below the pending token (EAGLE-2, section 4).

    The `top_k` likeliest nodes of each level get `top_k` children each; then, of all nodes, those with the highest
    log-probability of their whole path stay, of equals the one made first. A node that cannot be among them any more
    has no child that can, so it is not expanded, which changes nothing in the outcome.

    Args:
        walk: at the pending token.
        depth: levels that are expanded below level 1.
        top_k: children of a node, and nodes of a level that are expanded.
        nodes: most nodes.
    """
    ids, scores = (row[0] for row in walk.best(top_k))
    tokens, parents, paths = [ids], [torch.full_like(ids, PAD)], [scores]
    frontier, rows = torch.arange(len(ids), device=ids.device), torch.zeros_like(ids)
    made = len(ids)
    for _ in range(depth):
        hopeful = scores > _least(torch.cat(paths), nodes)
        if not bool(hopeful.any()):
            break
        frontier, scores = frontier[hopeful], scores[hopeful]
        walk.feed(ids[hopeful], rows[hopeful])
        children, log_p = walk.best(top_k)
        below = scores[:, None] + log_p
        tokens.append(children.flatten())
        parents.append(frontier.repeat_interleave(children.shape[1]))
        paths.append(below.flatten())
        chosen = below.flatten().topk(min(top_k, below.numel()))
        ids, scores, rows = children.flatten()[chosen.indices], chosen.values, chosen.indices // children.shape[1]
        frontier = made + chosen.indices
        made += below.numel()
    walk.end()
    joined = torch.cat(paths)
    kept = joined.argsort(descending=True, stable=True)[:nodes].sort().values
    places = torch.searchsorted(kept, torch.cat(parents)[kept])
    above = torch.where(torch.cat(parents)[kept] < 0, PAD, places)
    return torch.cat(tokens)[kept], above, joined[kept]


def _least(scores: torch.Tensor, nodes: int) -> float:
    """Return the score of the last of the best `nodes`, -inf while there are fewer."""
    return float(scores.topk(nodes).values[-1]) if len(scores) >= nodes else -np.inf


@dataclass(frozen=True, eq=False)
class Level:
    """One level of a fixed tree.

    Attributes:
        rows: int64[n], the parent of each node, counted among those of the level above that have children.
        ranks: int64[n], the rank of each node among its parent's children, 0 the likeliest.
        inner: int64[m], the nodes that have children.
    """

    rows: Ints
    ranks: Ints
    inner: Ints


def fixed_levels(paths: Sequence[Sequence[int]], owner: str) -> list[Level]:
    """Return the levels of a tree whose nodes are given by the ranks on their paths; `owner` begins an error.

    Raises:
        ValueError: a negative rank, a node twice, or a node without its parent.
    """
    nodes = [tuple(path) for path in paths]
    known = set(nodes)
    for node in nodes:
        if not node or min(node) < 0 or nodes.count(node) > 1:
            raise ValueError(
                f"{owner}: tree holds the path {list(node)}; each is a list of ranks from 0 on, given once"
            )
        if len(node) > 1 and node[:-1] not in known:
            raise ValueError(f"{owner}: tree holds the path {list(node)} without its beginning {list(node[:-1])}")
    levels = []
    above: dict[tuple[int, ...], int] = {(): 0}
    for depth in range(1, max(map(len, nodes), default=0) + 1):
        here = sorted(node for node in nodes if len(node) == depth)
        parents = {node[:-1] for node in nodes if len(node) == depth + 1}
        inner = [place for place, node in enumerate(here) if node in parents]
        levels.append(
            Level(
                np.array([above[node[:-1]] for node in here], np.int64),
                np.array([node[-1] for node in here], np.int64),
                np.array(inner, np.int64),
            )
        )
        above = {here[place]: row for row, place in enumerate(inner)}
    return levels


def fixed_tree(walk: Walk, levels: Sequence[Level]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return tokens, parents and log-probabilities [n] of a fixed tree below the pending token (EAGLE-1)."""
    width = 1 + max(int(level.ranks.max()) for level in levels)
    device = walk.device
    tokens, parents, paths = [], [], []
    # Numbers and log-probabilities of the nodes whose children come next; at first the pending token alone.
    above, gone = torch.full((1,), PAD, device=device), torch.zeros(1, device=device)
    made = 0
    for number, level in enumerate(levels):
        ids, log_p = walk.best(width)
        rows, ranks, inner = (torch.from_numpy(part).to(device) for part in (level.rows, level.ranks, level.inner))
        tokens.append(ids[rows, ranks])
        parents.append(above[rows])
        paths.append(gone[rows] + log_p[rows, ranks])
        if number + 1 < len(levels):
            walk.feed(tokens[-1][inner], rows[inner])
        above, gone = made + inner, paths[-1][inner]
        made += len(rows)
    walk.end()
    return torch.cat(tokens), torch.cat(parents), torch.cat(paths)


def below_pending(pending: int, tokens: torch.Tensor, parents: torch.Tensor, log_p: torch.Tensor) -> DraftTree:
    """Return the draft tree of the pending token and [n] nodes below it; a node scores the probability of its path."""
    return DraftTree(
        np.concatenate([[pending], tokens.cpu().numpy()]),
        np.concatenate([[PAD], parents.cpu().numpy() + 1]),
        scores=np.concatenate([[1.0], log_p.double().exp().cpu().numpy()]),
    )

"""The drafter of both kinds of EAGLE heads: the head's cache of the committed text, and the tree on top of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from primitives.contract import Context, Drafter, DraftTree, Ints, Outcome, TargetView
from primitives.drafting._eagle_trees import Level, Walk, below_pending, dynamic_tree, fixed_tree
from primitives.models.eagle_head import EagleHead
from primitives.models.eagle_loading import HeadTarget, load_head
from primitives.models.pooled_cache import PooledCache

# Pairs of a prompt that go through the head at once; their mask grows with the square of that.
TOGETHER: Final = 512


class HeadDrafter(Drafter):
    """Feeds a head the pairs of the committed text, each once, and grows a tree below the pending token.

    A pair is the target's features after a token and the token after it; the last pair holds the pending token. The
    features of a pair are those that the target computed, never the head's own. Where the text has outgrown the head's
    positions, nothing is drafted.

    Args:
        draft_folder: folder of the head.
        embeddings: [V, h'], the target's input embedding matrix.
        output_embeddings: [V, h'], its output embedding matrix.
        num_layers: its decoder layers.
        depth: levels that a dynamic tree is expanded below level 1.
        top_k: children of a node, and nodes of a level that are expanded.
        nodes: most nodes of a dynamic tree, the pending token's included.
        levels: of a fixed tree; None grows a dynamic one.
    """

    def __init__(
        self,
        draft_folder: Path | None,
        embeddings: torch.Tensor,
        output_embeddings: torch.Tensor,
        num_layers: int,
        depth: int,
        top_k: int,
        nodes: int,
        levels: Sequence[Level] | None = None,
    ) -> None:
        self.depth = depth
        self.top_k = top_k
        self.nodes = nodes
        self.levels = levels
        self._head: EagleHead | None = None
        if draft_folder is not None:
            self._head = load_head(draft_folder, self.name, HeadTarget(embeddings, output_embeddings, num_layers))
            self._head.pack()
        self._cache = PooledCache(1)
        self._features: torch.Tensor
        self._fed: Ints

    @property
    def head(self) -> EagleHead:
        """The loaded head."""
        assert self._head is not None
        return self._head

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of the target that the head looks at."""
        return () if self._head is None else self._head.captures

    @abstractmethod
    def features_of(self, view: TargetView) -> torch.Tensor:
        """Return the [n, k h'] features of the rows of a view."""

    @torch.inference_mode()
    def start(self, prompt: Ints, view: TargetView) -> None:
        """Read the pairs of the prompt; that of its last token lacks the token after it."""
        self._cache.truncate(0)
        self._fed = np.empty(0, np.int64)
        self._features = self.features_of(view)
        if 1 < len(prompt) <= self._limit:
            self._read(prompt[1:])

    @torch.inference_mode()
    def propose(self, context: Context) -> DraftTree:
        """Return the tree below the pending token; empty where budget or positions leave nothing to draft."""
        length = len(context.tokens) - 1
        if context.budget < 2 or length > self._limit:
            return DraftTree.empty()
        state = self._read(context.tokens[len(self._fed) + 1 :])
        # Level 1 needs no pair beyond the pending token's; every further level needs one at the next position.
        further = min(context.budget - 2, self._limit - length)
        walk = Walk(self.head, self._cache, state, length)
        if self.levels is None:
            grown = dynamic_tree(walk, min(self.depth, further), self.top_k, self.nodes - 1)
        else:
            grown = fixed_tree(walk, self.levels[: further + 1])
        return below_pending(context.pending, *grown)

    def observe(self, outcome: Outcome) -> None:
        """Keep the features of the committed tokens; unlearn a pending token that a rival has beaten."""
        if not len(outcome.path):
            return
        made = self.features_of(outcome.view)
        committed, ahead = outcome.committed, len(self._features) == 0
        if ahead and self._fed[-1] != committed[0]:
            self._fed = self._fed[:-1]
            self._cache.truncate(len(self._fed))
            self._features = made[:1]
        rows = torch.from_numpy(outcome.path + 1).to(made.device)
        self._features = torch.cat([self._features, made[rows]])

    def finish(self) -> None:
        """Drop the features of the text."""
        self._features = self._features[:0]

    @property
    def _limit(self) -> int:
        return self.head.config.max_position_embeddings

    def _read(self, tokens: Ints) -> torch.Tensor:
        """Feed the pairs of the features at hand and the tokens after them; return the [1, h] state after the last."""
        states = self.head.fused(self._features[: len(tokens)])
        self._features = self._features[len(tokens) :]
        self._fed = np.concatenate([self._fed, tokens])
        ids = torch.tensor(tokens, device=states.device)
        out = states
        for part in torch.arange(len(tokens), device=states.device).split(TOGETHER):
            past, count = self._cache.length, len(part)
            mask = None
            if count > 1:
                mask = torch.ones(count, past + count, dtype=torch.bool, device=states.device).tril(past)
            positions = torch.arange(past, past + count, device=states.device)
            out = self.head.step(ids[part], states[part], positions, self._cache, mask)
        return out[-1:]

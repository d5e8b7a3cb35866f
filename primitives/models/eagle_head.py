"""What the heads of EAGLE-1/2 and EAGLE-3 share (arXiv 2401.15077, 2406.16858, 2503.01840)."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import nn

from primitives.models.eagle_config import HeadConfig
from primitives.models.eagle_layer import HeadLayer, Rotary
from primitives.models.packing import pack
from primitives.models.pooled_cache import PooledCache


class EagleHead(nn.Module):
    """Turns a pair, the state after token t and token t + 1, into a state that rates token t + 2.

    Shapes: n pairs, h the head's width, h' the target's, V and V_d as in `HeadConfig`. The position of a pair is that
    of its state.

    Args:
        config: sizes.
        embedding: [V, h] input embeddings; no tensor of the head, mostly the target's own.

    Attributes:
        kind: what the drafter that uses it is called.
        captures: target layers whose entering states are the features; empty: the final state, after the last norm.
    """

    kind: ClassVar[str] = ""

    def __init__(self, config: HeadConfig, embedding: torch.Tensor) -> None:
        super().__init__()
        self.config = config
        self.captures: tuple[int, ...] = ()
        self.rotary = Rotary(config)
        self.embedding: torch.Tensor
        self.register_buffer("embedding", embedding, persistent=False)

    @property
    @abstractmethod
    def layer(self) -> HeadLayer:
        """The one decoder layer."""

    @abstractmethod
    def fused(self, features: torch.Tensor) -> torch.Tensor:
        """Return the [..., h] states that stand for [..., k h'] features of the target."""

    @abstractmethod
    def inputs(self, tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what enters the attention, [..., width], and the residual beside it, [..., h], for pairs.

        Args:
            tokens: int64[...], the second halves.
            states: [..., h], the first halves: fused features, or states that the head made.
        """

    @abstractmethod
    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return [..., V_d] logits of [..., h] states that the head made."""

    def target_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the target's ids for columns of the logits."""
        return ids

    def pack(self) -> None:
        """Make the head ready for drafting on a CPU; it cannot be trained or saved any more."""
        pack(self)

    def embedded(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the [..., h] embeddings of int64[...] tokens."""
        return F.embedding(tokens, self.embedding)

    def step(
        self,
        tokens: torch.Tensor,
        states: torch.Tensor,
        positions: torch.Tensor,
        cache: PooledCache,
        mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the [n, h] states that n pairs become, behind a cache which keeps their keys and values.

        Args:
            tokens: int64[n].
            states: [n, h].
            positions: int64[n].
            cache: of one layer, P pairs long.
            mask: bool[n, P + n], what each pair sees; None lets every pair see all.
        """
        inputs, residual = self.inputs(tokens, states)
        turns = self.rotary(residual[None], positions[None])
        attended = self.layer.attend(inputs[None], turns, cache, mask)
        return self.layer.finish(residual[None], attended)[0]

"""The head of EAGLE-1 and EAGLE-2: the target's next final state, from the present one and the token after it.

Source: arXiv 2401.15077, section 4.1; arXiv 2406.16858 keeps the network.
"""

from __future__ import annotations

from typing import ClassVar, cast

import torch
from torch import nn

from primitives.models.eagle_config import HeadConfig
from primitives.models.eagle_head import EagleHead
from primitives.models.eagle_layer import HeadLayer
from primitives.models.packing import packed, product


class Eagle2Head(EagleHead):
    """A linear layer over embedding and state, then a decoder layer without input norm; the target's matrix rates.

    Args:
        config: sizes.
        embedding: [V, h] input embeddings.
        output: [V, h] output embeddings of the target.
    """

    kind: ClassVar[str] = "eagle2"

    def __init__(self, config: HeadConfig, embedding: torch.Tensor, output: torch.Tensor) -> None:
        super().__init__(config, embedding)
        self.output: torch.Tensor
        self.register_buffer("output", output, persistent=False)
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.bias)
        self.layers = nn.ModuleList([HeadLayer(config, config.hidden_size)])

    @property
    def layer(self) -> HeadLayer:
        """The one decoder layer."""
        return cast(HeadLayer, self.layers[0])

    def fused(self, features: torch.Tensor) -> torch.Tensor:
        """Return the features as they are: the target's final states."""
        return features

    def inputs(self, tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what enters the attention, and the same as its residual."""
        joined = self.fc(torch.cat([self.embedded(tokens), states], dim=-1))
        return joined, joined

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return [..., V] logits of [..., h] states, which stand for the target's own final ones."""
        return product(states, self.output)

    def pack(self) -> None:
        """Pack the head's layers and its copy of the target's matrix."""
        super().pack()
        self.output = packed(self.output)

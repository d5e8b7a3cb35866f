"""The head of EAGLE-3: three layers of the target fused, a vocabulary of its own, its own states fed back.

Source: arXiv 2503.01840, section 3.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from primitives.models.eagle_config import HeadConfig
from primitives.models.eagle_head import EagleHead
from primitives.models.eagle_layer import HeadLayer


class Eagle3Layer(HeadLayer):
    """The decoder layer, with a norm for each of the two inputs.

    Args:
        config: sizes.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config, 2 * config.hidden_size)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)


class Eagle3Head(EagleHead):
    """Attention over normed embedding and normed state; the un-normed state is the residual and is fed back.

    Args:
        config: sizes.
        embedding: [V, h] input embeddings.
        captures: target layers whose entering states are the features, k of them.

    Attributes:
        d2t: int64[V_d], what must be added to a column's number to get the target's id.
        t2d: bool[V], whether the head can propose a target id.
    """

    kind: ClassVar[str] = "eagle3"

    def __init__(self, config: HeadConfig, embedding: torch.Tensor, captures: tuple[int, ...]) -> None:
        super().__init__(config, embedding)
        self.captures = captures
        self.fc = nn.Linear(len(captures) * config.target_hidden_size, config.hidden_size, bias=False)
        self.midlayer = Eagle3Layer(config)
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self.d2t: torch.Tensor
        self.t2d: torch.Tensor
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        known = torch.arange(config.vocab_size) < config.draft_vocab_size
        self.register_buffer("t2d", known)

    @property
    def layer(self) -> HeadLayer:
        """The one decoder layer."""
        return self.midlayer

    def fused(self, features: torch.Tensor) -> torch.Tensor:
        """Return the [..., h] states that stand for [..., k h'] features of the target."""
        return self.fc(features)

    def inputs(self, tokens: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what enters the attention, [..., 2 h], and the un-normed states as its residual."""
        both = [self.midlayer.input_layernorm(self.embedded(tokens)), self.midlayer.hidden_norm(states)]
        return torch.cat(both, dim=-1), states

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return [..., V_d] logits of [..., h] states that the head made."""
        return self.lm_head(self.norm(states))

    def target_ids(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the target's ids for columns of the logits."""
        return ids + self.d2t[ids]

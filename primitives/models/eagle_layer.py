"""The one decoder layer of an EAGLE head: rotary attention over a cache of its own, then an MLP."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

from primitives.models.eagle_config import HeadConfig
from primitives.models.pooled_cache import PooledCache

Heads = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class HeadAttention(nn.Module):
    """Grouped-query attention whose input may be wider than its output.

    Args:
        config: sizes.
        width: of the input.
    """

    def __init__(self, config: HeadConfig, width: int) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        queries = config.num_attention_heads * config.head_dim
        keys = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(width, queries, bias=config.qkv_bias)
        self.k_proj = nn.Linear(width, keys, bias=config.qkv_bias)
        self.v_proj = nn.Linear(width, keys, bias=config.qkv_bias)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)

    def heads(self, inputs: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Heads:
        """Return queries [B, H, n, d], keys and values [B, H_kv, n, d] of [B, n, width] inputs, rotated."""
        split = [
            projection(inputs).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        ]
        queries, keys = apply_rotary_pos_emb(split[0], split[1], cos, sin)
        return queries, keys, split[2]

    def joined(self, attended: torch.Tensor) -> torch.Tensor:
        """Return [B, n, h] of [B, H, n, d] attended values."""
        return self.o_proj(attended.transpose(1, 2).flatten(2))


class HeadLayer(nn.Module):
    """Attention and MLP with their residuals; what enters the attention is the head's affair.

    Args:
        config: sizes.
        width: of the attention's input.
    """

    def __init__(self, config: HeadConfig, width: int) -> None:
        super().__init__()
        llama = config.llama()
        self.self_attn = HeadAttention(config, width)
        self.mlp = LlamaMLP(llama)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)

    def finish(self, residual: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Return the layer's output [B, n, h] from its residual and the attended values [B, H, n, d]."""
        middle = residual + self.self_attn.joined(attended)
        return middle + self.mlp(self.post_attention_layernorm(middle))

    def attend(
        self,
        inputs: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        cache: PooledCache,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        """Return attended values [1, H, n, d] of [1, n, width] inputs behind the cache, which keeps their keys.

        Args:
            inputs: what the projections take.
            turns: cosines and sines of the positions, [1, n, d] each.
            cache: keys and values so far, of length P.
            mask: bool[n, P + n], what each row sees; None lets every row see all.
        """
        queries, keys, values = self.self_attn.heads(inputs, *turns)
        keys, values = cache.write(0, keys, values)
        shown = None if mask is None else mask[None, None]
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=shown, enable_gqa=True)


class Rotary(nn.Module):
    """Cosines and sines of positions.

    Args:
        config: sizes and rotary parameters.
    """

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.inner = LlamaRotaryEmbedding(config.llama())
        # Its frequencies follow from the configuration, and published checkpoints do not have them.
        for name in list(self.inner._buffers):
            self.inner._non_persistent_buffers_set.add(name)

    def forward(self, like: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return [B, n, d] cosines and sines of int64[B, n] positions in the dtype of a tensor."""
        return self.inner(like, positions)

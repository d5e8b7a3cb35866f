"""What the config.json of a published EAGLE head says, and what of it this project refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from primitives.models.eagle_keys import AUXILIARY, HeadKeys
from primitives.models.wording import brief


@dataclass(frozen=True)
class HeadConfig:
    """Sizes of an EAGLE head, under the published keys.

    Attributes:
        hidden_size: of the head, h.
        intermediate_size: of its MLP.
        num_attention_heads: query heads.
        num_key_value_heads: key and value heads.
        head_dim: width of one of them.
        vocab_size: of the target, V.
        draft_vocab_size: rows of the head's own output matrix, V_d; as many as `vocab_size` where there is no such key.
        target_hidden_size: of the target, h'.
        max_position_embeddings: positions that the head takes.
        rms_norm_eps: of its norms.
        hidden_act: of its MLP.
        bias: whether `fc` has a bias (EAGLE-1/2).
        qkv_bias: whether the projections to queries, keys and values have one.
        rope: parameters of the rotary embedding, as transformers names them.
        layers: target layers whose entering states are the features; None takes the published choice (EAGLE-3).
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    target_hidden_size: int
    max_position_embeddings: int
    rms_norm_eps: float
    hidden_act: str
    bias: bool
    qkv_bias: bool
    rope: Mapping[str, Any]
    layers: tuple[int, ...] | None = None

    @classmethod
    def read(cls, folder: Path) -> HeadConfig:
        """Return the configuration of a head's folder.

        Raises:
            ValueError: it is missing, cannot be read, lacks a size, or belongs to a variant that is not supported.
        """
        file = folder / "config.json"
        if not file.is_file():
            raise ValueError(f"draft_model '{folder}' has no config.json: give the folder of an EAGLE head")
        try:
            keys = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise ValueError(f"draft_model '{folder}' has a config.json that is no JSON: fetch it again") from error
        return cls.of(keys, f"draft_model '{folder}'")

    @classmethod
    def of(cls, keys: Any, owner: str) -> HeadConfig:
        """Return the configuration behind the keys of a config.json; `owner` begins the sentence of an error.

        Raises:
            ValueError: a key is missing or cannot be meant, or the keys belong to a variant that is not supported.
        """
        found = HeadKeys(keys, owner)
        hidden, heads, vocabulary = (found.size(key) for key in ("hidden_size", "num_attention_heads", "vocab_size"))
        groups = found.size("num_key_value_heads", heads)
        if heads % groups:
            found.wrong("num_key_value_heads", groups, f"a divisor of num_attention_heads={heads}")
        width = found.size("head_dim", hidden // heads)
        if width % 2:
            found.wrong("head_dim", width, "even, and so must hidden_size / num_attention_heads where it is not given")
        config = cls(
            hidden_size=hidden,
            intermediate_size=found.size("intermediate_size"),
            num_attention_heads=heads,
            num_key_value_heads=groups,
            head_dim=width,
            vocab_size=vocabulary,
            draft_vocab_size=found.size("draft_vocab_size", vocabulary),
            target_hidden_size=found.size("target_hidden_size", hidden),
            max_position_embeddings=found.size("max_position_embeddings", 2048),
            rms_norm_eps=found.number("rms_norm_eps", 1e-6),
            hidden_act=found.activation(),
            bias=found.flag("bias", True),
            qkv_bias=found.flag("qkv_bias", False) or found.flag("attention_bias", False),
            rope=found.rope(),
            layers=found.layers(),
        )
        config._try(owner)
        return config

    def _try(self, owner: str) -> None:
        """Raise ValueError if transformers does not take this configuration."""
        try:
            LlamaRotaryEmbedding(self.llama())
        except Exception as error:  # a configuration is checked by several libraries, each with errors of its own
            raise ValueError(
                f"{owner}: config.json has values that transformers refuses ({brief(error)}): fetch it again, or "
                "correct it"
            ) from error

    def keys(self) -> dict[str, Any]:
        """Return the keys of a config.json that reads back as this configuration, in the published form."""
        rope = dict(self.rope)
        theta, kind = rope.pop("rope_theta"), rope["rope_type"]
        written = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("rope", "layers")}
        if self.layers is not None:
            written[AUXILIARY] = list(self.layers)
        return {
            "model_type": "llama",
            **written,
            "num_hidden_layers": 1,
            "rope_theta": theta,
            "rope_scaling": None if kind == "default" else rope,
            "tie_word_embeddings": False,
        }

    def llama(self) -> LlamaConfig:
        """Return the configuration of a Llama layer of these sizes, for transformers' own modules."""
        return LlamaConfig(
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_attention_heads=self.num_attention_heads,
            num_key_value_heads=self.num_key_value_heads,
            head_dim=self.head_dim,
            max_position_embeddings=self.max_position_embeddings,
            rms_norm_eps=self.rms_norm_eps,
            hidden_act=self.hidden_act,
            rope_parameters=dict(self.rope),
        )

"""What the config.json of a published EAGLE head says, and what of it this project refuses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transformers import LlamaConfig

# Switches of later variants whose networks differ from the published ones though their tensors have the same names.
REFUSED: Final = ("norm_before_residual", "norm_before_fc", "norm_output", "fc_norm", "parallel_drafting")
AUXILIARY: Final = "eagle_aux_hidden_state_layer_ids"


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
    def of(cls, keys: Mapping[str, Any], owner: str) -> HeadConfig:
        """Return the configuration behind the keys of a config.json; `owner` begins the sentence of an error.

        Raises:
            ValueError: a size is missing, or the keys belong to a variant that is not supported.
        """
        _refuse_variants(keys, owner)
        needed = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
        missing = [key for key in needed if not isinstance(keys.get(key), int)]
        if missing:
            raise ValueError(f"{owner}: config.json lacks {', '.join(missing)}, so it is not that of an EAGLE head")
        hidden, heads = keys["hidden_size"], keys["num_attention_heads"]
        return cls(
            hidden_size=hidden,
            intermediate_size=keys["intermediate_size"],
            num_attention_heads=heads,
            num_key_value_heads=keys.get("num_key_value_heads") or heads,
            head_dim=keys.get("head_dim") or hidden // heads,
            vocab_size=keys["vocab_size"],
            draft_vocab_size=keys.get("draft_vocab_size") or keys["vocab_size"],
            target_hidden_size=keys.get("target_hidden_size") or hidden,
            max_position_embeddings=keys.get("max_position_embeddings") or 2048,
            rms_norm_eps=keys.get("rms_norm_eps") or 1e-6,
            hidden_act=keys.get("hidden_act") or "silu",
            bias=bool(keys.get("bias", True)),
            qkv_bias=bool(keys.get("qkv_bias") or keys.get("attention_bias")),
            rope=_rope(keys),
            layers=_layers(keys),
        )

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


def _refuse_variants(keys: Mapping[str, Any], owner: str) -> None:
    if "speculators_config" in keys or "transformer_layer_config" in keys:
        raise ValueError(
            f"{owner} is in the format of the speculators library: give the checkpoint that its author published first"
        )
    wrong = [key for key in REFUSED if keys.get(key)]
    if wrong:
        raise ValueError(
            f"{owner} sets {wrong[0]}={keys[wrong[0]]}, a variant whose network differs from the published head: only "
            "heads without it can be used"
        )
    layers = keys.get("num_hidden_layers", 1)
    if layers != 1:
        raise ValueError(f"{owner} has num_hidden_layers={layers}; an EAGLE head has one layer")


def _rope(keys: Mapping[str, Any]) -> dict[str, Any]:
    if keys.get("rope_parameters"):
        return {"rope_type": "default", "rope_theta": 10000.0, **keys["rope_parameters"]}
    scaling = dict(keys.get("rope_scaling") or {})
    kind = scaling.pop("rope_type", None) or scaling.pop("type", None) or "default"
    return {"rope_theta": float(keys.get("rope_theta") or 10000.0), **scaling, "rope_type": kind}


def _layers(keys: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the layers that are entered by the features.

    At the top level the key counts as vLLM counts, layers entered; inside `eagle_config` as SGLang does, layers left.
    """
    nested = keys.get("eagle_config") or {}
    if keys.get(AUXILIARY):
        return tuple(keys[AUXILIARY])
    return tuple(layer + 1 for layer in nested[AUXILIARY]) if nested.get(AUXILIARY) else None

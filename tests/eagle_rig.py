"""Small EAGLE heads in the published layout, and what they compute, written down from the papers' equations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import save_file

from primitives.models.eagle_loading import HeadTarget
from tests.rigs import tiny_model

Tensors = dict[str, torch.Tensor]
HIDDEN, INNER, HEADS, KEYS, VOCABULARY, DRAFTED = 32, 48, 4, 2, 100, 40
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEYS,
    "num_hidden_layers": 1,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "max_position_embeddings": 256,
}


def head_target(vocabulary: int = VOCABULARY, width: int = HIDDEN, layers: int = 8) -> HeadTarget:
    rng = torch.Generator().manual_seed(5)
    return HeadTarget(
        torch.randn(vocabulary, width, generator=rng), torch.randn(vocabulary, width, generator=rng) * 0.5, layers
    )


def layer_tensors(prefix: str, width: int, rng: torch.Generator, bias: bool = False) -> Tensors:
    d = HIDDEN // HEADS
    shapes = {
        "self_attn.q_proj.weight": (HIDDEN, width),
        "self_attn.k_proj.weight": (KEYS * d, width),
        "self_attn.v_proj.weight": (KEYS * d, width),
        "self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        "mlp.gate_proj.weight": (INNER, HIDDEN),
        "mlp.up_proj.weight": (INNER, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, INNER),
        "post_attention_layernorm.weight": (HIDDEN,),
    }
    if bias:
        shapes |= {f"self_attn.{n}_proj.bias": (shapes[f"self_attn.{n}_proj.weight"][0],) for n in "qkv"}
    return {prefix + name: torch.randn(*shape, generator=rng) * 0.2 for name, shape in shapes.items()}


@dataclass
class HeadMaker:
    """Writes a head; what a test wants different from a good one is set before `write`."""

    kind: str
    config: dict[str, Any] = field(default_factory=dict)
    tensors: Tensors = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = torch.Generator().manual_seed(3)
        made: Tensors
        if self.kind == "eagle2":
            keys = {**CONFIG, **self.config}
            made = layer_tensors("layers.0.", HIDDEN, rng, bool(keys.get("qkv_bias")))
            made["embed_tokens.weight"] = torch.randn(keys["vocab_size"], HIDDEN, generator=rng)
            made["fc.weight"] = torch.randn(HIDDEN, 2 * HIDDEN, generator=rng) * 0.1
            if keys.get("bias", True):
                made["fc.bias"] = torch.randn(HIDDEN, generator=rng) * 0.2
        else:
            keys = {**CONFIG, "draft_vocab_size": DRAFTED, **self.config}
            made = layer_tensors("midlayer.", 2 * HIDDEN, rng)
            for name in ("midlayer.input_layernorm", "midlayer.hidden_norm", "norm"):
                made[f"{name}.weight"] = torch.rand(HIDDEN, generator=rng) + 0.5
            size, width = keys["draft_vocab_size"], keys.get("target_hidden_size") or HIDDEN
            made["fc.weight"] = torch.randn(HIDDEN, 3 * width, generator=rng) * 0.2
            made["lm_head.weight"] = torch.randn(size, HIDDEN, generator=rng)
            if size != keys["vocab_size"]:
                ids = torch.randperm(keys["vocab_size"], generator=rng)[:size].sort().values
                made["d2t"] = ids - torch.arange(size)
                made["t2d"] = torch.zeros(keys["vocab_size"], dtype=torch.bool).index_fill(0, ids, True)
        self.config, self.tensors = keys, {**made, **self.tensors}

    def write(self, folder: Path, pickled: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config), "utf-8")
        if pickled:
            torch.save(self.tensors, folder / "pytorch_model.bin")
        else:
            save_file(self.tensors, folder / "model.safetensors")
        return folder


HEADS_OF_TINY_MODELS = TemporaryDirectory(prefix="heads-")


@cache
def tiny_head(kind: str, vocabulary: int) -> Path:
    """Return the folder of a random head for the tiny models of `tests.rigs`, shared by all tests."""
    layers = {"eagle_aux_hidden_state_layer_ids": [0, 1, 1]}
    maker = HeadMaker(kind, {"vocab_size": vocabulary, **(layers if kind == "eagle3" else {})})
    return maker.write(Path(HEADS_OF_TINY_MODELS.name) / f"{kind}-{vocabulary}")


def head_resources(kind: str, name: str) -> dict[str, Any]:
    """Return what a drafter with a head is given for a tiny model; nothing for other drafters."""
    if kind not in ("eagle2", "eagle3"):
        return {}
    model: Any = tiny_model(name)
    embeddings = model.get_input_embeddings().weight
    return {
        "draft_folder": tiny_head(kind, len(embeddings)),
        "embeddings": embeddings,
        "output_embeddings": model.get_output_embeddings().weight,
        "num_layers": 2,
        "max_nodes": 24,
    }


class Reference:
    """A head computed pair by pair, in float32, without any of the project's code.

    Args:
        maker: the head's tensors.
        target: embeddings and output rows of its target.
    """

    def __init__(self, maker: HeadMaker, target: HeadTarget) -> None:
        self.t = maker.tensors
        self.three = maker.kind == "eagle3"
        self.prefix = "midlayer." if self.three else "layers.0."
        self.embeddings = self.t.get("embed_tokens.weight", target.embeddings)
        self.output = target.output
        self.eps = maker.config["rms_norm_eps"]
        self.theta = maker.config["rope_theta"]

    def states(self, tokens: Sequence[int], features: torch.Tensor) -> list[torch.Tensor]:
        """Return the state after each pair: the first `len(features)` with the target's, the others with its own."""
        out: list[torch.Tensor] = []
        keys: list[torch.Tensor] = []
        values: list[torch.Tensor] = []
        for place, token in enumerate(tokens):
            state = out[-1] if place >= len(features) else features[place]
            if self.three and place < len(features):
                state = self.t["fc.weight"] @ state
            out.append(self._pair(self.embeddings[token], state, place, keys, values))
        return out

    def log_p(self, state: torch.Tensor) -> torch.Tensor:
        logits = self.t["lm_head.weight"] @ self._norm(state, "norm") if self.three else self.output @ state
        return logits - logits.max() - (logits - logits.max()).exp().sum().log()

    def ids(self) -> list[int]:
        if "d2t" not in self.t:
            return list(range(VOCABULARY))
        return [place + int(offset) for place, offset in enumerate(self.t["d2t"])]

    def _pair(
        self,
        embedding: torch.Tensor,
        state: torch.Tensor,
        place: int,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
    ) -> torch.Tensor:
        if self.three:
            entering = torch.cat(
                [self._norm(embedding, "midlayer.input_layernorm"), self._norm(state, "midlayer.hidden_norm")]
            )
            residual = state
        else:
            entering = self.t["fc.weight"] @ torch.cat([embedding, state])
            if "fc.bias" in self.t:
                entering = entering + self.t["fc.bias"]
            residual = entering
        d = HIDDEN // HEADS
        queries = self._turned(self._projected("q", entering).view(HEADS, d), place)
        keys.append(self._turned(self._projected("k", entering).view(KEYS, d), place))
        values.append(self._projected("v", entering).view(KEYS, d))
        mixed = []
        for head in range(HEADS):
            shared = head // (HEADS // KEYS)
            scores = torch.stack([queries[head] @ key[shared] for key in keys]) / d**0.5
            weights = (scores - scores.max()).exp()
            weights = weights / weights.sum()
            mixed.append(sum(weight * value[shared] for weight, value in zip(weights, values, strict=True)))
        middle = residual + self.t[self.prefix + "self_attn.o_proj.weight"] @ torch.cat(mixed)
        normed = self._norm(middle, self.prefix + "post_attention_layernorm")
        gate = self.t[self.prefix + "mlp.gate_proj.weight"] @ normed
        up = self.t[self.prefix + "mlp.up_proj.weight"] @ normed
        return middle + self.t[self.prefix + "mlp.down_proj.weight"] @ (gate * torch.sigmoid(gate) * up)

    def _projected(self, name: str, entering: torch.Tensor) -> torch.Tensor:
        out = self.t[f"{self.prefix}self_attn.{name}_proj.weight"] @ entering
        bias = self.t.get(f"{self.prefix}self_attn.{name}_proj.bias")
        return out if bias is None else out + bias

    def _norm(self, state: torch.Tensor, name: str) -> torch.Tensor:
        return state / (state.pow(2).mean() + self.eps).sqrt() * self.t[f"{name}.weight"]

    def _turned(self, heads: torch.Tensor, place: int) -> torch.Tensor:
        half = heads.shape[1] // 2
        angles = place / self.theta ** (torch.arange(half) / half)
        left, right = heads[:, :half], heads[:, half:]
        return torch.cat(
            [left * angles.cos() - right * angles.sin(), right * angles.cos() + left * angles.sin()], dim=1
        )

"""Tiny models on disk, as transformers folders and as GGUF files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ a", "Ġ Ġ", "t h", "th e"]
TOKENS = SPECIALS + sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}quick{% endif %}{% endif %}"
)
SIZES = {
    "vocab_size": len(TOKENS),
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": 2,
}
GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "model.layers": "blk",
}


def make_model(kind: str = "llama", *, tied: bool = True) -> PreTrainedModel:
    """Return a random model whose weights are bfloat16 numbers held in float32."""
    torch.manual_seed(0)
    head_dim = {"head_dim": 128} if kind == "qwen3" else {}
    config = AutoConfig.for_model(kind, **SIZES, **head_dim, tie_word_embeddings=tied)
    auto: Any = AutoModelForCausalLM
    model: PreTrainedModel = auto.from_config(config)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter).mul(0.2).bfloat16().float()
    model.train(False)
    return model


def make_tokenizer(template: str | None = TEMPLATE, *, bos: str | None = None) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer that begins every text with `bos`, if given."""
    vocab = {token: index for index, token in enumerate(TOKENS)}
    backend = Tokenizer(
        BPE(vocab=vocab, merges=[(left, right) for left, _, right in (merge.partition(" ") for merge in MERGES)])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = {"bos_token": bos, "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    build: Any = PreTrainedTokenizerFast
    tokenizer: PreTrainedTokenizerFast = build(
        tokenizer_object=backend,
        additional_special_tokens=SPECIALS[:2],
        add_bos_token=bos is not None,
        chat_template=template,
        **special,
    )
    return tokenizer


def gguf_name(name: str) -> str:
    for theirs, ours in GGUF_NAMES.items():
        name = name.replace(theirs, ours)
    return name


def interleaved(weight: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Order the rows of a query or key projection as llama.cpp wants them for the llama architecture."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    rows: np.ndarray[Any, Any] = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)
    return rows


class GgufMaker:
    """Writes GGUF files of a model; what a test wants different from a good file is set before `write`."""

    def __init__(self, model: PreTrainedModel, kind: str) -> None:
        self.model = model
        self.kind = kind
        self.split = "smollm" if kind == "llama" else "qwen2"
        self.quantise: gguf.GGMLQuantizationType | None = None
        self.omit: frozenset[str] = frozenset()
        self.add_bos = False
        self.extra: Callable[[gguf.GGUFWriter], None] = lambda writer: None

    def write(self, file: Path) -> Path:
        writer = gguf.GGUFWriter(file, self.kind)
        self._settings(writer)
        self._tokenizer(writer)
        for name, tensor in self.model.state_dict().items():
            if name not in self.omit and not (name.startswith("lm_head") and self.model.config.tie_word_embeddings):
                self._tensor(writer, name, tensor.float().numpy())
        self.extra(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return file

    def _settings(self, writer: gguf.GGUFWriter) -> None:
        config = self.model.config
        writer.add_name("tiny")
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])

    def _tokenizer(self, writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(self.split)
        writer.add_token_list(TOKENS)
        writer.add_token_types([3 if token in SPECIALS else 1 for token in TOKENS])
        writer.add_token_merges(MERGES)
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(self.add_bos)
        writer.add_chat_template(TEMPLATE)

    def _tensor(self, writer: gguf.GGUFWriter, name: str, values: np.ndarray[Any, Any]) -> None:
        heads = {"q_proj": self.model.config.num_attention_heads, "k_proj": self.model.config.num_key_value_heads}
        part = name.split(".")[-2]
        if self.kind == "llama" and part in heads:
            values = interleaved(values, heads[part])
        if self.quantise is None or values.ndim == 1:
            writer.add_tensor(gguf_name(name), values)
        else:
            writer.add_tensor(gguf_name(name), gguf.quants.quantize(values, self.quantise), raw_dtype=self.quantise)


@pytest.fixture
def maker() -> Callable[..., GgufMaker]:
    """Return a function that makes a `GgufMaker` of a kind of model ("llama", "qwen2", "qwen3")."""
    return lambda kind="llama", *, tied=True: GgufMaker(make_model(kind, tied=tied), kind)


@pytest.fixture
def tokenizer_maker() -> Callable[..., PreTrainedTokenizerFast]:
    return make_tokenizer


@pytest.fixture
def model_files(tmp_path: Path) -> Path:
    """Return the folder of a tiny model with tokenizer and chat template."""
    folder = tmp_path / "tiny"
    make_model().save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder

"""A model of two small layers with random weights and a tokenizer of bytes: real in all but its words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SPECIAL = "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)


def save_tiny_model(folder: Path, seed: int = 0) -> None:
    """Write a transformers folder of about a megabyte; the same seed gives the same weights."""
    tokens = [SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    backend = Tokenizer(BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    build: Any = PreTrainedTokenizerFast
    build(tokenizer_object=backend, eos_token=SPECIAL, pad_token=SPECIAL, chat_template=TEMPLATE).save_pretrained(
        folder
    )
    torch.manual_seed(seed)
    config = AutoConfig.for_model(
        "llama",
        vocab_size=len(tokens),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=0,
    )
    auto: Any = AutoModelForCausalLM
    model = auto.from_config(config)
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter).mul(0.2).bfloat16().float()
    model.save_pretrained(folder)

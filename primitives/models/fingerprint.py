"""Short identities of models and tokenizers, so that a store made with one is never used with another."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from primitives.models.folder import PICKLE, weight_files

DIGITS = 32
SAMPLE = 4096
# Where a model came from or how it was saved changes nothing about it.
INCIDENTAL = frozenset({"_name_or_path", "_model_name_or_path", "transformers_version", "dtype", "torch_dtype"})
# Vocabularies can be equal and still be applied differently: digits, blanks, case, accents and specials tell.
PROBE = "The 3,141 naïve  co\u0301workers'\n\n\tpaid $59.26  (№  12345) 日本語 🤖 if x != y:\n    7 a\r\n"


def model_fingerprint(folder: Path) -> str:
    """Return a hash of the configuration and of the weights' layout, sizes and a sample of every tensor's bytes."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    digest = hashlib.sha256(_canonical({key: config[key] for key in config.keys() - INCIDENTAL}))
    files = weight_files(folder)
    for file in files:
        digest.update(f"{file.name}:{file.stat().st_size}".encode())
        _sample(file, digest)
    if not files:
        # A pickle does not tell where its tensors lie.
        digest.update(np.memmap(folder / PICKLE, np.uint8).data)
    return digest.hexdigest()[:DIGITS]


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a hash of everything that decides how a prompt becomes ids."""
    parts = {
        "vocab": tokenizer.get_vocab(),
        "special": {key: str(value) for key, value in tokenizer.special_tokens_map.items()},
        "chat_template": tokenizer.chat_template,
        "probe": tokenizer(PROBE).input_ids,
    }
    return hashlib.sha256(_canonical(parts)).hexdigest()[:DIGITS]


def _sample(file: Path, digest: hashlib._Hash) -> None:
    """Hash the header of a safetensors file and some bytes from the middle of each tensor."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = stream.read(size)
        digest.update(header)
        tensors = json.loads(header)
        tensors.pop("__metadata__", None)
        for start, end in sorted(tensor["data_offsets"] for tensor in tensors.values()):
            stream.seek(8 + size + max(start, (start + end - SAMPLE) // 2))
            digest.update(stream.read(min(SAMPLE, end - start)))


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False).encode()

"""GGUF files: turned once into an ordinary model folder, with the weights dequantised to bfloat16.

transformers can also run the packed blocks, but that is slow in bfloat16 and reads the file anew at every start.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import torch
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
from transformers.integrations.gguf.reader import GgufHeader, read_gguf_metadata
from transformers.utils.quantization_config import GgufConfig

from primitives.models.fingerprint import PROBE
from primitives.models.wording import brief
from primitives.publish import published

FORMAT = 1  # of the converted folder; a new number makes every cached one be written anew
REMEDY = "take another file, or set model.path to the model's folder as it is on the hub"

CONTROL = 3  # GGUF's token type for control tokens
# A file names one EOS, but chat models end a text in several ways; these do so wherever they are control tokens.
END_TOKENS = frozenset(
    ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "<EOT>")
)
# Names of llama.cpp's pre-tokenizers that transformers gets right by falling back on GPT-2's ...
GPT2_SPLITS = frozenset(("default", "gpt-2", "phi-2", "mpt", "olmo"))
# ... and those whose single digits it would forget.
DIGIT_SPLITS = frozenset(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"))
NFC = frozenset(("qwen2", "deepseek-r1-qwen"))


def gguf_folder(file: Path, cache_dir: Path) -> Path:
    """Return the model folder made of a GGUF file; the file is converted on the first call.

    Raises:
        ValueError: see :func:`check_gguf`.
    """
    folder = gguf_cache(file, cache_dir)
    if not folder.is_dir():
        check_gguf(file)
    return published(folder, lambda staging: convert_gguf(file, staging))


def gguf_cache(file: Path, cache_dir: Path) -> Path:
    """Return where the converted folder of a file lies; the name changes with the file's place, size and date."""
    stat = file.stat()
    key = f"{FORMAT}:{file.resolve()}:{stat.st_size}:{stat.st_mtime_ns}"
    return cache_dir / "models" / f"{file.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def check_gguf(file: Path) -> None:
    """Read the header of a GGUF file.

    Raises:
        ValueError: it is not one whole GGUF file, or holds what the conversion would lose.
    """
    problem = _problem(file)
    if problem is not None:
        raise ValueError(f"GGUF file '{file}' {problem}: {REMEDY}")


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a checked GGUF file as bfloat16 safetensors, configuration, tokenizer and chat template.

    Args:
        file: the GGUF file.
        folder: an empty folder.

    Raises:
        ValueError: an architecture that transformers cannot read, or tensors that do not fit it.
    """
    model = _dequantised(file, folder)
    metadata, _ = read_gguf_metadata(str(file), ("tokenizer.ggml.tokens",))
    if model.generation_config is not None:
        model.generation_config.eos_token_id = _end_ids(metadata) or None
    tokenizer = _tokenizer(file, folder, metadata)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # transformers picks the class to load a tokenizer with by the model's type, and some bring their own splitting.
    if AutoTokenizer.from_pretrained(folder)(PROBE).input_ids != tokenizer(PROBE).input_ids:
        raise ValueError(f"GGUF file '{file}' has a tokenizer that transformers does not keep: {REMEDY}")


def _problem(file: Path) -> str | None:
    """Return what is wrong with a GGUF file, in words, or None."""
    with file.open("rb") as stream:
        if stream.read(4) != b"GGUF":
            return "is no GGUF file, whatever its name says"
    try:
        metadata, names = read_gguf_metadata(str(file))
        header = GgufHeader.from_file(str(file))
    except (ValueError, TypeError, IndexError, OverflowError, struct.error) as error:
        return f"cannot be read ({brief(error)})"
    if metadata.get("split.count", 1) > 1:
        return f"is one of {metadata['split.count']} parts of a model"
    if max((header.data_start + tensor.offset + tensor.nbytes for tensor in header.tensors), default=0) > _size(file):
        return "is cut short"
    scaling = metadata.get(f"{header.architecture}.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in names:
        return "scales its rotary positions, which transformers does not read from GGUF"
    return _tokenizer_problem(metadata)


def _tokenizer_problem(metadata: dict[str, Any]) -> str | None:
    if "tokenizer.ggml.tokens" not in metadata:
        return "has no tokenizer"
    split = metadata.get("tokenizer.ggml.pre", "default")
    known = GPT2_SPLITS | DIGIT_SPLITS | GGUF_PRE_TOKENIZER_SPLITS.keys()
    if metadata.get("tokenizer.ggml.model") == "gpt2" and split not in known:
        return f"splits its text in a way ('{split}') that is not known here"
    return None


def _dequantised(file: Path, folder: Path) -> PreTrainedModel:
    # The empty folder stands in for the file's own, where the files of another model may lie.
    where: dict[str, Any] = {"pretrained_model_name_or_path": str(folder), "gguf_file": str(file.absolute())}
    try:
        config = AutoConfig.from_pretrained(**where)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            **where,
            config=config,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ValueError(f"GGUF file '{file}' cannot be read ({brief(error)}): {REMEDY}") from error
    model: PreTrainedModel = loaded[0]
    info = loaded[1]
    misfits = sorted(info["missing_keys"]) + [str(key[0]) for key in sorted(info["mismatched_keys"])]
    if misfits:
        raise ValueError(f"GGUF file '{file}' does not fit its architecture (first: {misfits[0]}): {REMEDY}")
    return model


def _tokenizer(file: Path, folder: Path, metadata: dict[str, Any]) -> PreTrainedTokenizerFast:
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(
        str(folder), gguf_file=str(file.absolute())
    )
    backend, split = tokenizer.backend_tokenizer, metadata.get("tokenizer.ggml.pre")
    if split in DIGIT_SPLITS:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    if split in NFC:
        backend.normalizer = normalizers.NFC()
    return tokenizer


def _end_ids(metadata: dict[str, Any]) -> list[int]:
    """Return the ids that end a text, the file's own EOS first."""
    named = [metadata.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")]
    types = metadata.get("tokenizer.ggml.token_type", ())
    known = [
        index
        for index, (token, kind) in enumerate(zip(metadata["tokenizer.ggml.tokens"], types, strict=False))
        if kind == CONTROL and token in END_TOKENS
    ]
    return list(dict.fromkeys(index for index in named + known if index is not None))


def _size(file: Path) -> int:
    return file.stat().st_size

"""From the settings of a model to the loaded model, and from a text to its prompt ids."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils.logging import disable_progress_bar

from primitives.models import embedded
from primitives.models.fingerprint import model_fingerprint, tokenizer_fingerprint
from primitives.models.folder import folder_problem, head_problem
from primitives.models.gguf import check_gguf, gguf_cache, gguf_folder
from primitives.models.hub import HEAD_FILES, Wanted, ask_hub, cached_folder, hub_folder
from primitives.models.packing import pack
from primitives.models.pooled_cache import refuse_uncroppable
from primitives.models.settings import DraftSettings, ModelSettings
from primitives.models.wording import brief


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model that is ready to run, and where it came from.

    Attributes:
        model: in evaluation mode, on its device, without gradients.
        tokenizer: the model's own.
        fingerprint: identity of configuration and weights.
        tokenizer_fingerprint: identity of vocabulary, splitting, special tokens and chat template.
        source: where it came from, in words.
        folder: where its files lie.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    fingerprint: str
    tokenizer_fingerprint: str
    source: str
    folder: Path

    @property
    def embeddings(self) -> torch.Tensor:
        """[V, h], the input embedding matrix."""
        return cast(torch.nn.Embedding, self.model.get_input_embeddings()).weight

    @property
    def output_embeddings(self) -> torch.Tensor:
        """[V, h], the output embedding matrix."""
        return cast(torch.nn.Linear, self.model.get_output_embeddings()).weight

    @property
    def num_layers(self) -> int:
        """Number of decoder layers."""
        return int(self.model.config.get_text_config().num_hidden_layers)


def check_model(settings: ModelSettings, cache_dir: Path) -> None:
    """Find out in seconds whether a model can be had; nothing is downloaded, converted or loaded.

    Raises:
        ValueError: it cannot, and what to do.
    """
    if settings.path:
        path = _local(settings)
        if path.is_file() and not gguf_cache(path, cache_dir).is_dir():
            check_gguf(path)
    elif not settings.embedded and settings.hub_id and cached_folder(settings.hub_id, _wanted(settings)) is None:
        ask_hub(settings.hub_id, _wanted(settings))


def is_here(settings: ModelSettings, cache_dir: Path) -> bool:
    """Return whether a model that can be had needs neither fetching nor converting."""
    if settings.path:
        path = _local(settings)
        return path.is_dir() or gguf_cache(path, cache_dir).is_dir()
    if settings.embedded:
        return embedded.embedded_cache(cache_dir).is_dir()
    return settings.hub_id is not None and cached_folder(settings.hub_id, _wanted(settings)) is not None


def model_folder(settings: ModelSettings, cache_dir: Path) -> tuple[Path, str]:
    """Return the folder that holds a model's files, fetched or converted if need be, and its source in words.

    Raises:
        ValueError: it cannot be had, and what to do.
    """
    if settings.path:
        path = _local(settings)
        return (path if path.is_dir() else gguf_folder(path, cache_dir)), str(path)
    if settings.embedded:
        return embedded.embedded_folder(cache_dir), f"PyPI: {embedded.REQUIREMENT}"
    if settings.hub_id:
        return hub_folder(settings.hub_id, _wanted(settings)), f"hub: {settings.hub_id}"
    raise ValueError(f"model '{settings.name}' has no source: set model.path=<model folder or .gguf file>")


def check_head(settings: DraftSettings) -> None:
    """Find out in seconds whether a draft head can be had; ValueError as of `head_folder`."""
    if settings.hub_id and not settings.path and cached_folder(settings.hub_id, _wanted_head(settings)) is None:
        ask_hub(settings.hub_id, _wanted_head(settings))
    elif not settings.hub_id or settings.path:
        head_folder(settings)


def head_is_here(settings: DraftSettings) -> bool:
    """Return whether a draft head that can be had needs no fetching."""
    cached = settings.hub_id is not None and cached_folder(settings.hub_id, _wanted_head(settings)) is not None
    return bool(settings.path) or cached


def head_folder(settings: DraftSettings) -> Path:
    """Return the folder of a draft head, which needs a config.json and weights but no tokenizer; fetched if need be.

    Raises:
        ValueError: it cannot be had, and what to do.
    """
    if settings.path:
        path = Path(settings.path).expanduser()
        problem = head_problem(path) if path.is_dir() else "is no folder"
        if problem is not None:
            raise ValueError(f"{settings.path_key} '{settings.path}' {problem}: give the folder of a draft head")
        return path
    if settings.hub_id:
        return hub_folder(settings.hub_id, _wanted_head(settings))
    raise ValueError(f"{settings.path_key} '{settings.name}' is a whole model: give the folder or hub id of a head")


def load_model(
    settings: ModelSettings,
    device: torch.device,
    dtype: torch.dtype,
    cache_dir: Path,
    tokenizer_folder: Path | None = None,
) -> LoadedModel:
    """Load a model and its tokenizer.

    Args:
        settings: which model.
        device: where it runs.
        dtype: of its weights and activations.
        cache_dir: where fetched and converted models are kept.
        tokenizer_folder: where its tokenizer lies; None is beside its weights.

    Raises:
        ValueError: it cannot be had, is no causal language model, or lacks weights or a chat template.
    """
    if not sys.stderr.isatty():
        disable_progress_bar()
    folder, source = model_folder(settings, cache_dir)
    _check_architecture(folder, source)
    tokenizer = load_tokenizer(tokenizer_folder or folder)
    if settings.chat_template and tokenizer.chat_template is None:
        raise ValueError(_no_template(settings.name))
    model = _load_weights(folder, device, dtype)
    return LoadedModel(model, tokenizer, model_fingerprint(folder), tokenizer_fingerprint(tokenizer), source, folder)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer in a model folder."""
    return cast(PreTrainedTokenizerBase, AutoTokenizer.from_pretrained(folder, local_files_only=True))


def render_prompt(
    tokenizer: PreTrainedTokenizerBase, text: str, settings: ModelSettings, earlier: Sequence[tuple[str, str]] = ()
) -> list[int]:
    """Return the ids of a prompt: the user's turn of a chat, or the bare text where `chat_template` is off.

    A tokenizer that begins texts with a BOS gets exactly one, whether or not text or template write it too.

    Args:
        tokenizer: the model's.
        text: what the user says.
        settings: of the model.
        earlier: the turns before: what the user said, and the answer.

    Raises:
        ValueError: an empty prompt, or a tokenizer without chat template while `chat_template` is on.
    """
    if not text.strip():
        raise ValueError("prompt is empty: give it at least one visible character")
    if settings.chat_template:
        if tokenizer.chat_template is None:
            raise ValueError(_no_template(settings.name))
        text = str(
            tokenizer.apply_chat_template(
                [*_messages(earlier), {"role": "user", "content": text}],
                tokenize=False,
                add_generation_prompt=True,
                **settings.template_kwargs,
            )
        )
    else:
        text = "\n\n".join([*chain.from_iterable(earlier), text])
    return _with_one_bos(tokenizer, list(tokenizer(text, add_special_tokens=False).input_ids))


def _messages(earlier: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": role, "content": said} for turn in earlier for role, said in zip(roles, turn, strict=True)]


def _with_one_bos(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[int]:
    bos = tokenizer.bos_token_id
    # The switches that say so differ between tokenizer classes, so it is tried out.
    if bos is None or tokenizer("a").input_ids[0] != bos:
        return ids
    while ids and ids[0] == bos:
        ids = ids[1:]
    return [bos, *ids]


def _wanted(settings: ModelSettings) -> Wanted:
    return Wanted(settings.path_key, settings.hub_key)


def _wanted_head(settings: DraftSettings) -> Wanted:
    return Wanted(settings.path_key, settings.hub_key, HEAD_FILES, head_problem)


def _local(settings: ModelSettings) -> Path:
    """Return the existing model folder or GGUF file of settings with a path."""
    path, key = str(settings.path), settings.path_key
    place = Path(path).expanduser()
    if place.is_dir():
        problem = folder_problem(place, settings.own_tokenizer)
        if problem is not None:
            raise ValueError(f"{key} '{path}' {problem}: give a transformers model folder or a .gguf file")
    elif not place.exists():
        raise ValueError(f"{key} '{path}' does not exist: give a transformers model folder or a .gguf file")
    elif place.suffix.lower() != ".gguf":
        raise ValueError(f"{key} '{path}' is no .gguf file: give a transformers model folder or a .gguf file")
    return place


def _check_architecture(folder: Path, source: str) -> None:
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"model from {source} has a config.json that cannot be read ({brief(error)})") from error
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise ValueError(f"model from {source} is of type '{config.model_type}', which is no causal language model")
    refuse_uncroppable(config.get_text_config())


def _load_weights(folder: Path, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            use_safetensors=True,
            dtype=dtype,
            device_map={"": device},
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    except SafetensorError as error:
        raise ValueError(f"weights in '{folder}' are damaged ({brief(error)}): fetch them again") from error
    model: PreTrainedModel = loaded[0]
    missing = loaded[1]["missing_keys"]
    if missing:
        # transformers would go on with random numbers in their place.
        raise ValueError(f"weights in '{folder}' lack {len(missing)} tensors of the model (first: {min(missing)})")
    model.requires_grad_(False)
    pack(model, keep=model.get_output_embeddings())
    return model


def _no_template(name: str) -> str:
    return (
        f"model '{name}' has no chat template: set model.chat_template=false for a base model, "
        "or choose its chat variant"
    )

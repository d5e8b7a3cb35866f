"""The models of this process, loaded once for the jobs of a sweep that follow each other with the same ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, cast

from methods.drafts import HEAD, MODEL, asks_for_draft, draft_settings
from methods.places import cache_folder
from methods.schema import Settings
from primitives.models.device import resolve_device, resolve_dtype
from primitives.models.fingerprint import model_fingerprint
from primitives.models.folder import has_tokenizer, vocabulary
from primitives.models.loading import (
    LoadedModel,
    check_head,
    check_model,
    head_folder,
    head_is_here,
    is_here,
    load_model,
    load_tokenizer,
    model_folder,
)
from primitives.models.settings import ModelSettings
from primitives.registry import DRAFTERS

_LOADED: dict[str, LoadedModel] = {}


class _Meeting(Protocol):
    """A drafter whose model's tokenizer must go with the target's."""

    def check_tokenizers(self, target: Any, draft: Any) -> None: ...


def models(settings: Settings) -> list[ModelSettings]:
    """Return the target, and the draft model if the drafter asks for one."""
    drafts = [draft_settings(settings)] if DRAFTERS.asks_for(settings.drafter, MODEL) else []
    return [settings.model, *drafts]


def loaded_model(settings: Settings) -> LoadedModel:
    """Return the model of these settings; one that was loaded before for others is given up."""
    needed = {_key(settings, model) for model in models(settings)}
    # A sweep over models must not hold two at a time.
    for key in _LOADED.keys() - needed:
        del _LOADED[key]
    return _loaded(settings, settings.model)


def loaded_draft(settings: Settings) -> LoadedModel | None:
    """Return the draft model if the drafter asks for one; where it is the target, their weights are shared."""
    if not DRAFTERS.asks_for(settings.drafter, MODEL):
        return None
    return _loaded(settings, draft_settings(settings))


def draft_folder(settings: Settings) -> Path | None:
    """Return the folder of the draft head if the drafter asks for one, fetched if need be."""
    if not DRAFTERS.asks_for(settings.drafter, HEAD):
        return None
    return head_folder(draft_settings(settings))


def draft_is_here(settings: Settings) -> bool:
    """Return whether the drafter has no weights, or such that need neither fetching nor converting."""
    if DRAFTERS.asks_for(settings.drafter, HEAD) and not head_is_here(draft_settings(settings)):
        return False
    return all(is_here(model, cache_folder(settings)) for model in models(settings)[1:])


def draft_fingerprint(settings: Settings) -> str | None:
    """Return the identity of the drafter's weights, None if it has none."""
    if not asks_for_draft(settings):
        return None
    head = draft_folder(settings)
    return model_fingerprint(head or model_folder(draft_settings(settings), cache_folder(settings))[0])


def check_tokenizers(settings: Settings) -> None:
    """Raise ValueError if the draft model's tokenizer does not go with the target's; no weights are loaded."""
    for name, knobs in DRAFTERS.within(settings.drafter):
        if DRAFTERS.asks_for(name, MODEL) and DRAFTERS.asks_for(name, "tokenizer"):
            drafter = cast(_Meeting, DRAFTERS.bare({"name": name, **knobs}))
            drafter.check_tokenizers(
                *(_tokenizer(settings, model) for model in (settings.model, draft_settings(settings)))
            )


def check_models(settings: Settings) -> list[str]:
    """Return one sentence for each model of these settings that cannot be had; nothing is fetched or loaded."""
    cache = cache_folder(settings)
    checks: list[Callable[[], None]] = [lambda: check_model(settings.model, cache)]
    if DRAFTERS.asks_for(settings.drafter, MODEL):
        checks.append(lambda: check_model(draft_settings(settings), cache))
    if DRAFTERS.asks_for(settings.drafter, HEAD):
        checks.append(lambda: check_head(draft_settings(settings)))
    found = []
    for check in checks:
        try:
            check()
        except ValueError as error:
            found.append(str(error))
    return found


def _tokenizer(settings: Settings, model: ModelSettings) -> Any:
    return load_tokenizer(_tokenizer_folder(settings, model))


def _tokenizer_folder(settings: Settings, model: ModelSettings) -> Path:
    """Return the folder of a model's tokenizer: its own, or the target's for a draft model that has none.

    Raises:
        ValueError: a draft model without a tokenizer that rates other ids than the target does.
    """
    folder, _ = model_folder(model, cache_folder(settings))
    if has_tokenizer(folder):
        return folder
    target, _ = model_folder(settings.model, cache_folder(settings))
    rated, wanted = vocabulary(folder), vocabulary(target)
    if rated != wanted:
        raise ValueError(
            f"draft_model '{folder}' has no tokenizer, so it would share the target's, but it rates {rated} token ids "
            f"and the target {wanted}: give a draft model with its tokenizer"
        )
    return target


def _loaded(settings: Settings, model: ModelSettings) -> LoadedModel:
    key = _key(settings, model)
    if key not in _LOADED:
        device = resolve_device(settings.device)
        dtype = resolve_dtype(settings.dtype, device)
        _LOADED[key] = load_model(model, device, dtype, cache_folder(settings), _tokenizer_folder(settings, model))
    return _LOADED[key]


def _key(settings: Settings, model: ModelSettings) -> str:
    """Return what a loaded model depends on; how prompts are written is none of it."""
    device = resolve_device(settings.device)
    sources = [one.path or one.embedded or one.hub_id for one in (model, settings.model)]
    shares = model.path is not None and Path(model.path).is_dir() and not has_tokenizer(Path(model.path))
    return repr((sources[: 1 + shares], device, resolve_dtype(settings.dtype, device), cache_folder(settings)))

"""The model of this process, loaded once for the jobs of a sweep that follow each other with the same one."""

from __future__ import annotations

from methods.places import cache_folder
from methods.schema import Settings
from primitives.models.device import resolve_device, resolve_dtype
from primitives.models.loading import LoadedModel, load_model

_LOADED: dict[str, LoadedModel] = {}


def loaded_model(settings: Settings) -> LoadedModel:
    """Return the model of these settings; one that was loaded before for others is given up."""
    device = resolve_device(settings.device)
    dtype, cache = resolve_dtype(settings.dtype, device), cache_folder(settings)
    key = repr((settings.model, device, dtype, cache))
    if key not in _LOADED:
        # A sweep over models must not hold two at a time.
        _LOADED.clear()
        _LOADED[key] = load_model(settings.model, device, dtype, cache)
    return _LOADED[key]

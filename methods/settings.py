"""Settings of a run, and what is refused of them before a model is loaded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import torch

from corpora.checks import check_dataset, path_problem
from methods.drafts import draft_problems
from methods.overrides import OverrideError, compose
from methods.replayable import replay_problems
from methods.schema import CONF_DIR, DatastoreSettings, MethodSettings, ProbeSettings, Settings
from methods.train_set import train_problem
from methods.training.settings import training_problems
from primitives.contract import Drafter, Verifier
from primitives.models.device import resolve_device, resolve_dtype
from primitives.models.layouts import LAYOUTS
from primitives.registry import DRAFTERS, VERIFIERS, Registry, nearest

__all__ = [
    "CONF_DIR",
    "DatastoreSettings",
    "MethodSettings",
    "OverrideError",
    "Settings",
    "SettingsError",
    "check_pairing",
    "compose",
    "problems",
    "validate",
]

T = TypeVar("T", Drafter, Verifier)

# What a drafter's constructor calls the stores that it searches.
STORES = ("vector_store", "token_store")
STORE_KINDS = ("id", "ood", "none")
INDEX_KINDS = ("auto", "flat", "ivf_pq", "hnsw")
LEAKS = ("drop", "keep")
EQUIVALENCES = ("nli", "embedding")
# What every target and every tree give, so that no drafter need provide it.
ALWAYS_PROVIDED = frozenset({"hidden", "lookahead"})
NEED_WORDS = {"chain": "a single branch", "draft_hidden": "the draft model's hidden states"}


class SettingsError(ValueError):
    """Settings that cannot work: one sentence a line."""


def validate(settings: Settings) -> None:
    """Raise SettingsError with every problem of the settings; nothing is loaded or written."""
    found = problems(settings)
    if found:
        raise SettingsError("\n".join(found))


def problems(settings: Settings) -> list[str]:
    """Return one sentence for each setting that is out of range, names nothing, or does not fit another one."""
    return [
        *_decode_problems(settings),
        *_store_problems(settings),
        *_place_problems(settings),
        *_primitive_problems(DRAFTERS, settings.drafter),
        *_primitive_problems(VERIFIERS, settings.verifier),
        *_fit_problems(settings),
        *_probe_problems(settings.probe),
        *replay_problems(settings),
        *training_problems(settings.training),
    ]


def check_pairing(drafter: Drafter, verifier: type[Verifier]) -> None:
    """Raise SettingsError if the verifier needs of a draft what the drafter, as it is configured, does not provide."""
    missing = verifier.needs - drafter.provides - ALWAYS_PROVIDED
    if missing:
        raise SettingsError(
            f"verifier '{_name(VERIFIERS, verifier)}' needs {_needs(missing)} of a draft, which drafter "
            f"'{_name(DRAFTERS, type(drafter))}' does not provide with these settings: change them, or choose another "
            "drafter or verifier"
        )


def needs_store(drafter: Mapping[str, Any]) -> bool:
    """Return whether a configured drafter, or one within it, searches a datastore."""
    return any(DRAFTERS.asks_for(drafter, store) for store in STORES)


def _decode_problems(settings: Settings) -> Iterator[str]:
    yield from (f"decode.{problem}" for problem in settings.decode.problems())
    max_nodes, layout = settings.connector.max_nodes, settings.connector.layout
    if max_nodes is not None and max_nodes < 1:
        yield f"connector.max_nodes is {max_nodes}; it must be at least 1, or null for the measured default"
    if layout not in LAYOUTS:
        yield f"connector.layout is '{layout}': {nearest(layout, LAYOUTS)}"


def _store_problems(settings: Settings) -> Iterator[str]:
    store = settings.datastore
    choices = (("kind", STORE_KINDS), ("index", INDEX_KINDS), ("leaks", LEAKS))
    for name, allowed in choices:
        if getattr(store, name) not in allowed:
            yield f"datastore.{name} is '{getattr(store, name)}': {nearest(getattr(store, name), allowed)}"
    for name in ("num_prompts", "max_new_tokens", "batch_size", "pca_dim", "nlist", "nprobe", "m", "shards"):
        value = getattr(store, name)
        if value is not None and value < 1:
            yield f"datastore.{name} is {value}; it must be at least 1"
    if store.layer is not None and store.layer < 0:
        yield f"datastore.layer is {store.layer}; it must be at least 0, or null for the state after the last norm"
    if store.shard is not None and not 0 <= store.shard < max(store.shards, 1):
        yield (
            f"datastore.shard is {store.shard}; with datastore.shards={store.shards} it must lie between 0 and "
            f"{max(store.shards, 1) - 1}"
        )
    if not 4 <= store.nbits <= 12:
        yield f"datastore.nbits is {store.nbits}; it must lie between 4 and 12"
    if store.m is not None and store.m >= 1 and store.pca_dim % store.m:
        yield f"datastore.m is {store.m}, which does not divide datastore.pca_dim={store.pca_dim}"


def _place_problems(settings: Settings) -> Iterator[str]:
    try:
        check_dataset(settings.dataset)
    except ValueError as error:
        yield str(error)
    device = torch.device("cpu")
    try:
        device = resolve_device(settings.device)
    except ValueError as error:
        yield str(error)
    try:
        resolve_dtype(settings.dtype, device)
    except ValueError as error:
        yield str(error)
    if settings.model.path is not None and not Path(settings.model.path).expanduser().exists():
        yield f"model.path is '{settings.model.path}', which does not exist: give a model folder or a .gguf file"
    if settings.datastore.path is not None and not Path(settings.datastore.path).expanduser().is_dir():
        yield f"datastore.path is '{settings.datastore.path}', which is no folder: leave it null to build a store"
    yield from filter(None, [path_problem(settings.dataset)])
    for key in ("results_dir", "cache_dir"):
        folder = getattr(settings, key)
        if folder is not None and Path(folder).expanduser().is_file():
            yield f"{key} is '{folder}', which is a file: give a folder"


def _primitive_problems(registry: Registry[T], config: Mapping[str, Any]) -> Iterator[str]:
    """Check names, knobs and their types; ranges too, where the primitive can be built from knobs alone."""
    if not isinstance(config.get("name"), str):
        yield f"{registry.kind}.name is missing: {nearest('', registry.names())}"
        return
    try:
        within = list(registry.within(config))
    except ValueError as error:
        yield str(error)
        return
    found = [problem for name, knobs in within for problem in _knob_problems(registry, name, knobs)]
    yield from found
    if not found:
        try:
            registry.bare(config)
        except ValueError as error:
            yield str(error)


def _knob_problems(registry: Registry[T], name: str, knobs: Mapping[str, Any]) -> Iterator[str]:
    cls = registry.get(name)
    parameters = inspect.signature(cls).parameters
    hints = get_type_hints(cls.__init__)
    for key, value in knobs.items():
        if key not in parameters:
            yield f"{registry.kind} '{name}' has no setting '{key}': {nearest(key, parameters)}"
        elif not _fits(value, hints.get(key, Any)):
            yield f"{registry.kind}.{key} must be {_words(hints[key])}, got {value!r}"


def _fit_problems(settings: Settings) -> Iterator[str]:
    drafter, verifier = settings.drafter.get("name"), settings.verifier.get("name")
    if drafter not in DRAFTERS.names() or verifier not in VERIFIERS.names() or _unknown_part(settings.drafter):
        return
    if not any(_primitive_problems(DRAFTERS, settings.drafter)):
        try:
            check_pairing(DRAFTERS.bare(settings.drafter), VERIFIERS.get(verifier))
        except SettingsError as error:
            yield str(error)
    if not settings.decode.greedy and drafter != "none" and VERIFIERS.get(verifier).guarantee == "exact":
        yield (
            f"verifier '{verifier}' accepts only what greedy decoding writes, but decode.temperature is "
            f"{settings.decode.temperature} and drafter '{drafter}' drafts: choose verifier=tree_sampling, which keeps "
            "the distribution, or set decode.temperature=0"
        )
    if needs_store(settings.drafter) and settings.datastore.kind != "none":
        yield from filter(None, [train_problem(settings.dataset)])
    elif needs_store(settings.drafter):
        yield (
            f"drafter '{drafter}' searches a datastore, but datastore=none: set datastore=id or datastore=ood, "
            "or choose a drafter that needs none"
        )
    yield from draft_problems(settings)
    yield from _budget_problems(settings)


def _probe_problems(probe: ProbeSettings) -> Iterator[str]:
    if probe.equivalence not in EQUIVALENCES:
        yield f"probe.equivalence is '{probe.equivalence}': {nearest(probe.equivalence, EQUIVALENCES)}"
    for name in ("num_prompts", "prefixes", "samples", "max_new_tokens", "batch_size", "epochs", "patience"):
        if getattr(probe, name) < 1:
            yield f"probe.{name} is {getattr(probe, name)}; it must be at least 1"
    for name in ("temperature", "learning_rate"):
        if not getattr(probe, name) > 0:
            yield f"probe.{name} is {getattr(probe, name)}; it must be above 0"
    for name, low, high in (("top_p", 0, 1), ("validation", 0, 1), ("threshold", -1, 1)):
        if not low < getattr(probe, name) <= high:
            yield f"probe.{name} is {getattr(probe, name)}; it must be above {low} and at most {high}"
    if probe.seed < 0:
        yield f"probe.seed is {probe.seed}; it must be at least 0"


def _budget_problems(settings: Settings) -> Iterator[str]:
    """Yield one sentence if the node budget would cut drafts that must stay whole."""
    max_nodes, drafter = settings.connector.max_nodes, settings.drafter
    if max_nodes is None or max_nodes < 1 or any(_primitive_problems(DRAFTERS, drafter)):
        return  # nothing to say, or said elsewhere
    whole = DRAFTERS.bare(drafter).whole
    if max_nodes < whole:
        yield (
            f"connector.max_nodes is {max_nodes}, but a draft of drafter '{drafter['name']}' has up to {whole} nodes "
            "and must not be cut: raise it, leave it null, or set the drafter to a smaller draft"
        )


def _needs(missing: frozenset[str]) -> str:
    return ", ".join(NEED_WORDS.get(need, need) for need in sorted(missing))


def _unknown_part(drafter: Mapping[str, Any]) -> bool:
    try:
        return not list(DRAFTERS.within(drafter))
    except ValueError:
        return True


def _name(registry: Registry[T], cls: type[T]) -> str:
    return next((name for name in registry.names() if registry.get(name) is cls), cls.__name__)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value from a configuration is of the annotated type; unknown annotations take everything."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (bool, str, type(None)) else True


def _words(hint: Any) -> str:
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(_words(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
    return names.get(hint, str(hint))

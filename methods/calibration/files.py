"""Where the constants of a target lie, and what is wrong if they do not."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, cast

from safetensors.numpy import load_file, save

from methods.calibration.recipe import Arrays, Recipe
from methods.calibration.recipes import RECIPES
from methods.drafts import asks_for_draft, drafter_words
from methods.loaded import draft_fingerprint
from methods.offline.files import void, write_json, write_whole
from methods.places import cache_folder, short_hash
from methods.quoting import shell_word
from methods.schema import Settings
from methods.train_set import train_settings
from primitives.models.fingerprint import model_fingerprint
from primitives.models.loading import model_folder
from primitives.registry import VERIFIERS

FORMAT: Final = 1


class CalibrationError(ValueError):
    """Constants that are not there or cannot be used."""


class _Awaiting(Protocol):
    """A verifier that takes constants from a calibration."""

    @property
    def awaits(self) -> frozenset[str]: ...


@dataclass(frozen=True)
class Calibration:
    """Constants of a target that are on the disk.

    Attributes:
        constants: by name, for the verifier.
        facts: what they were made of.
        path: their file.
    """

    constants: dict[str, Any]
    facts: dict[str, Any]
    path: Path

    @property
    def fingerprint(self) -> str:
        """Identity of the constants."""
        return sha256(json.dumps(self.constants, sort_keys=True).encode()).hexdigest()[:32]


def check_calibration(settings: Settings) -> None:
    """Raise CalibrationError if the verifier needs constants that are not there; no model is loaded."""
    if awaited(settings):
        folder, _ = model_folder(settings.model, cache_folder(settings))
        load_calibration(settings, model_fingerprint(folder))


def load_calibration(settings: Settings, model: str) -> Calibration | None:
    """Return the constants of the target with this fingerprint; None if the verifier needs none.

    Raises:
        CalibrationError: they are missing or damaged, with the command that makes them.
    """
    names = awaited(settings)
    if not names:
        return None
    path = calibration_file(settings, model)
    found = read_calibration(path)
    missing = sorted(names - found.constants.keys()) if found else sorted(names)
    if found is None or missing:
        raise CalibrationError(
            f"verifier '{settings.verifier['name']}' needs {', '.join(missing)} for model '{settings.model.name}', not "
            f"measured yet: run `{command(settings)}`"
        )
    return found


def awaited(settings: Settings) -> frozenset[str]:
    """Return the names of the constants that the configured verifier takes from a calibration."""
    if not VERIFIERS.asks_for(settings.verifier, "calibration"):
        return frozenset()
    return cast(_Awaiting, VERIFIERS.bare(settings.verifier)).awaits


def belongs_to_drafter(settings: Settings) -> bool:
    """Return whether the configured verifier takes constants that are measured with a drafter."""
    recipe = RECIPES.get(str(settings.verifier["name"]))
    return recipe is not None and recipe.uses_drafter


def recipe_of(settings: Settings) -> Recipe:
    """Return how the constants of the configured verifier are measured; ValueError if it has none."""
    name = str(settings.verifier["name"])
    if name not in RECIPES:
        raise ValueError(f"verifier '{name}' has nothing to calibrate: use verifier={', '.join(sorted(RECIPES))}")
    return RECIPES[name]


def calibration_file(settings: Settings, model: str) -> Path:
    """Return where the constants of a target with this fingerprint lie."""
    name = f"{settings.verifier['name']}-{short_hash(identity(settings, model))}.json"
    return cache_folder(settings) / "calibration" / name


def identity(settings: Settings, model: str) -> dict[str, Any]:
    """Return what constants belong to: a run with anything else must not use them."""
    recipe = recipe_of(settings)
    drafter = _drafter(settings) if recipe.uses_drafter else {}
    return {"verifier": settings.verifier["name"], "model": model, **drafter, **recipe.level(settings.verifier)}


def _drafter(settings: Settings) -> dict[str, Any]:
    """Return the drafter's name, and the fingerprint of its weights if it has some."""
    weights = {"draft_model": draft_fingerprint(settings)} if asks_for_draft(settings) else {}
    return {"drafter": settings.drafter["name"], **weights}


def read_calibration(path: Path) -> Calibration | None:
    """Return the constants in a file, None if there is none.

    Raises:
        CalibrationError: the file is damaged.
    """
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text("utf-8"))
        return Calibration(content["constants"], content["facts"], path)
    except (ValueError, KeyError, TypeError) as error:
        raise CalibrationError(f"{path} is damaged; delete it and calibrate again") from error


def write_calibration(path: Path, belongs_to: Mapping[str, Any], calibration: Calibration) -> None:
    """Write constants so that the file is whole or not there."""
    content = {
        "format": FORMAT,
        "identity": belongs_to,
        "facts": calibration.facts,
        "constants": calibration.constants,
    }
    write_json(path, content)


def kept(path: Path, make: Callable[[], Arrays]) -> Arrays:
    """Return what `make` gave when the .safetensors file was first asked for; a file is whole or not there."""
    if not path.is_file():
        content = save(make())
        write_whole(path, lambda file: void(file.write(content)))
    return load_file(path)


def command(settings: Settings) -> str:
    """Return the command that measures the constants which these settings need."""
    return " ".join(["python -m scripts.calibrate", *_words(settings)])


def _words(settings: Settings) -> Iterator[str]:
    recipe, dataset = recipe_of(settings), train_settings(settings.dataset)
    verifier = VERIFIERS.get(settings.verifier["name"])
    if recipe.uses_drafter:
        yield from drafter_words(settings)
    yield f"verifier={verifier.name}"
    defaults = inspect.signature(verifier).parameters
    for key, value in recipe.level(settings.verifier).items():
        if value != defaults[key].default:
            yield shell_word(f"verifier.{key}", value)
    model = settings.model
    yield shell_word("model.path", model.path) if model.path else shell_word("model", model.name)
    fits = not recipe.metrics or dataset.metric in recipe.metrics
    yield f"dataset={dataset.name if fits else 'gsm8k'}"
    if fits and dataset.path:
        yield shell_word("dataset.path", dataset.path)
    if settings.cache_dir:
        yield shell_word("cache_dir", settings.cache_dir)

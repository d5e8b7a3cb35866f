"""Where the probes of a pair of models lie, and what is wrong if they do not."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from methods.loaded import draft_fingerprint
from methods.offline.files import void, write_json, write_whole
from methods.places import cache_folder, short_hash
from methods.quoting import shell_word
from methods.schema import Settings
from methods.train_set import train_settings
from primitives.models.fingerprint import model_fingerprint
from primitives.models.loading import model_folder
from primitives.registry import VERIFIERS
from primitives.verification._probe import Probes

FORMAT: Final = 1
WEIGHTS: Final = "probes.safetensors"
FACTS: Final = "probes.json"


class ProbeError(ValueError):
    """Probes that are not there or cannot be used."""


class _Asking(Protocol):
    """A verifier that asks probes."""

    @property
    def awaits_probes(self) -> bool: ...


@dataclass(frozen=True, eq=False)
class TrainedProbes:
    """Probes that are on the disk.

    Attributes:
        probes: of the target and the draft model, on the host.
        facts: what they were made of, and how good they are.
        folder: where they lie.
        fingerprint: identity of their weights.
    """

    probes: Probes
    facts: dict[str, Any]
    folder: Path
    fingerprint: str


def asks_probes(settings: Settings) -> bool:
    """Return whether the configured verifier asks probes."""
    return (
        VERIFIERS.asks_for(settings.verifier, "probes")
        and cast(_Asking, VERIFIERS.bare(settings.verifier)).awaits_probes
    )


def check_probes(settings: Settings) -> None:
    """Raise ProbeError if the verifier asks probes that are not there; no model is loaded."""
    if asks_probes(settings):
        load_probes(settings, model_fingerprint(model_folder(settings.model, cache_folder(settings))[0]))


def load_probes(settings: Settings, model: str) -> TrainedProbes | None:
    """Return the probes of the target with this fingerprint and the configured draft model; None if nobody asks them.

    Raises:
        ProbeError: they are missing, with the command that makes them, or damaged.
    """
    if not asks_probes(settings):
        return None
    found = read_probes(probe_folder(settings, identity(settings, model)))
    if found is None:
        raise ProbeError(
            f"verifier '{settings.verifier['name']}' needs probes for model '{settings.model.name}' and draft_model "
            f"'{settings.draft_model}', not trained yet: run `{command(settings)}`"
        )
    return found


def identity(settings: Settings, model: str) -> dict[str, Any]:
    """Return what probes belong to: a run with anything else must not use them."""
    return {"model": model, "draft_model": draft_fingerprint(settings)}


def probe_folder(settings: Settings, belongs_to: Mapping[str, Any]) -> Path:
    """Return where the probes of two models lie."""
    return cache_folder(settings) / "probes" / f"{settings.model.name}-{short_hash(belongs_to)}"


def read_probes(folder: Path) -> TrainedProbes | None:
    """Return the probes in a folder, None if there are none.

    Raises:
        ProbeError: a file is damaged.
    """
    if not (folder / FACTS).is_file():
        return None
    try:
        content = json.loads((folder / FACTS).read_text("utf-8"))
        weights = (folder / WEIGHTS).read_bytes()
        print_of = sha256(weights).hexdigest()[:32]
        if content["weights"] != print_of:
            raise ValueError("they do not belong together")
        return TrainedProbes(Probes.of(load(weights)), content["facts"], folder, print_of)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise ProbeError(f"the probes in {folder} are damaged ({error}); delete them and train again") from error


def write_probes(folder: Path, belongs_to: Mapping[str, Any], probes: Probes, facts: Mapping[str, Any]) -> None:
    """Write probes; the .json file, written last, says that they are whole."""
    (folder / FACTS).unlink(missing_ok=True)
    weights = save({name: tensor.detach().to(torch.float32).contiguous() for name, tensor in probes.weights.items()})
    write_whole(folder / WEIGHTS, lambda file: void(file.write(weights)))
    content = {
        "format": FORMAT,
        "identity": dict(belongs_to),
        "weights": sha256(weights).hexdigest()[:32],
        "facts": dict(facts),
    }
    write_json(folder / FACTS, content)


def command(settings: Settings) -> str:
    """Return the command that trains the probes which these settings need."""
    return " ".join(["python -m scripts.train_semantic_probe", *_words(settings)])


def _words(settings: Settings) -> Iterator[str]:
    model, dataset = settings.model, train_settings(settings.dataset)
    yield "method=semanticspec"
    yield shell_word("model.path", model.path) if model.path else shell_word("model", model.name)
    yield shell_word("draft_model", settings.draft_model)
    yield shell_word("dataset", dataset.name)
    if dataset.path:
        yield shell_word("dataset.path", dataset.path)
    if settings.cache_dir:
        yield shell_word("cache_dir", settings.cache_dir)

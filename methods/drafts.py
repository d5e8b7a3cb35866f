"""What `draft_model` stands for: known from its words, before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any, Final, cast

from omegaconf import OmegaConf

from methods.defaults import defaults
from methods.overrides import groups
from methods.quoting import shell_word
from methods.schema import CONF_DIR, Settings
from methods.training.settings import DRAFT_LM
from primitives.models.settings import DraftSettings
from primitives.registry import DRAFTERS, nearest

# How a drafter's constructor asks for its weights: as a loaded language model, or as the folder of a draft head.
MODEL: Final = "draft_model"
HEAD: Final = "draft_folder"
# Weights that the project ships: a head in a folder <model>-<drafter>, a draft model in <model>-draft_lm.
HEADS: Final = CONF_DIR.parent / "heads"

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def asks_for_draft(settings: Settings) -> bool:
    """Return whether the drafter, or one within it, has weights of its own."""
    return any(DRAFTERS.asks_for(settings.drafter, resource) for resource in (MODEL, HEAD))


def draft_problems(settings: Settings) -> Iterator[str]:
    """Yield one sentence if `draft_model` is missing, is not used, or cannot be the name of a model."""
    drafter, draft = settings.drafter["name"], settings.draft_model
    if not asks_for_draft(settings):
        if draft is not None:
            yield f"draft_model is '{draft}', but drafter '{drafter}' uses no draft model: leave it null"
    elif draft is None and shipped_draft(settings) is None:
        kind = "head" if DRAFTERS.asks_for(settings.drafter, HEAD) else "model"
        yield f"drafter '{drafter}' drafts with a {kind} of its own: set draft_model=<hub id, folder or .gguf file>"
    elif draft is not None:
        try:
            draft_settings(settings)
        except ValueError as error:
            yield str(error)


def drafter_words(settings: Settings) -> Iterator[str]:
    """Yield the words of a command line that choose the drafter: its name, what differs from conf/, its weights."""
    name, usual = settings.drafter["name"], defaults("drafter", settings.drafter["name"])
    yield f"drafter={name}"
    for key, value in settings.drafter.items():
        if key == "name":
            continue
        if key not in usual:
            yield shell_word(f"+drafter.{key}", value)
        elif value != usual[key]:
            yield shell_word(f"drafter.{key}", value)
    if settings.draft_model is not None:
        yield shell_word("draft_model", settings.draft_model)


def shipped_draft(settings: Settings) -> Path | None:
    """Return the folder of the weights that the project ships for model and drafter, if none are asked for by name."""
    if settings.draft_model is not None or settings.model.path is not None:
        return None
    for name, _ in DRAFTERS.within(settings.drafter):
        for resource, kind in ((HEAD, name), (MODEL, DRAFT_LM)):
            folder = HEADS / f"{settings.model.name}-{kind}"
            if resource in signature(DRAFTERS.get(name)).parameters and (folder / "config.json").is_file():
                return folder
    return None


def draft_settings(settings: Settings) -> DraftSettings:
    """Return which model `draft_model` names: a folder or file that is there, a choice of model=..., or a hub id.

    Null is what the project ships for model and drafter.

    Raises:
        ValueError: it is none of them.
    """
    shipped = shipped_draft(settings)
    if shipped is not None:
        return DraftSettings(path=str(shipped))
    draft = str(settings.draft_model)
    if Path(draft).expanduser().exists():
        return DraftSettings(path=draft)
    if draft in groups()["model"]:
        known = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(CONF_DIR / "model" / f"{draft}.yaml")))
        return DraftSettings(draft, known["hub_id"], known["path"], known["embedded"])
    if not _HUB_ID.fullmatch(draft) or draft.endswith(".gguf") or draft.startswith("."):
        raise ValueError(
            f"draft_model is '{draft}', where nothing lies: give a model folder, a .gguf file, a hub id (owner/name), "
            f"or one of the project's models: {nearest(draft, groups()['model'])}"
        )
    return DraftSettings(draft.rpartition("/")[2], hub_id=draft)

"""Recordings: what a target said while it wrote its greedy answers, kept beside the results to draft against later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from corpora.templates import TEMPLATES_VERSION
from methods.offline.files import void, write_json, write_whole
from methods.places import short_hash
from methods.schema import Settings
from primitives.contract import Ints
from primitives.models.recorded_text import RecordedText, text_name
from primitives.models.replay_target import ReplayTarget

FORMAT: Final = 1
MANIFEST: Final = "recording.json"
TOKENIZER: Final = "tokenizer"


@dataclass(frozen=True)
class Recording:
    """A folder with one file for each text, and what they were made of.

    Attributes:
        folder: where it lies.
        facts: content of its manifest: fingerprints, device, dtype, layers, vocab_size, eos_ids, max_positions.
    """

    folder: Path
    facts: Mapping[str, Any]

    @property
    def fingerprint(self) -> str:
        """Identity of what was recorded; texts of more prompts do not change it."""
        return short_hash({key: self.facts[key] for key in ("fingerprints", "device", "dtype", "layers")})

    def text(self, prompt: Ints) -> RecordedText:
        """Return the text with this prompt.

        Raises:
            ValueError: it was not recorded, or its file is damaged.
        """
        file = self.folder / text_name(prompt)
        if not file.is_file():
            raise ValueError(f"a prompt is not in the recording {self.folder}: run scripts.record with these settings")
        return RecordedText.load(file)

    def holds(self, prompt: Ints) -> bool:
        """Return whether the text with this prompt was recorded."""
        return (self.folder / text_name(prompt)).is_file()

    def keep(self, text: RecordedText) -> None:
        """Write a text; its file is whole or not there."""
        write_whole(self.folder / text_name(text.prompt), lambda file: void(file.write(text.to_bytes())))

    def target(self) -> ReplayTarget:
        """Return the target that says again what was recorded."""
        facts = self.facts
        eos_ids = frozenset(facts["eos_ids"])
        target = ReplayTarget(self.text, facts["vocab_size"], eos_ids, facts["max_positions"], facts["layers"])
        # The node budget is that of the device that was recorded, so that trees are cut as they would be there.
        target.device = torch.device(facts["device"])
        return target


def recording_folder(settings: Settings) -> Path:
    """Return where the recording of these settings lies; any device and any number of prompts has the same one."""
    made_of = [
        settings.model.name,
        [settings.model.chat_template, settings.model.template_kwargs],
        [settings.dataset.name, settings.dataset.template, TEMPLATES_VERSION],
        asdict(settings.decode),
    ]
    name = f"{settings.dataset.name}-{settings.model.name}-{short_hash(made_of)}"
    return Path(settings.results_dir).expanduser() / "recordings" / name


def open_recording(settings: Settings) -> Recording:
    """Return the recording of these settings.

    Raises:
        ValueError: there is none, or it is damaged.
    """
    folder = recording_folder(settings)
    found = read_recording(folder)
    if found is None:
        raise ValueError(
            f"mode=replay needs a recording, and {folder} holds none: run `python -m scripts.record` with the same "
            "settings where the model is, and bring that folder here"
        )
    return found


def read_recording(folder: Path) -> Recording | None:
    """Return the recording in a folder, None if there is none.

    Raises:
        ValueError: its manifest is damaged.
    """
    file = folder / MANIFEST
    if not file.is_file():
        return None
    try:
        facts = json.loads(file.read_text("utf-8"))
        known = facts["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged; delete {folder} and record again") from error
    if not known:
        raise ValueError(f"{folder} has format {facts['format']}, this version reads {FORMAT}: record again")
    return Recording(folder, facts)


def begin_recording(folder: Path, facts: Mapping[str, Any]) -> Recording:
    """Write the manifest of a recording."""
    content = {"format": FORMAT, **facts}
    write_json(folder / MANIFEST, content)
    return Recording(folder, content)

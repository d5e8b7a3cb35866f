"""What is refused of the settings of a data set before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from corpora.columns import COLUMNS, columns_of
from corpora.prompts import NAME as PROMPTS
from corpora.settings import DatasetSettings
from corpora.templates import render

_FOLDER: Final = "folder that holds train.jsonl and test.jsonl"
_WANTED: Final = {
    PROMPTS: ".jsonl or text file of prompts",
    "spec_bench": "question.jsonl of github.com/hemingkx/Spec-Bench, or folder with such rows in test.jsonl",
}


def check_dataset(settings: DatasetSettings) -> None:
    """Raise ValueError for settings that cannot work, before anything is read."""
    render(settings.template, "")
    if settings.num_samples is not None and settings.num_samples < 1:
        raise ValueError(
            f"dataset.num_samples must be at least 1, got {settings.num_samples}; null takes all prompts in their order"
        )
    if settings.name != PROMPTS:
        columns_of(settings.name)
    if settings.path is None and not has_train(settings.name):
        raise ValueError(
            f"dataset={settings.name} is read from disk alone: give dataset.path=<{_WANTED[settings.name]}>"
        )


def path_problem(settings: DatasetSettings) -> str | None:
    """Return what is wrong with `settings.path` for a benchmark, in one sentence; None if nothing is."""
    if settings.path is None:
        return None
    place = Path(settings.path).expanduser()
    if place.is_file() and not has_train(settings.name):
        return None
    if settings.name != PROMPTS and (place / "test.jsonl").is_file():
        return None
    lack = "which is no file" if settings.name == PROMPTS else "where there is no test.jsonl"
    return f"dataset.path is '{settings.path}', {lack}: give a {_WANTED.get(settings.name, _FOLDER)}"


def has_train(name: str) -> bool:
    """Return whether a data set has train prompts of its own."""
    return name != PROMPTS and (name not in COLUMNS or COLUMNS[name].has_train)

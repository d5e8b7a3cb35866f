"""Find the rows of a data set: an explicit folder, the hub or its cache, or the small sets that the project ships."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from corpora.columns import Columns, columns_of
from corpora.corpus import Corpus
from corpora.example import Example
from corpora.hub import HubError, load_rows
from corpora.jsonl import read_jsonl
from corpora.settings import DatasetSettings
from corpora.templates import render

Split = Literal["train", "test"]

MINI = Path(__file__).parent / "mini"
HELD_OUT = 500

_LOG = logging.getLogger(__name__)
_SAMPLE_SEED = 0
_HELD_OUT_SEED = 1


class _Rows(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


@dataclass(frozen=True)
class _Found:
    """Rows of one split. Only the rows at `indices` belong to it: a held-out test part shares its rows with train."""

    rows: _Rows
    indices: Sequence[int]
    name: str
    source: str
    origin: str


def check_dataset(settings: DatasetSettings) -> None:
    """Raise ValueError for settings that cannot work, before anything is read."""
    columns_of(settings.name)
    render(settings.template, "")
    if settings.num_samples < 1:
        raise ValueError(f"dataset.num_samples must be at least 1, got {settings.num_samples}")


def load_corpus(settings: DatasetSettings, split: Split, *, at_most: int | None = None) -> Corpus:
    """Return a fixed shuffled sample of a split; a larger sample begins with the smaller one.

    Args:
        settings: which data set.
        split: "test" gives exactly `settings.num_samples` examples; "train" gives all, or `at_most` many.
        at_most: limit for "train"; a smaller set is returned whole.

    Raises:
        ValueError: unfit settings, a folder without the file or the columns, fewer test rows than asked for, or no
            source at all.
    """
    columns, found = _split(settings, split)
    size = len(found.indices)
    if split == "test" and settings.num_samples > size:
        raise ValueError(
            f"dataset.num_samples is {settings.num_samples}, but the test part of {found.name} has only {size} prompts "
            f"({found.source}): ask for at most {size}"
        )
    wanted = settings.num_samples if split == "test" else at_most
    order = np.random.default_rng(_SAMPLE_SEED).permutation(size)[:wanted]
    examples = [_example(found.rows[found.indices[i]], found.indices[i], split, columns, found.origin) for i in order]
    return Corpus(examples, found.name, found.source)


def whole_split(settings: DatasetSettings, split: Split) -> Corpus:
    """Return every example of a split in the source's order, however many `settings` ask for.

    Raises:
        ValueError: see :func:`load_corpus`.
    """
    columns, found = _split(settings, split)
    examples = [_example(found.rows[row], row, split, columns, found.origin) for row in found.indices]
    return Corpus(examples, found.name, found.source)


def _split(settings: DatasetSettings, split: Split) -> tuple[Columns, _Found]:
    check_dataset(settings)
    columns = columns_of(settings.name)
    return columns, _find(settings, split, columns)


def _find(settings: DatasetSettings, split: Split, columns: Columns) -> _Found:
    if settings.path is not None:
        return _from_folder(Path(settings.path).expanduser(), settings.name, split)
    try:
        return _from_hub(settings, split, columns)
    except HubError as error:
        if not (MINI / settings.name).is_dir():
            raise ValueError(
                f"dataset '{settings.name}' has no source: {error}; "
                "give dataset.path=<folder with train.jsonl and test.jsonl>"
            ) from error
        found = _from_folder(MINI / settings.name, settings.name, split)
        found = replace(found, source=f"{found.source} ({error})")
        _LOG.warning("dataset %s: %s; dataset.path=<folder> reads the real set from disk", found.name, found.source)
        return found


def _from_folder(folder: Path, name: str, split: Split) -> _Found:
    if not folder.is_dir():
        raise ValueError(f"dataset.path: there is no folder {folder}; it must hold train.jsonl and test.jsonl")
    try:
        rows = read_jsonl(folder / f"{split}.jsonl")
    except ValueError as error:
        raise ValueError(f"dataset.path: {error}") from error
    shown, source = name, f"folder {folder}"
    if folder.resolve() == (MINI / name).resolve():
        shown = f"{name}-mini"
        source = "a small set of the project's own writing"
    return _Found(rows, range(len(rows)), shown, source, str(folder / f"{split}.jsonl"))


def _from_hub(settings: DatasetSettings, split: Split, columns: Columns) -> _Found:
    if settings.hub_id is None:
        raise HubError(f"dataset '{settings.name}' names no hub_id")
    hub_split = settings.train_split if split == "train" else settings.test_split
    rows, place = load_rows(settings.hub_id, settings.hub_config, hub_split)
    origin = f"{settings.hub_id} ({hub_split})"
    indices: Sequence[int] = range(len(rows))
    if settings.train_split == settings.test_split:
        indices = _hold_out(rows, split, columns, origin)
    return _Found(rows, indices, settings.name, f"{place} {origin}", origin)


def _hold_out(rows: Any, split: Split, columns: Columns, origin: str) -> list[int]:
    """Return the row numbers of a split of our own: the last 500 of a fixed shuffle are for testing.

    Train rows whose instruction is also a test instruction are left out, so that no store holds the answer to a test
    prompt.
    """
    order = np.random.default_rng(_HELD_OUT_SEED).permutation(len(rows)).tolist()
    test = order[-HELD_OUT:]
    if split == "test":
        return list(test)
    instructions = [example.instruction for example in _examples(rows, columns, origin)]
    tested = {instructions[i] for i in test}
    return [i for i in order[:-HELD_OUT] if instructions[i] not in tested]


def _examples(rows: Iterable[Any], columns: Columns, origin: str) -> Iterable[Example]:
    return (_example(row, index, "train", columns, origin) for index, row in enumerate(rows))


def _example(row: Mapping[str, Any], index: int, split: Split, columns: Columns, origin: str) -> Example:
    missing = [column for column in columns.required if column not in row]
    if missing:
        raise ValueError(
            f"{origin}, row {index + 1} has no column '{missing[0]}'; needed: {', '.join(columns.required)}"
        )
    try:
        instruction, reference, answers = columns.read(row)
    except ValueError as error:
        raise ValueError(f"{origin}, row {index + 1}: {error}") from error
    return Example(f"{split}-{index:05d}", instruction, reference, answers)

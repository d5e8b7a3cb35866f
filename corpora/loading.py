"""Find the rows of a data set: an explicit folder or file, the hub or its cache, or the sets that the project ships."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from corpora.checks import check_dataset, has_train
from corpora.columns import Columns, columns_of
from corpora.corpus import Corpus
from corpora.example import Example
from corpora.hub import HubError, load_rows
from corpora.jsonl import read_jsonl
from corpora.prompts import NAME as PROMPTS
from corpora.prompts import read_prompts
from corpora.settings import DatasetSettings

Split = Literal["train", "test"]

MINI = Path(__file__).parent / "mini"
HELD_OUT = 500

_LOG = logging.getLogger(__name__)
_SAMPLE_SEED = 0
_HELD_OUT_SEED = 1


@dataclass(frozen=True)
class _Found:
    """One split: how to read a row, and which rows belong to it (a held-out part shares its rows with train)."""

    indices: Sequence[int]
    read: Callable[[int], Example]
    name: str
    source: str
    in_turns: bool = False


def load_corpus(settings: DatasetSettings, split: Split, *, at_most: int | None = None) -> Corpus:
    """Return a fixed shuffled sample of a split; a larger sample begins with the smaller one.

    Args:
        settings: which data set.
        split: "test" gives exactly `settings.num_samples` examples, or all in their order; "train" gives all
            shuffled, or `at_most` many.
        at_most: limit for "train"; a smaller set is returned whole.

    Raises:
        ValueError: unfit settings, a folder without the file or the columns, fewer test rows than asked for, or no
            source at all.
    """
    found = _find(settings, split)
    size, wanted = len(found.indices), settings.num_samples if split == "test" else at_most
    if split == "test" and wanted is None:
        return _corpus(found, found.indices)
    if split == "test" and wanted is not None and wanted > size:
        raise ValueError(
            f"dataset.num_samples is {wanted}, but the test part of {found.name} has only {size} prompts "
            f"({found.source}): ask for at most {size}, or for all by null"
        )
    order = np.random.default_rng(_SAMPLE_SEED).permutation(size)
    rows = [found.indices[i] for i in (order if found.in_turns else order[:wanted])]
    return _corpus(found, (_in_turns(found, rows) if found.in_turns else rows)[:wanted])


def _in_turns(found: _Found, rows: Sequence[int]) -> list[int]:
    """Return rows in an order that takes one of each category in turns, while it has some."""
    taken: Counter[str | None] = Counter()
    rounds = []
    for row in rows:
        category = found.read(row).category
        rounds.append(taken[category])
        taken[category] += 1
    return [rows[place] for place in np.argsort(rounds, kind="stable")]


def whole_split(settings: DatasetSettings, split: Split) -> Corpus:
    """Return every example of a split in the source's order, however many `settings` ask for.

    Raises:
        ValueError: see :func:`load_corpus`.
    """
    found = _find(settings, split)
    return _corpus(found, found.indices)


def _corpus(found: _Found, rows: Sequence[int]) -> Corpus:
    return Corpus([found.read(row) for row in rows], found.name, found.source)


def _find(settings: DatasetSettings, split: Split) -> _Found:
    check_dataset(settings)
    if split == "train" and not has_train(settings.name):
        raise ValueError(
            f"dataset '{settings.name}' has no train prompts: set dataset.train_from to a data set with some"
        )
    if settings.name == PROMPTS:
        prompts, path = read_prompts(settings), Path(settings.path or "").expanduser()
        return _Found(range(len(prompts)), prompts.__getitem__, f"{PROMPTS}-{path.stem}", f"file {path}")
    columns = columns_of(settings.name)
    if settings.path is not None:
        return _from_folder(Path(settings.path).expanduser(), settings.name, split, columns)
    try:
        return _from_hub(settings, split, columns)
    except HubError as error:
        if not (MINI / settings.name).is_dir():
            raise ValueError(
                f"dataset '{settings.name}' has no source: {error}; "
                "give dataset.path=<folder with train.jsonl and test.jsonl>"
            ) from error
        found = _from_folder(MINI / settings.name, settings.name, split, columns)
        found = replace(found, source=f"{found.source} ({error})")
        _LOG.warning("dataset %s: %s; dataset.path=<folder> reads the real set from disk", found.name, found.source)
        return found


def _from_folder(folder: Path, name: str, split: Split, columns: Columns) -> _Found:
    alone = folder.is_file() and not columns.has_train
    if not (alone or folder.is_dir()):
        raise ValueError(f"dataset.path: there is no folder {folder}; it must hold train.jsonl and test.jsonl")
    file = folder if alone else folder / f"{split}.jsonl"
    try:
        rows = read_jsonl(file)
    except ValueError as error:
        raise ValueError(f"dataset.path: {error}") from error
    shown, source = name, f"{'file' if alone else 'folder'} {folder}"
    if folder.resolve() == (MINI / name).resolve():
        shown = f"{name}-mini"
        source = "a small set of the project's own writing"
    return _Found(range(len(rows)), _reader(rows, split, columns, str(file)), shown, source, columns.in_turns)


def _from_hub(settings: DatasetSettings, split: Split, columns: Columns) -> _Found:
    if settings.hub_id is None:
        raise HubError(f"dataset '{settings.name}' names no hub_id")
    hub_split = settings.train_split if split == "train" else settings.test_split
    rows, place = load_rows(settings.hub_id, settings.hub_config, hub_split)
    origin = f"{settings.hub_id} ({hub_split})"
    indices: Sequence[int] = range(len(rows))
    if settings.train_split == settings.test_split:
        indices = _hold_out(rows, split, columns, origin)
    return _Found(indices, _reader(rows, split, columns, origin), settings.name, f"{place} {origin}")


def _hold_out(rows: Any, split: Split, columns: Columns, origin: str) -> list[int]:
    """Return the row numbers of a split of our own: the last 500 of a fixed shuffle are for testing.

    Train rows whose instruction is also a test instruction are left out, so that no store holds the answer to a test
    prompt.
    """
    order = np.random.default_rng(_HELD_OUT_SEED).permutation(len(rows)).tolist()
    test = order[-HELD_OUT:]
    if split == "test":
        return list(test)
    instructions = [_example(row, index, "train", columns, origin).instruction for index, row in enumerate(rows)]
    tested = {instructions[i] for i in test}
    return [i for i in order[:-HELD_OUT] if instructions[i] not in tested]


def _reader(rows: Any, split: Split, columns: Columns, origin: str) -> Callable[[int], Example]:
    return lambda index: _example(rows[index], index, split, columns, origin)


def _example(row: Mapping[str, Any], index: int, split: Split, columns: Columns, origin: str) -> Example:
    missing = [column for column in columns.required if column not in row]
    if missing:
        raise ValueError(
            f"{origin}, row {index + 1} has no column '{missing[0]}'; needed: {', '.join(columns.required)}"
        )
    try:
        fields = columns.read(row)._asdict()
    except ValueError as error:
        raise ValueError(f"{origin}, row {index + 1}: {error}") from error
    name = fields.pop("id")
    return Example(f"{split}-{index:05d}" if name is None else name, **fields)

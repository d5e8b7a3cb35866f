"""Where the train prompts of a run come from: its own data set, or another one where that has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from corpora.checks import has_train
from corpora.settings import DatasetSettings
from methods.schema import CONF_DIR
from primitives.registry import nearest


def train_settings(dataset: DatasetSettings) -> DatasetSettings:
    """Return the settings of the data set that stores and calibrations take their prompts from.

    Raises:
        ValueError: see :func:`train_problem`.
    """
    problem = train_problem(dataset)
    if problem is not None:
        raise ValueError(problem)
    if dataset.train_from is None:
        return dataset
    chosen: Any = OmegaConf.to_container(OmegaConf.load(_folder() / f"{dataset.train_from}.yaml"))
    return replace(DatasetSettings(**chosen), path=dataset.train_path)


def train_problem(dataset: DatasetSettings) -> str | None:
    """Return what is wrong with `train_from` and `train_path` in one sentence; None if nothing is."""
    name, path = dataset.train_from, dataset.train_path
    known = sorted(file.stem for file in _folder().glob("*.yaml") if has_train(file.stem))
    if name is None:
        if not has_train(dataset.name):
            return f"dataset '{dataset.name}' has no train prompts: set dataset.train_from to one of {', '.join(known)}"
        if path is not None:
            return f"dataset.train_path is '{path}', but dataset.train_from is null: say which data set it holds"
    elif name not in known:
        return f"dataset.train_from is '{name}': {nearest(name, known)}"
    elif path is not None and not (Path(path).expanduser() / "train.jsonl").is_file():
        return f"dataset.train_path is '{path}', where there is no train.jsonl: give a folder that holds it"
    return None


def _folder() -> Path:
    return CONF_DIR / "dataset"

"""A tiny model with a tokenizer and a tiny data set on disk, and the words that name them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.primitives.models.conftest import make_model, make_tokenizer

Words = Callable[..., list[str]]


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose position limit takes the prompt templates; its EOS is none of the tokens that it writes."""
    folder = tmp_path_factory.mktemp("model") / "tiny"
    save_model(folder, kind="llama")
    return folder


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "other"
    save_model(folder, kind="qwen2")
    return folder


def save_model(folder: Path, kind: str) -> None:
    model: Any = make_model(kind)
    model.config.max_position_embeddings = 2048
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)


def save_small(folder: Path) -> None:
    """Write what a small run takes: a model in folder/tiny and rows in folder/rows."""
    save_model(folder / "tiny", kind="llama")
    (folder / "rows").mkdir()
    save_rows(folder / "rows")


@pytest.fixture(scope="session")
def rows_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    save_rows(folder)
    return folder


def save_rows(folder: Path) -> None:
    for split, count in (("train", 8), ("test", 3)):
        rows = [
            {"question": f"{split} {'very ' * (i % 3)}short {i}?", "answer": f"the answer{' ' * i} is\n#### {i}"}
            for i in range(count)
        ]
        write_rows(folder / f"{split}.jsonl", rows)


def write_rows(file: Path, rows: list[dict[str, str]]) -> None:
    file.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


@pytest.fixture
def words(tiny_folder: Path, rows_folder: Path, tmp_path: Path) -> Words:
    """Return a function that gives the words of a small run, with changes after them."""

    def choose(method: str, *changes: str, model: Path = tiny_folder) -> list[str]:
        return [*small_run(method, model, rows_folder, tmp_path), *changes]

    return choose


def small_run(method: str, model: Path, rows: Path, place: Path) -> list[str]:
    return [
        f"method={method}",
        f"model.path={model}",
        "dataset=gsm8k",
        f"dataset.path={rows}",
        "dataset.num_samples=2",
        "dataset.template=chat",
        "datastore.num_prompts=6",
        "datastore.max_new_tokens=12",
        "datastore.batch_size=2",
        "datastore.pca_dim=8",
        "decode.max_new_tokens=16",
        "device=cpu",
        "dtype=float32",
        f"cache_dir={place / 'cache'}",
        f"results_dir={place / 'results'}",
    ]

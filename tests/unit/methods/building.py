"""Building small stores, and stopping such a build at a chosen moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpora.loading import load_corpus
from methods.offline import Stores, documents, prepare, states
from methods.settings import compose
from primitives.datastores.manifest import MANIFEST_FILE
from primitives.datastores.vector_store import VectorStore
from primitives.models.batching import greedy_answers, hidden_states
from primitives.models.loading import load_model, render_prompt

METHOD = "sense_without_se"
CPU = torch.device("cpu")


def build(words: list[str]) -> Stores:
    stores = prepare(compose(words))
    assert stores is not None
    return stores


def vectors(words: list[str]) -> VectorStore:
    store = build(words).vectors
    assert store is not None
    return store


def stores_in(place: Path) -> list[Path]:
    """The published stores of the cache folder in `place`."""
    folder = place / "cache" / "stores"
    return [path for path in folder.glob("[!.]*") if path.is_dir()]


def folder_of(place: Path) -> Path:
    (folder,) = stores_in(place)
    return folder


def facts_of(place: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder_of(place) / MANIFEST_FILE).read_text(encoding="utf-8"))["facts"]
    return facts


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of a store's files; the manifest, which tells how long things took, is left out."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.name != MANIFEST_FILE}


def changed(words: list[str], *changes: str) -> list[str]:
    """Return words with others in the place of those with the same key."""
    keys = {change.split("=")[0] for change in changes}
    return [word for word in words if word.split("=")[0] not in keys] + list(changes)


class Counted:
    """Stands before a function: counts its calls and raises at one of them."""

    def __init__(self, inner: Callable[..., Any], fails_at: int | None = None, error: BaseException | None = None):
        self.inner = inner
        self.fails_at = fails_at
        self.error = error or KeyboardInterrupt()
        self.calls = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.fails_at:
            raise self.error
        return self.inner(*arguments, **options)


def watch(monkeypatch: pytest.MonkeyPatch, **fails_at: int | None) -> dict[str, Counted]:
    """Count what the model is asked for, and stop at a call."""
    places: dict[str, tuple[Any, Callable[..., Any]]] = {
        "greedy_answers": (documents, greedy_answers),
        "hidden_states": (states, hidden_states),
    }
    watched = {name: Counted(inner, fails_at.get(name)) for name, (_, inner) in places.items()}
    for name, counted in watched.items():
        monkeypatch.setattr(places[name][0], name, counted)
    return watched


def texts(stores: Stores) -> list[list[int]]:
    """The documents of a store."""
    tokens, offsets = stores.tokens.tokens, stores.tokens.offsets
    return [tokens[start:end].tolist() for start, end in pairwise(offsets)]


def prompts_of(words: list[str]) -> dict[str, Any]:
    """Ids and token ids of the train prompts that go into the store."""
    settings = compose(words)
    corpus = load_corpus(settings.dataset, "train", at_most=settings.datastore.num_prompts)
    tokenizer = load_model(settings.model, CPU, torch.float32, Path("unused")).tokenizer
    return {
        example.id: np.array(render_prompt(tokenizer, example.instruction, settings.model))
        for example in corpus.examples
    }

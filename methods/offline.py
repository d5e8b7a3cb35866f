"""The offline stage of the retrieval methods: a store of the model's own answers (id) or of references (ood)."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, Final, cast

import numpy as np
import torch
from platformdirs import user_cache_path
from transformers import PreTrainedModel

from corpora.corpus import Corpus
from corpora.loading import load_corpus
from corpora.templates import TEMPLATES_VERSION, render
from methods.progress import TokenProgress
from methods.schema import Settings
from methods.settings import needs_store
from primitives.contract import Ints
from primitives.datastores.hidden_state_store import HiddenStateStore
from primitives.datastores.manifest import open_store, save_store
from primitives.datastores.store_builder import IndexKind, StoreBuilder
from primitives.models.batching import greedy_answers, hidden_states
from primitives.models.causal_lm import configured_eos
from primitives.models.device import dtype_name, resolve_device, resolve_dtype
from primitives.models.fingerprint import model_fingerprint
from primitives.models.loading import LoadedModel, load_model, model_folder, render_prompt
from primitives.publish import published

# Hidden states are taken after the last norm: the ones that predict the next token (spec 1.2, an interpretation).
LAYER: Final = "final"
TOKENS_PER_FORWARD: Final = 2048

_LOG = logging.getLogger(__name__)


def cache_folder(settings: Settings) -> Path:
    """Return where models and stores are kept: `cache_dir`, or the user's cache folder."""
    return Path(settings.cache_dir).expanduser() if settings.cache_dir else user_cache_path("atomsd")


def prepare(settings: Settings) -> HiddenStateStore | None:
    """Load the model and build what the method needs, unless it is there already; None if it needs nothing."""
    corpus = store_corpus(settings)
    if corpus is None:
        return None
    check_store(settings, corpus)
    device = resolve_device(settings.device)
    model = load_model(settings.model, device, resolve_dtype(settings.dtype, device), cache_folder(settings))
    return prepare_store(settings, model, corpus)


def store_corpus(settings: Settings) -> Corpus | None:
    """Return the train prompts that the store is made of; None if the drafter searches no store.

    Raises:
        ValueError: the train split cannot be had.
    """
    if not needs_store(settings.drafter):
        return None
    corpus = load_corpus(settings.dataset, "train", at_most=settings.datastore.num_prompts)
    if len(corpus) < settings.datastore.num_prompts:
        _LOG.warning(
            "datastore.num_prompts is %d, but %s has %d train prompts: the store is made of these",
            settings.datastore.num_prompts,
            corpus.name,
            len(corpus),
        )
    return corpus


def check_store(settings: Settings, corpus: Corpus) -> None:
    """Raise StoreError if a store that is there already is damaged, or is one of something else.

    Looks at files only, so that no model is loaded in vain.
    """
    if settings.datastore.path is None:
        return
    folder, _ = model_folder(settings.model, cache_folder(settings))
    dtype = resolve_dtype(settings.dtype, resolve_device(settings.device))
    identity = _identity(settings, corpus, model_fingerprint(folder), dtype)
    open_store(Path(settings.datastore.path).expanduser(), identity, _rebuild(settings))


def prepare_store(settings: Settings, model: LoadedModel, corpus: Corpus) -> HiddenStateStore:
    """Return the store of these settings, built first if it is missing.

    Raises:
        StoreError: the store is there but damaged, or `datastore.path` names one that was made of other things.
    """
    identity = {
        **_identity(settings, corpus, model.fingerprint, model.model.dtype),
        "tokenizer": model.tokenizer_fingerprint,
    }
    if settings.datastore.path is not None:
        store = open_store(Path(settings.datastore.path).expanduser(), identity, _rebuild(settings))
    else:
        name = f"{corpus.name}-{settings.datastore.kind}-{settings.model.name}-{_short_hash(identity)}"
        folder = cache_folder(settings) / "stores" / name
        published(folder, lambda staging: _build(settings, model, corpus, identity, staging))
        store = open_store(folder, identity, f"delete that folder, then {_rebuild(settings)}")
    store.probe(settings.datastore.nprobe)
    return store


def _rebuild(settings: Settings) -> str:
    model = f"model.path={settings.model.path}" if settings.model.path else f"model={settings.model.name}"
    rows = f" dataset.path={settings.dataset.path}" if settings.dataset.path else ""
    words = f"method={settings.method.name} {model} dataset={settings.dataset.name}{rows}"
    return f"python -m scripts.prepare {words} datastore={settings.datastore.kind} builds one"


def _identity(settings: Settings, corpus: Corpus, model: str, dtype: torch.dtype) -> dict[str, Any]:
    """Return what a store is made of, but for the tokenizer: a run with anything else must not use it."""
    store = settings.datastore
    return {
        "model": model,
        "dtype": dtype_name(dtype),
        "layer": LAYER,
        "template": [settings.dataset.template, TEMPLATES_VERSION],
        "chat": [settings.model.chat_template, settings.model.template_kwargs],
        "corpus": corpus.fingerprint,
        "kind": store.kind,
        "max_new_tokens": store.max_new_tokens,
        "pca_dim": store.pca_dim,
        "index": [store.index, store.nlist, store.m, store.nbits],
    }


def _build(settings: Settings, model: LoadedModel, corpus: Corpus, identity: dict[str, Any], folder: Path) -> None:
    started = perf_counter()
    prompts = [
        np.array(render_prompt(model.tokenizer, render(settings.dataset.template, example.instruction), settings.model))
        for example in corpus.examples
    ]
    if settings.datastore.kind == "id":
        answers = _own_answers(settings, model, corpus, prompts, identity)
    else:
        answers = _references(model, corpus, settings.datastore.max_new_tokens)
    answered = perf_counter()
    store = _index(settings, model, prompts, answers)
    facts = {
        "prompts": [example.id for example in corpus.examples],
        "corpus": f"{corpus.name}: {corpus.source}",
        "settings": asdict(settings.datastore),
        "seconds": {"answers": answered - started, "keys": perf_counter() - answered},
    }
    save_store(store, folder, identity, facts)


def _own_answers(
    settings: Settings, model: LoadedModel, corpus: Corpus, prompts: Sequence[Ints], identity: dict[str, Any]
) -> list[Ints]:
    """Return the model's greedy answers, batch by batch; finished batches of an interrupted build are kept."""
    size = settings.datastore.batch_size
    parts = {
        key: identity[key] for key in ("model", "tokenizer", "dtype", "template", "chat", "corpus", "max_new_tokens")
    }
    folder = cache_folder(settings) / "answers" / f"{corpus.name}-{settings.model.name}-{_short_hash([parts, size])}"
    folder.mkdir(parents=True, exist_ok=True)
    # Prompts of one length share a batch, so that little of it is padding.
    order = np.argsort([len(prompt) for prompt in prompts], kind="stable")
    answers: list[Ints] = [np.empty(0, np.int64)] * len(prompts)
    with TokenProgress(f"answers for the {corpus.name} store", len(prompts)) as progress:
        for number, start in enumerate(range(0, len(prompts), size)):
            rows = order[start : start + size]
            batch = _kept(
                folder / f"{number:05d}.json",
                lambda rows=rows: greedy_answers(  # type: ignore[misc]
                    model.model,
                    [prompts[row] for row in rows],
                    settings.datastore.max_new_tokens,
                    _eos_ids(model),
                ),
            )
            for row, answer in zip(rows, batch, strict=True):
                answers[row] = np.array(answer, np.int64)
            progress.advance(len(rows), sum(map(len, batch)))
    return answers


def _kept(path: Path, make: Callable[[], list[list[int]]]) -> list[list[int]]:
    """Return what `make` gave when the file was first asked for; a file is whole or not there."""
    if path.is_file():
        return cast(list[list[int]], json.loads(path.read_text(encoding="utf-8")))
    made = make()
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(made), encoding="utf-8")
    os.replace(partial, path)
    return made


def _references(model: LoadedModel, corpus: Corpus, longest: int) -> list[Ints]:
    """Return the reference answers as the model would have written them: tokens, and an EOS at the end."""
    ends = sorted(_eos_ids(model))[-1:]
    texts = [example.reference for example in corpus.examples]
    ids = [model.tokenizer(text, add_special_tokens=False).input_ids for text in texts]
    return [np.array([*answer, *ends][:longest], np.int64) for answer in ids]


def _index(
    settings: Settings, model: LoadedModel, prompts: Sequence[Ints], answers: Sequence[Ints]
) -> HiddenStateStore:
    """Return the store of all answers, their states taken from forwards over prompt and answer together."""
    wanted = settings.datastore
    total = sum(map(len, answers))
    builder = StoreBuilder(total, wanted.pca_dim, cast(IndexKind, wanted.index), wanted.nlist, wanted.m, wanted.nbits)
    pairs = [(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True) if len(answer)]
    with TokenProgress("keys of the store", len(pairs)) as progress:
        fill(builder, model.model, pairs, progress.advance)
    return builder.finish()


def fill(
    builder: StoreBuilder,
    model: PreTrainedModel,
    pairs: Sequence[tuple[Ints, Ints]],
    advance: Callable[[int, int], None],
) -> None:
    """Add answers to a store with the states that predicted them.

    Args:
        builder: takes them.
        model: makes the states, in forwards over prompt and answer together.
        pairs: prompt and answer, none empty.
        advance: told after each forward how many texts and tokens went through it.
    """
    for batch in _batches(pairs):
        texts = [np.concatenate(pair) for pair in batch]
        for (prompt, answer), states in zip(batch, hidden_states(model, texts), strict=True):
            # The state of the token before predicts a token, so an answer's states begin at the prompt's last one.
            builder.add(answer, states[len(prompt) - 1 : -1])
        advance(len(batch), sum(map(len, texts)))


def _batches(pairs: Sequence[tuple[Ints, Ints]]) -> Iterator[list[tuple[Ints, Ints]]]:
    """Yield the pairs in their order, as many at a time as one forward takes when padded to the longest."""
    batch: list[tuple[Ints, Ints]] = []
    longest = 0
    for pair in pairs:
        length = len(pair[0]) + len(pair[1])
        if batch and max(longest, length) * (len(batch) + 1) > TOKENS_PER_FORWARD:
            yield batch
            batch, longest = [], 0
        batch.append(pair)
        longest = max(longest, length)
    if batch:
        yield batch


def _eos_ids(model: LoadedModel) -> frozenset[int]:
    return frozenset(configured_eos(model.model))


def _short_hash(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]

"""Which store a run needs, what it must be made of and where it lies: known before a model is loaded."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from transformers import AutoTokenizer

from corpora.corpus import Corpus
from corpora.leaks import NGRAM
from corpora.loading import load_corpus, whole_split
from corpora.settings import DatasetSettings
from corpora.templates import TEMPLATES_VERSION
from methods.offline.command import rebuild_command
from methods.offline.stores import StoreKind, Stores, open_stores
from methods.places import cache_folder, short_hash
from methods.schema import Settings
from methods.settings import needs_store
from methods.train_set import train_settings
from primitives.models.device import dtype_name, resolve_device, resolve_dtype
from primitives.models.fingerprint import model_fingerprint, tokenizer_fingerprint
from primitives.models.loading import model_folder
from primitives.registry import DRAFTERS

# Raise it with any change of how documents or keys are made, or of their order: what is older is then made anew.
RECIPE: Final = 3

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Plan:
    """A store that is there, or is to be built.

    Attributes:
        settings: of the run.
        asking: settings of the data set that its prompts come from.
        train: the prompts that its documents answer.
        evaluation: the whole test split, which its documents must not repeat.
        kind: what the drafter searches.
        identity: what the store is made of; a run with anything else must not use it.
        folder: where it lies.
    """

    settings: Settings
    asking: DatasetSettings
    train: Corpus
    evaluation: Corpus
    kind: StoreKind
    identity: dict[str, Any]
    folder: Path

    @property
    def work(self) -> Path:
        """Folder of what a build has finished so far; batches of another size are other batches."""
        return cache_folder(self.settings) / "builds" / f"{self.folder.name}-{self.settings.datastore.batch_size}"

    @property
    def answers(self) -> Path:
        """Folder of the model's own answers, which stores with other keys share."""
        made_of = ("recipe", "model", "tokenizer", "dtype", "template", "chat", "corpus", "max_new_tokens")
        parts = {key: self.identity[key] for key in made_of}
        name = f"{self.train.name}-{self.settings.model.name}-{short_hash([parts, self.settings.datastore.batch_size])}"
        return cache_folder(self.settings) / "answers" / name

    @property
    def batches(self) -> int:
        """Batches that the prompts are worked through in."""
        return -(-len(self.train) // self.settings.datastore.batch_size)

    @property
    def rebuild(self) -> str:
        """What to do about a store that cannot be used."""
        command = rebuild_command(self.settings)
        if self.settings.datastore.path is not None:
            return f"{command} builds one"
        return f"delete that folder, then {command} builds one"

    def opened(self) -> Stores | None:
        """Return the store, None if it is yet to be built; what its build has left beside it is cleared away.

        Raises:
            StoreError: it is there but damaged, or `datastore.path` names one that was made of other things.
        """
        if self.settings.datastore.path is None:
            if not self.folder.is_dir():
                return None
            for left in self.work.parent.glob(f"{self.folder.name}-*"):
                shutil.rmtree(left, ignore_errors=True)
        device = str(resolve_device(self.settings.device))
        stores = open_stores(self.folder, self.kind, self.identity, self.rebuild, device)
        if stores.vectors is not None:
            stores.vectors.probe(self.settings.datastore.nprobe)
        return stores


@dataclass(frozen=True)
class Origin:
    """The target that a store belongs to: fingerprints of model and tokenizer, and the number format."""

    model: str
    tokenizer: str
    dtype: str

    @classmethod
    def of(cls, settings: Settings) -> Origin:
        """Return that of the model that the settings name, fetched if need be."""
        folder, _ = model_folder(settings.model, cache_folder(settings))
        tokenizer = tokenizer_fingerprint(AutoTokenizer.from_pretrained(folder, local_files_only=True))
        dtype = resolve_dtype(settings.dtype, resolve_device(settings.device))
        return cls(model_fingerprint(folder), tokenizer, dtype_name(dtype))


def plan_store(settings: Settings, origin: Origin | None = None) -> Plan | None:
    """Return the plan of the store that the drafter searches, None if it searches none.

    Args:
        settings: of the run.
        origin: the target, where it is known without its files.

    Raises:
        ValueError: the model's files or the data set's rows cannot be had.
    """
    if not needs_store(settings.drafter):
        return None
    asking = train_settings(settings.dataset)
    train = _train(settings, asking)
    evaluation = whole_split(settings.dataset, "test")
    kind: StoreKind = "vectors" if DRAFTERS.asks_for(settings.drafter, "vector_store") else "tokens"
    identity = _identity(settings, origin or Origin.of(settings), asking, train, evaluation, kind)
    if settings.datastore.path is not None:
        folder = Path(settings.datastore.path).expanduser()
    else:
        name = f"{train.name}-{settings.datastore.kind}-{kind}-{settings.model.name}-{short_hash(identity)}"
        folder = cache_folder(settings) / "stores" / name
    return Plan(settings, asking, train, evaluation, kind, identity, folder)


def _train(settings: Settings, asking: DatasetSettings) -> Corpus:
    wanted = settings.datastore.num_prompts
    corpus = load_corpus(asking, "train", at_most=wanted)
    if len(corpus) < wanted:
        _LOG.warning(
            "datastore.num_prompts is %d, but %s has %d train prompts: the store is made of these",
            wanted,
            corpus.name,
            len(corpus),
        )
    return corpus


def _identity(
    settings: Settings, origin: Origin, asking: DatasetSettings, train: Corpus, evaluation: Corpus, kind: StoreKind
) -> dict[str, Any]:
    """Return what a store is made of; that of a token store is a part of the vector store's with the same documents."""
    store = settings.datastore
    documents = {
        "recipe": RECIPE,
        "model": origin.model,
        "tokenizer": origin.tokenizer,
        "dtype": origin.dtype,
        "template": [asking.template, TEMPLATES_VERSION],
        "chat": [settings.model.chat_template, settings.model.template_kwargs],
        "corpus": train.fingerprint,
        "kind": store.kind,
        "max_new_tokens": store.max_new_tokens,
        "leaks": [store.leaks, NGRAM, evaluation.fingerprint],
    }
    if kind == "tokens":
        return documents
    keys = {
        "layer": "final" if store.layer is None else store.layer,
        "pca_dim": store.pca_dim,
        "metric": "cosine",
        "index": [store.index, store.nlist, store.m, store.nbits],
    }
    return {**documents, **keys}

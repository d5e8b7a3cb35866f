"""From the finished batches of a build to the store: duplicates collapse, the index is made, all is written down."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any, cast

from methods.offline.files import void, write_whole, writing
from methods.offline.measure import sizes_of
from methods.offline.parts import KeyBatches, StoredDocuments
from methods.offline.plan import Plan
from methods.offline.work import WorkFolder
from primitives.datastores.index import IndexKind, index_of
from primitives.datastores.manifest import MANIFEST_FILE, save_store
from primitives.datastores.token_store import TokenStore, collapse
from primitives.datastores.vector_store import VectorStore

_LOG = logging.getLogger(__name__)


def merge(plan: Plan, work: WorkFolder, staging: Path) -> None:
    """Put a store together in an empty folder; no model is needed.

    Raises:
        ValueError: no document is left, or the index cannot be made of so few.
        StoreError: a part is damaged, or the disk is full.
    """
    documents = StoredDocuments(work, plan.batches)
    if not len(documents):
        raise nothing_left(plan)
    with work.times.timed("tokens", documents.tokens):
        kept, counts = collapse(documents)
        tokens = TokenStore.build([documents[place] for place in kept], counts)
    store = tokens if plan.kind == "tokens" else _with_keys(plan, work, tokens, KeyBatches(documents, kept))
    facts = _facts(plan, work, documents, len(documents) - len(kept))
    with writing(staging, RuntimeError):
        save_store(store, staging, plan.identity, facts)
    del store, tokens
    _add_sizes(staging)


def _with_keys(plan: Plan, work: WorkFolder, tokens: TokenStore, keys: KeyBatches) -> VectorStore:
    wanted, projection = plan.settings.datastore, work.projection()
    assert projection is not None
    with work.times.timed("index", len(tokens)):
        kind = cast(IndexKind, wanted.index)
        index = index_of(keys, len(tokens), wanted.pca_dim, kind, wanted.nlist, wanted.m, wanted.nbits)
    return VectorStore(projection, index, tokens, layer=wanted.layer)


def nothing_left(plan: Plan) -> ValueError:
    """Return the error of a build whose documents are all left out."""
    return ValueError(
        f"the datastore of {plan.train.name} would be empty: all {len(plan.train)} train prompts are left out, because "
        "they are empty, too long for the model, or in the test split (datastore.leaks=drop); give others"
    )


def _facts(plan: Plan, work: WorkFolder, documents: StoredDocuments, duplicates: int) -> dict[str, Any]:
    """Return what a store's manifest tells beside its identity; what a user must know of it is logged."""
    notes = documents.notes
    lists = {key: list(chain.from_iterable(note[key] for note in notes)) for key in ("ids", "empty", "too_long", "cut")}
    overlaps = {example: tests for note in notes for example, tests in note["overlaps"].items()}
    _report(plan, lists, overlaps)
    totals = work.times.totals()
    return {
        "prompts": lists["ids"],
        "corpus": f"{plan.train.name}: {plan.train.source}",
        "evaluation": f"{plan.evaluation.name}, {len(plan.evaluation)} test prompts: {plan.evaluation.source}",
        "leaks": plan.settings.datastore.leaks,
        "overlaps": overlaps,
        "empty": lists["empty"],
        "too_long": lists["too_long"],
        "cut": lists["cut"],
        "duplicates": duplicates,
        "settings": asdict(plan.settings.datastore),
        "stages": {stage: {"seconds": seconds, "tokens": tokens} for stage, (seconds, tokens) in totals.items()},
    }


def _report(plan: Plan, lists: Mapping[str, list[str]], overlaps: Mapping[str, list[str]]) -> None:
    tests = len(set(chain.from_iterable(overlaps.values())))
    level = logging.WARNING if overlaps else logging.INFO
    drop = plan.settings.datastore.leaks == "drop"
    done = "they are left out" if drop else "they are kept, so rows of runs with this store are marked"
    _LOG.log(
        level,
        "leak check: %d of %d documents repeat a passage of %d of the %d test prompts of %s; %s",
        len(overlaps), len(plan.train), tests, len(plan.evaluation), plan.evaluation.name, done,
    )  # fmt: skip
    for key, words in (
        ("empty", "left out: the prompt or the answer is empty"),
        ("too_long", "left out: the prompt alone takes all positions of the model"),
        ("cut", "cut where the positions of the model end"),
    ):
        if lists[key]:
            found = lists[key]
            _LOG.warning("%d of %d documents are %s (first: %s)", len(found), len(plan.train), words, found[0])


def _add_sizes(staging: Path) -> None:
    """Write into the manifest what the files take, on the disk and when they are opened and searched."""
    path = staging / MANIFEST_FILE
    content = json.loads(path.read_text(encoding="utf-8"))
    content["facts"]["sizes_mb"] = sizes_of(staging)
    text = json.dumps(content, indent=2) + "\n"
    write_whole(path, lambda file: void(file.write(text.encode())))

"""The stages of a build: answers, a projection, keys; then the store is put together and takes its place at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock

from methods.offline.documents import Batch, Documents
from methods.offline.files import writing
from methods.offline.merge import merge, nothing_left
from methods.offline.plan import Plan
from methods.offline.states import states_of
from methods.offline.stores import Stores
from methods.offline.work import WorkFolder
from methods.progress import TokenProgress
from primitives.datastores.index import check_index
from primitives.datastores.projection import Keys, Projection
from primitives.datastores.store_builder import PCA_SAMPLE
from primitives.models.batching import check_layer
from primitives.models.loading import LoadedModel
from primitives.publish import published

Load = Callable[[], LoadedModel]


def build_store(plan: Plan, load: Load) -> Stores:
    """Return the store of a plan, built first if it is missing; what earlier starts or jobs have finished is kept.

    Args:
        plan: of the store.
        load: gives the model; not called if only the parts have to be put together.

    Raises:
        StoreError: the disk does not take it, or what an earlier start has left is damaged.
    """

    def build(staging: Path) -> None:
        work = WorkFolder(plan.work, plan.kind)
        missing = [number for number in range(plan.batches) if not work.finished(number)]
        if missing:
            build_batches(plan, load(), missing)
        merge(plan, work, staging)

    with writing(plan.folder):
        published(plan.folder, build)
    stores = plan.opened()
    assert stores is not None
    return stores


def build_shard(plan: Plan, load: Load) -> None:
    """Do every `shards`-th batch of a plan, this job's number first; nothing if the store is there."""
    store, work = plan.settings.datastore, WorkFolder(plan.work, plan.kind)
    mine = [number for number in range(store.shard or 0, plan.batches, store.shards) if not work.finished(number)]
    if mine and not plan.folder.is_dir():
        build_batches(plan, load(), mine)


def build_batches(plan: Plan, model: LoadedModel, numbers: Sequence[int]) -> None:
    """Do some batches of a plan, one stage after the other."""
    _check(plan, model)
    documents, work = Documents(plan, model), WorkFolder(plan.work, plan.kind)
    _answer(documents, work, numbers)
    projection = _fitted(documents, work) if plan.kind == "vectors" else None
    left = [number for number in numbers if not work.finished(number)]
    title = "documents of the store" if projection is None else "keys of the store"
    with TokenProgress(title, sum(map(documents.size, left))) as progress:
        for number in left:
            batch = documents.batch(number)
            if projection is None:
                work.finish(number, batch, None)
            else:
                work.finish(number, batch, _keys(projection, _states(documents, work, batch, "keys")))
            progress.advance(documents.size(number), batch.forwarded)


def _check(plan: Plan, model: LoadedModel) -> None:
    """Refuse what cannot come to an end before any work is done."""
    store = plan.settings.datastore
    if plan.kind == "vectors":
        check_layer(model.model, store.layer)
        if store.index == "ivf_pq":
            check_index(len(plan.train) * store.max_new_tokens, store.pca_dim, "ivf_pq", store.m, store.nbits)


def _answer(documents: Documents, work: WorkFolder, numbers: Sequence[int]) -> None:
    """Have the answers of some batches made and kept."""
    todo = [number for number in numbers if not documents.answered(number)]
    if not todo:
        return
    title = f"answers for the {documents.plan.train.name} store"
    with TokenProgress(title, sum(map(documents.size, todo))) as progress:
        for number in todo:
            with work.times.timed("answers") as piece:
                piece.tokens = sum(map(len, documents.batch(number).answers))
            progress.advance(documents.size(number), piece.tokens)


def _fitted(documents: Documents, work: WorkFolder) -> Projection:
    """Return the projection of the whole build, fitted once by whichever job comes first.

    That job also does the batches of the sample, whose states it has at hand, whoever's share they are.
    """
    work.path.mkdir(parents=True, exist_ok=True)
    with FileLock(work.path / ".projection.lock"):
        projection = work.projection()
        if projection is None:
            sample = _sample(documents, work)
            states = [state for _, _, parts in sample for state in parts]
            if not states:
                raise nothing_left(documents.plan)
            with work.times.timed("fit"):
                dim = documents.plan.settings.datastore.pca_dim
                projection = Projection.fit(np.concatenate(states)[:PCA_SAMPLE], dim)
            work.keep_projection(projection)
            for number, batch, parts in sample:
                work.finish(number, batch, _keys(projection, parts))
    return projection


def _sample(documents: Documents, work: WorkFolder) -> list[tuple[int, Batch, list[Keys]]]:
    """Return batches with the states of their tokens, as many as the PCA takes, the same ones for every job.

    Batches are sorted by length, so their order here is a random one.
    """
    sample: list[tuple[int, Batch, list[Keys]]] = []
    held = 0
    for number in map(int, np.random.default_rng(0).permutation(documents.plan.batches)):
        if held >= PCA_SAMPLE:
            break
        _answer(documents, work, [number])
        batch = documents.batch(number)
        sample.append((number, batch, _states(documents, work, batch, "sample")))
        held += sum(map(len, batch.answers))
    return sample


def _states(documents: Documents, work: WorkFolder, batch: Batch, stage: str) -> list[Keys]:
    with work.times.timed(stage, batch.forwarded):
        return list(states_of(documents.model.model, batch.pairs, documents.plan.settings.datastore.layer))


def _keys(projection: Projection, states: Sequence[Keys]) -> Keys:
    """Return float32[n, d] keys of float32[n_i, h] states, document by document."""
    return np.concatenate([np.empty((0, projection.matrix.shape[1]), np.float32), *map(projection, states)])

"""The offline stage as a command: the store of some settings, or one job's share of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from methods.loaded import loaded_model
from methods.offline.build import build_shard, build_store
from methods.offline.plan import plan_store
from methods.offline.stores import Stores
from methods.schema import Settings


def prepare(settings: Settings) -> Stores | None:
    """Return the store that the method needs, built first if it is missing; the model is loaded only for that.

    With `datastore.shard` this job's share of a build is done, and nothing is returned; nor is for a method that needs
    no store.

    Raises:
        ValueError: what the store is made of cannot be had.
        StoreError: a store is there, but damaged or made of other things; or the disk is full.
    """
    plan = plan_store(settings)
    if plan is None:
        return None
    if settings.datastore.shard is not None:
        build_shard(plan, lambda: loaded_model(settings))
        return None
    stores = plan.opened()
    return build_store(plan, lambda: loaded_model(settings)) if stores is None else stores


def merge_shards(jobs: Sequence[Settings]) -> list[Stores]:
    """Put together the stores whose shards some jobs have built, each once."""
    shared = [job for job in jobs if job.datastore.shard is not None]
    whole = [replace(job, datastore=replace(job.datastore, shard=None)) for job in shared]
    stores = [prepare(settings) for settings in {repr(settings): settings for settings in whole}.values()]
    return [store for store in stores if store is not None]

"""The offline stage of the retrieval methods: a store of the model's own answers (id) or of references (ood)."""

from methods.offline.plan import Plan, plan_store
from methods.offline.stage import merge_shards, prepare
from methods.offline.stores import Stores
from methods.places import cache_folder

__all__ = ["Plan", "Stores", "cache_folder", "merge_shards", "plan_store", "prepare"]

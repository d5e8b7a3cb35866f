"""What the pipelines of a process share: the target over a loaded model, and the stores that are open."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary

from methods.offline.plan import Plan
from methods.offline.stores import Stores
from primitives.models.causal_lm import CausalLMTarget
from primitives.models.device import resolve_device
from primitives.models.loading import LoadedModel

_TARGETS: WeakKeyDictionary[LoadedModel, CausalLMTarget] = WeakKeyDictionary()
_OPEN: WeakValueDictionary[str, Stores] = WeakValueDictionary()


def target_of(model: LoadedModel) -> CausalLMTarget:
    """Return the one adapter of a loaded model: one KV cache for all methods, and one check of its attention."""
    if model not in _TARGETS:
        _TARGETS[model] = CausalLMTarget(model.model)
    return _TARGETS[model]


def opened_store(plan: Plan) -> Stores | None:
    """Return the store of a plan, shared with whoever has it open; None if it is yet to be built.

    Raises:
        StoreError: it is there but damaged, or made of other things.
    """
    key = _store_key(plan)
    if key not in _OPEN:
        opened = plan.opened()
        if opened is None:
            return None
        _OPEN[key] = opened
    return _OPEN[key]


def _store_key(plan: Plan) -> str:
    """Return what an open store depends on, its files as they are now included."""
    files = sorted(plan.folder.glob("*"))
    written = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    device = resolve_device(plan.settings.device)
    return repr((plan.folder, plan.kind, plan.identity, plan.settings.datastore.nprobe, device, written))

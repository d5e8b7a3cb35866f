"""The command that builds a store again, for the errors that ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from omegaconf import OmegaConf

from corpora.settings import DatasetSettings
from methods.quoting import shell_word
from methods.schema import CONF_DIR, DatastoreSettings, Settings
from primitives.models.settings import ModelSettings

# The settings that decide what a store holds, or where it comes from and goes to.
MODEL: Final = ("path", "chat_template", "template_kwargs")
ROWS: Final = ("path", "hub_id", "hub_config", "train_split", "test_split")
ROWS_OF_ONES_OWN: Final = ("train_from", "train_path", "prompt_column", "reference_column", "id_column")
DATASET: Final = (*ROWS, *ROWS_OF_ONES_OWN, "template")
INCIDENTAL: Final = frozenset({"kind", "path", "nprobe", "shards", "shard"})


def rebuild_command(settings: Settings) -> str:
    """Return the command, with every setting that makes this store another one than the defaults would."""
    model, dataset, store = (asdict(part) for part in (settings.model, settings.dataset, settings.datastore))
    words = [f"method={settings.method.name}"]
    # The config that a path was given with has left no trace but its values.
    words += [] if settings.model.path else [f"model={settings.model.name}"]
    words += _changed("model", MODEL, model, _known("model", settings.model.name, ModelSettings(hub_id="any")))
    words += [f"dataset={settings.dataset.name}"]
    words += _changed("dataset", DATASET, dataset, _known("dataset", settings.dataset.name, DatasetSettings()))
    words += [f"datastore={settings.datastore.kind}"]
    words += _changed("datastore", store.keys() - INCIDENTAL, store, asdict(DatastoreSettings()))
    words += [shell_word("dtype", settings.dtype)] if settings.dtype != "auto" else []
    words += [shell_word("cache_dir", settings.cache_dir)] if settings.cache_dir else []
    return f"python -m scripts.prepare {' '.join(words)}"


def _known(group: str, name: str, defaults: Any) -> Mapping[str, Any]:
    """Return the values that choosing a config of this name brings in."""
    file = CONF_DIR / group / f"{name}.yaml"
    chosen: Any = OmegaConf.to_container(OmegaConf.load(file)) if file.is_file() else {}
    return {**asdict(defaults), **chosen}


def _changed(group: str, keys: Any, values: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    return (shell_word(f"{group}.{key}", values[key]) for key in values if key in keys and values[key] != known[key])

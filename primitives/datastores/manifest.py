"""What a store on the disk was made of, and the check that it is whole and fits before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from primitives.datastores.hidden_state_store import FILES, HiddenStateStore

FORMAT: Final = 1
MANIFEST_FILE: Final = "manifest.json"


class StoreError(ValueError):
    """A store that cannot be used: the sentence names its path and how to build it again."""


def save_store(store: HiddenStateStore, folder: Path, identity: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Write a store and its manifest into an existing folder.

    Args:
        store: the store.
        folder: where to.
        identity: what the store was made of (fingerprints of model, tokenizer, corpus, ...); must agree to open it.
        facts: what else is worth knowing (sizes, times); never compared.
    """
    store.save(folder)
    content = {
        "format": FORMAT,
        "identity": dict(identity),
        "facts": {**facts, "keys": len(store), "index": type(store.index).__name__},
        "sha256": {name: _digest(folder / name) for name in FILES},
    }
    (folder / MANIFEST_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def open_store(folder: Path, identity: Mapping[str, Any], rebuild: str) -> HiddenStateStore:
    """Return the store in `folder` after checking that it is whole and was made of the same things.

    Args:
        folder: where `save_store` wrote.
        identity: what the store must have been made of.
        rebuild: the command that builds it again, for the error.

    Raises:
        StoreError: a file is missing, torn or swapped, or the store belongs to something else; which, is named.
    """
    manifest = _read(folder, rebuild)
    if manifest.get("format") != FORMAT:
        raise StoreError(
            f"the store in {folder} has format {manifest.get('format')}, this version reads {FORMAT}; {rebuild}"
        )
    known = manifest["identity"]
    other = [key for key in identity if known.get(key) != identity[key]]
    if other:
        differing = ", ".join(f"{key} (store: {known.get(key)}, run: {identity[key]})" for key in other)
        raise StoreError(f"the store in {folder} was built for another {differing}; {rebuild}")
    for name in FILES:
        path = folder / name
        if not path.is_file() or _digest(path) != manifest["sha256"][name]:
            state = "is damaged" if path.is_file() else "is missing"
            raise StoreError(f"{path} {state}; {rebuild}")
    return HiddenStateStore.load(folder, sha256(json.dumps(manifest["sha256"], sort_keys=True).encode()).hexdigest())


def _read(folder: Path, rebuild: str) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise StoreError(f"there is no datastore in {folder} ({MANIFEST_FILE} is missing); {rebuild}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} is damaged; {rebuild}") from error
    if not isinstance(content, dict) or not {"format", "identity", "sha256"} <= content.keys():
        raise StoreError(f"{path} is no datastore manifest; {rebuild}")
    return content


def _digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

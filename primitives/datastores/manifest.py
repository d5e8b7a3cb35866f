"""What a store on the disk was made of, and the check that it is whole and fits before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from primitives.datastores.token_store import TOKEN_FILES, TokenStore
from primitives.datastores.vector_store import VECTOR_FILES, VectorStore

FORMAT: Final = 2
MANIFEST_FILE: Final = "manifest.json"
FILES: Final = {"tokens": TOKEN_FILES, "vectors": VECTOR_FILES}


class StoreError(ValueError):
    """A store that cannot be used: the sentence names its path and how to build it again."""


def save_store(
    store: TokenStore | VectorStore, folder: Path, identity: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    """Write a store and its manifest into an existing folder.

    Args:
        store: the store; the folder of a vector store is one of its token store, too.
        folder: where to.
        identity: what the store was made of (fingerprints of model, tokenizer, corpus, ...); must agree to open it.
        facts: what else is worth knowing (sizes, times); never compared.
    """
    store.save(folder)
    kind, tokens, index = (
        ("vectors", store.token_store, {"index": type(store.index).__name__})
        if isinstance(store, VectorStore)
        else ("tokens", store, {})
    )
    sizes = {"tokens": len(tokens), "documents": len(tokens.counts), "passages": int(tokens.counts.sum())}
    content = {
        "format": FORMAT,
        "kind": kind,
        "identity": dict(identity),
        "facts": {**facts, **sizes, **index},
        "sha256": {name: _digest(folder / name) for name in FILES[kind]},
    }
    (folder / MANIFEST_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def open_token_store(folder: Path, identity: Mapping[str, Any], rebuild: str) -> TokenStore:
    """Return the token store in `folder`, which may be a part of a vector store, after checking it.

    Args:
        folder: where `save_store` wrote.
        identity: what the store must have been made of; fields that only the store has are not compared.
        rebuild: the command that builds it again, for the error.

    Raises:
        StoreError: a file is missing, torn or swapped, or the store belongs to something else; which, is named.
    """
    digests = _checked(folder, identity, rebuild, TOKEN_FILES)
    return TokenStore.load(folder, _fingerprint(digests, TOKEN_FILES))


def open_vector_store(folder: Path, identity: Mapping[str, Any], rebuild: str, device: str = "cpu") -> VectorStore:
    """Return the vector store in `folder` after checking it: see `open_token_store`, and `VectorStore.load`."""
    digests = _checked(folder, identity, rebuild, VECTOR_FILES)
    tokens = TokenStore.load(folder, _fingerprint(digests, TOKEN_FILES))
    return VectorStore.load(folder, tokens, _fingerprint(digests, VECTOR_FILES), device)


def _checked(folder: Path, identity: Mapping[str, Any], rebuild: str, files: Sequence[str]) -> Mapping[str, str]:
    """Return the digests of a store's files once those asked for are what they should be."""
    manifest = _read(folder, rebuild)
    known: dict[str, Any] = manifest["identity"]
    digests: dict[str, str] = manifest["sha256"]
    other = [key for key in identity if known.get(key) != identity[key]]
    if other:
        differing = ", ".join(f"{key} (store: {known.get(key)}, run: {identity[key]})" for key in other)
        raise StoreError(f"the store in {folder} was built for another {differing}; {rebuild}")
    if not set(files) <= digests.keys():
        raise StoreError(f"the store in {folder} holds {manifest['kind']} only, without hidden states; {rebuild}")
    for name in files:
        path = folder / name
        if not path.is_file() or _digest(path) != digests[name]:
            state = "is damaged" if path.is_file() else "is missing"
            raise StoreError(f"{path} {state}; {rebuild}")
    return digests


def _fingerprint(digests: Mapping[str, str], files: Sequence[str]) -> str:
    return sha256(json.dumps([digests[name] for name in files]).encode()).hexdigest()


def _read(folder: Path, rebuild: str) -> dict[str, Any]:
    path = folder / MANIFEST_FILE
    if not path.is_file():
        raise StoreError(f"there is no datastore in {folder} ({MANIFEST_FILE} is missing); {rebuild}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path} is damaged; {rebuild}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise StoreError(f"{path} is no datastore manifest; {rebuild}")
    if content["format"] != FORMAT:
        raise StoreError(
            f"the store in {folder} has format {content['format']}, this version reads {FORMAT}; {rebuild}"
        )
    kind, digests = content.get("kind"), content.get("sha256")
    named = isinstance(digests, dict) and any(kind == name and digests.keys() == set(FILES[name]) for name in FILES)
    if not (named and isinstance(content.get("identity"), dict)):
        raise StoreError(f"{path} is damaged; {rebuild}")
    return content


def _digest(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()

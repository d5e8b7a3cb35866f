"""Stores and views whose hidden states lie in a plane, so that nearness is an angle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from primitives.contract import DraftTree, TargetView
from primitives.datastores.projection import Projection
from primitives.datastores.suffix_array import suffix_array
from primitives.datastores.token_store import TokenStore
from primitives.datastores.vector_store import VectorStore

WIDTH = 4


def unit(*degrees: float) -> NDArray[np.float32]:
    """Keys in the plane of the first two dimensions, by their angle."""
    angle = np.radians(degrees)
    keys = np.zeros((len(angle), WIDTH), np.float32)
    keys[:, 0], keys[:, 1] = np.cos(angle), np.sin(angle)
    return keys


def store_of(
    *documents: tuple[Sequence[int], Sequence[float]], layer: int | None = None, counts: Sequence[int] | None = None
) -> VectorStore:
    """A store whose keys are hidden states themselves: (tokens, angle of the state that predicts each)."""
    index: Any = faiss.IndexFlatIP(WIDTH)
    index.add(np.concatenate([unit(*angles) for _, angles in documents]))
    tokens = np.concatenate([np.array(tokens, np.uint32) for tokens, _ in documents])
    offsets = np.cumsum([0, *(len(tokens) for tokens, _ in documents)], dtype=np.int64)
    identity = Projection(np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32))
    copies = np.ones(len(documents), np.int64) if counts is None else np.array(counts, np.int64)
    token_store = TokenStore(tokens, offsets, copies, suffix_array(tokens, offsets))
    return VectorStore(identity, index, token_store, layer=layer)


def lone(*tokens: int, at: float) -> tuple[list[int], list[float]]:
    """A document that is found by its first token only."""
    return list(tokens), [at] + [180.0] * (len(tokens) - 1)


def view_of(*angles: float, inner: Sequence[float] | None = None) -> TargetView:
    """A view whose final states have these angles, and those of an inner layer others."""
    features = None if inner is None else torch.from_numpy(unit(*inner))
    return TargetView(torch.zeros(len(angles), 10), torch.from_numpy(unit(*angles)), features)


def leaves(tree: DraftTree) -> list[list[int]]:
    return [tree.tokens[path[path >= 0]].tolist() for path in tree.paths]

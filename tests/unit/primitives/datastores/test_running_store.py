from __future__ import annotations

import numpy as np
import torch

from primitives.datastores.projection import Projection
from primitives.datastores.running_store import RunningStore

WIDTH = 4


def store() -> RunningStore:
    return RunningStore(Projection(np.eye(WIDTH, dtype=np.float32), np.zeros(WIDTH, np.float32)))


def test_it_grows_and_returns_the_nearest_first() -> None:
    rng = np.random.default_rng(0)
    running = store()
    states = rng.normal(size=(700, WIDTH)).astype(np.float32)
    tokens = rng.integers(0, 50, 700)
    for start in range(0, 700, 7):
        running.extend(tokens[start : start + 7], torch.from_numpy(states[start : start + 7]))
    assert len(running) == 700
    unit = states / np.linalg.norm(states, axis=1, keepdims=True)
    for place in (0, 255, 256, 600, 699):
        similarities, ids = running.search(unit[place], 5)
        assert ids.tolist() == np.argsort(-(unit @ unit[place]), kind="stable")[:5].tolist()
        assert ids[0] == place
        assert similarities.tolist() == sorted(similarities.tolist(), reverse=True)
    ids = np.array([0, 300, 697])
    expected = [tokens[:4].tolist(), tokens[300:304].tolist(), [*tokens[697:].tolist(), -1]]
    assert running.continuations(ids, 4).tolist() == expected


def test_half_precision_states_are_taken() -> None:
    running = store()
    running.extend(np.array([5]), torch.tensor([[1.0, 0, 0, 0]], dtype=torch.bfloat16))
    similarities, ids = running.search(np.array([1, 0, 0, 0], np.float32), 3)
    assert (similarities.tolist(), ids.tolist()) == ([1.0], [0])


def test_an_empty_one_finds_nothing() -> None:
    running = store()
    similarities, ids = running.search(np.zeros(WIDTH, np.float32), 3)
    assert (len(similarities), len(ids)) == (0, 0)
    assert running.continuations(ids, 5).shape == (0, 5)

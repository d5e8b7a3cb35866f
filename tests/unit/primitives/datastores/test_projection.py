from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from primitives.datastores.projection import Projection

Matrix = NDArray[np.floating[Any]]


def states(n: int = 200, width: int = 8, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n, width)) * np.linspace(0.1, 50, width) @ rng.normal(size=(width, width))
    return (mixed + 7).astype(np.float32)


def reference(x: Matrix, dim: int) -> Matrix:
    """z-score, projection on the leading eigenvectors of the covariance, unit length."""
    x = x.astype(float)
    z = (x - x.mean(0)) / x.std(0)
    values, vectors = np.linalg.eigh(np.cov(z.T))
    keys = z @ vectors[:, np.argsort(-values)[:dim]]
    unit: Matrix = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    return unit


@pytest.mark.parametrize("dim", [1, 3, 8])
def test_keys_are_z_scored_rotated_and_of_unit_length(dim: int) -> None:
    x = states()
    keys = Projection.fit(x, dim)(x)
    assert keys.shape == (200, dim)
    assert keys.dtype == np.float32
    assert np.linalg.norm(keys, axis=1) == pytest.approx(1, abs=1e-5)
    # Eigenvectors are known up to their sign, so similarities are compared.
    expected = reference(x, dim)
    assert keys @ keys.T == pytest.approx(expected @ expected.T, abs=1e-3)


def test_a_constant_dimension_and_a_zero_state_do_no_harm() -> None:
    x = states()
    x[:, 3] = 5
    projection = Projection.fit(x, 4)
    assert projection.width == 8
    assert np.isfinite(projection(x)).all()
    zero = Projection(np.eye(2, dtype=np.float32), np.zeros(2, np.float32))(np.zeros((1, 2), np.float32))
    assert zero.tolist() == [[0, 0]]


@pytest.mark.parametrize(("n", "dim", "most"), [(200, 9, 8), (200, 0, 8), (5, 6, 5)])
def test_a_dimension_that_does_not_fit_is_refused(n: int, dim: int, most: int) -> None:
    message = rf"datastore.pca_dim={dim} does not fit {n} hidden states of width 8; choose 1 to {most}"
    with pytest.raises(ValueError, match=message):
        Projection.fit(states(n), dim)

"""Random features against kernels and against scikit-learn's own."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel

from catchment import EchoState
from catchment.features import NVAR, DiagonalReservoir, RandomFourierFeatures

RNG = np.random.default_rng(4)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_products_of_cosines_converge_to_the_kernel_as_those_of_scikit_learn(scale: float) -> None:
    x = RNG.normal(size=(60, 4))
    kernel = rbf_kernel(x, gamma=scale**2 / 2)
    errors = []
    for features in (500, 8000):
        (z,) = (
            RandomFourierFeatures(features=features, scale=scale).build(4, per_step=True).rows([x])
        )
        errors.append(np.sqrt(np.mean((2 * z @ z.T / features - kernel) ** 2)))
    sampler = RBFSampler(gamma=scale**2 / 2, n_components=8000, random_state=0).fit(x)
    theirs = np.sqrt(np.mean((sampler.transform(x) @ sampler.transform(x).T - kernel) ** 2))
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 1.3 * theirs


def test_rectifiers_have_the_arc_cosine_kernel() -> None:
    x = RNG.normal(size=(40, 3))
    described = RandomFourierFeatures(features=20_000, activation="relu", scale=1.0)
    (z,) = described.build(3, per_step=True).rows([x])
    length = np.linalg.norm(x, axis=1)
    angle = np.arccos(np.clip(x @ x.T / np.outer(length, length), -1, 1))
    # Cho and Saul (2009), degree 1, times one half.
    kernel = np.outer(length, length) * (np.sin(angle) + (np.pi - angle) * np.cos(angle))
    np.testing.assert_allclose(z @ z.T / 20_000, kernel / (2 * np.pi), atol=0.25, rtol=0.05)


def test_features_of_another_map_are_those_of_its_rows() -> None:
    described = RandomFourierFeatures(EchoState(12, washout=2), features=40, seed=3)
    built = described.build(2, per_step=True)
    assert isinstance(built, RandomFourierFeatures)
    u = RNG.normal(size=(50, 2))
    rows = EchoState(12, washout=2).build(2, per_step=True).rows([u])[0]
    W, phases = built._weights
    expected = np.cos(2 * np.pi * (rows @ W + phases))
    np.testing.assert_allclose(built.rows([u])[0], expected, atol=2e-3)
    assert built.washout == 2
    assert not RandomFourierFeatures(EchoState(13), features=40).describes(
        built.parts(), 2, per_step=True
    )


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="pass a map with one row each"):
        RandomFourierFeatures().build(2, per_step=False)
    with pytest.raises(ValueError, match="activation is 'sin'"):
        RandomFourierFeatures(activation="sin")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scale is 0"):
        RandomFourierFeatures(scale=0.0)


def test_bits_are_those_recorded() -> None:
    u = (np.arange(600) * 7919 % 1009 / 300 - 1.5).reshape(300, 2)
    found = hashlib.sha256()
    for described in (
        NVAR(4, order=3),
        RandomFourierFeatures(features=50),
        RandomFourierFeatures(features=50, activation="relu"),
    ):
        found.update(described.build(2, per_step=True).rows([u])[0].tobytes())
    pooled = DiagonalReservoir(60).build(2, per_step=False)
    found.update(pooled.rows([u])[0].tobytes())
    assert found.hexdigest() == RECORDED


# The same on a machine without fused or vector instructions, and with another BLAS.
RECORDED = "4fce6b89f5d8e727dc0ab6a7d36f9c47729409708a64c8ed9c9f3fd9dad08dcf"

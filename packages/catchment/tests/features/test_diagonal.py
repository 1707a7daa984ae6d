"""The diagonal reservoir against its formulas, written out in numpy's complex numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment import Array
from catchment.errors import ClippingWarning
from catchment.features import DiagonalReservoir, base
from catchment.features.diagonal import Nonlinearity
from catchment.readout import accumulate

RNG = np.random.default_rng(5)


def built(channels: int = 2, **settings: Any) -> DiagonalReservoir:
    made = DiagonalReservoir(**settings).build(channels, per_step=True)
    assert isinstance(made, DiagonalReservoir)
    return made


def bent(x: Array) -> Array:
    x = np.clip(x, -3.0, 3.0)
    return np.asarray(x * (27 + x * x) / (27 + 9 * x * x))


def test_mixtures_are_bent_nearly_as_by_tanh() -> None:
    x = np.linspace(-6, 6, 10_001)
    assert np.abs(bent(x) - np.tanh(x)).max() < 0.024
    assert (np.diff(bent(x)) >= 0).all()


def formulas(own: DiagonalReservoir, u: Array) -> Array:
    """Return the rows by the formulas, in float64 and without any rounding."""
    drawn = own.wiring
    eigenvalues = drawn.eigenvalues[0] + 1j * drawn.eigenvalues[1]
    k, P = len(eigenvalues), len(drawn.leak) - drawn.M.shape[1]
    x, q, rows = np.zeros(k, dtype=complex), np.zeros(len(drawn.leak)), []
    for now in u:
        x = eigenvalues * x + now @ drawn.W
        s = np.concatenate([x.real, x.imag])
        products = [
            s * (now[np.arange(2 * k) % len(now)] if shift < 0 else np.roll(s, -shift))
            for shift in drawn.shifts
        ]
        mixed = []
        for block, turns in enumerate(drawn.turns):
            there = slice(2 * k * block, 2 * k * (block + 1))
            M = drawn.M[:, there]
            n = M.shape[1]
            three = np.stack([np.roll(s, -turn)[:n] for turn in turns])
            mixed.append(bent((M[:3] * three).sum(axis=0) + M[3]))
        p = np.concatenate([np.concatenate([*products, []])[:P], *mixed])
        q = (1 - drawn.leak) * q + drawn.leak * p
        rows.append(np.concatenate([now, s, q]))
    return np.array(rows)


@pytest.mark.parametrize("nonlinearity", ["products", "mix", "both", "none"])
@pytest.mark.parametrize("channels", [1, 3])
def test_rows_are_those_of_the_formulas(nonlinearity: Nonlinearity, channels: int) -> None:
    features = built(channels, units=50, nonlinearity=nonlinearity, memory=(1.0, 40.0), bits=None)
    u = RNG.normal(size=(400, channels))
    np.testing.assert_allclose(features.rows([u])[0], formulas(features, u), atol=2e-6, rtol=0)


def test_states_are_weighted_means_of_the_past_with_the_memory_asked_for() -> None:
    features = built(1, units=40, nonlinearity="none", memory=(2.0, 20.0), frequencies=1e-5)
    pulse = np.zeros((3000, 1))
    pulse[0] = 1.0
    z = np.abs(features.rows([pulse])[0][:, 1:21])
    ages = (np.arange(3000)[:, None] * z).sum(axis=0) / z.sum(axis=0)
    np.testing.assert_allclose(np.sort(ages), np.geomspace(2.0, 20.0, 20), rtol=5e-3)
    np.testing.assert_allclose(z.sum(axis=0), 1.0, atol=1e-3)


def test_products_are_all_different() -> None:
    features = built(1, units=6 + 6 + 18, states=6, leak_rate=(1.0, 1.0))
    z = features.rows([RNG.normal(size=(200, 1))])[0]
    assert np.linalg.matrix_rank(z) == 31


def test_pooled_rows_are_means_and_deviations_of_the_steps() -> None:
    described = DiagonalReservoir(30, nonlinearity="both", memory=(1.0, 5.0), washout=4, bits=None)
    steps = described.build(2, per_step=True)
    pooled = described.build(2, per_step=False)
    us = [RNG.normal(size=(n, 2)) for n in (30, 9000)]
    for z, row in zip(steps.rows(us), pooled.rows(us), strict=True):
        expected = np.concatenate([z.mean(axis=0), z.std(axis=0)])
        np.testing.assert_allclose(row[0], expected, rtol=1e-9, atol=1e-9)
    assert pooled.names()[0] == "mean_u0"


def test_loud_inputs_are_cut_off_and_everything_stays_within_bounds() -> None:
    features = built(2, units=60, nonlinearity="both")
    loud = 1e6 * np.sign(RNG.normal(size=(500, 2)))
    with pytest.warns(ClippingWarning, match=r"100.00% of the input values lie beyond 8"):
        (z,) = features.rows([loud])
    assert (np.abs(z) <= features.bounds).all()
    np.testing.assert_array_equal(z, features.rows([np.sign(loud) * 8.0])[0])


def test_statistics_do_not_depend_on_blocks_or_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    features = built(2, units=20, washout=3)
    data = [
        ct.Recording(RNG.normal(size=(n, 2)), RNG.normal(size=(n, 1)), weight=float(w))
        for n, w in ((50, 1), (400, 2), (30, 1), (60, 3))
    ]
    together = accumulate(features, data, threads=1)
    z = np.concatenate(features.rows([one.u for one in data]))
    y = np.concatenate([one.y[3:] for one in data if one.y is not None])
    weight = np.repeat([one.weight for one in data], [one.n_steps - 3 for one in data])
    np.testing.assert_allclose(together.floats.cross, z.T @ (weight[:, None] * y), atol=1e-8)
    monkeypatch.setattr(base, "TOGETHER", 8 * features.n_features * 70)
    assert accumulate(features, data, threads=2) == together


def test_same_bits_everywhere() -> None:
    u = (np.arange(600) * 7919 % 1009 / 300 - 1.5).reshape(300, 2)
    found = hashlib.sha256()
    for nonlinearity in ("products", "mix"):
        features = built(2, units=40, states=10, nonlinearity=nonlinearity, seed=3)
        found.update(features.rows([u])[0].tobytes())
    assert found.hexdigest() == RECORDED


RECORDED = "285fe00287318b62ffe2b558e50b8d912a0e069fdf8f2d0c5c8781e2172721e5"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"units": 1}, "units is 1"),
        ({"states": 3}, "even number from 2"),
        ({"units": 100, "states": 4}, "ask for more states"),
        ({"memory": (5.0, 1.0)}, "memory is"),
        ({"frequencies": 2.0}, "frequencies is 2.0"),
        ({"nonlinearity": "relu"}, "nonlinearity is 'relu'"),
        ({"washout": -1}, "washout is -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DiagonalReservoir(**settings)


def test_a_recording_shorter_than_the_washout_is_refused() -> None:
    with pytest.raises(ValueError, match="use a shorter one, or a longer"):
        built(1, washout=9).rows([np.zeros((9, 1))])

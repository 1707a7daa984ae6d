"""Features mixed by drawn signs: scipy's Hadamard matrix, exact integers, what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from inspect import getmodule
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard
from sklearn.metrics import pairwise_distances

import catchment as ct
from catchment import Array
from catchment.features import (
    EchoState,
    FeatureMap,
    FeatureUnion,
    RandomProjection,
    hadamard_sums,
    suited,
)
from catchment.features.echo_state import reservoir as build
from tests.contracts.maps import CHANNELS, OwnStatistics
from tests.features.test_concat import people, traveled, workflow

RNG = np.random.default_rng(6)
INPUTS = [RNG.normal(size=(n, CHANNELS)) for n in (40, 25, 60)]


@dataclass(frozen=True)
class Wide(FeatureMap):
    """Features of one recording, its first row repeated, each between -bound and bound."""

    n_features: int = 100
    bound: float = 1.0
    bits: int | None = 20

    @property
    def bounds(self) -> Array:
        return np.full(self.n_features, self.bound)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        rng = np.random.default_rng(1)
        mix = rng.uniform(-1, 1, size=(CHANNELS, self.n_features))
        return [np.clip(u[:1] @ mix, -self.bound, self.bound) for u in inputs]


@pytest.mark.parametrize("p", [1, 2, 4, 64, 256])
def test_the_sums_are_those_of_scipys_matrix(p: int) -> None:
    rows = RNG.integers(-(2**20), 2**20, size=(5, p)).astype(float)
    np.testing.assert_array_equal(hadamard_sums(rows), rows @ hadamard(p))


@pytest.mark.parametrize("grid", [8, 12, 24])
def test_it_is_scipys_matrix_with_drawn_signs_and_rows(grid: int) -> None:
    inner = Wide(100)
    built = RandomProjection(Wide(100), 30, seed=4, bits=grid).build(CHANNELS, per_step=False)
    assert isinstance(built, RandomProjection)
    flips, kept = built._drawn
    assert set(flips) == {-1.0, 1.0}
    assert len(set(kept)) == 30
    matrix = hadamard(128)[:100][:, kept] * flips[:, None]
    for z, y in zip(inner.rows(INPUTS), built.rows(INPUTS), strict=True):
        exact = [
            sum((Fraction(a) * int(s) for a, s in zip(z[0], column, strict=True)), Fraction(0))
            for column in matrix.T
        ]
        expected = np.clip([float(one) for one in exact] / np.sqrt(100), -4, 4)
        np.testing.assert_array_equal(y[0], np.rint(expected * 2 ** (grid - 2)) / 2 ** (grid - 2))


def test_in_floating_point_it_is_the_plain_product() -> None:
    built = RandomProjection(OwnStatistics(), 7, seed=1).build(
        CHANNELS, per_step=False, classes=True
    )
    assert built.bits is None
    assert isinstance(built, RandomProjection)
    flips, kept = built._drawn
    Z = np.vstack(OwnStatistics().rows(INPUTS))
    expected = np.clip((Z * flips) @ hadamard(16)[:15][:, kept] / np.sqrt(15), -4, 4)
    np.testing.assert_allclose(np.vstack(built.rows(INPUTS)), expected, rtol=1e-13)


def test_distances_are_kept_about_as_a_random_matrix_keeps_them() -> None:
    us = [RNG.normal(size=(1, CHANNELS)) for _ in range(40)]
    before = np.vstack(Wide(2000).rows(us))
    built = RandomProjection(Wide(2000), 500).build(CHANNELS, per_step=False)
    after = np.vstack(built.rows(us)) * np.sqrt(2000 / 500)
    far = np.triu_indices(40, 1)
    ratio = pairwise_distances(after)[far] / pairwise_distances(before)[far]
    # Four standard deviations, 1/sqrt(2 x 500) each, of what a Gaussian matrix gives.
    np.testing.assert_allclose(ratio, 1, atol=4 / np.sqrt(1000))


def test_a_row_per_step_and_the_same_rows_in_any_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    built = RandomProjection(EchoState(60, washout=5), 16).build(CHANNELS, per_step=True)
    rows = built.rows(INPUTS)
    assert [len(z) for z in rows] == [35, 20, 55]
    monkeypatch.setattr(getmodule(RandomProjection), "BLOCK", 128)
    for one, other in zip(rows, built.rows(INPUTS), strict=True):
        np.testing.assert_array_equal(one, other)


def test_seed_and_settings_change_the_fingerprint() -> None:
    several = [
        RandomProjection(Wide(), 30),
        RandomProjection(Wide(), 31),
        RandomProjection(Wide(), 30, seed=1),
        RandomProjection(Wide(), 30, bound=2.0),
        RandomProjection(Wide(), 30, bits=9),
        RandomProjection(Wide(101), 30),
    ]
    assert len({m.build(3, per_step=False).fingerprint for m in several}) == len(several)


def test_what_cannot_be_projected_is_refused() -> None:
    with pytest.raises(ValueError, match="200 features of a map that has 100; ask for at most 100"):
        RandomProjection(Wide(100), 200).build(3, per_step=False)
    wide = FeatureUnion(Wide(8, 2.0**-20, 24), Wide(8, 2.0**12, 24))
    with pytest.raises(ValueError, match="take 59 binary digits, and 53 are exact"):
        RandomProjection(wide, 4).build(3, per_step=False)
    for wrong in ({"features": 0}, {"seed": -1}, {"bound": 0.0}, {"bits": 3}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is"):
            RandomProjection(Wide(), **wrong)
    with pytest.raises(ValueError, match="RandomProjection does not know its inputs yet; call"):
        RandomProjection(EchoState(20), 5).rows(INPUTS)


def test_gaps_that_start_anew_take_fixed_point_away() -> None:
    without: Any = suited(RandomProjection(EchoState(20), 5), ct.Preprocessing(gaps="restart"))
    assert (without.bits, without.inner.bits) == (None, None)


def test_a_server_with_another_eigenvalue_is_recognized(monkeypatch: pytest.MonkeyPatch) -> None:
    own = workflow(RandomProjection(EchoState(20), 9))
    exact = build._scale
    build._found.cache_clear()
    monkeypatch.setattr(build, "_scale", lambda layer: exact(layer) * (1 + 2**-40))
    came = traveled(workflow(RandomProjection(EchoState(20), 9)).start())
    other = traveled(workflow(RandomProjection(EchoState(20), 9, seed=1)).start())
    monkeypatch.undo()
    build._found.cache_clear()
    assert came.maps[0].fingerprint != own.start().maps[0].fingerprint
    assert own.agrees("training", came)
    assert not own.describes(other.maps[0].parts())


def test_its_uploads_are_those_of_few_features_and_it_is_kept(tmp_path: Path) -> None:
    clients = people()
    run = ct.federate(RandomProjection(EchoState(40), 12), clients, ridge=0.1)
    assert run.statistics.n_features == 12
    run.model.save(tmp_path / "model")
    again = ct.load(tmp_path / "model")
    assert isinstance(again, ct.Model)
    one = clients["a"][0].u
    np.testing.assert_array_equal(again.outputs([one])[0], run.model.outputs([one])[0])

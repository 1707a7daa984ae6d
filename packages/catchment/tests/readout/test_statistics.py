"""What the statistics hold, what they refuse, and what they report of their moments."""

from __future__ import annotations

import numpy as np
import pytest

from catchment import Array
from catchment.errors import FingerprintError
from catchment.readout import RidgeStatistics, pack, unpack

pytestmark = pytest.mark.processor


def rows(n: int = 40, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(1.0, 1.0, size=(n, 4)), rng.normal(-2.0, 1.0, size=(n, 2))


def test_the_sums_are_numpys() -> None:
    z, y = rows()
    s = RidgeStatistics.from_states(z, y, fingerprint="f")
    assert (s.n_rows, s.weight, s.n_features, s.n_targets, s.fingerprint) == (40, 40.0, 4, 2, "f")
    np.testing.assert_allclose(s.feature_sum, z.sum(axis=0))
    np.testing.assert_allclose(s.target_sum, y.sum(axis=0))
    np.testing.assert_allclose(unpack(s.gram), np.einsum("ti,tj->ij", z, z))
    np.testing.assert_allclose(s.cross, np.einsum("ti,tj->ij", z, y))
    np.testing.assert_allclose(unpack(s.target_gram), np.einsum("ti,tj->ij", y, y))


def test_centered_moments_are_numpys_covariances() -> None:
    z, y = rows()
    G, C = RidgeStatistics.from_states(z, y).moments()
    both = np.cov(np.hstack([z, y]).T, bias=True) * len(z)
    np.testing.assert_allclose(G, both[:4, :4], atol=1e-12)
    np.testing.assert_allclose(C, both[:4, 4:], atol=1e-12)
    q = RidgeStatistics.from_states(z, y).target_moments()
    np.testing.assert_allclose(q, both.diagonal()[4:], rtol=1e-12)


def test_raw_moments_are_left_as_they_are_without_an_intercept() -> None:
    z, y = rows()
    s = RidgeStatistics.from_states(z, y)
    G, C = s.moments(intercept=False)
    np.testing.assert_array_equal(pack(G), s.gram)
    np.testing.assert_array_equal(C, s.cross)
    np.testing.assert_allclose(s.target_moments(intercept=False), (y**2).sum(axis=0))
    G[:], C[:] = 0.0, 0.0
    assert s == RidgeStatistics.from_states(z, y)


def test_a_constant_feature_has_centered_moments_of_exactly_zero() -> None:
    z, y = rows(100_000)
    z[:, 1] = 0.1
    G, C = RidgeStatistics.from_states(z, y).moments()
    assert not G[1].any()
    assert not G[:, 1].any()
    assert not C[1].any()
    assert G[0, 0] > 0


def test_integer_weights_are_repeated_rows() -> None:
    z, y = rows(20)
    weight = np.arange(20) % 4
    weighted = RidgeStatistics.from_states(z, y, weight=weight.astype(float))
    repeated = RidgeStatistics.from_states(
        np.repeat(z, weight, axis=0), np.repeat(y, weight, axis=0)
    )
    assert weighted.weight == repeated.weight
    for name in ("feature_sum", "target_sum", "gram", "cross", "target_gram"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-12)


def test_scaled_multiplies_every_weight() -> None:
    z, y = rows(20)
    scaled = RidgeStatistics.from_states(z, y).scaled(0.25)
    weighted = RidgeStatistics.from_states(z, y, weight=np.full(20, 0.25))
    assert scaled.weight == weighted.weight
    np.testing.assert_allclose(scaled.gram, weighted.gram)
    np.testing.assert_allclose(scaled.cross, weighted.cross)


def test_rows_with_a_missing_target_are_left_out_exactly() -> None:
    z, y = rows(30)
    y[[3, 17], [0, 1]] = np.nan
    z[3] = np.nan
    known = np.delete(np.arange(30), [3, 17])
    expected = RidgeStatistics.from_states(z[known], y[known])
    assert RidgeStatistics.from_states(z, y) == expected
    weight = np.linspace(0.1, 1.0, 30)
    expected = RidgeStatistics.from_states(z[known], y[known], weight=weight[known])
    assert RidgeStatistics.from_states(z, y, weight=weight) == expected


def test_no_rows_are_the_zero_of_addition() -> None:
    z, y = rows()
    s = RidgeStatistics.from_states(z, y)
    empty = RidgeStatistics.from_states(z[:0], y[:0])
    assert empty == RidgeStatistics.zero(4, 2)
    assert s + empty == s
    assert s - empty == s


@pytest.mark.parametrize(
    ("z", "y", "words"),
    [
        (np.zeros((3, 2)), np.zeros((2, 1)), "equally many rows"),
        (np.zeros(3), np.zeros((3, 1)), "matrices"),
        (np.array([[np.nan], [1.0]]), np.zeros((2, 1)), "features is not finite at row 0"),
        (np.array([[0.0], [np.inf]]), np.zeros((2, 1)), "features is not finite at row 1"),
        (np.zeros((2, 1)), np.array([[np.inf], [0.0]]), "targets is not finite at row 0"),
    ],
)
def test_wrong_rows_are_refused(z: Array, y: Array, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RidgeStatistics.from_states(z, y)


@pytest.mark.parametrize(
    "weight", [[1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [[1.0], [1.0], [1.0]]]
)
def test_wrong_weights_are_refused(weight: list[float]) -> None:
    with pytest.raises(ValueError, match="one finite, non-negative number per row"):
        RidgeStatistics.from_states(np.zeros((3, 1)), np.zeros((3, 1)), weight=np.array(weight))


def test_statistics_of_different_features_do_not_mix() -> None:
    z, y = rows()
    a = RidgeStatistics.from_states(z, y, fingerprint="a")
    b = RidgeStatistics.from_states(z, y, fingerprint="b")
    with pytest.raises(FingerprintError, match="one recipe"):
        a + b
    with pytest.raises(FingerprintError):
        a - b
    assert a != b
    with pytest.raises(ValueError, match="do not add"):
        a + RidgeStatistics.zero(3, 2, "a")
    with pytest.raises(TypeError, match="int"):
        a + 1  # type: ignore[operator]


def test_rows_that_were_never_added_cannot_be_taken_out() -> None:
    z, y = rows()
    few, many = RidgeStatistics.from_states(z[:5], y[:5]), RidgeStatistics.from_states(z, y)
    with pytest.raises(ValueError, match="cannot take 40 rows out of 5"):
        few - many
    assert many - many == RidgeStatistics.zero(4, 2)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="gram has shape"):
        RidgeStatistics(
            0, 0.0, np.zeros(2), np.zeros(1), np.zeros(4), np.zeros((2, 1)), np.zeros(1)
        )
    with pytest.raises(ValueError, match="n_rows is -1"):
        RidgeStatistics(
            -1, 0.0, np.zeros(2), np.zeros(1), np.zeros(3), np.zeros((2, 1)), np.zeros(1)
        )


def test_statistics_are_values_but_cannot_be_hashed() -> None:
    z, y = rows()
    assert RidgeStatistics.from_states(z, y) != "statistics"
    with pytest.raises(TypeError):
        hash(RidgeStatistics.from_states(z, y))

"""Vectors of bounded length, and the way back from a noisy sum."""

from __future__ import annotations

import math
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from catchment import Array
from catchment.errors import IntegrityError, UploadError
from catchment.federation import WeightedSum, moment_matrix
from catchment.federation.measure import Score
from catchment.privacy import Clip
from catchment.privacy.dp import Clipped
from catchment.readout import ErrorSums, RidgeStatistics
from catchment.wire import Fact, Message

GRID = 2.0**-40


def rows(n: int, seed: int, F: int = 4, K: int = 2) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, F)) @ rng.normal(size=(F, F)) + 0.5
    return z, z[:, :K] - 0.3 * rng.normal(size=(n, K))


def statistics(n: int, seed: int, **sizes: int) -> RidgeStatistics:
    return RidgeStatistics.from_states(*rows(n, seed, **sizes), fingerprint="f")


def test_the_length_is_the_frobenius_norm_of_mean_moments() -> None:
    s = statistics(30, 1)
    M = moment_matrix(s) / 30
    assert Clip(bound=1.0).length(s) == pytest.approx(np.linalg.norm(M))
    B = np.diag([1.0] * 5 + [3.0] * 2)
    scaled = np.linalg.norm(B @ M @ B)
    assert Clip(bound=1.0, target_scale=3.0).length(s) == pytest.approx(scaled)


def test_clients_weigh_alike_whatever_their_rows() -> None:
    s = statistics(30, 1)
    clip = Clip(bound=100.0)
    ten = reduce(add, [s] * 10)
    a, b = clip.clipped(s, GRID), clip.clipped(ten, GRID)
    np.testing.assert_allclose(a.vector, b.vector, atol=4 * GRID)


@pytest.mark.parametrize("whiten", [False, True])
def test_without_noise_the_sum_of_clipped_moments_comes_back(whiten: bool) -> None:
    clients = [statistics(25, k) for k in range(6)]
    public = [statistics(40, 100 + k) for k in range(3)]
    clip = Clip.from_public(public, whiten=whiten)
    clipped = [clip.clipped(c, GRID) for c in clients]
    total = RidgeStatistics.from_message(clip.upload(reduce(add, clipped)))
    factors = [min(1.0, clip.bound / clip.length(c)) / 25 for c in clients]
    expected = sum(f * moment_matrix(c) for f, c in zip(factors, clients, strict=True))
    np.testing.assert_allclose(moment_matrix(total), expected, rtol=1e-6, atol=1e-6)
    assert total.fingerprint == "f"


def test_whitening_makes_public_rows_white() -> None:
    z, y = rows(500, 3)
    public = RidgeStatistics.from_states(z, y)
    T, back = Clip(bound=1.0, reference=public).whitening
    Z = np.column_stack([np.ones(500), z]) @ T.T
    np.testing.assert_allclose(Z.T @ Z / 500, np.eye(5), atol=0.05)
    np.testing.assert_allclose(T @ back, np.eye(5), atol=1e-9)


def test_the_ridge_of_the_noise_is_a_ridge_on_all_features_and_the_constant() -> None:
    z, y = rows(60, 5)
    clip = Clip(bound=1e6, target_scale=2.0)
    clipped = clip.clipped(RidgeStatistics.from_states(z, y, fingerprint="f"), GRID)
    ridge = 0.02
    readout = RidgeStatistics.from_message(clip.upload(clipped, ridge)).solve(0.0)
    # Moments are means over rows, so that the same ridge on sums is 60 times larger.
    penalty = 60 * ridge * math.sqrt(2 * 5)
    theirs = Ridge(alpha=penalty, fit_intercept=False).fit(np.column_stack([np.ones(60), z]), y)
    np.testing.assert_allclose(readout.intercept, theirs.coef_[:, 0], atol=1e-7)
    np.testing.assert_allclose(readout.weights, theirs.coef_[:, 1:].T, atol=1e-7)


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), spread=st.floats(1e-3, 1e3))
def test_any_noisy_sum_can_be_solved(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    clip = Clip(bound=5.0)
    total = clip.clipped(statistics(20, 1), GRID)
    noisy = Clipped(total.vector + spread * rng.normal(size=len(total.vector)), 1, total.about)
    parts = clip.upload(noisy, 0.5 * spread)
    result = RidgeStatistics.from_message(parts)
    assert np.linalg.eigvalsh(moment_matrix(result))[0] >= -1e-9 * spread
    assert result.n_rows >= 1
    assert result.weight > 0
    assert np.isfinite(result.solve(0.0).weights).all()
    assert parts.facts["noisy"] is True


def test_weighted_sums_are_clipped_as_means_and_come_back_with_their_shapes() -> None:
    sent = WeightedSum.of((np.array([[3.0, 0.0]]), np.array([4.0])), 7.0)
    clip = Clip(bound=2.5)
    clipped = clip.clipped(sent, GRID)
    assert np.linalg.norm(clipped.vector) == pytest.approx(2.5)
    both = clipped + clipped
    total = WeightedSum.from_message(clip.upload(both))
    assert total.weight == 2.0
    assert total.n_clients == 2
    np.testing.assert_allclose(total.mean()[0], [[1.5, 0.0]], atol=1e-8)
    np.testing.assert_allclose(total.mean()[1], [2.0], atol=1e-8)


def test_a_client_without_rows_adds_nothing() -> None:
    empty = RidgeStatistics.zero(4, 2, "f")
    assert not Clip(bound=1.0).clipped(empty, GRID).vector.any()


def test_parts_survive_the_journey() -> None:
    sent = Clip(bound=1.0).clipped(statistics(9, 1), GRID)
    got = Clipped.from_message(Message.from_bytes(sent.parts().to_bytes()))
    np.testing.assert_array_equal(got.vector, sent.vector)
    assert got.n_clients == 1
    assert (got + got).n_clients == 2


def test_bad_vectors_are_refused() -> None:
    about: dict[str, Fact] = {"kind": "weighted-sum", "facts": {}, "numbers": 2, "shapes": [[2]]}
    ones, facts = np.ones(2), {"about": about}
    with pytest.raises(UploadError, match="NaN"):
        Clipped.from_message(
            Message("clipped", facts, (np.array([1.0, 0.0]), np.array([1.0, np.nan])))
        )
    with pytest.raises(UploadError, match="not a number of anything"):
        Clipped.from_message(Message("clipped", facts, (np.array([0.5, 0.0]), ones)))
    with pytest.raises(UploadError, match="clients cannot be"):
        Clipped.from_message(Message("clipped", facts, (np.zeros(2), ones)))
    with pytest.raises(IntegrityError):
        Clipped.from_message(Message("clipped", facts, (np.ones(3), ones)))
    with pytest.raises(UploadError, match="do not add"):
        _ = Clipped(ones, 1, about) + Clipped(ones, 1, {**about, "shapes": [[1], [1]]})
    with pytest.raises(IntegrityError, match="3 numbers came"):
        Clip(bound=1.0).upload(Clipped(np.ones(3), 1, about))
    with pytest.raises(IntegrityError):
        Clip(bound=1.0).upload(Clipped(np.ones(3), 1, {"kind": "weighted-sum"}))
    with pytest.raises(IntegrityError):
        Clip(bound=1.0).upload(Clipped(np.ones(3), 1, {"kind": "other", "facts": {}}))


def test_other_uploads_and_features_are_refused() -> None:
    with pytest.raises(UploadError, match="not for 'score'"):
        Clip(bound=1.0).clipped(Score(ErrorSums.of(np.empty((0, 1)), np.empty((0, 1)))), GRID)
    other = RidgeStatistics.from_states(np.ones((3, 4)), np.ones((3, 2)), fingerprint="g")
    clip = Clip(bound=1.0, reference=statistics(20, 1))
    with pytest.raises(UploadError, match="other features"):
        clip.clipped(other, GRID)
    with pytest.raises(UploadError, match="NaN"):
        Clip(bound=1.0).clipped(WeightedSum((np.array([np.inf]),), 1.0), GRID)


@pytest.mark.parametrize("bound", [0.0, math.inf, math.nan])
def test_settings_are_checked(bound: float) -> None:
    with pytest.raises(ValueError, match="bound is"):
        Clip(bound=bound)
    with pytest.raises(ValueError, match="no public clients"):
        Clip.from_public([])
    with pytest.raises(ValueError, match="holds no rows"):
        Clip(bound=1.0, reference=RidgeStatistics.zero(2, 1))

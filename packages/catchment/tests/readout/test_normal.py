"""Normal behavior from sums, against scikit-learn's covariances of the pooled rows."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from sklearn.covariance import OAS, ShrunkCovariance
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from catchment import Array
from catchment.readout import FixedPoint, MahalanobisDetector, RidgeStatistics
from catchment.wire import Message

pytestmark = pytest.mark.processor


def rows() -> tuple[Array, Array]:
    """Return features that depend on each other, one of them constant, and targets."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)) + rng.normal(size=6)
    return np.column_stack([np.ones(500), z]), z @ rng.normal(size=(6, 2)) + rng.normal(
        size=(500, 2)
    )


def pooled_sums() -> RidgeStatistics:
    z, y = rows()
    cuts = [3, 40, 41, 300]
    parts = zip(np.split(z, cuts), np.split(y, cuts), strict=True)
    return reduce(add, (RidgeStatistics.from_states(*part) for part in parts))


@pytest.mark.parametrize("shrinkage", [0.001, 0.3, 1.0, "auto"])
def test_scores_from_sums_are_those_of_scikit_learn_on_pooled_rows(
    shrinkage: float | str,
) -> None:
    z, _ = rows()
    theirs = OAS() if shrinkage == "auto" else ShrunkCovariance(shrinkage=shrinkage)
    theirs.fit(z)
    ours = MahalanobisDetector.of(pooled_sums(), shrinkage)  # type: ignore[arg-type]
    np.testing.assert_allclose(ours.scores(z) * 7, theirs.mahalanobis(z), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.covariance, theirs.covariance_, rtol=1e-9, atol=1e-12)
    assert (
        MahalanobisDetector.from_message(Message.from_bytes(ours.parts().to_bytes()))
        .scores(z)
        .tolist()
        == ours.scores(z).tolist()
    )


def test_standardized_scores_are_those_of_scaled_rows() -> None:
    z = rows()[0] * [1.0, 1.0, 1e3, 1e-3, 1.0, 1.0, 1.0]
    scaled = StandardScaler().fit_transform(z)
    theirs = ShrunkCovariance(shrinkage=0.2).fit(scaled).mahalanobis(scaled)
    sums = RidgeStatistics.from_states(z, np.zeros((500, 1)))
    found = MahalanobisDetector.of(sums, 0.2, standardize=True).scores(z)
    np.testing.assert_allclose(found * 7, theirs, rtol=1e-8)


@pytest.mark.parametrize("ridge", [1e-6, 30.0])
def test_error_moments_are_those_of_the_errors_themselves(ridge: float) -> None:
    z, y = rows()
    theirs = Ridge(alpha=ridge).fit(z[:, 1:], y)
    errors = y - theirs.predict(z[:, 1:])
    readout = pooled_sums().solve(ridge)
    ours = MahalanobisDetector.of_errors(pooled_sums(), readout, 0.1)
    np.testing.assert_allclose(
        ours.scores(y - readout(z)) * 2,
        ShrunkCovariance(shrinkage=0.1).fit(errors).mahalanobis(errors),
        rtol=1e-8,
        atol=1e-9,
    )


def test_sums_in_fixed_point_give_the_same_scores_whatever_their_order() -> None:
    z = np.rint(rows()[0] * 256).clip(-4000, 4000) / 256
    grid = FixedPoint(12, ((7, 8),))
    parts = [
        RidgeStatistics.from_states(part, np.zeros((len(part), 1)), fixed=grid)
        for part in np.split(z, [50, 51, 200])
    ]
    one = MahalanobisDetector.of(reduce(add, parts), 0.01)
    other = MahalanobisDetector.of(reduce(add, parts[::-1]), 0.01)
    assert one.scores(z).tolist() == other.scores(z).tolist()
    theirs = ShrunkCovariance(shrinkage=0.01).fit(z).mahalanobis(z)
    np.testing.assert_allclose(one.scores(z) * z.shape[1], theirs, rtol=1e-6)


def test_what_has_no_inverse_or_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="larger one"):
        MahalanobisDetector.of(pooled_sums(), 0.0).scores(rows()[0])
    with pytest.raises(ValueError, match="nothing varies"):
        MahalanobisDetector.of(RidgeStatistics.from_states(np.ones((5, 2)), np.zeros((5, 1))))
    with pytest.raises(ValueError, match="hold 0 rows"):
        MahalanobisDetector.of(RidgeStatistics.zero(2, 1))

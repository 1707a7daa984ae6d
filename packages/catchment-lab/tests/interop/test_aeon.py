"""The classifier in aeon's manners: its own checks, its shapes, and the same model as ours."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import cross_val_score

import catchment as ct
from catchment import Array
from catchment.errors import MissingExtraError
from catchment.sklearn import TimeSeriesClassifier as Ours

WITHOUT = find_spec("aeon") is None
needs_aeon = pytest.mark.skipif(
    WITHOUT, reason='aeon is not installed; pip install "catchment[aeon]", or make interop'
)


def collection(n: int = 60, channels: int = 2, steps: int = 80) -> tuple[Array, Any]:
    """Return (n, channels, steps) of three pitches with noise, and their names."""
    rng = np.random.default_rng(0)
    pitch = np.array([2.0, 3.0, 4.5])[np.arange(n) % 3, None, None]
    phase = rng.uniform(0, 6, (n, channels, 1))
    X = np.sin(np.arange(steps) / pitch + phase) + 0.5 * rng.normal(size=(n, channels, steps))
    return X, np.array(["high", "mid", "low"])[np.arange(n) % 3]


@pytest.mark.skipif(not WITHOUT, reason="aeon is installed")
def test_without_aeon_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r'pip install "catchment\[aeon\]"'):
        from catchment_lab.interop import TimeSeriesClassifier  # noqa: F401


@needs_aeon
def test_aeons_own_checks() -> None:
    from aeon.testing.estimator_checking import check_estimator

    from catchment_lab.interop import TimeSeriesClassifier

    results = check_estimator(TimeSeriesClassifier)
    assert len(results) > 20
    assert {name: told for name, told in results.items() if told != "PASSED"} == {}


@needs_aeon
@pytest.mark.parametrize("channels", [1, 2, 90])
def test_it_is_our_classifier_with_channels_first(channels: int) -> None:
    from catchment_lab.interop import TimeSeriesClassifier

    X, y = collection(channels=channels)
    theirs = TimeSeriesClassifier(ct.EchoState(20)).fit(X[:40], y[:40])
    ours = Ours(ct.EchoState(20), layout="time_first").fit(X[:40].transpose(0, 2, 1), y[:40])
    assert theirs.classifier_.model_.features.n_inputs == channels
    assert_array_equal(theirs.predict_proba(X[40:]), ours.predict_proba(X[40:].transpose(0, 2, 1)))
    assert_array_equal(theirs.predict(X[40:]), ours.predict(X[40:].transpose(0, 2, 1)))


@needs_aeon
def test_series_of_unequal_lengths_and_with_gaps() -> None:
    from catchment_lab.interop import TimeSeriesClassifier

    X, y = collection()
    X[3, 0, 10:20] = np.nan
    ragged = [one[:, : 50 + k % 30] for k, one in enumerate(X)]
    fitted = TimeSeriesClassifier("window_statistics").fit(ragged[:40], y[:40])
    assert fitted.score(ragged[40:], y[40:]) > 0.6
    assert fitted.predict_proba(ragged[40:]).shape == (20, 3)


@needs_aeon
def test_beside_aeons_minirocket_on_the_same_collection() -> None:
    from aeon.classification.convolution_based import MiniRocketClassifier as Theirs

    from catchment_lab.interop import TimeSeriesClassifier

    X, y = collection()
    theirs = cross_val_score(Theirs(n_kernels=168, random_state=0), X, y, cv=3)
    ours = cross_val_score(TimeSeriesClassifier(ct.MiniRocket(168)), X, y, cv=3)
    plain = cross_val_score(Ours(ct.MiniRocket(168), layout="channels_first"), X, y, cv=3)
    assert theirs.mean() > 0.9
    assert ours.mean() > theirs.mean() - 0.05
    assert_array_equal(ours, plain)
    # Read the wrong way round, the same data are of 80 channels and two steps.
    with pytest.raises(ValueError, match="channels of 80 steps"):
        Ours(ct.MiniRocket(168)).fit(X, y)

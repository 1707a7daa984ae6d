"""The forecaster in sktime's manners: its own checks, its index, and the same numbers as ours."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from catchment.errors import MissingExtraError
from catchment.sklearn import YuleWalkerForecaster as Ours

WITHOUT = find_spec("sktime") is None
needs_sktime = pytest.mark.skipif(
    WITHOUT, reason='sktime is not installed; pip install "catchment[sktime]", or make interop'
)
# sktime announces changes of its own next releases.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def monthly(n: int = 240) -> pd.Series[float]:
    rng = np.random.default_rng(0)
    index = pd.period_range("2000-01", periods=n, freq="M")
    values = 50 + 9 * np.sin(2 * np.pi * np.arange(n) / 12) + rng.normal(size=n)
    return pd.Series(values, index=index, name="load")


@pytest.mark.skipif(not WITHOUT, reason="sktime is installed")
def test_without_sktime_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r'pip install "catchment\[sktime\]"'):
        from catchment_lab.interop import YuleWalkerForecaster  # noqa: F401


@needs_sktime
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_sktimes_own_checks() -> None:
    from sktime.utils.estimator_checks import check_estimator

    from catchment_lab.interop import YuleWalkerForecaster

    results: dict[str, Any] = check_estimator(YuleWalkerForecaster, verbose=False)
    assert len(results) > 500
    assert {name: told for name, told in results.items() if told != "PASSED"} == {}


@needs_sktime
def test_numbers_are_ours_and_the_index_goes_on() -> None:
    from catchment_lab.interop import YuleWalkerForecaster

    y = monthly()
    fitted = YuleWalkerForecaster(36).fit(y[:-12], fh=range(1, 13))
    ours = Ours(36).fit(y[:-12].to_numpy())
    predicted = fitted.predict()
    assert predicted.name == "load"
    assert predicted.index.equals(y.index[-12:])
    assert_array_equal(predicted.to_numpy(), ours.predict(range(1, 13)))
    found = fitted.predict_interval(coverage=[0.5, 0.9])
    lower, upper = ours.predict_interval(range(1, 13), coverage=0.9)
    assert_array_equal(found[("load", 0.9, "lower")], lower)
    assert_array_equal(found[("load", 0.9, "upper")], upper)
    assert np.mean((lower <= y[-12:]) & (y[-12:] <= upper)) >= 0.75
    # Settings are chosen for the steps that are asked for.
    assert_array_equal(fitted.predict(fh=[3]), ours.predict(3))


@needs_sktime
def test_what_is_known_ahead_may_have_holes() -> None:
    from catchment_lab.interop import YuleWalkerForecaster

    y = monthly()
    X = pd.DataFrame({"month": pd.PeriodIndex(y.index).month.astype(float)}, index=y.index)
    fitted = YuleWalkerForecaster(36).fit(y[:-6], X=X[:-6])
    whole = fitted.predict(fh=[2, 5], X=X[-6:])
    assert whole.index.equals(y.index[[-5, -2]])
    assert_array_equal(whole, fitted.predict(fh=[2, 5], X=X[-6:-1]))
    assert np.isfinite(fitted.predict(fh=[2, 5], X=X.iloc[[-5, -2]])).all()

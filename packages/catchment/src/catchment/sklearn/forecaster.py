"""`YuleWalkerForecaster`: linear forecasts of one series, or several, by autocovariances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array, as_matrix, refuse_nonfinite
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.steps import Policy
from catchment.features.nvar import NVAR
from catchment.features.pipeline import Pipeline
from catchment.federation.learn.yule_walker import LOOKBACK, fit_lags
from catchment.readout.forecasting import Forecast, forecasts
from catchment.readout.model import Model


class YuleWalkerForecaster(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The next values of series that share their coefficients, by the Yule-Walker equations.

    `fh` is counted as in sktime: 3 is the third step ahead alone, `range(1, 25)` the first 24. Any
    steps may be asked for: the same autocovariances give them all.

    Parameters
    ----------
    lookback
        How many of the last values are looked at, at most; the data choose among these and halves
        of them. Of a series shorter than three times that and the steps ahead, a third is.
    trailing_mean, ridge
        As in `catchment.federation.learn.FederatedYuleWalker`; chosen by generalized
        cross-validation if "auto".
    gaps
        What replaces NaN among the last values; those before are passed over.

    Attributes
    ----------
    n_outputs_
        Series in y.

    >>> y = np.sin(np.arange(400) / 5) + 0.1 * np.random.default_rng(0).normal(size=400)
    >>> forecaster = YuleWalkerForecaster(64).fit(y[:390])
    >>> lower, upper = forecaster.predict_interval(range(1, 11), coverage=0.9)
    >>> bool(np.mean((lower < y[390:]) & (y[390:] < upper)) > 0.6)
    True
    """

    def __init__(
        self,
        lookback: int = LOOKBACK,
        *,
        trailing_mean: int | Literal["auto"] = "auto",
        ridge: float | Literal["auto"] = "auto",
        gaps: Policy = "hold",
    ) -> None:
        self.lookback = lookback
        self.trailing_mean = trailing_mean
        self.ridge = ridge
        self.gaps = gaps

    def fit(
        self, y: ArrayLike, X: ArrayLike | None = None, fh: int | Sequence[int] | None = None
    ) -> Self:
        """Learn a series (T,) or several (T, K), with others (T, M) that are known ahead.

        Parameters
        ----------
        y
            Values in the order of time, at equal intervals; NaN where one is missing.
        X
            What is known of each step before it comes, such as a price list.
        fh
            Steps ahead that `predict` is to answer for if it is not told others.
        """
        self.fh_ = None if fh is None else steps_ahead(fh)
        self._series = as_matrix(y, "y")
        self._narrowed = np.ndim(y) == 1
        refuse_nonfinite(self._series, "y", missing=True)
        self._known = known_values(X, len(self._series), "fit")
        self.n_outputs_ = self._series.shape[1]
        if len(self._series) < 4:
            raise ValueError(f"y has {len(self._series)} steps; a forecast needs at least 4")
        return self

    def model(self, fh: int | Sequence[int]) -> Model:
        """Return the model of some steps ahead, ready to be saved; its inputs are y and X."""
        check_is_fitted(self, "n_outputs_")
        steps, (T, K), M = sorted(set(steps_ahead(fh))), self._series.shape, self._known.shape[1]
        lags = max(1, min(self.lookback, T // 3 - max(steps)))
        ahead = Preprocessing(horizon=tuple(steps), known=tuple(range(K, K + M)), gaps=self.gaps)
        pipeline = Pipeline(ahead, NVAR(lags, order=1))
        settings: dict[str, Any] = {"trailing_mean": self.trailing_mean, "ridge": self.ridge}
        return fit_lags(pipeline, [self._recording(None)], **settings)

    def predict(
        self, fh: int | Sequence[int] | None = None, X: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the values (H,) or (H, K) of the steps ahead that are asked for.

        Parameters
        ----------
        fh
            Steps ahead, from 1 on; those of `fit` if not given.
        X
            (max(fh), M) what is known of the steps to come, if `fit` had it.
        """
        steps, found = self._forecast(fh, X, 0.9)
        return self._narrow(found.values, steps, found)

    def predict_interval(
        self,
        fh: int | Sequence[int] | None = None,
        X: ArrayLike | None = None,
        coverage: float = 0.9,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return lower and upper ends, each (H,) or (H, K), that hold each value with the coverage.

        They hold if errors are normal, and as large as the equations expect them.
        """
        steps, found = self._forecast(fh, X, coverage)
        assert found.lower is not None
        assert found.upper is not None
        return self._narrow(found.lower, steps, found), self._narrow(found.upper, steps, found)

    def _forecast(
        self, fh: int | Sequence[int] | None, X: ArrayLike | None, coverage: float
    ) -> tuple[list[int], Forecast]:
        check_is_fitted(self, "n_outputs_")
        steps = self.fh_ if fh is None else steps_ahead(fh)
        if steps is None:
            raise ValueError("there is no fh; pass the steps ahead, such as range(1, 25)")
        if (X is None) != (self._known.shape[1] == 0):
            raise ValueError(
                f"fit had X of {self._known.shape[1]} columns; pass X with a row for each of "
                f"{max(steps)} steps if there are any, and only then"
            )
        future = None if X is None else known_values(X, max(steps), "predict")
        (found,) = forecasts(self.model(steps), [self._recording(future)], coverage=coverage)
        return steps, found

    def _recording(self, future: Array | None) -> Recording:
        """Return series and what is known of them, and what is known of the steps to come."""
        u = np.hstack([self._series, self._known])
        if future is not None:
            gone = np.full((len(future), self.n_outputs_), np.nan)
            u = np.vstack([u, np.hstack([gone, future])])
        return Recording(u)

    def _narrow(self, values: Array, steps: list[int], found: Forecast) -> Array:
        rows = values[[found.horizons.index(step) for step in steps]]
        return rows[:, 0] if self._narrowed else rows


def steps_ahead(fh: int | Sequence[int]) -> list[int]:
    """Return the steps ahead as a list; ValueError if they are no integers from 1 on.

    >>> steps_ahead(3), steps_ahead(range(1, 4))
    ([3], [1, 2, 3])
    """
    steps = np.atleast_1d(np.asarray(fh))
    whole = steps.ndim == 1 and steps.size and steps.dtype.kind in "iu"
    if not whole or steps.min() < 1:
        raise ValueError(
            f"fh is {fh!r}; pass steps ahead as integers from 1 on, such as 3 for the third "
            "step or range(1, 25) for the first 24"
        )
    return [int(step) for step in steps]


def known_values(X: ArrayLike | None, n_steps: int, verb: str) -> Array:
    """Return what is known of each step (n_steps, M); none is (n_steps, 0)."""
    if X is None:
        return np.zeros((n_steps, 0))
    values = as_matrix(X, "X")
    refuse_nonfinite(values, "X", missing=True)
    if len(values) != n_steps:
        raise ValueError(f"X has {len(values)} rows, {verb} needs {n_steps}: one for each step")
    return values

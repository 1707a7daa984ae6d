"""Regression on the states of a reservoir, and linear forecasts by autocovariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import (
    Array,
    PositiveInt,
    as_matrix,
    as_numbers,
    check_type,
    refuse_nonfinite,
)
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.steps import Policy
from catchment.features.nvar import NVAR
from catchment.features.pipeline import Pipeline
from catchment.federation.learn.yule_walker import LOOKBACK, fit_lags
from catchment.readout.forecasting import Forecast, forecast, forecasts
from catchment.readout.model import Model
from catchment.sklearn.base import (
    EchoStateEstimator,
    Given,
    Inputs,
    ReadoutEstimator,
    Targets,
    follows_data,
)


@dataclass(eq=False, repr=False)
class EchoStateRegressor(RegressorMixin, ReadoutEstimator, EchoStateEstimator):  # type: ignore[misc]
    """Ridge regression on reservoir states; a matrix X is one sequence with a row per step.

    `catchment.sklearn` says what else X may be. Rows whose target is NaN are left out of `fit`.

    Parameters
    ----------
    units, topology, density, connections, rewiring, jump, jump_weight, random_signs
        The reservoir and its wiring, as in `EchoState`.
    spectral_radius, input_scaling, input_connections, bias_scaling, leak_rate, activation
        Its dynamics, as in `EchoState`.
    bias, input, state, precision
        What the readout sees of it, as in `EchoState`.
    pool, segments
        None for a target per step; else how a sequence with one target is summed up. With "auto",
        a matrix is one sequence with a target per step, and several sequences have one target each
        if y has.
    washout
        Steps at the start of each sequence that are not learned from, nor scored.
    gaps, scale
        What replaces NaN in X ("hold", "interpolate" or "error"), and whether inputs are scaled to
        mean 0 and standard deviation 1 over the data of `fit`.
    layout
        Which axis of arrays (n, a, b) and lists is time: "time_first", "channels_first", or "auto".
    ridge
        A number, or "gcv": chosen by generalized cross-validation.
    random_state
        An integer is the seed of `EchoState`; None draws new weights at each fit.
    n_jobs
        Threads; None is one, -1 all cores. Results do not depend on it.

    Attributes
    ----------
    model_
        The fitted `Model`, ready for `catchment.save`; it holds the training statistics.
    n_features_in_
        Columns of X.

    >>> u = np.sin(np.arange(500) / 5)[:, None]
    >>> regressor = EchoStateRegressor(50, washout=50).fit(u[:400], u[1:401, 0])
    >>> regressor.score(u[350:-1], u[351:, 0]) > 0.999
    True
    >>> regressor.forecast(u[:400], horizon=3).shape
    (3,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from inputs and targets, forgetting what was learned before."""
        # With a pool, or without a word, as many targets as an axis is long may be outputs.
        X = self._oriented(X, y, reset=True, per_step=self.pool is None)
        self.pooled_ = follows_data(self.pool, X, y, matrix_pooled=False)
        return self._learn(self._read(X, pooled=self.pooled_, reset=True), y, sample_weight, None)

    def partial_fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from more sequences; inputs are scaled as in the first call.

        With `scale=False` the result is that of one fit on all sequences as a list.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight)
        given = self._given(X)
        return self._learn(given, y, sample_weight, self.model_)

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return predictions arranged like X."""
        check_is_fitted(self)
        given = self._given(X)
        rows = self._rows(self.model_.pipeline, given)
        return given.arranged(self._narrow(self.model_.readout(rows)))

    def score(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> float:
        """Return the share of variance explained (R2), the washout of each sequence left out."""
        check_is_fitted(self)
        given = self._given(X)
        target, weight = as_matrix(self._target(given, y), "y"), given.weights(sample_weight)
        kept = given.after(self.washout) & ~np.isnan(target).any(axis=1)
        predicted = self.model_.readout(self._rows(self.model_.pipeline, given))
        weight = None if weight is None else weight[kept]
        return float(r2_score(target[kept], predicted[kept], sample_weight=weight))

    def forecast(
        self,
        X: ArrayLike,
        horizon: int,
        *,
        limit: ArrayLike | Literal["training"] | None = "training",
    ) -> Array:
        """Return the next values (horizon,) or (horizon, K), each one being the next input.

        The loop is held within the range of the training targets, and warns where it would leave
        it; see `catchment.readout.forecasting.forecast`.

        Parameters
        ----------
        X
            (T, I) inputs of one sequence up to now, longer than the washout.
        horizon
            Number of steps to go on.
        limit
            Lowest and highest values (2, K) that are fed back; "training" is the range of the
            training targets, None lets the loop go where it will.
        """
        check_is_fitted(self)
        return self._narrow(forecast(self.model_, X, horizon, limit=limit))

    def _learn(
        self, given: Given, y: Targets, sample_weight: Targets | None, past: Model | None
    ) -> Self:
        target, weight = self._target(given, y), given.weights(sample_weight)
        self.model_, _ = self._learned(given, as_matrix(target, "y"), weight, past)
        self._narrowed = target.ndim == 1
        return self

    def _target(self, given: Given, y: Targets | None) -> Array:
        """Return targets (n,) or (n, K) as numbers."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        target = as_numbers(given.flat(y, "y"), "y")
        refuse_nonfinite(target, "y", missing=True)
        if np.isnan(target).all():
            raise ValueError("y is NaN throughout; pass targets, some of which may be missing")
        return target

    def _narrow(self, values: Array) -> Array:
        """Return (n,) instead of (n, 1) if the targets in `fit` were so."""
        return values[:, 0] if self._narrowed else values


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
        if (n := int((~np.isnan(self._series)).sum(axis=0).min())) < 4:
            raise ValueError(f"y has {n} steps with a value; a forecast needs at least 4")
        return self

    def model(self, fh: int | Sequence[int]) -> Model:
        """Return the model of some steps ahead, ready to be saved; its inputs are y and X."""
        check_is_fitted(self, "n_outputs_")
        steps, (T, K), M = sorted(set(steps_ahead(fh))), self._series.shape, self._known.shape[1]
        check_type(self.lookback, PositiveInt, "lookback")
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

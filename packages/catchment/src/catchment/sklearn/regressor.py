"""Regression on the states of a reservoir.

Forecasts of one series, closed loop, with intervals that were tried on the series itself.

The reservoir is driven by the values up to now and by what else is known of the next step; it
predicts the next value, which is then fed back. Intervals are split conformal, horizon by horizon:
a second model learns the first part of the series, forecasts from many places in the rest, and its
absolute errors at each horizon give the width there. That holds for any distribution of errors as
long as errors to come are like those of the last part; a series that changes its ways breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array, as_matrix, as_numbers, refuse_nonfinite
from catchment.data.recording import Recording
from catchment.features.pipeline import Pipeline
from catchment.readout.forecasting import backtest, forecast
from catchment.readout.intervals import conformal_quantile, predictive_variance
from catchment.readout.model import Model, learn
from catchment.sklearn.base import (
    EchoStateEstimator,
    Given,
    Inputs,
    ReadoutEstimator,
    ReservoirEstimator,
    Targets,
    count_jobs,
    follows_data,
    known_statistics,
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
        Steps at the start of each sequence that are not learnt from, nor scored.
    gaps, scale
        What replaces NaN in X ("hold", "interpolate" or "error"), and whether inputs are scaled to
        mean 0 and standard deviation 1 over the data of `fit`.
    layout
        Which axis of arrays (n, a, b) and lists is time: "time_first", "channels_first", or "auto".
    ridge
        A number, one number per output, or "gcv": chosen by generalized cross-validation.
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
        """Learn from inputs and targets, forgetting what was learnt before."""
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

    def predict(self, X: Inputs, return_std: bool = False) -> Any:
        """Return predictions arranged like X; with `return_std`, also their standard deviations.

        The deviation is that of a new target under the Bayesian linear model, as
        `catchment.readout.predictive_variance` has it.
        """
        check_is_fitted(self)
        given = self._given(X)
        z = self._rows(self.model_.pipeline, given)
        mean = given.arranged(self._narrow(self.model_.readout(z)))
        if not return_std:
            return mean
        known, ridge = known_statistics(self.model_), self.model_.readout.ridge
        standardize = self.model_.features.standardize
        variance = predictive_variance(known, ridge, z, standardize=standardize)
        return mean, given.arranged(self._narrow(np.sqrt(variance)))

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
        known: ArrayLike | None = None,
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
        known
            (horizon, I - K) future values of the inputs that are not predicted. The targets in
            `fit` were the next values of the first K inputs.
        limit
            Lowest and highest values (2, K) that are fed back; "training" is the range of the
            training targets, None lets the loop go where it will.
        """
        check_is_fitted(self)
        return self._narrow(forecast(self.model_, X, horizon, known=known, limit=limit))

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


FEWEST_STEPS = 10  # after the washout: of fewer nothing can be learned
MOST_ORIGINS = 256  # places that intervals are tried from


@dataclass(eq=False, repr=False)
class EchoStateForecaster(ReservoirEstimator):
    """The next values of one series, one or several at a time, with prediction intervals.

    `fh` is counted as in sktime: 3 is the third step ahead alone, `range(1, 25)` the first 24.

    Parameters
    ----------
    units, topology, density, connections, rewiring, jump, jump_weight, random_signs
        The reservoir and its wiring, as in `EchoState`; so are all others that are not named here.
    gaps, scale
        What replaces NaN in y and X, and whether they are scaled; as in `EchoStateRegressor`.
    washout
        Steps at the start of the series that are not learnt from.
    ridge
        A number, one number per output, or "gcv": chosen by generalized cross-validation.
    calibration
        Share of the series, at its end, that intervals are tried on; more where a coverage needs
        more.
    random_state
        An integer is the seed of `EchoState`; None draws new weights at each fit.
    n_jobs
        Threads; None is one, -1 all cores. Results do not depend on it.

    Attributes
    ----------
    model_
        The fitted `Model`, ready for `catchment.save`. Its inputs are y and the X one step later.
    n_outputs_
        Series in y.

    >>> y = np.sin(np.arange(300) / 5) + 0.1 * np.random.default_rng(0).normal(size=300)
    >>> forecaster = EchoStateForecaster(50).fit(y[:290])
    >>> lower, upper = forecaster.predict_interval(range(1, 11), coverage=0.9)
    >>> bool(np.mean((lower < y[290:]) & (y[290:] < upper)) > 0.6)
    True
    """

    _: KW_ONLY
    ridge: float | Array | Literal["gcv"] = "gcv"
    calibration: float = 0.3
    n_jobs: int | None = None

    def fit(
        self, y: ArrayLike, X: ArrayLike | None = None, fh: int | Sequence[int] | None = None
    ) -> Self:
        """Learn a series (T,) or several (T, K), with others (T, M) that are known ahead.

        Parameters
        ----------
        y
            Values in the order of time, at equal intervals.
        X
            What is known of each step before it comes, such as the hour of day.
        fh
            Steps ahead that `predict` is to answer for if it is not told others.
        """
        self.fh_ = None if fh is None else steps_ahead(fh)
        self._series = as_matrix(y, "y")
        self._narrowed = np.ndim(y) == 1
        refuse_nonfinite(self._series, "y", missing=True)
        self._known = known_values(X, len(self._series), "fit")
        self.n_outputs_ = self._series.shape[1]
        needed = self.washout + FEWEST_STEPS
        if len(self._series) < needed:
            raise ValueError(
                f"y has {len(self._series)} steps; a forecast with a washout of {self.washout} "
                f"needs at least {needed}"
            )
        self.model_ = self._learned(len(self._series))
        return self

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
        check_is_fitted(self)
        steps = self._steps(fh)
        return self._narrow(self._ahead(max(steps), X)[np.asarray(steps) - 1])

    def predict_interval(
        self,
        fh: int | Sequence[int] | None = None,
        X: ArrayLike | None = None,
        coverage: float = 0.9,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return lower and upper ends, each (H,) or (H, K), that hold each value with the coverage.

        Parameters
        ----------
        fh, X
            As in `predict`.
        coverage
            Probability, between 0 and 1, for each single value: not for all of them at once.
        """
        check_is_fitted(self)
        steps = self._steps(fh)
        chosen = np.asarray(steps) - 1
        middle = self._ahead(max(steps), X)[chosen]
        errors = self._errors(max(steps), coverage)
        half = _widths(errors, coverage)[chosen]
        return self._narrow(middle - half), self._narrow(middle + half)

    def _steps(self, fh: int | Sequence[int] | None) -> list[int]:
        if fh is not None:
            return steps_ahead(fh)
        if self.fh_ is None:
            raise ValueError("there is no fh; pass the steps ahead, such as range(1, 25)")
        return self.fh_

    def _learned(self, n_steps: int) -> Model:
        """Return the model of the first steps of the series."""
        u, y = self._inputs()[: n_steps - 1], self._series[1:n_steps]
        pipeline = Pipeline(self._prepare(), self._reservoir(None))
        threads = count_jobs(self.n_jobs)
        return learn(pipeline, [Recording(u, y, per_step=True)], ridge=self.ridge, threads=threads)

    def _inputs(self) -> Array:
        """Return inputs (T - 1, K + M): a value, and what is known of the step after it."""
        return np.hstack([self._series[:-1], self._known[1:]])

    def _ahead(self, horizon: int, X: ArrayLike | None) -> Array:
        """Return the next values (horizon, K)."""
        n_known = self._known.shape[1]
        if X is None and n_known:
            raise ValueError(
                f"fit had X of {n_known} columns; pass X with a row for each of {horizon} steps"
            )
        future = known_values(X, horizon, "predict")
        if future.shape[1] != n_known:
            raise ValueError(
                f"X has {future.shape[1]} columns, fit had {n_known}; pass the same ones"
            )
        last = np.hstack([self._series[-1], future[0]])[None]
        # A row belongs to the step before it, so the last one is not asked for.
        later = np.vstack([future[1:], future[-1:]])
        past = np.vstack([self._inputs(), last])
        return forecast(self.model_, past, horizon, known=later if n_known else None)

    def _errors(self, horizon: int, coverage: float) -> Array:
        """Return absolute errors (n, horizon, K) from n places that the model had not learnt."""
        T = len(self._series)
        if not 0 < self.calibration < 1:
            raise ValueError(
                f"calibration is {self.calibration}; pass a share of the series, such as 0.3"
            )
        # As conformal_quantile asks for, which also refuses what is no probability.
        wanted = math.ceil(coverage / (1 - coverage)) if 0 < coverage < 1 else 1
        tail = max(math.ceil(self.calibration * T), wanted + horizon - 1)
        first = T - tail
        if first < max(self.washout + FEWEST_STEPS, T // 4):
            raise ValueError(
                f"y has {T} steps, too few to try intervals of coverage {coverage} at {horizon} "
                "steps ahead; pass a longer series, fewer steps or a lower coverage"
            )
        places = np.arange(first, T - horizon + 1)
        if len(places) > MOST_ORIGINS:
            places = places[np.linspace(0, len(places) - 1, MOST_ORIGINS).astype(int)]
        model = self._learned(first)
        ahead = backtest(model, self._inputs(), [int(place) for place in places], horizon)
        truth = np.stack([self._series[place : place + horizon] for place in places])
        return np.abs(truth - ahead)

    def _narrow(self, values: Array) -> Array:
        return values[:, 0] if self._narrowed else values


def _widths(errors: Array, coverage: float) -> Array:
    """Return the half widths (H, K) of absolute errors (n, H, K); missing ones do not count."""
    columns = errors.reshape(len(errors), -1).T
    known = [column[~np.isnan(column), None] for column in columns]
    widths = [conformal_quantile(scores, coverage)[0] for scores in known]
    return np.array(widths).reshape(errors.shape[1:])


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

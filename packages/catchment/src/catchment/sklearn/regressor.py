"""Regression on the states of a reservoir, and forecasts in closed loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array, as_matrix, as_numbers, refuse_nonfinite
from catchment.readout.forecasting import forecast
from catchment.readout.intervals import predictive_variance
from catchment.readout.model import Model
from catchment.sklearn.base import (
    EchoStateEstimator,
    Given,
    Inputs,
    ReadoutEstimator,
    Targets,
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

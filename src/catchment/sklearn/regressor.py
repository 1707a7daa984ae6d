"""Regression on the states of a reservoir."""

from __future__ import annotations

from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array, as_matrix, refuse_infinite
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.settings import Mixture, Spread
from catchment.features.feature_map import FeatureMap
from catchment.readout.forecast import forecast
from catchment.readout.model import Model
from catchment.readout.solve import solve_readout
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.uncertainty import bayesian_readout
from catchment.sklearn.base import EchoState
from catchment.sklearn.inputs import Given, Inputs, Targets
from catchment.sklearn.learning import chosen_ridge, known_statistics, statistics_of


class EchoStateRegressor(RegressorMixin, EchoState):  # type: ignore[misc]
    """Ridge regression on reservoir states; a matrix X is one sequence with a row per step.

    `catchment.sklearn` says what else X may be. Rows whose target is NaN are left out of `fit`.

    Parameters
    ----------
    units
        Number of units; a tuple makes a deep stack, and other settings may then be tuples too.
    spectral_radius, leak_rate, input_scaling, bias_scaling, activation
        As in `Recipe`.
    topology, density, connections, input_connections, random_signs
        Wiring, as in `Recipe`.
    input
        Whether the readout sees the inputs beside the states.
    washout
        Steps at the start of each sequence that are not learnt from, nor scored.
    pool, segments
        None for a target per step; else how a sequence with one target is summed up, as in
        `EchoStateMap`.
    ridge
        A number, one number per output, or "gcv": chosen by generalised cross-validation.
    random_state
        An integer names the reservoir's weights; None draws new ones at each fit.
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

    def __init__(
        self,
        units: int | tuple[int, ...] = 200,
        *,
        spectral_radius: float | tuple[float, ...] = 0.9,
        leak_rate: float | Spread | tuple[float | Spread, ...] = 0.3,
        input_scaling: float | tuple[float, ...] = 0.5,
        bias_scaling: float | tuple[float, ...] = 0.2,
        topology: str | tuple[str, ...] = "random",
        density: float | tuple[float | None, ...] | None = None,
        connections: int | tuple[int | None, ...] | None = None,
        input_connections: int | tuple[int | None, ...] | None = None,
        random_signs: bool | tuple[bool, ...] = False,
        activation: str | Mixture | tuple[str | Mixture, ...] = "tanh",
        input: bool = True,
        washout: int = 0,
        pool: Pool | None = None,
        segments: int = 1,
        ridge: float | Array | str = "gcv",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            units,
            spectral_radius=spectral_radius,
            leak_rate=leak_rate,
            input_scaling=input_scaling,
            bias_scaling=bias_scaling,
            topology=topology,
            density=density,
            connections=connections,
            input_connections=input_connections,
            random_signs=random_signs,
            activation=activation,
            input=input,
            washout=washout,
            pool=pool,
            segments=segments,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.ridge = ridge

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from inputs and targets, forgetting what was learnt before."""
        given = self._read(X, reset=True)
        return self._learn(given, y, sample_weight, self._features(given.n_inputs), None)

    def partial_fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from more sequences; the result is that of one fit on all of them as a list."""
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight)
        given = self._read(X, reset=False)
        past = known_statistics(self.model_)
        return self._learn(given, y, sample_weight, self.model_.features, past)

    @overload
    def predict(self, X: Inputs, return_std: Literal[False] = False) -> NDArray[Any]: ...

    @overload
    def predict(
        self, X: Inputs, return_std: Literal[True]
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...

    def predict(
        self, X: Inputs, return_std: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Return predictions arranged like X; with `return_std`, also their standard deviations.

        The deviation is that of a new target under the Bayesian linear model of `bayesian_readout`.
        """
        check_is_fitted(self)
        given = self._read(X, reset=False)
        z = self._rows(self.model_.features, given)
        mean = given.arranged(self._narrow(self.model_.readout(z)))
        if not return_std:
            return mean
        bayesian = bayesian_readout(known_statistics(self.model_), self.model_.readout.ridge)
        return mean, given.arranged(self._narrow(np.sqrt(bayesian.variance(z))))

    def score(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> float:
        """Return the share of variance explained (R2), the washout of each sequence left out."""
        check_is_fitted(self)
        given = self._read(X, reset=False)
        target, weight = as_matrix(self._target(given, y), "y"), given.weights(sample_weight)
        kept = given.after(self.washout) & ~np.isnan(target).any(axis=1)
        predicted = self.model_.readout(self._rows(self.model_.features, given))
        weight = None if weight is None else weight[kept]
        return float(r2_score(target[kept], predicted[kept], sample_weight=weight))

    def forecast(self, X: ArrayLike, horizon: int, *, known: ArrayLike | None = None) -> Array:
        """Return the next values (horizon,) or (horizon, K), each one being the next input.

        Parameters
        ----------
        X
            (T, I) inputs of one sequence up to now, longer than the washout.
        horizon
            Number of steps to go on.
        known
            (horizon, I - K) future values of the inputs that are not predicted. The targets in
            `fit` were the next values of the first K inputs.
        """
        check_is_fitted(self)
        return self._narrow(forecast(self.model_, X, horizon, known=known))

    def _learn(
        self,
        given: Given,
        y: Targets,
        sample_weight: Targets | None,
        features: FeatureMap,
        past: RidgeStatistics | None,
    ) -> Self:
        target, weight = self._target(given, y), given.weights(sample_weight)
        statistics = statistics_of(
            features, given, as_matrix(target, "y"), weight, threads=self._threads()
        )
        total = statistics if past is None else past + statistics
        with self._solver():
            readout = solve_readout(total, chosen_ridge(self.ridge, total))
        self._narrowed = target.ndim == 1
        self.model_ = Model(features, readout, None, total)
        return self

    def _target(self, given: Given, y: Targets | None) -> Array:
        """Return targets (n,) or (n, K) as numbers."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        target = np.asarray(given.flat(y, "y"), dtype=np.float64)
        refuse_infinite(target, "y")
        return target

    def _narrow(self, values: Array) -> Array:
        """Return (n,) instead of (n, 1) if the targets in `fit` were so."""
        return values[:, 0] if self._narrowed else values

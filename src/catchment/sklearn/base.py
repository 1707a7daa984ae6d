"""The settings that the estimators share, and the way from them to a reservoir."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from catchment.arrays import Array
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.recipe import Recipe
from catchment.features.echo_state.reservoir import Reservoir
from catchment.features.echo_state.settings import Mixture, Spread
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.feature_map import FeatureMap
from catchment.parallel import available_cores, single_blas_thread
from catchment.sklearn.inputs import Given, Inputs, read_inputs


class EchoState(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Settings of a reservoir and of its features, named as in `Recipe` and `EchoStateMap`."""

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
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.units = units
        self.spectral_radius = spectral_radius
        self.leak_rate = leak_rate
        self.input_scaling = input_scaling
        self.bias_scaling = bias_scaling
        self.topology = topology
        self.density = density
        self.connections = connections
        self.input_connections = input_connections
        self.random_signs = random_signs
        self.activation = activation
        self.input = input
        self.washout = washout
        self.pool = pool
        self.segments = segments
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _read(self, X: Inputs, *, reset: bool) -> Given:
        return read_inputs(self, X, pooled=self.pool is not None, reset=reset)

    def _features(self, n_inputs: int) -> FeatureMap:
        """Return the features that the settings name, for so many inputs."""
        state = self.random_state
        if not isinstance(state, int | np.integer):
            state = int(check_random_state(state).randint(2**31 - 1))
        recipe = Recipe(
            units=self.units,
            inputs=n_inputs,
            spectral_radius=self.spectral_radius,
            leak_rate=self.leak_rate,
            input_scaling=self.input_scaling,
            bias_scaling=self.bias_scaling,
            topology=self.topology,
            density=self.density,
            connections=self.connections,
            input_connections=self.input_connections,
            random_signs=self.random_signs,
            activation=self.activation,
            seed=int(state),
        )
        return EchoStateMap(
            Reservoir.from_recipe(recipe),
            input=self.input,
            washout=self.washout,
            pool=self.pool,
            segments=self.segments,
        )

    def _threads(self) -> int:
        n_jobs = 1 if self.n_jobs is None else self.n_jobs
        if n_jobs == 0:
            raise ValueError(
                "n_jobs is 0; pass 1 or more, None for one thread, or -1 for all cores"
            )
        return n_jobs if n_jobs > 0 else max(1, available_cores() + 1 + n_jobs)

    def _solver(self) -> AbstractContextManager[None]:
        """Return a context in which the linear algebra keeps to the number of threads."""
        return single_blas_thread() if self._threads() == 1 else nullcontext()

    def _rows(self, features: FeatureMap, given: Given) -> Array:
        """Return the feature rows (n, F) of every sample, those of a washout included."""
        every = features if given.pooled else replace(features, washout=0)
        return np.concatenate(every.rows(given.inputs, threads=self._threads()))

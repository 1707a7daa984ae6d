"""The settings that the estimators share, and the way from them to a pipeline."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.features.base import FeatureMap
from catchment.features.echo_state.echo_state import EchoState, EchoStateMap
from catchment.features.echo_state.recipe import Mixture, Spread
from catchment.features.echo_state.run import Pool
from catchment.features.pipeline import Pipeline
from catchment.parallel import available_cores
from catchment.sklearn.inputs import Given, Inputs, read_inputs, several
from catchment.sklearn.layout import Layout, found_layout, steps_of, time_first

Gaps = Literal["hold", "interpolate", "error"]


@dataclass(eq=False, repr=False, kw_only=True)
class PreparedEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What everything that learns here shares: preparation.

    Parameters
    ----------
    gaps
        What replaces NaN in X: "hold", "interpolate" or, to refuse it, "error".
    scale
        Whether every input is brought to mean 0 and standard deviation 1 over the data of `fit`;
        `partial_fit` keeps the scale of its first call.
    """

    gaps: Gaps = "hold"
    scale: bool = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.gaps != "error"
        return tags

    def _prepare(self) -> Prepare:
        """Return the preparation that the settings describe."""
        if self.gaps not in ("hold", "interpolate", "error"):
            raise ValueError(
                f"gaps is {self.gaps!r}; pass hold, interpolate or error: every sample keeps its "
                "prediction"
            )
        return Prepare(gaps=self.gaps, scale="federated" if self.scale else "none")


@dataclass(eq=False, repr=False, kw_only=True)
class ReadingEstimator(PreparedEstimator):
    """What everything that is given sequences shares: how it reads X.

    Parameters
    ----------
    layout
        How arrays (n, a, b) and lists of arrays (a, b) lie: "time_first", (time, channels), or
        "channels_first", (channels, time). With "auto" the data say it where they can be read in
        one way only, and are refused elsewhere; see `catchment.sklearn`.
    """

    layout: Layout = "auto"

    def _oriented(self, X: Inputs, y: Any = None, *, reset: bool, per_step: bool = False) -> Inputs:
        """Return X with time before channels; with `reset`, note on the estimator how it lay.

        With `per_step` a target that is an array has a value for every step.
        """
        steps = steps_of(y) if per_step and several(X, pooled=True) else None
        if reset:
            self.layout_ = found = found_layout(X, self.layout, steps=steps)
        else:
            found = found_layout(X, self._known_layout(), channels=self.n_channels_)
        return time_first(X, found)

    def _known_layout(self) -> Layout:
        return self.layout_ or "auto" if self.layout == "auto" else self.layout

    def _read(self, X: Inputs, *, pooled: bool, reset: bool) -> Given:
        """Return X as sequences; X has time before channels."""
        given = read_inputs(self, X, pooled=pooled, reset=reset, allow_nan=self.gaps != "error")
        if reset:
            self.n_channels_ = given.n_inputs
        elif given.form != "matrix" and given.n_inputs != self.n_channels_:
            known = self._known_layout()
            lies = "time_first" if known == "channels_first" else "channels_first"
            raise ValueError(
                f"X has sequences of {given.n_inputs} channels, {type(self).__name__} was fitted "
                f'on {self.n_channels_}; pass the same channels, or layout="{lies}" if time was '
                "taken for channels"
            )
        return given

    def _given(self, X: Inputs) -> Given:
        """Return X as sequences, read as `fit` has read its own."""
        turned = self._oriented(X, reset=False)
        given = self._read(turned, pooled=self.pooled_, reset=False)
        return replace(given, turned=turned is not X)


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceEstimator(ReadingEstimator, ABC):
    """What estimators share whatever their feature map is: its rows of features, and threads.

    Parameters
    ----------
    n_jobs
        Threads; None is one, -1 all cores. Results do not depend on it.
    """

    n_jobs: int | None = None

    @abstractmethod
    def _description(self) -> FeatureMap | str:
        """Return the map that the settings describe."""

    def _pooling(self) -> object:
        """Return "auto", None for a sample per step, or anything else for one per sequence."""
        return "whole"

    def _pipeline(self) -> Pipeline:
        """Return the preparation and the map that the settings describe."""
        return Pipeline(self._prepare(), self._description())

    def _rows(self, pipeline: Pipeline, given: Given) -> Array:
        """Return the feature rows (n, F) of every sample, those of a washout included."""
        inputs = [piece.u for piece in pipeline.prepare.inputs(given.recordings())]
        features = pipeline.features
        if not given.pooled:
            assert isinstance(features, EchoStateMap)
            features = replace(features, washout=0)
        return np.concatenate(features.rows(inputs, threads=count_jobs(self.n_jobs)))


@dataclass(eq=False, repr=False)
class ReservoirEstimator(PreparedEstimator):
    """Settings of `EchoState` and of `Prepare`, under their names and with their defaults.

    They are written once, here: a dataclass makes the constructor that scikit-learn reads.

    Parameters
    ----------
    units
        Number of units; a tuple makes a deep stack, and other settings may then be tuples too.
    topology, density, connections, rewiring, jump, jump_weight, random_signs
        Wiring, as in `Recipe`.
    spectral_radius, input_scaling, input_connections, bias_scaling, leak_rate, activation
        Dynamics, as in `EchoState`.
    bias, input, state
        Whether the readout sees a constant one, the inputs and the states.
    washout
        Steps at the start of each sequence that are not learnt from, nor scored.
    precision
        Of the states: "float64" or "float32".
    grid, feature_grid, input_range
        Bits of states and features, and where inputs are cut off, as in `EchoState`.
    random_state
        An integer is the seed of `EchoState` and names the weights; None draws new ones at each
        fit.
    """

    units: int | tuple[int, ...] = EchoState.units
    _: KW_ONLY
    topology: str | tuple[str, ...] = EchoState.topology
    density: float | tuple[float | None, ...] | None = EchoState.density
    connections: int | tuple[int | None, ...] | None = EchoState.connections
    rewiring: float | tuple[float | None, ...] | None = EchoState.rewiring
    jump: int | tuple[int | None, ...] | None = EchoState.jump
    jump_weight: float | tuple[float | None, ...] | None = EchoState.jump_weight
    random_signs: bool | tuple[bool, ...] = EchoState.random_signs
    spectral_radius: float | tuple[float, ...] | Literal["auto"] = EchoState.spectral_radius
    input_scaling: float | tuple[float, ...] | Literal["auto"] = EchoState.input_scaling
    input_connections: int | tuple[int | None, ...] | None = EchoState.input_connections
    bias_scaling: float | tuple[float, ...] = EchoState.bias_scaling
    leak_rate: float | Spread | tuple[float | Spread, ...] | Literal["auto"] = EchoState.leak_rate
    activation: str | Mixture | tuple[str | Mixture, ...] = EchoState.activation
    bias: bool = EchoState.bias
    input: bool = EchoState.input
    state: bool = EchoState.state
    washout: int = EchoState.washout
    precision: Literal["float64", "float32"] = EchoState.precision
    grid: int | Literal["auto"] | None = EchoState.grid
    feature_grid: int | Literal["auto"] | None = EchoState.feature_grid
    input_range: float | Literal["auto"] = EchoState.input_range
    random_state: int | np.random.RandomState | None = 0

    def _reservoir(self, pool: Pool | Literal["auto"] | None, segments: int = 1) -> EchoState:
        """Return the map that the settings describe, summed up by this pool."""
        shared = {field.name for field in fields(EchoState)} - {"seed", "pool", "segments"}
        settings = {name: getattr(self, name) for name in shared}
        seed = seed_of(self.random_state)
        return EchoState(seed=seed, pool=pool, segments=segments, **settings)


@dataclass(eq=False, repr=False)
class EchoStateEstimator(ReservoirEstimator, SequenceEstimator):
    """A reservoir with one row of features per step, or per sequence.

    Parameters
    ----------
    pool, segments
        None for a target per step; "last", "mean", "mean_std" or "max" for one per sequence, of
        each of this many equal parts. With "auto" it follows the data: see `catchment.sklearn`.
    """

    _: KW_ONLY
    pool: Pool | Literal["auto"] | None = EchoState.pool
    segments: int = EchoState.segments

    def _pooling(self) -> object:
        return self.pool

    def _description(self) -> EchoState:
        return self._reservoir(self.pool, self.segments)


def count_jobs(n_jobs: int | None) -> int:
    """Return the number of threads that scikit-learn's n_jobs asks for.

    >>> count_jobs(None), count_jobs(3)
    (1, 3)
    """
    if n_jobs == 0:
        raise ValueError("n_jobs is 0; pass 1 or more, None for one thread, or -1 for all cores")
    if n_jobs is None:
        return 1
    return n_jobs if n_jobs > 0 else max(1, available_cores() + 1 + n_jobs)


def seed_of(state: int | np.random.RandomState | None) -> int:
    """Return the seed that a random state is, or draws.

    >>> seed_of(3)
    3
    """
    if isinstance(state, int | np.integer):
        return int(state)
    return int(check_random_state(state).randint(2**31 - 1))


def one_target_each(X: Inputs, y: Any) -> bool:
    """Whether several sequences have one target each, and not one for every step.

    As in `Recording`, values as many as a sequence has steps are a target per step.

    >>> one_target_each([[[1.0]] * 5, [[1.0]] * 3], [0, 1])
    True
    >>> one_target_each([[[1.0]] * 5, [[1.0]] * 3], [[0] * 5, [1] * 3])
    False
    """
    if y is None or np.isscalar(y):
        return False
    return not any(np.ndim(t) > 0 and len(t) == len(u) for u, t in zip(X, y, strict=False))  # type: ignore[arg-type]


def follows_data(pool: object, X: Inputs, y: Any, *, matrix_pooled: bool) -> bool:
    """Whether there is one sample per sequence, as the pool says or as "auto" finds."""
    if pool != "auto":
        return pool is not None
    return one_target_each(X, y) if several(X, pooled=matrix_pooled) else matrix_pooled

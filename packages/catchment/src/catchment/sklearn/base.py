"""What the estimators share: how X is read, the settings of a reservoir, and a ridge readout.

Which axis is time: said by the caller, or by data that can be read in one way only.

aeon and sktime hold sequences as (channels, steps), this library and most of the rest as (steps,
channels). An array (n, a, b) says neither, and the wrong reading gives a model of noise without an
error: so nothing is guessed. Sequences are read without a word where the last axis has length 1,
where lengths differ along one axis only, where a target per step fits one axis only, or where a
fitted estimator knows how many channels there are. A list of equal arrays has steps first, as
recordings have, if these are more than the channels: aeon uses lists for unequal lengths only.
Everything else is refused with both calls.

Training scores are honest: leaving row i out of a ridge regression with an unpenalized intercept
changes its residual from e to e / (1 - h), with h = 1/n + (z - m)'(G + ridge I)^-1 (z - m) on
centered moments, so leave-one-out scores need no second fit. Weights count as repetitions: one unit
of weight is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_array,
    check_is_fitted,
    validate_data,
)

from catchment.arrays import (
    LARGEST,
    Array,
    Booleans,
    as_matrix,
    as_numbers,
    check_type,
    refuse_conversions,
    refuse_mask,
)
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.features.base import FeatureMap
from catchment.features.echo_state.echo_state import EchoState
from catchment.features.echo_state.run import Pool
from catchment.features.echo_state.settings import MixedActivation, Uniform
from catchment.features.pipeline import Pipeline
from catchment.parallel import available_cores
from catchment.readout.accumulation import accumulate
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.model import Model, fitted_pipeline, solved_model
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.solve import Spectrum, feature_scale, rescaled
from catchment.readout.statistics import Readout, RidgeStatistics

Inputs = ArrayLike | Sequence[ArrayLike]
Targets = ArrayLike | Sequence[ArrayLike]
Form = Literal["matrix", "stack", "list"]


@dataclass(frozen=True, eq=False)
class Given:
    """X as it was read: one array (T, I) per sequence, and how samples are arranged."""

    inputs: list[Array]
    form: Form
    pooled: bool
    channels: tuple[str, ...] | None = None
    turned: bool = False  # whether X had channels before time

    @property
    def lengths(self) -> list[int]:
        """Samples of each sequence."""
        return [1 if self.pooled else len(u) for u in self.inputs]

    @property
    def n_samples(self) -> int:
        return sum(self.lengths)

    @property
    def n_inputs(self) -> int:
        return int(self.inputs[0].shape[1])

    @property
    def nested(self) -> bool:
        """Whether y has one array per sequence, because samples are steps of several."""
        return not self.pooled and self.form != "matrix"

    def flat(self, values: Targets, name: str) -> NDArray[Any]:
        """Return one row per sample, (n,) or (n, K), from values that are arranged like X."""
        refuse_mask(values, name)
        if not self.nested:
            rows: NDArray[Any] = check_array(
                values, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name=name
            )
        else:
            parts = [np.asarray(part) for part in _listed(values, name)]
            if [len(part) if part.ndim else 0 for part in parts] != self.lengths:
                raise ValueError(
                    f"{name} does not fit the steps of the {len(self.inputs)} recordings of X; "
                    "pass one row per step of each, or set pool for one target per recording"
                )
            rows = np.concatenate(parts)
        if len(rows) != self.n_samples:
            raise ValueError(
                f"{name} has {len(rows)} samples, X has {self.n_samples}; pass one for each, or "
                "for a target per step one row per step of each recording"
            )
        return rows

    def recordings(
        self, targets: Array | None = None, weight: Array | None = None
    ) -> list[Recording]:
        """Return the sequences as recordings, with targets (n, K) and weights (n,) of samples.

        Only samples that are whole sequences have weights here.
        """
        if targets is None:
            return [Recording(u, channels=self.channels) for u in self.inputs]
        weights = np.ones(len(self.inputs)) if weight is None or not self.pooled else weight
        rows = targets if self.pooled else np.split(targets, np.cumsum(self.lengths)[:-1])
        return [
            Recording(u, y, float(w), per_step=not self.pooled, channels=self.channels)
            for u, y, w in zip(self.inputs, rows, weights, strict=True)
        ]

    def arranged(self, rows: NDArray[Any], *, turned: bool = False) -> NDArray[Any]:
        """Return rows (n, ...) in the arrangement of X; for a list, an array (B,) of arrays.

        With `turned` they are features (n, F), which come before time.
        """
        if not self.nested:
            return rows
        if self.form == "stack":
            stacked = rows.reshape(len(self.inputs), -1, *rows.shape[1:])
            return stacked.transpose(0, 2, 1) if turned else stacked
        parts = np.empty(len(self.inputs), dtype=object)
        for k, part in enumerate(np.split(rows, np.cumsum(self.lengths)[:-1])):
            parts[k] = part.T if turned else part
        return parts

    def after(self, washout: int) -> Booleans:
        """Return a mask (n,) of the samples that a washout leaves; all of them if pooled."""
        if self.pooled:
            return np.ones(self.n_samples, dtype=np.bool_)
        return np.concatenate([np.arange(length) >= washout for length in self.lengths])

    def weights(self, sample_weight: Targets | None) -> Array | None:
        """Return one weight (n,) per sample, or None if there are none."""
        if sample_weight is None:
            return None
        weight = as_numbers(self.flat(sample_weight, "sample_weight"), "sample_weight")
        if weight.ndim != 1:
            raise ValueError(f"sample_weight has shape {weight.shape}; pass a number for a sample")
        if not (weight <= LARGEST).all() or (weight < 0).any():
            raise ValueError("sample_weight must be finite and not negative")
        if not weight.any():
            raise ValueError("sample_weight is zero for every sample; nothing is left to learn")
        return weight


def read_inputs(
    estimator: BaseEstimator, X: Inputs, *, pooled: bool, reset: bool, allow_nan: bool = False
) -> Given:
    """Return X as sequences; with `reset`, note its features on the estimator, else compare them.

    >>> from sklearn.base import BaseEstimator
    >>> [u.shape for u in read_inputs(BaseEstimator(), np.eye(3), pooled=False, reset=True).inputs]
    [(3, 3)]
    >>> [u.shape for u in read_inputs(BaseEstimator(), np.eye(3), pooled=True, reset=True).inputs]
    [(3, 1), (3, 1), (3, 1)]
    """
    if not several(X, pooled=pooled):
        refuse_mask(X, "X")
        # What scikit-learn would make numbers of, dates and text; it refuses sparse and complex.
        if not issparse(X) and (array := np.asarray(X)).dtype.kind not in "fiubc":
            refuse_conversions(array, "X")
        finite = "allow-nan" if allow_nan else True
        matrix = validate_data(
            estimator, X, reset=reset, dtype=np.float64, ensure_all_finite=finite
        )
        inputs = [one[:, None] for one in matrix] if pooled else [matrix]
        named = getattr(estimator, "feature_names_in_", None)
        channels = None if named is None or pooled else tuple(map(str, named))
        return Given(inputs, "matrix", pooled, channels)
    held = _listed(X, "X")
    parts = [as_matrix(u, f"recording {k}") for k, u in enumerate(held)]
    widths = {u.shape[1] for u in parts}
    if len(widths) != 1:
        raise ValueError(f"the recordings of X have {sorted(widths)} columns; pass equally many")
    if not hasattr(held[0], "columns"):
        if reset:
            estimator.n_features_in_ = parts[0].shape[1]
            if hasattr(estimator, "feature_names_in_"):
                del estimator.feature_names_in_
        stacked = isinstance(X, np.ndarray) and X.ndim == 3
        return Given(parts, "stack" if stacked else "list", pooled)
    names = [str(name) for name in held[0].columns]
    for k, frame in enumerate(held):
        if (own := [str(name) for name in frame.columns]) != names:
            raise ValueError(
                f"recording {k} has the columns {', '.join(own)}, recording 0 has "
                f"{', '.join(names)}; bring all into one order"
            )
    validate_data(estimator, held[0], reset=reset, skip_check_array=True)
    return Given(parts, "list", pooled, tuple(names))


def several(X: Inputs, *, pooled: bool) -> bool:
    """Whether X holds several sequences as arrays of their own.

    >>> several(np.zeros((2, 5, 1)), pooled=False), several(np.eye(3), pooled=True)
    (True, False)
    """
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    if not isinstance(X, list | tuple | np.ndarray) or len(X) == 0:
        return False
    if np.ndim(X[0]) == 1:
        # Rows of unequal lengths are no matrix, but they are sequences of one input.
        return pooled and len({np.size(one) for one in X}) > 1
    return np.ndim(X[0]) == 2


def _listed(values: Targets, name: str) -> list[Any]:
    if values is None or np.isscalar(values):
        raise ValueError(f"{name} is {values!r}; pass one array for each recording")
    return list(values)  # type: ignore[arg-type]  # any iterable will do


Layout = Literal["auto", "time_first", "channels_first"]
Found = Literal["time_first", "channels_first"]


def found_layout(
    X: Inputs,
    layout: Layout = "auto",
    *,
    steps: Sequence[int] | None = None,
    channels: int | None = None,
) -> Found | None:
    """Return how the sequences of X lie; None where X has no sequences with two axes.

    It is what the caller says; "auto" leaves it to the data, of which are known the steps (n,) of
    each sequence's targets, where every step has one, and the channels that an estimator was fitted
    on.

    >>> found_layout(np.zeros((5, 40, 1)))
    'time_first'
    >>> found_layout([np.zeros((3, 40)), np.zeros((3, 50))])
    'channels_first'
    >>> found_layout(np.zeros((5, 3, 40)))
    Traceback (most recent call last):
    ValueError: X holds recordings of shape (3, 40), which may be 3 steps of 40 channels or 3 ...
    """
    check_type(layout, Layout, "layout")
    if not several(X, pooled=True):
        return None
    # A frame has a row for each step, whoever made it.
    framed = all(type(u).__module__.split(".")[0] in ("pandas", "polars") for u in X)  # type: ignore[union-attr]
    shapes = [np.shape(u) for u in X]  # type: ignore[union-attr]
    if any(len(shape) != 2 for shape in shapes):
        return None  # sequences of one channel, or a mistake that reading will name
    if layout != "auto":
        return layout
    if framed or all(shape[1] == 1 for shape in shapes):
        return "time_first"
    possible: list[Found] = []
    axes: tuple[Found, Found] = ("time_first", "channels_first")
    for time, name in enumerate(axes):
        # This axis can be time if the other one is equal in all, and what is known fits.
        widths, lengths = {shape[1 - time] for shape in shapes}, [shape[time] for shape in shapes]
        fits = len(widths) == 1 and (channels is None or widths == {channels})
        if fits and (steps is None or lengths == list(steps)):
            possible.append(name)
    if len(possible) == 1:
        return possible[0]
    stacked = isinstance(X, np.ndarray) and X.ndim == 3
    if possible and (stacked or any(a <= b for a, b in shapes)):
        a, b = shapes[0]
        raise ValueError(
            f"X holds recordings of shape {shapes[0]}, which may be {a} steps of {b} channels or "
            f'{a} channels of {b} steps; pass layout="time_first" for the first, or '
            'layout="channels_first" for the second, as aeon and sktime have them'
        )
    return "time_first"  # a list as of recordings; or neither fits, and reading it will say why


def time_first(X: Inputs, found: Found | None) -> Inputs:
    """Return X with time before channels.

    >>> time_first(np.zeros((5, 3, 40)), "channels_first").shape
    (5, 40, 3)
    """
    if found != "channels_first":
        return X
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return X.transpose(0, 2, 1)
    return [np.asarray(u).T for u in X]  # type: ignore[union-attr]


def steps_of(y: Any) -> list[int] | None:
    """Return the length of each sequence's targets; None where there is one target each.

    >>> steps_of([[0, 1], [1, 0, 1]]), steps_of(["a", "b"])
    ([2, 3], None)
    """
    if y is None or np.isscalar(y):
        return None
    parts = [np.shape(part) for part in y]
    if not all(parts):
        return None
    lengths = [shape[0] for shape in parts]
    return lengths if max(lengths, default=0) > 1 else None  # a column has one target each


Gaps = Literal["hold", "interpolate", "error"]  # with which every sample keeps its prediction


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """What estimators share whatever their feature map is: reading X, rows of features, threads."""

    gaps: Gaps = "hold"
    scale: bool = True
    layout: Layout = "auto"
    n_jobs: int | None = None

    _in_rows: ClassVar[bool] = False  # whether a matrix X holds a sequence in each row, if "auto"

    @abstractmethod
    def _description(self) -> FeatureMap | str:
        """Return the map that the settings describe."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.gaps != "error"
        return tags

    def _oriented(self, X: Inputs, y: Any = None, *, reset: bool, per_step: bool = False) -> Inputs:
        """Return X with time before channels; with `reset`, note on the estimator how it lay.

        With `per_step` a target that is an array has a value for every step.
        """
        shape = X.shape if isinstance(X, np.ndarray) else ()
        if len(shape) > 3:
            raise ValueError(
                f"X has {len(shape)} axes, of shape {shape}; pass an array (n, time, channels), a "
                "list of arrays (time, channels), or a matrix"
            )
        held: Any = X if isinstance(X, list | tuple) else [X]
        if not held or (len(shape) == 3 and 0 in shape):
            raise ValueError(f"X holds no recordings ({shape or X}); pass at least one, with steps")
        for frame in held:
            names = [str(name) for name in getattr(frame, "columns", ())]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"X has two columns called {twice!r}; rename one, or leave it out")
        steps = steps_of(y) if per_step and several(X, pooled=True) else None
        if reset:
            self.layout_ = found = found_layout(X, self.layout, steps=steps)
        else:
            found = found_layout(X, self._known_layout(), channels=self.n_channels_)
        return time_first(X, found)

    def _known_layout(self) -> Layout:
        return self.layout_ or "auto" if self.layout == "auto" else self.layout

    def _first(self, X: Inputs, y: Any = None, *, per_step: bool = False) -> Given:
        """Return X as sequences, and note how it lies and whether samples are whole sequences."""
        X = self._oriented(X, y, reset=True, per_step=per_step)
        self.pooled_ = self._is_pooled(X, y)
        return self._read(X, reset=True)

    def _is_pooled(self, X: Inputs, y: Any) -> bool:
        """Whether there is one sample per sequence, as the pool says or as "auto" finds."""
        if self._pooling() != "auto":
            return self._pooling() is not None
        if not several(X, pooled=self._in_rows):
            return self._in_rows
        if y is None or np.isscalar(y):
            return False
        # As in `Recording`, values as many as a sequence has steps are a target per step.
        return not any(np.ndim(t) > 0 and len(t) == len(u) for u, t in zip(X, y, strict=False))  # type: ignore[arg-type]

    def _given(self, X: Inputs) -> Given:
        """Return X as sequences, read as `fit` has read its own."""
        turned = self._oriented(X, reset=False)
        return replace(self._read(turned, reset=False), turned=turned is not X)

    def _read(self, X: Inputs, *, reset: bool) -> Given:
        """Return X as sequences; X has time before channels."""
        nan = self.gaps != "error"
        given = read_inputs(self, X, pooled=self.pooled_, reset=reset, allow_nan=nan)
        for k, u in enumerate(given.inputs):
            if np.isnan(u).all():  # every sample has its prediction, and this one can have none
                raise ValueError(f"recording {k} of X has no value in any channel; leave it out")
        if reset:
            self.n_channels_ = given.n_inputs
        elif given.form != "matrix" and given.n_inputs != self.n_channels_:
            known = self._known_layout()
            lies = "time_first" if known == "channels_first" else "channels_first"
            raise ValueError(
                f"X has recordings of {given.n_inputs} channels, {type(self).__name__} was fitted "
                f'on {self.n_channels_}; pass the same channels, or layout="{lies}" if time was '
                "taken for channels"
            )
        return given

    def _pooling(self) -> object:
        """Return "auto", None for a sample per step, or anything else for one per sequence."""
        return "whole"

    def _pipeline(self) -> Pipeline:
        """Return the preparation and the map that the settings describe."""
        check_type(self.gaps, Gaps, "gaps")
        scale: Literal["federated", "none"] = "federated" if self.scale else "none"
        return Pipeline(Preprocessing(gaps=self.gaps, scale=scale), self._description())

    def _rows(self, pipeline: Pipeline, given: Given) -> Array:
        """Return the feature rows (n, F) of every sample, those of a washout included."""
        inputs = [segment.u for segment in pipeline.preprocessing.inputs(given.recordings())]
        features = pipeline.features
        if not given.pooled:
            assert isinstance(features, EchoState)
            features = replace(features, washout=0)
        return np.concatenate(features.rows(inputs, threads=count_jobs(self.n_jobs)))


@dataclass(eq=False, repr=False)
class EchoStateEstimator(SequenceEstimator):
    """A reservoir with one row of features per step, or per sequence.

    The settings are those of `EchoState` and of `Preprocessing`, under their names and with their
    defaults; a dataclass makes the constructor that scikit-learn reads. An integer as
    `random_state` is the seed of `EchoState`, None draws new weights at each fit.
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
    leak_rate: float | Uniform | tuple[float | Uniform, ...] | Literal["auto"] = EchoState.leak_rate
    activation: str | MixedActivation | tuple[str | MixedActivation, ...] = EchoState.activation
    bias: bool = EchoState.bias
    input: bool = EchoState.input
    state: bool = EchoState.state
    washout: int = EchoState.washout
    precision: Literal["float64", "float32"] = EchoState.precision
    bits: int | Literal["auto"] | None = EchoState.bits
    feature_bits: int | Literal["auto"] | None = EchoState.feature_bits
    range: float | Literal["auto"] = EchoState.range
    random_state: int | np.random.RandomState | None = 0
    pool: Pool | Literal["auto"] | None = EchoState.pool
    segments: int = EchoState.segments

    def _pooling(self) -> object:
        return self.pool

    def _description(self) -> EchoState:
        own = {"seed", "n_inputs", "matrices"}
        settings = {f.name: getattr(self, f.name) for f in fields(EchoState) if f.name not in own}
        state = self.random_state
        if not isinstance(state, int | np.integer):
            state = check_random_state(state).randint(2**31 - 1)
        return EchoState(seed=int(state), **settings)

    def _fit_features(self, given: Given) -> None:
        """Build the map, and take the scale of the sequences."""
        described = self._pipeline()
        built = described.built(given.n_inputs, per_step=not self.pooled_)
        preprocessing = described.preprocessing
        if not preprocessing.is_fitted:
            preprocessing = preprocessing.fitted(preprocessing.moments(given.recordings()))
        self.pipeline_ = Pipeline(preprocessing, built.map)


class EchoStateFeatures(TransformerMixin, EchoStateEstimator):  # type: ignore[misc]
    """The features of a reservoir, as a step of a pipeline before any other estimator.

    `catchment.sklearn` says what X may be; a pool of "auto" is none here. `fit` builds the
    reservoir and takes the scale of the inputs: nothing else is learned. Without a pool there is a
    row for every step, those of the washout included. The settings are those of
    `EchoStateRegressor` but for `ridge`.

    Attributes
    ----------
    pipeline_
        The fitted `Pipeline`: preparation and map.
    features_
        Its `EchoState`.
    n_features_in_
        Columns of X.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.array([np.sin(np.arange(40) / (3 + k % 2)) for k in range(20)])
    >>> pipeline = make_pipeline(EchoStateFeatures(30, pool="mean_std"), LogisticRegression())
    >>> pipeline.fit(X, [0, 1] * 10).predict(X[:3])
    array([0, 1, 0])
    """

    def fit(self, X: Inputs, y: object = None) -> Self:
        """Build the reservoir and take the scale of X; y is not used."""
        self._fit_features(self._first(X))
        return self

    @property
    def features_(self) -> FeatureMap:
        """The map."""
        return self.pipeline_.features

    def transform(self, X: Inputs) -> NDArray[Any]:
        """Return the features (n, F) of every sample, arranged like X.

        Those of several sequences without a pool are (n, T, F), or (n, F, T) where X has channels
        first; of a list, an array of arrays.
        """
        check_is_fitted(self, "pipeline_")
        given = self._given(X)
        return given.arranged(self._rows(self.pipeline_, given), turned=given.turned)

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names (F,) of the features: inputs by their own names, states as x0, x1...

        Where the columns of X are not the inputs, the inputs are u0, u1 and so on.
        """
        check_is_fitted(self, "pipeline_")
        names = self.features_.names()
        own = _check_feature_names_in(self, input_features, generate_names=False)
        if own is not None and not self.pooled_ and self.input:
            first = int(self.bias)
            names[first : first + len(own)] = [str(name) for name in own]
        return np.asarray(names, dtype=object)


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


@dataclass(eq=False, repr=False, kw_only=True)
class ReadoutEstimator(SequenceEstimator):
    """An estimator with a ridge readout."""

    ridge: float | Literal["gcv"] = "gcv"

    def _outputs(self, X: Inputs) -> tuple[Given, Array]:
        """Return X as sequences, and what the readout makes of every sample (n, K)."""
        check_is_fitted(self)
        given = self._given(X)
        return given, self.model_.readout(self._rows(self.model_.pipeline, given))

    def _flat(self, given: Given, y: Targets | None) -> NDArray[Any]:
        """Return one target per sample; ValueError without any."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None")
        return given.flat(y, "y")

    def _learned(
        self,
        given: Given,
        y: Array,
        weight: Array | None,
        past: Model | None,
        classes: tuple[str, ...] | None = None,
    ) -> tuple[Model, Array | None]:
        """Return the model of samples with targets (n, K), and their feature rows where needed.

        Without weights it is what `catchment.fit` learns from the same recordings, to the bit.
        """
        recordings = given.recordings(y, weight)
        is_classes, threads = classes is not None, count_jobs(self.n_jobs)
        if past is None:
            scaled = self._scaled(given, weight)
            pipeline = fitted_pipeline(scaled, recordings, classes=is_classes)
        else:
            pipeline = past.pipeline
        features = pipeline.features
        prepared = pipeline.preprocessing.apply(recordings)
        rows: Array | None = None
        if weight is not None and not (given.pooled and features.feature_bits is None):
            kept, odd = given.after(features.washout), (weight % 1).any()
            rows = np.concatenate(features.rows([r.u for r in prepared], threads=threads))
            total = RidgeStatistics.from_states(
                rows,
                y[kept],
                weight=weight[kept],
                fingerprint=features.fingerprint,
                fixed=None if odd else FixedPoint.of(features, classes=is_classes, among=prepared),
            )
        elif classes is None:
            total = accumulate(features, prepared, threads=threads, classes=False)
        else:
            made = list[Array]()
            total = accumulate(features, prepared, threads=threads, classes=True, rows=made)
            rows = np.concatenate(made)
        if past is not None:
            before = known_statistics(past)
            if before.fixed is None or total.fixed is None:
                # One of them has weights that are no integers.
                before, total = before.floats, total.floats
            total = before + total
        names, standardize = recordings[0].channels, features.standardize
        choice, readout = chosen_readout(
            total, self.ridge, classes=is_classes, standardize=standardize
        )
        model = solved_model(pipeline, total, readout, choice, classes=classes, channels=names)
        return replace(model, statistics=total), rows

    def _scaled(self, given: Given, weight: Array | None) -> Pipeline:
        """Return the pipeline as described; samples with weights are weighted in its scale too."""
        pipeline = self._pipeline()
        if weight is None or pipeline.preprocessing.is_fitted:
            return pipeline
        filled = pipeline.preprocessing.before_scaling(given.recordings())
        u = np.concatenate([recording.u for recording in filled])
        # Of each step, by itself or with all of its recording.
        w = np.repeat(weight, [r.n_steps for r in filled]) if given.pooled else weight
        known = ~np.isnan(u)
        share = known * w[:, None]
        n = np.maximum(share.sum(axis=0), np.finfo(np.float64).tiny)
        values = np.where(known, u, 0.0)
        mean = (share * values).sum(axis=0) / n
        variance = (share * (values - mean) ** 2).sum(axis=0) / n
        # What is within rounding of zero is a constant.
        varies = variance > 1e-12 * (variance + mean**2)
        scaler = Scaler(mean, np.where(varies, np.sqrt(np.where(varies, variance, 1.0)), 1.0))
        return Pipeline(pipeline.preprocessing.fitted(scaler), pipeline.map)


def known_statistics(model: Model) -> RidgeStatistics:
    """Return the statistics of a fitted model; ValueError if they were dropped."""
    if model.statistics is None:
        raise ValueError("the fitted model has lost its statistics; fit the estimator again")
    return model.statistics


def leave_one_out(
    statistics: RidgeStatistics,
    readout: Readout,
    z: Array,
    y: Array,
    *,
    standardize: bool = False,
) -> Array:
    """Return what the readout would predict (n, K) for each training row had it not been there.

    The readout was solved from the statistics of all training rows, of which features z (n, F) and
    targets y (n, K) are given. With `standardize` its ridge acts on features divided by their
    standard deviation; the row that is left out stays in it.

    >>> from catchment.readout.solve import solve_readout
    >>> z, y = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> s = RidgeStatistics.from_states(z, y)
    >>> last = s - RidgeStatistics.from_states(z[:1], y[:1])
    >>> loo = leave_one_out(s, solve_readout(s, 0.5), z, y)
    >>> bool(np.isclose(loo[0], solve_readout(last, 0.5)(z[:1])).all())
    True
    """
    away, scale = z - statistics.floats.feature_sum / statistics.weight, None
    if standardize:
        scale = feature_scale(statistics)
        away = away / scale
    spectrum = Spectrum.of(rescaled(statistics, scale))
    inverse = spectrum.inverse(readout.ridge)
    leverage = (away @ spectrum.vectors) ** 2 @ inverse + 1.0 / statistics.weight
    # Weights below one per row, or rows fitted exactly, leave nothing to divide by.
    left = np.clip(1.0 - leverage, 1e-3, 1.0)
    return np.asarray(y - (y - readout(z)) / left)

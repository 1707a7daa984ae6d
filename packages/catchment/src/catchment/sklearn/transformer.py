"""Features and scaled sequences, for any other estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.scaling import Moments, Scaler
from catchment.features.base import FeatureMap
from catchment.sklearn.base import EchoStateEstimator, Inputs, ReadingEstimator


class EchoStateFeatures(TransformerMixin, EchoStateEstimator):  # type: ignore[misc]
    """The features of a reservoir, as a step of a pipeline before any other estimator.

    `catchment.sklearn` says what X may be; a pool of "auto" is none here. `fit` builds the
    reservoir and takes the scale of the inputs: nothing else is learnt. Without a pool there is a
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
        self._fit_features(X)
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
        own = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            if own is not None and not np.array_equal(given, own):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(given)}"
                )
            own = given
        if own is not None and not self.pooled_ and self.input:
            first = int(self.bias)
            names[first : first + len(own)] = [str(name) for name in own]
        return np.asarray(names, dtype=object)


@dataclass(eq=False, repr=False)
class SequenceScaler(OneToOneFeatureMixin, TransformerMixin, ReadingEstimator):  # type: ignore[misc]
    """Channels of mean 0 and standard deviation 1 over all steps of `fit`, without gaps.

    What `StandardScaler` is for tables: its numbers are those of `StandardScaler` on the steps of
    all sequences one below the other. The estimators of this library do the same inside; it is for
    others that follow. A matrix is one sequence with a row per step; arrays (n, a, b) and lists of
    arrays hold several, and come back as they lay. `catchment.sklearn` says how `layout` is found.

    Parameters
    ----------
    gaps
        What replaces NaN: "hold", the value before it; "interpolate"; or, to refuse it, "error".
    scale
        Whether channels are scaled; else only gaps are filled.
    layout
        Which axis of a sequence is time: "time_first", "channels_first", or "auto".

    Attributes
    ----------
    mean_, scale_
        (I,) what is taken off each channel, and what it is then divided by.
    prepare_
        The fitted `Prepare`, for a `Pipeline` of the library.
    n_features_in_
        Channels.

    >>> X = np.arange(12.0).reshape(2, 2, 3)
    >>> scaler = SequenceScaler(layout="channels_first").fit(X)
    >>> scaler.mean_
    array([4., 7.])
    >>> scaler.transform(X)[:, 0].mean(), scaler.transform(X).shape
    (np.float64(0.0), (2, 2, 3))
    """

    def fit(self, X: Inputs, y: object = None) -> Self:
        """Take mean and standard deviation of every channel; y is not used."""
        return self._learn(X, reset=True)

    def partial_fit(self, X: Inputs, y: object = None) -> Self:
        """Take more sequences into account: the numbers are those of one fit on all of them."""
        return self._learn(X, reset=not hasattr(self, "moments_"))

    def transform(self, X: Inputs) -> NDArray[Any]:
        """Return X without gaps and scaled, arranged as it was; of a list, an array of arrays."""
        check_is_fitted(self, "prepare_")
        given = self._given(X)
        pieces = self.prepare_.inputs(given.recordings())
        return given.arranged(np.concatenate([piece.u for piece in pieces]), turned=given.turned)

    def inverse_transform(self, X: Inputs) -> NDArray[Any]:
        """Return scaled sequences in the units of `fit`; gaps that were filled stay filled."""
        check_is_fitted(self, "prepare_")
        given = self._given(X)
        return given.arranged(
            np.concatenate(given.inputs) * self.scale_ + self.mean_, turned=given.turned
        )

    @property
    def mean_(self) -> Array:
        """What is taken off each channel."""
        return self._numbers().mean

    @property
    def scale_(self) -> Array:
        """What each channel is divided by, 1 for a constant one."""
        return self._numbers().scale

    def _numbers(self) -> Scaler:
        check_is_fitted(self, "prepare_")
        scale = self.prepare_.scale
        if isinstance(scale, Scaler):
            return scale
        return Scaler(np.zeros(self.n_channels_), np.ones(self.n_channels_))

    def _learn(self, X: Inputs, *, reset: bool) -> Self:
        self.pooled_ = False
        given = self._read(self._oriented(X, reset=reset), pooled=False, reset=reset)
        prepare = self._prepare()
        new = prepare.moments(given.recordings())
        self.moments_: Moments = new if reset else self.moments_ + new
        self.prepare_: Prepare = prepare.fitted(self.moments_) if self.scale else prepare
        return self

"""The preparation of sequences as a step of a pipeline, before any other estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.scaling import Moments, Scaler
from catchment.sklearn.base import ReadingEstimator
from catchment.sklearn.inputs import Inputs


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
        return given.laid(np.concatenate([piece.u for piece in pieces]))

    def inverse_transform(self, X: Inputs) -> NDArray[Any]:
        """Return scaled sequences in the units of `fit`; gaps that were filled stay filled."""
        check_is_fitted(self, "prepare_")
        given = self._given(X)
        return given.laid(np.concatenate(given.inputs) * self.scale_ + self.mean_)

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

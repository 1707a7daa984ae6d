"""Reservoir features for any other estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from catchment.features.base import FeatureMap
from catchment.features.pipeline import Pipeline
from catchment.sklearn.base import EchoStateEstimator
from catchment.sklearn.inputs import Inputs


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
        Its `EchoStateMap`.
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
        pooled = self.pool not in (None, "auto")
        X = self._oriented(X, reset=True)
        given = self._read(X, pooled=pooled, reset=True)
        described = self._pipeline()
        built = described.built(given.n_inputs, per_step=not pooled)
        prepare = described.prepare
        if not prepare.is_fitted:
            prepare = prepare.fitted(prepare.moments(given.recordings()))
        self.pipeline_ = Pipeline(prepare, built.map)
        self.pooled_ = pooled
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
        return given.laid(self._rows(self.pipeline_, given))

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

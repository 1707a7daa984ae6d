"""Reservoir features for any other estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from catchment.sklearn.base import EchoState
from catchment.sklearn.inputs import Inputs


class EchoStateFeatures(TransformerMixin, EchoState):  # type: ignore[misc]
    """The features of a reservoir, as a step of a pipeline before any other estimator.

    `catchment.sklearn` says what X may be. `fit` only builds the reservoir: nothing is learnt.
    Without a pool there is a row for every step, those of the washout included.

    Parameters
    ----------
    units, spectral_radius, leak_rate, input_scaling, bias_scaling, activation
        As in `EchoStateRegressor`; so are all others but `ridge`.

    Attributes
    ----------
    features_
        The `EchoStateMap`.
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
        """Build the reservoir for the inputs of X; y is not used."""
        self.features_ = self._features(self._read(X, reset=True).n_inputs)
        return self

    def transform(self, X: Inputs) -> NDArray[Any]:
        """Return the features (n, F) of every sample, arranged like X."""
        check_is_fitted(self)
        given = self._read(X, reset=False)
        return given.arranged(self._rows(self.features_, given))

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[Any]:
        """Return the names (F,) of the features: inputs by their own names, states as x0, x1...

        Where the columns of X are not the inputs, the inputs are u0, u1 and so on.
        """
        check_is_fitted(self)
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
        if own is not None and self.pool is None and self.input:
            names[: len(own)] = [str(name) for name in own]
        return np.asarray(names, dtype=object)

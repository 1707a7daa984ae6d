"""Detection of anomalies in sequences, or of their steps, by the states of a reservoir."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array
from catchment.features.pipeline import Pipeline
from catchment.readout.detector import NormalModel
from catchment.readout.statistics import RidgeStatistics
from catchment.sklearn.base import EchoStateEstimator
from catchment.sklearn.inputs import Given, Inputs


@dataclass(eq=False, repr=False)
class AnomalyDetector(OutlierMixin, EchoStateEstimator):  # type: ignore[misc]
    """How unusual steps, or whole sequences, are: the Mahalanobis distance of reservoir features.

    `catchment.sklearn` says what X may be; a pool of "auto" is none here, so that a matrix X is one
    sequence and its steps are scored. The model of what is normal is the one that
    `FederatedNormal` learns from many clients' sums.

    Parameters
    ----------
    contamination
        Share of the samples of `fit` that are to count as anomalies: more of new ones do, since
        those of `fit` are in the covariance. `FederatedNormal` sets its threshold by others.
    shrinkage
        Of the covariance: a number from 0 to 1, or "auto" (`catchment.readout.NormalModel`).
    units, washout, pool
        As in `EchoStateRegressor`, and so are all others.

    Attributes
    ----------
    normal_
        The `NormalModel`.
    offset_
        Samples whose `score_samples` is below it are anomalies.
    pipeline_
        The fitted `Pipeline`: preparation and map.
    n_features_in_
        Columns of X.

    >>> u = np.sin(np.arange(400) / 5)[:, None]
    >>> detector = AnomalyDetector(30, washout=50, contamination=0.01).fit(u)
    >>> u[300] += 2
    >>> int(detector.score_samples(u).argmin()), int(detector.predict(u)[300])
    (300, -1)
    """

    _: KW_ONLY
    contamination: float = 0.01
    shrinkage: float | Literal["auto"] = "auto"

    def fit(self, X: Inputs, y: object = None) -> Self:
        """Learn what is normal; y is not used."""
        if not 0 < self.contamination < 1:
            raise ValueError(
                f"contamination is {self.contamination}; pass a share between 0 and 1, such as 0.01"
            )
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
        features = self.pipeline_.features
        rows = self._rows(self.pipeline_, given)[given.after(features.washout)]
        if len(rows) < 2:
            raise ValueError(
                f"X has {len(rows)} sample{'' if len(rows) == 1 else 's'} after the washout; what "
                "is normal takes two or more"
            )
        sums = RidgeStatistics.from_states(rows, np.zeros((len(rows), 1)))
        self.normal_ = NormalModel.of(sums, self.shrinkage, standardise=features.standardise)
        scores = self.normal_.scores(rows)
        self.offset_ = float(np.quantile(-scores, self.contamination))
        return self

    def score_samples(self, X: Inputs) -> NDArray[Any]:
        """Return minus the scores (n,), arranged like X: the lower, the more unusual."""
        given, scores = self._scores(X)
        return given.arranged(-scores)

    def decision_function(self, X: Inputs) -> NDArray[Any]:
        """Return how far samples (n,) are above the offset; anomalies are below 0."""
        given, scores = self._scores(X)
        return given.arranged(-scores - self.offset_)

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return 1 for samples (n,) that are normal and -1 for anomalies, arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(np.where(-scores < self.offset_, -1, 1))

    def _scores(self, X: Inputs) -> tuple[Given, Array]:
        check_is_fitted(self, "normal_")
        given = self._given(X)
        return given, self.normal_.scores(self._rows(self.pipeline_, given))

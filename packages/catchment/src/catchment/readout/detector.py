"""A trained detector of anomalies: raw recordings in, scores and alarms out.

Of rows r with weight n, sum s and Gram matrix R'R the mean is m = s / n and the covariance
S = R'R / n - m m'. It is shrunk toward a multiple of the identity with the same trace,

    V = (1 - a) S + a (trace S / F) I,

and a row's score is its squared Mahalanobis distance over the number of columns,
(r - m)' V^-1 (r - m) / F: about 1 on average over the rows that it was made of. With shrinkage
"auto" the share a is the oracle approximation of Chen, Wiesel, Eldar and Hero (IEEE Trans. Signal
Processing 58, 2010, eq. 23, as scikit-learn's `OAS` has it), because it needs nothing but S and n.
It takes rows for independent and normal; neighboring rows of a series are not, so that it rather
shrinks too little.

Rows are features, or the errors of a readout that forecasts the inputs some steps ahead: the first
scores of a recording are then as many steps later. Their moments follow from the same sums: with
e = y - W'z - b and centered moments n S_e = Y'Y - W'C - C'W + W'G W.

A score above the threshold is an alarm. The threshold was chosen so that rows of normal recordings
are above it at a stated rate: as often on new ones, as far as they are like those it was set by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from catchment.arrays import Array, Booleans, Fraction, NonNegativeFloat, check_fields, check_type
from catchment.data.recording import Recording
from catchment.features.base import FeatureMap
from catchment.features.pipeline import Pipeline, is_alone
from catchment.readout.accumulation import refuse_device
from catchment.readout.heads import shrunk_covariance
from catchment.readout.linear_algebra import solve_triangular
from catchment.readout.predictor import New, Predictor, rounded
from catchment.readout.solve import feature_scale
from catchment.readout.statistics import CONSTANT, Readout, RidgeStatistics, pack, unpack
from catchment.readout.storage import (
    Own,
    Stored,
    before_of,
    readout_of,
    stored_before,
    stored_readout,
    typed,
)
from catchment.wire import SAME, Kind, Shape, Structure, Triangle

Shrinkage = Fraction | Literal["auto"]
Score = Literal["features", "error"]
NORMAL, ANOMALY = "normal", "anomaly"


@dataclass(frozen=True, eq=False)
class MahalanobisDetector(Structure):
    """Mean and shrunk covariance of rows, as sums tell them.

    Parameters
    ----------
    mean
        (F,) of the rows.
    packed
        Upper triangle of the shrunk covariance (F, F).
    shrinkage
        How far the covariance was shrunk, between 0 and 1.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(400, 2)) * [1.0, 3.0]
    >>> sums = RidgeStatistics.from_states(z, np.zeros((400, 1)))
    >>> normal = MahalanobisDetector.of(sums, shrinkage=0.0)
    >>> round(float(normal.scores(z).mean()), 12), normal.scores(np.array([[0.0, 12.0]])).round(1)
    (1.0, array([8.]))
    """

    mean: Annotated[Array, Shape("features")]
    packed: Annotated[Array, Triangle("features")]
    shrinkage: float

    @classmethod
    def of(
        cls,
        statistics: RidgeStatistics,
        shrinkage: Shrinkage = "auto",
        *,
        standardize: bool = False,
    ) -> MahalanobisDetector:
        """Return what is normal for features, from their sums, those in fixed point too.

        Parameters
        ----------
        shrinkage
            A number from 0 to 1, or "auto".
        standardize
            Whether features are divided by their standard deviation before the covariance is
            shrunk, so that the scale of a feature makes no difference.
        """
        (G, _), n = statistics.moments(), float(statistics.weight)
        mean = statistics.floats.feature_sum / n
        scale = feature_scale(statistics) if standardize else np.ones(len(mean))
        both = np.outer(scale, scale)
        return cls._shrunk(mean, G / n / both, n, shrinkage, both)

    @classmethod
    def of_errors(
        cls, statistics: RidgeStatistics, readout: Readout, shrinkage: Shrinkage = "auto"
    ) -> MahalanobisDetector:
        """Return what is normal for the errors of a readout on the rows behind statistics.

        >>> z = np.array([[0.0], [1.0], [2.0], [3.0]])
        >>> y = np.array([[0.0], [2.0], [3.0], [7.0]])
        >>> sums = RidgeStatistics.from_states(z, y)
        >>> MahalanobisDetector.of_errors(sums, sums.solve(0.0), 0.0).covariance.round(12)
        array([[0.45]])
        """
        (G, C), n, held = statistics.moments(), float(statistics.weight), statistics.floats
        W = readout.weights
        t = held.target_sum
        Y = unpack(held.target_gram) - np.outer(t, t) / n
        E = (Y - W.T @ C - C.T @ W + W.T @ G @ W) / n
        # Where errors are all but nothing, what rounding leaves of the difference may be below it.
        np.fill_diagonal(E, np.maximum(E.diagonal(), CONSTANT * Y.diagonal() / n))
        mean = (t - W.T @ held.feature_sum) / n - readout.intercept
        return cls._shrunk(mean, (E + E.T) / 2, n, shrinkage)

    @classmethod
    def _shrunk(
        cls, mean: Array, S: Array, n: float, shrinkage: Shrinkage, scale: Array | float = 1.0
    ) -> MahalanobisDetector:
        if not np.trace(S) > 0:
            raise ValueError(
                "nothing varies in the rows, so that every change would be infinitely unusual; use "
                "recordings in which something happens, or another map"
            )
        check_type(shrinkage, Shrinkage, "shrinkage")
        shrunk, share, _ = shrunk_covariance(S, n, shrinkage)
        return cls(mean, pack(shrunk * scale), share)

    @property
    def n_features(self) -> int:
        return len(self.mean)

    @property
    def covariance(self) -> Array:
        """The shrunk covariance (F, F)."""
        return unpack(self.packed)

    def scores(self, rows: Array) -> Array:
        """Return the score (n,) of rows (n, F): squared Mahalanobis distance over F."""
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(
                f"rows have shape {rows.shape}; pass (n, {self.n_features}), as those that the "
                "model was made of"
            )
        away = solve_triangular(self._factor, np.ascontiguousarray((rows - self.mean).T))
        return np.asarray(np.einsum("fn,fn->n", away, away) / self.n_features)

    @cached_property
    def _factor(self) -> Array:
        try:
            return np.asarray(np.linalg.cholesky(self.covariance), dtype=np.float64)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"the covariance of {self.n_features} columns has no inverse at a shrinkage of "
                f"{self.shrinkage:g}; pass a larger one, such as 0.01, or shrinkage='auto'"
            ) from error


@dataclass(frozen=True, eq=False)
class Scoring(Structure):
    """What is normal, of features or of forecast errors, and how scores of rows follow.

    Parameters
    ----------
    normal
        Of feature rows, or of errors if there is a readout.
    readout
        Forecasts the inputs from feature rows; None to score features.
    horizon
        How many steps ahead it forecasts.
    average
        How many rows a score is the mean of, its own and those before it.

    >>> from catchment import NVAR
    >>> from catchment.readout.accumulation import accumulate
    >>> features = NVAR(delays=2, order=1, washout=1).build(1, per_step=True)
    >>> wave = Recording(np.sin(np.arange(90.0)), np.zeros(90))
    >>> scoring = Scoring(MahalanobisDetector.of(accumulate(features, [wave])))
    >>> [scores.shape for scores in scoring.scores(features, [wave])]
    [(89,)]
    """

    KIND: ClassVar[Kind] = Kind("scoring")

    normal: MahalanobisDetector
    readout: Readout | None = None
    horizon: Annotated[int, SAME, Ge(1)] = 1
    average: Annotated[int, SAME, Ge(1)] = 1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def lag(self) -> int:
        """Steps after the first feature row until the first score."""
        return 0 if self.readout is None else self.horizon

    def scores(self, features: FeatureMap, prepared: Sequence[Recording]) -> list[Array]:
        """Return the scores (n,) of each prepared recording, from step washout + `lag` on."""
        found = features.rows([one.u for one in prepared])
        for k, one in enumerate(prepared):
            z, u = found[k], one.u
            if self.readout is not None:  # the errors of the forecasts that are made of the rows
                known = max(len(z) - self.horizon, 0)
                z = u[len(u) - known :] - self.readout(z[:known])
            found[k] = averaged(self.normal.scores(z), self.average)
        return found


def averaged(scores: Array, n_rows: int) -> Array:
    """Return the mean (n,) of every score (n,) and those before it, so many together at most.

    >>> averaged(np.array([1.0, 3.0, 5.0]), 2)
    array([1., 2., 4.])
    """
    if n_rows == 1 or not len(scores):
        return scores
    before = np.concatenate([np.zeros(n_rows - 1), scores])
    total = np.lib.stride_tricks.sliding_window_view(before, n_rows).sum(axis=1)
    return np.asarray(total / np.minimum(np.arange(len(scores)) + 1, n_rows))


@dataclass(frozen=True, eq=False)
class Detector(Predictor):
    """Preparation, feature map, what is normal, and the score above which there is an alarm.

    Parameters
    ----------
    before
        Everything before the scores, a `Pipeline`. A bare feature map prepares nothing.
    scoring
        What is normal, and how scores of rows follow from it.
    threshold
        Rows with a score above it are alarms.
    false_positive_rate
        The share of normal rows that are to be above it.
    classes
        What a row without and with an alarm is called, as labels have it.
    normal_class
        Which of the two is normal.
    channels, columns
        Names of the input channels, and of the columns of files that are no channel.
    """

    judged_by: ClassVar[tuple[str, ...]] = ("score", "threshold")
    needs_labels: ClassVar[bool] = False  # what has none is normal

    before: Pipeline | FeatureMap
    scoring: Scoring
    threshold: float
    false_positive_rate: float = 0.01
    classes: tuple[str, ...] = (NORMAL, ANOMALY)
    normal_class: str = NORMAL
    channels: tuple[str, ...] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        readout, features = self.scoring.readout, self.features
        expected = self.scoring.normal.n_features if readout is None else readout.n_features
        if expected != features.n_features:
            raise ValueError(
                f"what is normal was found of {expected} features, these features have "
                f"{features.n_features}; use the features it was trained on"
            )
        if len(set(self.classes)) != 2 or self.normal_class not in self.classes:
            raise ValueError(
                f"the classes are {', '.join(self.classes)} and {self.normal_class!r} is normal; "
                "name two, and one of them as normal"
            )
        check_type(self.threshold, NonNegativeFloat, "threshold")

    @property
    def washout(self) -> int:
        """Steps at the start of each segment that have no score."""
        return self.features.washout + self.scoring.lag

    @property
    def _anomaly(self) -> int:
        """The column of an alarm."""
        return 1 - self.classes.index(self.normal_class)

    def score_samples(self, new: New) -> Any:
        """Return minus the scores of the rows (n,) of a raw recording; of several, a list of these.

        The lower, the more unusual; -1 is usual, and about the mean over the recordings that it
        was trained on. Rows are steps after the washout, windows, or the whole recording.
        """
        found = [-y[:, self._anomaly] for y in self.outputs(new)]
        return found[0] if is_alone(new) else found

    def said(self, outputs: Array) -> Booleans:
        """Return which rows (n,) of outputs (n, 2) are alarms."""
        return np.asarray(outputs[:, self._anomaly] > self.threshold)

    def judged(self, outputs: Array) -> list[float]:
        """Return the score and the threshold of one row of outputs (2,)."""
        return [rounded(float(outputs[k])) for k in (self._anomaly, 1 - self._anomaly)]

    def outputs_of(
        self, prepared: Sequence[Recording], client: str = "", *, device: str | None = None
    ) -> list[Array]:
        """Return the threshold and the score (rows, 2) of each prepared recording's rows.

        They stand in the columns of the normal class and of the other, so that the larger one says
        which it is.
        """
        refuse_device(device, "a detector")
        found = []
        for scores in self.scoring.scores(self.features, prepared):
            outputs = np.full((len(scores), 2), self.threshold)
            outputs[:, self._anomaly] = scores
            found.append(outputs)
        return found

    def probabilities(self, scores: Array) -> Array:
        """Return the share (n, 2) of each in the sum of threshold and score; half at the threshold.

        These grow with the score and say no more than it does; they are not calibrated.
        """
        total = scores.sum(axis=1, keepdims=True)
        half = np.full(scores.shape, 0.5)
        return np.asarray(np.divide(scores, total, out=half, where=total > 0))

    def labeled(self, prepared: Recording) -> Recording:
        """Return a prepared recording with labels; one without any is taken for normal."""
        if prepared.y is not None and self.preprocessing.horizon is None:
            return prepared
        y = np.zeros((prepared.n_steps, 2) if self.per_step else 2)
        y[..., 1 - self._anomaly] = 1.0
        return replace(prepared, y=y, per_step=self.per_step, classes=None)

    def stored(self) -> Stored:
        """Return what a file holds of the detector."""
        (facts, tensors), scoring = stored_before(self), self.scoring
        tensors |= {"normal.mean": scoring.normal.mean, "normal.packed": scoring.normal.packed}
        tensors |= {} if scoring.readout is None else stored_readout(scoring.readout)
        facts |= {
            "normal_class": self.normal_class,
            "shrinkage": scoring.normal.shrinkage,
            "error": scoring.readout is not None,
            "horizon": scoring.horizon,
            "average": scoring.average,
            "threshold": self.threshold,
            "false_positive_rate": None
            if np.isnan(self.false_positive_rate)
            else self.false_positive_rate,
        }
        return Stored("detector", facts, tensors)


def detector_of(held: Stored, use: Own = ()) -> Detector:
    """Return the detector that a file holds."""
    facts, tensors = held.facts, held.tensors
    mean, packed = (typed(tensors, f"normal.{name}", np.float64) for name in ("mean", "packed"))
    normal = MahalanobisDetector(mean, packed, float(facts["shrinkage"]))
    readout = readout_of(tensors) if facts["error"] else None
    rate = facts["false_positive_rate"]
    return Detector(
        scoring=Scoring(normal, readout, int(facts["horizon"]), int(facts["average"])),
        threshold=float(facts["threshold"]),
        false_positive_rate=float("nan") if rate is None else float(rate),
        normal_class=str(facts["normal_class"]),
        **before_of(held, use),
    )

"""A federated model of what is normal, and a threshold with a chosen rate of false alarms.

Two rounds. In the first clients send the sums of their feature rows (`RidgeStatistics`), of which
the server makes mean and covariance, and a forecasting readout if errors are to be scored. In the
second they are sent these and count their rows' scores in agreed bins (`Counts`), whose sum gives
the threshold. Both are sums: secure aggregation, noise, and taking a client off apply as they do to
any.

The rows that set the threshold are not among those of the first round, unless `calibration` is 0:
on its own rows a model finds less that is unusual than on new ones. Where new rows are exchangeable
with them, a new normal row is above the threshold with probability `false_positive_rate` at most;
rows of one drifting series are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Lt

from catchment.arrays import Array, Booleans, Fraction, PositiveInt, Probability
from catchment.data.recording import Recording
from catchment.errors import FederationError, UploadError
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import Algorithm, Data, Kept, Requirements, RoundContext, Tally
from catchment.federation.checks import check_statistics
from catchment.federation.learn.sums import KEPT_APART, chosen_ridge, read_counts
from catchment.federation.rows import segment
from catchment.readout.accumulation import accumulate
from catchment.readout.detector import (
    ANOMALY,
    NORMAL,
    Detector,
    MahalanobisDetector,
    Score,
    Scoring,
)
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.intervals import Counts, log_edges
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import NOTHING, Message

USUALLY_NORMAL = (NORMAL, "0", "ok", "false", "no", "healthy")


@dataclass(frozen=True, eq=False)
class DetectorState:
    """The sums of both rounds, each client's own where they are kept, and what is normal."""

    total: RidgeStatistics | None = None
    by_client: Mapping[str, RidgeStatistics] = field(default_factory=dict)
    counts: Counts | None = None
    counts_by_client: Mapping[str, Counts] = field(default_factory=dict)
    scoring: Scoring | None = None


@dataclass(frozen=True, kw_only=True)
class FederatedAnomalyDetector(Algorithm[DetectorState, Tally[RidgeStatistics | Counts], Detector]):
    """Learn what is normal from all clients' sums, and above which score to raise an alarm.

    Two rounds, `Plan(algorithm=..., rounds=2)`. Clients see the summed mean and covariance.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    score
        "features": how unusual a feature row is; "error": how unusual the error is of a forecast of
        the inputs, which the same sums give.
    false_positive_rate
        The share of normal rows that may be above the threshold.
    shrinkage
        Of the covariance: a number from 0 to 1, or "auto" (`catchment.readout.detector`).
    calibration
        Share of every recording, its end, or of the recordings if each is one row, that sets the
        threshold and is not in the first round's sums. With 0 all rows are in both.
    average
        How many rows a score is the mean of, its own and those before it.
    horizon
        How many steps ahead inputs are forecast, for "error".
    ridge
        Of the forecasting readout, for "error": a number, or "gcv", which needs only the sum.
    standardize
        Whether features are divided by their standard deviation before the covariance is shrunk, or
        the ridge acts; "auto" is what the map says.
    per_decade
        Bins for every factor of ten of the scores: the threshold is too high by at most a factor of
        10^(1 / per_decade), 3.7 % with 64.
    store_per_client
        Whether the server keeps each client's sums, as unlearning needs.
    classes, normal_class
        Names of the two labels of recordings, if they have any, and which of them is normal: rows
        with the other are left out.

    >>> from catchment import NVAR, Plan, federate
    >>> rng = np.random.default_rng(0)
    >>> clients = {name: [Recording(rng.normal(size=(400, 2)))] for name in ("a", "b", "c")}
    >>> features = NVAR(delays=2, order=1, washout=1).build(2, per_step=True)
    >>> plan = Plan(algorithm=FederatedAnomalyDetector(features=features), rounds=2)
    >>> detector = federate(plan, clients).result
    >>> detector.predict(np.array([[0.0, 0.0], [0.5, 0.1], [7.0, 7.0]]))
    array([False,  True])
    """

    features: FeatureMap
    score: Score = "features"
    false_positive_rate: Probability = 0.01
    shrinkage: Fraction | Literal["auto"] = "auto"
    calibration: Annotated[float, Ge(0), Lt(1)] = 0.25
    average: PositiveInt = 1
    horizon: PositiveInt = 1
    ridge: float | Literal["gcv"] = "gcv"
    standardize: bool | Literal["auto"] = "auto"
    per_decade: PositiveInt = 64
    store_per_client: bool = True
    classes: tuple[str, ...] | None = None
    normal_class: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.score == "error" and not self.features.per_step:
            raise ValueError(
                "forecast errors need a row for every step, and the map gives one for a whole "
                "recording; leave out the window, or score features"
            )
        if self.classes is not None:
            _ = self.normal_label

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            each_client=KEPT_APART if self.store_per_client else "",
            data_choice=chosen_ridge(self.ridge) if self.score == "error" else "",
            rounds=2,
            other_targets=True,
        )

    @property
    def standardized(self) -> bool:
        """Whether features are divided by their spread first."""
        return self.features.standardize if self.standardize == "auto" else self.standardize

    @cached_property
    def edges(self) -> Array:
        """Between which scores are counted."""
        return log_edges(per_decade=self.per_decade)

    @property
    def normal_label(self) -> str:
        """Which of the labels is normal; ValueError if it cannot be told."""
        classes = (NORMAL, ANOMALY) if self.classes is None else self.classes
        known = self.normal_class or next(
            (name for name in classes if name.lower() in USUALLY_NORMAL), ""
        )
        if len(classes) != 2 or known not in classes:
            raise ValueError(
                f"the labels are {', '.join(classes)}, and {known or 'none of them'!r} is normal; "
                "use two labels, and name the normal one, normal_class = ..."
            )
        return known

    def start(self) -> DetectorState:
        return DetectorState()

    def broadcast(self, state: DetectorState, context: RoundContext) -> Message:
        return NOTHING if state.scoring is None else state.scoring.parts()

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics | Counts:
        features, first = self.features, 1.0 - self.calibration
        examples = map(self._example, data())
        if received.kind != NOTHING.kind:
            scoring, total = Scoring.from_message(received), Counts.zero(self.edges)
            begin = first if self.calibration else 0.0
            for one in segment(examples, begin, 1.0, washout=features.washout):
                (scores,) = scoring.scores(features, [one])
                total += Counts.of(scores[_known(one, features, len(scores))], self.edges)
            return total
        known = segment(examples, 0.0, first, washout=features.washout)
        head = next(known, None)
        if head is None:  # too short to be cut
            K = 1 if self.score == "features" else features.n_inputs or 1
            return RidgeStatistics.zero(
                features.n_features, K, features.fingerprint, self._fixed_point
            )
        whole = self.score == "features"
        return accumulate(features, chain([head], known), threads=1, classes=whole)

    def _example(self, prepared: Recording) -> Recording:
        """Return a recording with targets: NaN where a row is not to be learned from."""
        per_step, normal = self.features.per_step, np.ones(prepared.n_steps, dtype=bool)
        if self.classes is not None and prepared.y is not None:
            label = prepared.y[..., self.classes.index(self.normal_label)]
            normal = np.broadcast_to(label == 1.0, prepared.n_steps)
        if self.score == "features":
            y = np.where(normal, 0.0, np.nan)[:, None]
            y = y if per_step else y.max(axis=0)
        else:
            y, ahead = np.full_like(prepared.u, np.nan), self.horizon
            both = normal[:-ahead] & normal[ahead:]
            y[:-ahead][both] = prepared.u[ahead:][both]
        return replace(prepared, y=y, per_step=per_step, classes=None)

    @property
    def _fixed_point(self) -> FixedPoint | None:
        return FixedPoint.of(self.features, classes=self.score == "features")

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeStatistics | Counts]:
        value: RidgeStatistics | Counts
        if parts.kind == Counts.KIND.name:
            value = read_counts(parts, Counts.zero(self.edges))
            # A sum with noise may be any; no client can claim to be one.
            if context.client or value.counts.dtype != np.float64:
                n = int(value.counts.sum())
                if value.counts.dtype != np.int64 or n > value.weight:
                    raise UploadError(
                        "count", f"more scores are counted than {value.weight:g} rows"
                    )
        else:
            value = RidgeStatistics.from_message(parts)
            noisy = not context.client and parts.facts.get("noisy") is True
            check_statistics(
                value,
                fingerprint=self.features.fingerprint,
                n_features=self.features.n_features,
                n_targets=1 if self.score == "features" else self.features.n_inputs,
                state_bound=None if noisy else self.features.bounds,
                constant=self.features.constant and not noisy,
                fixed="any" if noisy else self._fixed_point,
            )
        return Tally.of(value, context.client if self.store_per_client else "")

    def server_update(
        self, state: DetectorState, total: Tally[RidgeStatistics | Counts], context: RoundContext
    ) -> DetectorState:
        value: Any = total.total
        by_client: Any = total.by_client
        if isinstance(value, Counts):
            return replace(state, counts=value, counts_by_client=by_client)
        return self.solved(DetectorState(value, by_client))

    def solved(self, state: DetectorState) -> DetectorState:
        """Return the state with what is normal, from its sum; what was counted stays."""
        total = state.total
        if total is None or not total.weight > 0:
            raise FederationError(
                "no client has a normal row to learn from; their recordings are shorter than the "
                "map's washout, or none is labeled as normal"
            )
        if self.score == "features":
            normal = MahalanobisDetector.of(total, self.shrinkage, standardize=self.standardized)
            return replace(state, scoring=Scoring(normal, average=self.average))
        _, readout = chosen_readout(total, self.ridge, standardize=self.standardized)
        normal = MahalanobisDetector.of_errors(total, readout, self.shrinkage)
        return replace(state, scoring=Scoring(normal, readout, self.horizon, self.average))

    def threshold(self, state: DetectorState) -> float:
        """Return the score above which there is an alarm; FederationError if too few are counted.

        It is the one of rank ceil((n + 1) (1 - false_positive_rate)) among n scores; of counts with
        noise, which are no numbers of rows, the quantile itself.
        """
        if state.counts is None:
            raise FederationError("nothing has been counted yet; run both rounds of the plan")
        found = self._quantile(state.counts)
        if np.isfinite(found):
            return found
        n, needed = (
            int(state.counts.n_values[0]),
            int(np.ceil(1.0 / self.false_positive_rate - 1.0)),
        )
        raise FederationError(
            f"{n} rows set the threshold, and {self.false_positive_rate:g} of false alarms takes "
            f"at least {needed}, with scores below {self.edges[-1]:g}; raise false_positive_rate "
            "or calibration, or look for what is so unusual in the recordings"
        )

    def _quantile(self, counts: Counts) -> float:
        whole = counts.counts.dtype == np.int64
        rule = counts.conformal if whole else counts.quantile
        return float(rule(1.0 - self.false_positive_rate)[0])

    def result(self, state: DetectorState) -> Detector:
        if state.scoring is None:
            raise FederationError("nothing has been learned yet; run both rounds of the plan")
        return Detector(
            self.features,
            state.scoring,
            self.threshold(state),
            self.false_positive_rate,
            (NORMAL, ANOMALY) if self.classes is None else self.classes,
            self.normal_label,
        )

    def figures(self, state: DetectorState) -> dict[str, float]:
        """Return the rows, how far the covariance was shrunk, and the threshold once it is set."""
        found = {} if state.total is None else {"rows": float(state.total.n_rows)}
        if state.scoring is not None:
            found["shrinkage"] = state.scoring.normal.shrinkage
        if state.counts is not None:
            found["threshold"] = self._quantile(state.counts)
        return found

    def kept(self, state: DetectorState) -> Kept:
        return Kept({name: one.n_rows for name, one in state.by_client.items()})

    def tally(self, state: DetectorState) -> Tally[RidgeStatistics] | None:
        """Return the sum of the first round, and each client's own where they are kept."""
        return None if state.total is None else Tally(state.total, state.by_client)


def _known(example: Recording, features: FeatureMap, n_scores: int) -> Booleans:
    """Return which scores (n,) are of rows to count: those of a target that is not NaN."""
    y = example.y
    assert y is not None
    if not example.per_step:
        return np.full(n_scores, not np.isnan(y).any())
    first = features.washout
    return np.logical_not(np.isnan(y[first : first + n_scores]).any(axis=1))

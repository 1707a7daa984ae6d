"""How far from all classes is too far: a threshold from everybody's distances, in one round.

Clients are sent the sum of all statistics. Each takes its own off it, so that it measures how far
its rows are from classes that others know, as a stranger would; a row of a class that nobody else
has is left out. What it sends is how many of its distances lie in each of some agreed bins. Their
sum has the quantile that is to be the threshold (`catchment.readout.intervals`).

A client that is not in the sum has nothing to take off: then its rows are new as they are.

What is seen: every client sees the sum over all clients (of two, each sees the other's), and the
server each client's counts, or only their sum under a secure sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.arrays import Array, Booleans
from catchment.errors import FederationError, UploadError
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import Algorithm, Data, Turn
from catchment.federation.learn.candidates import StatisticsSet
from catchment.federation.learn.digests import without
from catchment.federation.rows import Rows
from catchment.federation.upload_checks import check_statistics
from catchment.readout.intervals import Counts, log_edges
from catchment.readout.model import Model
from catchment.readout.open_model import KnownClasses, OpenModel, Shrinkage
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Parts

LOW, HIGH, PER_DECADE = 1e-2, 1e6, 64


@dataclass(frozen=True, kw_only=True)
class UnknownThreshold(Algorithm[Counts, Counts, OpenModel]):
    """One round that makes a classifier answer "unknown".

    Parameters
    ----------
    model
        The classifier whose sums they are.
    sums
        Of all clients: plain statistics, and every class has the covariance within classes; or by
        class, and every class has its own.
    rate
        Share of recordings of known classes that may be taken for unknown.
    shrinkage
        As `Gaussian` has it.
    summed
        Clients whose rows are in the sums, each of which takes its own off; all if None.
    """

    model: Model
    sums: RidgeStatistics | StatisticsSet
    rate: float = 0.05
    shrinkage: Shrinkage = "oas"
    summed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.model.classes is None:
            raise ValueError("the model predicts numbers; only classes can be unknown")
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is {self.rate}; pass a share between 0 and 1, such as 0.05")

    @property
    def features(self) -> FeatureMap:
        return self.model.features

    def start(self) -> Counts:
        return Counts.zero(log_edges(LOW, HIGH, PER_DECADE))

    def broadcast(self, state: Counts, turn: Turn) -> Parts:
        return self.sums.parts()

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Counts:
        rows = Rows.of(self.features, data(), classes=True)
        total = type(self.sums).from_parts(received)
        if self.summed is None or turn.client in self.summed:
            total = _others(total, rows)
        members = total.members if isinstance(total, StatisticsSet) else {0: total}
        n: Array = sum((one.floats.target_sum for one in members.values()), np.zeros(1))
        told: Booleans = (rows.y @ (n > 0)) > 0
        if not told.any():
            return Counts.zero(log_edges(LOW, HIGH, PER_DECADE))
        known = self.known(total)
        return Counts.of(known.nearest(rows.z[told]), log_edges(LOW, HIGH, PER_DECADE))

    def known(self, sums: RidgeStatistics | StatisticsSet) -> KnownClasses:
        """Return the normal model of every class that has rows in these sums."""
        return KnownClasses.of(
            sums if isinstance(sums, RidgeStatistics) else sums.members,
            shrinkage=self.shrinkage,
            standardise=self.features.standardise,
        )

    def read_update(self, parts: Parts, turn: Turn) -> Counts:
        counts = Counts.from_parts(parts)
        if counts.counts.shape != self.start().counts.shape or counts.edges != self.start().edges:
            raise UploadError("shape", "counts came in other bins than those agreed on")
        if (counts.counts < 0).any():
            raise UploadError("count", "a bin has fewer than no rows")
        return counts

    def server_update(self, state: Counts, total: Counts, turn: Turn) -> Counts:
        return total

    def result(self, state: Counts) -> OpenModel:
        threshold = float(state.conformal(1 - self.rate)[0])
        n = int(state.n_values[0])
        if not np.isfinite(threshold):
            raise FederationError(
                f"{n} rows are too few for a rate of {self.rate:g}, or lie beyond all bins; pass "
                "more recordings or a higher rate"
            )
        return OpenModel(self.model, self.known(self.sums), threshold)

    def figures(self, state: Counts) -> dict[str, float]:
        return {"rows": float(state.n_values[0])}


def _others(total: Any, rows: Rows) -> Any:
    """Return the sum without one client's own rows; UploadError if they cannot be in it."""
    if isinstance(total, RidgeStatistics):
        rest: Any = without(total, rows.statistics())
        members = {0: rest}
    else:
        labels = rows.y.argmax(axis=1)
        own = {k: rows.only(labels == k).statistics() for k in total.members}
        rest = without(total, StatisticsSet(own))
        members = dict(rest.members)
    for one in members.values():
        check_statistics(one, fingerprint=one.fingerprint)
    return rest

"""Uploads that data could have given but the other clients speak against.

The readout solved without client c has on its rows the mean squared error

    l_c = tr(Y'Y - 2 W'C_c + W'G_c W) / n_c

which needs no rows. A client whose log l_c lies more than four robust standard deviations above
the median of all is flagged: reported, never dropped, because people who differ are outliers too.
So is a client whose log number of rows does. In the readouts no client weighs more than the median
one: else one that claims a million times the rows would raise everybody's loss, and nobody's would
stand out. Copies of one upload under many names make each other look right; only identities help
there. A client whose data are wrong by no more than people differ is not seen.

An influence cap bounds what any one client can add to the sum, at the price of an exact sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from catchment.arrays import Array
from catchment.federation.algorithm import Additive, Turn, Upload
from catchment.federation.protection import Protection, Read
from catchment.readout.solve import scale_of, solve_readout, squared_errors
from catchment.readout.statistics import RidgeStatistics
from catchment.structure import taken_apart
from catchment.wire import Parts

THRESHOLD = 4.0
FEWEST = 5  # clients of which a median and a spread say something
# Log losses closer than this are alike, however little the others differ.
LEAST_SPREAD = 0.05
# So are log rows closer than this: clients of one size differ by a factor of two without a reason.
LEAST_ROWS_SPREAD = 0.5


@dataclass(frozen=True)
class Flag:
    """A client whose data the others predict badly: its loss, and by how many deviations."""

    client: str
    loss: float
    z: float

    def __str__(self) -> str:
        return (
            f"{self.client}: mean squared error {self.loss:.4g} of the readout solved without it, "
            f"{self.z:.1f} robust deviations above the median"
        )


@dataclass(frozen=True)
class RowsFlag:
    """A client that says it has far more rows than the others, and by how many deviations."""

    client: str
    rows: int
    z: float

    def __str__(self) -> str:
        return (
            f"{self.client}: {self.rows} rows, {self.z:.1f} robust deviations above the median on "
            "a logarithmic scale"
        )


AnyFlag = Flag | RowsFlag


def rows_flags(rows: Mapping[str, int], *, threshold: float = THRESHOLD) -> tuple[RowsFlag, ...]:
    """Return the clients that say they have far more rows than the others, the worst first.

    Parameters
    ----------
    rows
        Of each client; fewer than five with any flag no one.
    threshold
        Robust deviations of the log rows above the median.

    >>> [str(one) for one in rows_flags({"a": 40, "b": 50, "c": 60, "d": 45, "e": 4000})]
    ['e: 4000 rows, 8.8 robust deviations above the median on a logarithmic scale']
    """
    filled = {name: n for name, n in sorted(rows.items()) if n > 0}
    if len(filled) < FEWEST:
        return ()
    scores = robust_scores(np.log(list(filled.values())), least=LEAST_ROWS_SPREAD)
    found = [
        RowsFlag(name, n, float(z))
        for (name, n), z in zip(filled.items(), scores, strict=True)
        if z > threshold
    ]
    return tuple(sorted(found, key=lambda flag: -flag.z))


def flags(
    by_client: Mapping[str, RidgeStatistics],
    ridge: float | Array,
    *,
    standardise: bool = False,
    threshold: float = THRESHOLD,
) -> tuple[Flag, ...]:
    """Return the clients whose left-out loss stands out, the worst first.

    Parameters
    ----------
    by_client
        Statistics of each client; fewer than five of them flag no one.
    ridge
        With which the readouts are solved, one number or (K,).
    standardise
        Whether it acts on features divided by their standard deviation over all clients.
    threshold
        Robust deviations of the log loss above the median.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(6, 40, 3))
    >>> y = z.sum(axis=2, keepdims=True) + 0.1 * rng.normal(size=(6, 40, 1))
    >>> y[4] *= -1
    >>> sent = {f"c{k}": RidgeStatistics.from_states(z[k], y[k]) for k in range(6)}
    >>> [flag.client for flag in flags(sent, 1e-3)]
    ['c4']
    """
    losses = left_out_losses(by_client, ridge, standardise=standardise)
    return loss_flags(losses, threshold=threshold)


def loss_flags(losses: Mapping[str, float], *, threshold: float = THRESHOLD) -> tuple[Flag, ...]:
    """Return the clients whose loss stands out among these, the worst first.

    >>> [one.client for one in loss_flags({"a": 1.0, "b": 1.1, "c": 0.9, "d": 1.0, "e": 9e9})]
    ['e']
    """
    if len(losses) < FEWEST:
        return ()
    scores = robust_scores(np.log(np.maximum(list(losses.values()), 1e-300)))
    found = [
        Flag(name, loss, float(z))
        for (name, loss), z in zip(losses.items(), scores, strict=True)
        if z > threshold
    ]
    return tuple(sorted(found, key=lambda flag: -flag.z))


def left_out_losses(
    by_client: Mapping[str, RidgeStatistics], ridge: float | Array, *, standardise: bool = False
) -> dict[str, float]:
    """Return each client's mean squared error under the readout solved without it.

    No client has more weight in a readout than the median one, whatever it claims.
    Clients without rows are left out, and so are all of them if they are fewer than two.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [4.0]])
    >>> rows = (slice(0, 2), slice(1, 3))
    >>> sent = {f"c{k}": RidgeStatistics.from_states(z[r], y[r]) for k, r in enumerate(rows)}
    >>> {name: round(loss, 9) for name, loss in left_out_losses(sent, 0.0).items()}
    {'c0': 2.0, 'c1': 2.0}
    """
    filled = {name: s for name, s in sorted(by_client.items()) if s.n_rows > 0 and s.weight > 0}
    if len(filled) < 2:
        return {}
    most = float(np.median([s.weight for s in filled.values()]))
    if any(s.weight > most for s in filled.values()):
        filled = {name: s.floats.scaled(min(1.0, most / s.weight)) for name, s in filled.items()}
    total = reduce(add, filled.values())
    scale, losses = scale_of(total, standardise), {}
    for name, mine in filled.items():
        readout = solve_readout((total - mine).floats, ridge, scale=scale)
        losses[name] = float(squared_errors(mine, readout).sum() / (mine.weight * mine.n_targets))
    return losses


def robust_scores(values: Array, *, least: float = LEAST_SPREAD) -> Array:
    """Return by how many deviations (n,) values lie above their median.

    The deviation is the median absolute one, times 1.4826: that of a normal distribution; never
    less than `least`.

    >>> robust_scores(np.array([0.0, 1.0, 2.0, 3.0, 10.0])).round(2)
    array([-1.35, -0.67,  0.  ,  0.67,  5.4 ])
    """
    distance = values - np.median(values)
    return np.asarray(distance / max(1.4826 * float(np.median(np.abs(distance))), least))


@dataclass(frozen=True, kw_only=True)
class InfluenceCap(Protection):
    """Scale an upload's weight down until its norm is at most the limit.

    The norm is that of everything the upload adds to the sums: Gram, cross and target moments,
    feature and target sums. A capped client counts less, as if its rows had a smaller weight; the
    readout is then no longer that of the pooled data. The client caps what it sends, and the
    server caps what it reads, since a client that means harm will not; under a secure sum, where
    the server reads the sum alone, only the client does.

    Parameters
    ----------
    limit
        Largest norm of one client's statistics.

    >>> s = RidgeStatistics.from_states(np.ones((100, 1)), np.ones((100, 1)))
    >>> capped = InfluenceCap(limit=10.0).on_client(s, Turn(0, ()))
    >>> round(influence(capped), 9), capped.n_rows, round(capped.weight, 3)
    (10.0, 100, 4.472)
    """

    limit: float

    def __post_init__(self) -> None:
        if not self.limit > 0:
            raise ValueError(f"limit is {self.limit}; pass a number above 0")

    def on_client(self, upload: Upload, turn: Turn) -> RidgeStatistics:
        return self.capped(RidgeStatistics.from_parts(taken_apart(upload)))

    def read_update(self, parts: Parts, turn: Turn, inner: Read) -> Additive:
        changed = replace(turn, changed=True)
        if not turn.client:
            return inner(parts, changed)
        capped = self.capped(RidgeStatistics.from_parts(parts))
        return inner(replace(capped.parts(), facts=parts.facts), changed)

    def capped(self, statistics: RidgeStatistics) -> RidgeStatistics:
        """Return float64 statistics of at most the limit: a part of whole numbers is not whole."""
        norm = influence(statistics)
        # Numbers that are not finite are left for the check of the upload to name.
        if norm <= self.limit or not np.isfinite(norm):
            return statistics.floats
        return statistics.floats.scaled(self.limit / norm)


def influence(statistics: RidgeStatistics) -> float:
    """Return the norm of all that the statistics add to a sum.

    >>> influence(RidgeStatistics.from_states(np.array([[2.0]]), np.array([[0.0]])))
    4.47213595499958
    """
    statistics = statistics.floats
    parts = (
        statistics.feature_sum,
        statistics.target_sum,
        statistics.gram,
        statistics.cross.ravel(),
        statistics.target_gram,
    )
    return float(np.linalg.norm([np.linalg.norm(part) for part in parts]))

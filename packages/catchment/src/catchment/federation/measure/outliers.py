"""Uploads that data could have given but the other clients speak against.

The readout solved without client c has on its rows the mean squared error

    l_c = tr(Y'Y - 2 W'C_c + W'G_c W) / n_c

which needs no rows. A client whose log l_c lies more than four robust standard deviations above
the median of all is flagged: reported, never dropped, because people who differ are outliers too.
So is a client whose log number of rows does. In the readouts no client weighs more than the median
one: else one that claims a million times the rows would raise everybody's loss, and nobody's would
stand out. Copies of one upload under many names make each other look right; only identities help
there. A client whose data are wrong by no more than people differ is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from catchment.arrays import Array
from catchment.readout.solve import path_errors, scale_of, solve_readout
from catchment.readout.statistics import RidgeStatistics

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
    found = _standing_out(filled, threshold, LEAST_ROWS_SPREAD)
    return tuple(RowsFlag(name, filled[name], z) for name, z in found)


def loss_flags(losses: Mapping[str, float], *, threshold: float = THRESHOLD) -> tuple[Flag, ...]:
    """Return the clients whose loss stands out among these, the worst first.

    Parameters
    ----------
    losses
        Of each client, as `left_out_losses` has them; fewer than five of them flag no one.
    threshold
        Robust deviations of the log loss above the median.

    >>> [one.client for one in loss_flags({"a": 1.0, "b": 1.1, "c": 0.9, "d": 1.0, "e": 9e9})]
    ['e']
    """
    return tuple(Flag(name, losses[name], z) for name, z in _standing_out(losses, threshold))


def _standing_out(
    values: Mapping[str, float], threshold: float, least: float = LEAST_SPREAD
) -> list[tuple[str, float]]:
    """Return whose log values stand out and by how many deviations, the worst first."""
    if len(values) < FEWEST:
        return []
    scores = robust_scores(np.log(np.maximum(list(values.values()), 1e-300)), least=least)
    found = filter(lambda pair: pair[1] > threshold, zip(values, scores.tolist(), strict=True))
    return sorted(found, key=lambda pair: -pair[1])


def left_out_losses(
    by_client: Mapping[str, RidgeStatistics], ridge: float, *, standardize: bool = False
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
    filled = {name: by_client[name] for name in sorted(by_client) if _filled(by_client[name])}
    if len(filled) < 2:
        return {}
    weights = np.array([s.weight for s in filled.values()])
    most = float(np.median(weights))
    if weights.max() > most:
        filled = {name: s.floats.scaled(min(1.0, most / s.weight)) for name, s in filled.items()}
    total = reduce(add, filled.values())
    scale, losses = scale_of(total, standardize), {}
    for name, mine in filled.items():
        readout = solve_readout((total - mine).floats, ridge, scale=scale)
        losses[name] = float(path_errors(mine, [readout]).sum() / (mine.weight * mine.n_targets))
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


def _filled(statistics: RidgeStatistics) -> bool:
    return statistics.n_rows > 0 and statistics.weight > 0

"""Clients whose data the others speak against, and clients whose new data are unlike their old.

All of it is told from the sums that clients send anyway. The readout solved without client c has on
its rows the mean squared error

    l_c = tr(Y'Y - 2 W'C_c + W'G_c W) / n_c

which needs no rows. A client whose log l_c lies more than four robust standard deviations above
the median of all is flagged: reported, never dropped, because people who differ are outliers too.
So is a client whose log number of rows does. In the readouts no client weighs more than the median
one: else one that claims a million times the rows would raise everybody's loss, and nobody's would
stand out. Copies of one upload under many names make each other look right; only identities help
there. A client whose data are wrong by no more than people differ is not seen.

What client c sent in a round, S, is held against the sum of what it sent before, R, by the shared
readout W of all rounds before, and by V, the covariance of everybody's rows before:

    errors    log( l(S) / l(R) ),       l = tr(Y'Y - 2 W'C + W'GW) / n
    inputs    | log( d(S) / d(R) ) |,   d = tr(V^-1 sum (z - m)(z - m)') / n F

with m the mean of R; V is correlations, shrunk a tenth of the way to the identity. The first tells
that what is predicted has changed, the second that what is measured has. A score stands out if it
is among the highest of it and all M scores of earlier rounds, everybody's,

    p = (1 + number of earlier scores at least as high) / (M + 1)  <=  false_positive_rate.

As long as nothing changes the scores are exchangeable, and the chance of a false alarm is at most
`false_positive_rate` for each client, round and kind, whatever the distribution of scores (Vovk,
Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, section 2.2). It is a chance
over clients: one whose weeks differ more than others' has more of them. Until M is 1 /
false_positive_rate - 1 nobody can stand out. Later scores have more rows behind R and vary less, so
that the rate is lower, not higher. A client that changed stays noticed until the change makes up a
good part of R; forgetting makes that soon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np

from catchment.arrays import Array, Probability, check_type
from catchment.readout.solve import feature_scale, path_errors, rescaled, scale_of, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics, unpack

THRESHOLD = 4.0  # robust deviations of a logarithm above the median
FEWEST = 5  # clients of which a median and a spread say something
# Log losses closer than this are alike, however little the others differ.
LEAST_SPREAD = 0.05
# So are log rows closer than this: clients of one size differ by a factor of two without a reason.
LEAST_ROWS_SPREAD = 0.5
FALSE_ALARMS = 0.02
SHRINKAGE = 0.1
Kind = Literal["errors", "inputs"]
KINDS: tuple[Kind, ...] = ("errors", "inputs")


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


def rows_flags(rows: Mapping[str, int]) -> tuple[RowsFlag, ...]:
    """Return the clients that say they have far more rows than the others, the worst first.

    >>> [str(one) for one in rows_flags({"a": 40, "b": 50, "c": 60, "d": 45, "e": 4000})]
    ['e: 4000 rows, 8.8 robust deviations above the median on a logarithmic scale']
    """
    filled = {name: n for name, n in sorted(rows.items()) if n > 0}
    found = _standing_out(filled, LEAST_ROWS_SPREAD)
    return tuple(RowsFlag(name, filled[name], z) for name, z in found)


def loss_flags(losses: Mapping[str, float]) -> tuple[Flag, ...]:
    """Return the clients whose loss stands out among the `left_out_losses`, the worst first.

    >>> [one.client for one in loss_flags({"a": 1.0, "b": 1.1, "c": 0.9, "d": 1.0, "e": 9e9})]
    ['e']
    """
    return tuple(Flag(name, losses[name], z) for name, z in _standing_out(losses))


def _standing_out(
    values: Mapping[str, float], least: float = LEAST_SPREAD
) -> list[tuple[str, float]]:
    """Return whose log values stand out and by how many deviations, the worst first.

    Among fewer than five nobody does.
    """
    if len(values) < FEWEST:
        return []
    scores = robust_scores(np.log(np.maximum(list(values.values()), 1e-300)), least=least)
    found = filter(lambda pair: pair[1] > THRESHOLD, zip(values, scores.tolist(), strict=True))
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


@dataclass(frozen=True, eq=False)
class RoundScores:
    """How unlike their earlier data clients' new data were in one round: (n,) scores of each kind.

    Parameters
    ----------
    round
        Counted from 0.
    clients
        Those who had sent something before and sent something new.
    """

    round: int
    clients: tuple[str, ...]
    errors: Array
    inputs: Array


@dataclass(frozen=True)
class Drift:
    """A client whose new data stand out in a round, counted from 0, and with which p-value.

    `times` is how many times as large as before its errors are, or the spread of its inputs around
    where they used to lie.
    """

    client: str
    round: int
    kind: Kind
    times: float
    p_value: float

    def __str__(self) -> str:
        what = "errors are" if self.kind == "errors" else "inputs spread"
        who = f"{self.client}'s" if self.client else "everybody's"
        return (
            f"{who} {what} {self.times:.3g} times what was usual before (time {self.round + 1}, "
            f"p = {self.p_value:.2g})"
        )


def round_scores(
    new: Mapping[str, RidgeStatistics],
    before: Mapping[str, RidgeStatistics],
    total: RidgeStatistics,
    readout: Readout,
    round_: int = 0,
) -> RoundScores:
    """Return how unlike their earlier data the new data of clients are.

    Parameters
    ----------
    new, before
        By client: the statistics of this round, and the sum of those of earlier ones.
    total, readout
        Everybody's sum of earlier rounds, and the readout of it.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2, 99, 3))
    >>> old = {"a": RidgeStatistics.from_states(z[0], z[0, :, :1] + rng.normal(size=(99, 1)))}
    >>> new = {"a": RidgeStatistics.from_states(z[1], -z[1, :, :1] + rng.normal(size=(99, 1)))}
    >>> scores = round_scores(new, old, old["a"], old["a"].solve(0.1))
    >>> bool(np.exp(scores.errors[0]) > 2), bool(scores.inputs[0] < 0.5)
    (True, True)
    """
    both = [name for name in sorted(new) if name in before and _filled(new[name], before[name])]
    if not both:
        return RoundScores(round_, (), np.empty(0), np.empty(0))
    scale = feature_scale(total)
    mean, correlations = _moments(total, scale)
    shrunk = (1 - SHRINKAGE) * correlations + SHRINKAGE * np.eye(len(mean))
    precision = np.linalg.inv(shrunk)
    errors, inputs = [], []
    for name in both:
        ratio = _mean_error(new[name], readout) / _mean_error(before[name], readout)
        errors.append(math.log(ratio))
        (here, spread), (used_to_be, usual) = (_moments(one[name], scale) for one in (new, before))
        moved, least = here - used_to_be, 1e-9 * len(here)
        now = float(np.sum(precision * spread) + moved @ precision @ moved)
        earlier = float(np.sum(precision * usual))
        inputs.append(abs(math.log(max(now, least) / max(earlier, least))))
    return RoundScores(round_, tuple(both), np.array(errors), np.array(inputs))


def _filled(*parts: RidgeStatistics) -> bool:
    return all(one.n_rows > 0 and one.weight > 0 for one in parts)


def _mean_error(statistics: RidgeStatistics, readout: Readout) -> float:
    """Return the mean squared error, never below what rounding leaves of nothing."""
    found = float(path_errors(statistics, [readout]).sum()) / statistics.weight
    size = float(unpack(statistics.floats.target_gram).trace()) / statistics.weight
    return max(found, 1e-12 * size, np.finfo(np.float64).tiny)


def _moments(statistics: RidgeStatistics, scale: Array) -> tuple[Array, Array]:
    """Return the mean (F,) and the covariance (F, F) of features divided by their scale."""
    divided = rescaled(statistics, scale)
    mean = divided.feature_sum / divided.weight
    return mean, unpack(divided.gram) / divided.weight - np.outer(mean, mean)


def drifts(
    history: Sequence[RoundScores], false_positive_rate: float = FALSE_ALARMS
) -> tuple[Drift, ...]:
    """Return who stood out in which round, each round by those before it.

    Parameters
    ----------
    history
        The scores of all rounds, the oldest first.
    false_positive_rate
        The chance that a client which did not change stands out, for each client, round and kind.

    >>> quiet = [RoundScores(k, ("a", "b"), np.zeros(2), np.zeros(2)) for k in range(1, 30)]
    >>> last = RoundScores(30, ("a", "b"), np.array([0.0, 2.0]), np.zeros(2))
    >>> [str(one) for one in drifts([*quiet, last])]
    ["b's errors are 7.39 times what was usual before (time 31, p = 0.017)"]
    """
    check_type(false_positive_rate, Probability, "false_positive_rate")
    found = []
    for kind in KINDS:
        earlier = np.empty(0)
        for one in history:
            scores: Array = getattr(one, kind)
            above = (earlier[None, :] >= scores[:, None]).sum(axis=1)
            chances = (1 + above) / (1 + len(earlier))
            found += [
                Drift(client, one.round, kind, math.exp(score), float(p))
                for client, score, p in zip(one.clients, scores, chances, strict=True)
                if p <= false_positive_rate
            ]
            earlier = np.concatenate([earlier, scores])
    return tuple(sorted(found, key=lambda drift: (drift.round, drift.p_value, drift.client)))


def drift_figures(history: Sequence[RoundScores], false_positive_rate: float) -> dict[str, float]:
    """Return how many clients stood out in the last round; nothing where nobody could.

    >>> once = RoundScores(1, ("a",), np.zeros(1), np.zeros(1))
    >>> drift_figures([once], 0.5), drift_figures([once, once], 0.5)
    ({}, {'drifted clients': 0.0})
    """
    if not history:
        return {}
    if 1 / (1 + sum(len(one.clients) for one in history[:-1])) > false_positive_rate:
        return {}
    every, last = drifts(history, false_positive_rate), history[-1].round
    return {"drifted clients": float(len({one.client for one in every if one.round == last}))}

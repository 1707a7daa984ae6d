"""Clients whose new data are unlike what they sent before, told from the sums they send anyway.

What a client c sent in a round, S, is held against the sum of what it sent before, R, by the shared
readout W of all rounds before, and by V, the covariance of everybody's rows before:

    errors    log( l(S) / l(R) ),       l = tr(Y'Y - 2 W'C + W'GW) / n
    inputs    | log( d(S) / d(R) ) |,   d = tr(V^-1 sum (z - m)(z - m)') / n F

with m the mean of R; V is correlations, shrunk a tenth of the way to the identity. Both need no
rows. The first tells that what is predicted has changed, the second that what is measured has.

What is unusual is told by ranks: a score stands out if it is among the highest of it and all M
scores of earlier rounds, everybody's,

    p = (1 + number of earlier scores at least as high) / (M + 1)  <=  false_alarms.

As long as nothing changes the scores are exchangeable, and the chance of a false alarm is at most
`false_alarms` for each client, round and kind, whatever the distribution of scores (Vovk, Gammerman
and Shafer, Algorithmic Learning in a Random World, 2005, section 2.2). It is a chance over clients:
one whose weeks differ more than others' has more of them. Until M is 1 / false_alarms - 1 nobody
can stand out. Later scores have more rows behind R and vary less, so that the rate is lower, not
higher. A client that changed stays noticed until the change makes up a good part of R; forgetting
makes that soon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from catchment.arrays import Array
from catchment.readout.solve import feature_scale, rescaled, squared_errors
from catchment.readout.statistics import Readout, RidgeStatistics, unpack

FALSE_ALARMS = 0.02
SHRINKAGE = 0.1

Kind = Literal["errors", "inputs"]
KINDS: tuple[Kind, ...] = ("errors", "inputs")


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

    def of(self, kind: Kind) -> Array:
        """Return the scores of one kind."""
        return self.errors if kind == "errors" else self.inputs


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
    precision = cho_solve(cho_factor(shrunk), np.eye(len(mean)))
    errors, inputs = [], []
    for name in both:
        ratio = _mean_error(new[name], readout) / _mean_error(before[name], readout)
        errors.append(math.log(ratio))
        inputs.append(abs(_input_score(new[name], before[name], scale, precision)))
    return RoundScores(round_, tuple(both), np.array(errors), np.array(inputs))


def _filled(*parts: RidgeStatistics) -> bool:
    return all(one.n_rows > 0 and one.weight > 0 for one in parts)


def _mean_error(statistics: RidgeStatistics, readout: Readout) -> float:
    """Return the mean squared error, never below what rounding leaves of nothing."""
    found = float(squared_errors(statistics, readout).sum()) / statistics.weight
    size = float(unpack(statistics.floats.target_gram).trace()) / statistics.weight
    return max(found, 1e-12 * size, np.finfo(np.float64).tiny)


def _moments(statistics: RidgeStatistics, scale: Array) -> tuple[Array, Array]:
    """Return the mean (F,) and the covariance (F, F) of features divided by their scale."""
    divided = rescaled(statistics, scale)
    mean = divided.feature_sum / divided.weight
    return mean, unpack(divided.gram) / divided.weight - np.outer(mean, mean)


def _input_score(
    new: RidgeStatistics, before: RidgeStatistics, scale: Array, precision: Array
) -> float:
    (here, spread), (used_to_be, usual) = _moments(new, scale), _moments(before, scale)
    moved = here - used_to_be
    now = float(np.sum(precision * spread) + moved @ precision @ moved)
    earlier = float(np.sum(precision * usual))
    least = 1e-9 * len(moved)
    return math.log(max(now, least) / max(earlier, least))


def p_values(scores: Array, earlier: Array) -> Array:
    """Return the p-value (n,) of each score among earlier ones: its rank from above.

    >>> p_values(np.array([0.0, 2.5]), np.array([1.0, 2.0, 3.0]))
    array([1. , 0.5])
    """
    at_least = (earlier[None, :] >= scores[:, None]).sum(axis=1)
    return np.asarray((1 + at_least) / (1 + len(earlier)))


def drifts(history: Sequence[RoundScores], false_alarms: float = FALSE_ALARMS) -> tuple[Drift, ...]:
    """Return who stood out in which round, each round by those before it.

    Parameters
    ----------
    history
        The scores of all rounds, the oldest first.
    false_alarms
        The chance that a client which did not change stands out, for each client, round and kind.

    >>> quiet = [RoundScores(k, ("a", "b"), np.zeros(2), np.zeros(2)) for k in range(1, 30)]
    >>> last = RoundScores(30, ("a", "b"), np.array([0.0, 2.0]), np.zeros(2))
    >>> [str(one) for one in drifts([*quiet, last])]
    ["b's errors are 7.39 times what was usual before (time 31, p = 0.017)"]
    """
    if not 0 < false_alarms < 1:
        raise ValueError(f"false_alarms is {false_alarms}; pass a chance between 0 and 1")
    found = []
    for kind in KINDS:
        earlier = np.empty(0)
        for one in history:
            scores = one.of(kind)
            chances = p_values(scores, earlier)
            found += [
                Drift(client, one.round, kind, math.exp(score), float(p))
                for client, score, p in zip(one.clients, scores, chances, strict=True)
                if p <= false_alarms
            ]
            earlier = np.concatenate([earlier, scores])
    return tuple(sorted(found, key=lambda drift: (drift.round, drift.p_value, drift.client)))


def is_judged(history: Sequence[RoundScores], false_alarms: float = FALSE_ALARMS) -> bool:
    """Return whether the last round had enough scores before it for anybody to stand out.

    >>> is_judged([RoundScores(1, ("a",), np.zeros(1), np.zeros(1))])
    False
    """
    n_earlier = sum(len(one.clients) for one in history[:-1])
    return len(history) > 0 and 1 / (1 + n_earlier) <= false_alarms

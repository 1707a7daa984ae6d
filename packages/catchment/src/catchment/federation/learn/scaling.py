"""One scale for all clients, from the sum of their moments, in one round before training.

Moments travel as whole numbers, so their sum over clients is exact in any order and under a secure
sum: everybody has the scaler of the pooled data to the bit.

Scaling, centring and class balance from the statistics that were sent anyway: no second round.

Centring is part of every solution with an intercept: the sums of the features give G - n m m'.
Dividing features by their spread is as exact (`catchment.readout.feature_scale`), because both come
after the features. What comes before a reservoir, the scale of its inputs, bends every state, and
no statistics can undo it: agree on it beforehand (`input_scaler` reads it off an earlier upload, or
`catchment.data.scaling` asks for it).

With one-hot targets column k of C is the sum of the features of class k, so the class means m_k and
the scatter within classes, S = G - sum_k n_k m_k m_k', are known, but not each class's own scatter.
`balanced` gives every class the same weight with S in place of the classes' own: all sums exact
but for that. For full exactness send statistics by class (`catchment.federation.learn.balanced`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.prepare import Prepare
from catchment.data.scaling import (
    LIMB,
    SQUARES_LIMBS,
    TOTAL_LIMBS,
    Moments,
    Scaler,
    from_limbs,
    limbs_of,
    whole_numbers,
)
from catchment.errors import UploadError
from catchment.features.echo_state.echo_state import EchoState
from catchment.federation.algorithm import Algorithm, Data, Turn
from catchment.readout.device import same_features
from catchment.readout.statistics import RidgeStatistics, pack, unpack
from catchment.wire import COUNTED, NOT_NEGATIVE, SIGNED, Kind, Parts, Shape, Summable

CLIENTS_BITS = 16  # a sum of up to 2^16 clients' limbs is taken, and 2^15 such sums can be added


@dataclass(frozen=True, eq=False)
class SentMoments(Summable):
    """Counts, sums and sums of squares of each channel, as they travel and add."""

    KIND: ClassVar[Kind] = Kind(
        "moments",
        "for each channel how many values there are, their sum and their sum of squares",
        ("how much data the client has, and the mean and spread of each of its channels",),
    )

    count: Annotated[Integers, Shape("channels"), COUNTED]
    total: Annotated[Integers, Shape(TOTAL_LIMBS, "channels"), SIGNED]
    squares: Annotated[Integers, Shape(SQUARES_LIMBS, "channels"), NOT_NEGATIVE]

    @classmethod
    def of(cls, moments: Moments) -> SentMoments:
        """Return moments about zero as they travel."""
        total = limbs_of(moments.total, TOTAL_LIMBS)
        return cls(moments.count, total, limbs_of(moments.squares, SQUARES_LIMBS))

    @property
    def moments(self) -> Moments:
        total, squares = from_limbs(self.total), from_limbs(self.squares)
        return Moments(self.count, total, squares, np.zeros(len(self.count)))

    @property
    def possible(self) -> bool:
        """Whether there are numbers with these moments, and the limbs leave room to be added."""
        limbs = np.concatenate([self.total, self.squares])
        if not (np.abs(limbs) < 2 ** (LIMB + CLIENTS_BITS)).all():
            return False
        moments = self.moments
        # The mean's square cannot exceed the mean of squares: exactly, as nothing was rounded.
        inside = moments.total**2 <= self.count.astype(object) * moments.squares
        return bool(inside.all())


@dataclass(frozen=True, kw_only=True)
class FederatedScaling(Algorithm[SentMoments, SentMoments, Prepare]):
    """The mean and standard deviation of every channel over all clients' training data.

    The server sees three numbers per channel of each client: how many values, their sum and their
    sum of squares. The scaler is that of the pooled data.

    >>> from catchment import Plan, Recording, federate
    >>> clients = {"a": [Recording(np.array([0.0, 2.0]))], "b": [Recording(np.array([4.0]))]}
    >>> plan = Plan(algorithm=FederatedScaling(channels=1))
    >>> federate(plan, clients).result.scale.mean
    array([2.])

    Parameters
    ----------
    channels
        How many there are.
    prepare
        What happens to recordings before their moments are taken; its scale is what is fitted.
    """

    channels: int
    prepare: Prepare = field(default_factory=Prepare)

    def start(self) -> SentMoments:
        none = whole_numbers([0] * self.channels)
        return SentMoments.of(
            Moments(np.zeros(self.channels, np.int64), none, none, np.zeros(self.channels))
        )

    def client_update(self, received: Parts, data: Data, turn: Turn) -> SentMoments:
        moments = self.prepare.moments(data())
        if not moments.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        return SentMoments.of(moments)

    def read_update(self, parts: Parts, turn: Turn) -> SentMoments:
        came = SentMoments.from_parts(parts)
        if len(came.count) != self.channels:
            raise UploadError(
                "shape", f"moments of {parts.shapes()} came, there are {self.channels} channels"
            )
        if not came.possible:
            raise UploadError("moments", "no values can have these moments")
        return came

    def server_update(self, state: SentMoments, total: SentMoments, turn: Turn) -> SentMoments:
        return SentMoments.of((state + total).moments)

    def result(self, state: SentMoments) -> Prepare:
        return self.prepare.fitted(state.moments)

    def figures(self, state: SentMoments) -> dict[str, float]:
        return {"values": float(state.count.sum())}


def input_scaler(features: EchoState, statistics: RidgeStatistics) -> Scaler:
    """Return the scaler of the inputs, read off statistics of features that hold the inputs.

    It is that of the rows behind the statistics: without the washout and rows without a target.

    Parameters
    ----------
    features
        Per step, with `input=True`.
    statistics
        Of one client, or summed over all; of these features.
    """
    if not features.input or not features.per_step:
        raise ValueError(
            "these features do not hold the inputs of every step; use input=True and pool=None"
        )
    if not same_features(statistics.fingerprint, features.fingerprint):
        raise ValueError("the statistics come from other features; pass those they were made with")
    first = int(features.bias)
    columns = slice(first, first + features.reservoir.n_inputs)
    statistics = statistics.floats
    total = statistics.feature_sum[columns]
    squares = unpack(statistics.gram).diagonal()[columns].copy()
    count = np.full(len(total), statistics.n_rows, dtype=np.int64)
    if statistics.weight != statistics.n_rows:
        raise ValueError("the rows are weighted; a scaler needs the statistics of unweighted rows")
    return Scaler.from_moments(Moments.of_sums(count, total, squares))


def class_weights(statistics: RidgeStatistics) -> Array:
    """Return the factor (K,) per class that gives all classes the same weight; 0 for empty ones.

    >>> y = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> class_weights(RidgeStatistics.from_states(np.ones((4, 1)), y))
    array([0.66666667, 2.        ])
    """
    statistics = statistics.floats
    _refuse_numbers(statistics)
    n = statistics.target_sum
    present = n > 0
    return np.where(present, statistics.weight / present.sum() / np.where(present, n, 1.0), 0.0)


def balanced(statistics: RidgeStatistics) -> RidgeStatistics:
    """Return statistics in which every class has the same weight, of one-hot targets.

    Class means and counts are exact; the scatter within each class is replaced by that of all
    classes together, so the result is that of reweighted rows if the classes scatter alike.

    >>> z, y = np.array([[1.0], [1.0], [4.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> balanced(RidgeStatistics.from_states(z, y)).feature_sum
    array([7.5])
    """
    statistics = statistics.floats
    factor = class_weights(statistics)
    n, C = statistics.target_sum, statistics.cross
    means = C / np.where(n > 0, n, 1.0)
    # Each class adds its mean's outer product, weighted anew less what is in G already.
    G = unpack(statistics.gram) + (means * (n * (factor - 1.0))) @ means.T
    return replace(
        statistics,
        feature_sum=(C * factor).sum(axis=1),
        target_sum=n * factor,
        gram=pack(G),
        cross=C * factor,
        target_gram=pack(np.diag(n * factor)),
    )


def _refuse_numbers(statistics: RidgeStatistics) -> None:
    Y, n = unpack(statistics.target_gram), statistics.target_sum
    near = 1e-9 * max(statistics.weight, 1e-300)
    one_hot = np.abs(Y - np.diag(n)).max() <= near and abs(n.sum() - statistics.weight) <= near
    if not one_hot or (n < 0).any():
        raise ValueError("the targets are not one-hot rows; only classes can be balanced")

"""One scale for all clients, from the sum of their moments, in one round before training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from catchment.arrays import Array, Integers
from catchment.data.prepare import Prepare
from catchment.data.scaling import Moments
from catchment.errors import UploadError
from catchment.federation.algorithm import Data, Needs, Turn
from catchment.structure import NOT_NEGATIVE, Kind, Shape, Summable
from catchment.wire import Parts


@dataclass(frozen=True, eq=False)
class SentMoments(Summable):
    """Counts, sums and sums of squares of each channel, as they travel and add."""

    KIND: ClassVar[Kind] = Kind(
        "moments",
        "for each channel how many values there are, their sum and their sum of squares",
        ("how much data the client has, and the mean and spread of each of its channels",),
    )

    count: Annotated[Integers, Shape("channels")]
    total: Annotated[Array, Shape("channels")]
    squares: Annotated[Array, Shape("channels"), NOT_NEGATIVE]

    @property
    def moments(self) -> Moments:
        return Moments(self.count, self.total, self.squares, np.zeros(len(self.count)))


@dataclass(frozen=True, kw_only=True)
class FederatedScaling:
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

    @property
    def needs(self) -> Needs:
        return Needs()

    def start(self) -> SentMoments:
        nothing = np.zeros(self.channels)
        return SentMoments(nothing.astype(np.int64), nothing, nothing)

    def client_update(self, received: Parts, data: Data, turn: Turn) -> SentMoments:
        moments = self.prepare.moments(data())
        if not moments.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        return SentMoments(moments.count, moments.total, moments.squares)

    def read_update(self, parts: Parts, turn: Turn) -> SentMoments:
        came = SentMoments.from_parts(parts)
        if len(came.count) != self.channels:
            raise UploadError(
                "shape", f"moments of {parts.shapes()} came, there are {self.channels} channels"
            )
        # The mean's square cannot exceed the mean of squares, but for rounding.
        if not (came.total**2 <= came.count * came.squares * (1 + 1e-9)).all():
            raise UploadError("moments", "no values can have these moments")
        return came

    def server_update(self, state: SentMoments, total: SentMoments, turn: Turn) -> SentMoments:
        return state + total

    def result(self, state: SentMoments) -> Prepare:
        return self.prepare.fitted(state.moments)

    def figures(self, state: SentMoments) -> dict[str, float]:
        return {"values": float(state.count.sum())}

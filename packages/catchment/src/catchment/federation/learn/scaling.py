"""One scale for all clients, from the sum of their moments, in one round before training.

Moments travel as integers, in limbs of 32 binary digits, so their sum over clients is exact in any
order and under secure aggregation: everybody has the scaler of the pooled data to the bit.

Centring and dividing features by their spread takes no such round: both come after the features,
and the statistics that are sent anyway tell them (`catchment.readout.solve`). The scale of inputs
bends every state of a reservoir, and no statistics can undo it: so it is agreed on beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np

from catchment.arrays import Integers
from catchment.data.preprocessing import Preprocessing
from catchment.data.scaling import Moments
from catchment.errors import UploadError
from catchment.federation.algorithm import Algorithm, Data, RoundContext
from catchment.readout.integers import from_limbs, to_limbs
from catchment.wire import COUNTED, NOT_NEGATIVE, SIGNED, Kind, Message, Shape, Summable

LIMB = 32  # binary digits
TOTAL_LIMBS, SQUARES_LIMBS = 4, 7  # for 2^33 values of largest size, with room in the top limb
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
        """Return moments as they travel."""
        total = to_limbs(moments.total, TOTAL_LIMBS, LIMB)
        return cls(moments.count, total, to_limbs(moments.squares, SQUARES_LIMBS, LIMB))

    @property
    def moments(self) -> Moments:
        total = from_limbs(self.total, LIMB).astype(object)
        return Moments(self.count, total, from_limbs(self.squares, LIMB).astype(object))


@dataclass(frozen=True, kw_only=True)
class FederatedScaling(Algorithm[SentMoments, SentMoments, Preprocessing]):
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
    preprocessing
        What happens to recordings before their moments are taken; its scale is what is fitted.
    """

    channels: int
    preprocessing: Preprocessing = field(default_factory=Preprocessing)

    def start(self) -> SentMoments:
        n = self.channels
        count, total = np.zeros(n, np.int64), np.zeros((TOTAL_LIMBS, n), np.int64)
        return SentMoments(count, total, np.zeros((SQUARES_LIMBS, n), np.int64))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> SentMoments:
        moments = Moments.of(self.preprocessing.before_scaling(data()))
        if not moments.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        return SentMoments.of(moments)

    def read_update(self, parts: Message, context: RoundContext) -> SentMoments:
        came = SentMoments.from_message(parts)
        if len(came.count) != self.channels:
            raise UploadError(
                "shape", f"moments of {parts.shapes()} came, there are {self.channels} channels"
            )
        # The limbs must leave room to be added, and the mean's square cannot exceed the mean of
        # squares: exactly, as nothing was rounded.
        limbs = np.concatenate([came.total, came.squares])
        room, moments = 2 ** (LIMB + CLIENTS_BITS), came.moments
        inside = moments.total**2 <= came.count.astype(object) * moments.squares
        if not (np.abs(limbs) < room).all() or not inside.all():
            raise UploadError("moments", "no values can have these moments")
        return came

    def server_update(
        self, state: SentMoments, total: SentMoments, context: RoundContext
    ) -> SentMoments:
        return SentMoments.of((state + total).moments)

    def result(self, state: SentMoments) -> Preprocessing:
        return self.preprocessing.fitted(state.moments)

    def figures(self, state: SentMoments) -> dict[str, float]:
        return {"values": float(state.count.sum())}

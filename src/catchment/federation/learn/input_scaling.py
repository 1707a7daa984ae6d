"""One scaler for all clients, from the sum of their moments, in one round before training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catchment.data.scaling import Moments, Scaler
from catchment.errors import UploadError
from catchment.federation.plan import Data, Turn
from catchment.readout.model import Model
from catchment.wire import NOTHING, Parts


@dataclass(frozen=True, eq=False)
class SentMoments:
    """Counts, sums and sums of squares of each channel, as they travel and add."""

    moments: Moments

    def __add__(self, other: SentMoments) -> SentMoments:
        return SentMoments(self.moments + other.moments)

    def parts(self) -> Parts:
        m = self.moments
        return Parts("moments", {}, (m.count.astype(np.float64), m.total, m.squares))


@dataclass(frozen=True, kw_only=True)
class FederatedScaling:
    """The mean and standard deviation of every channel over all clients' training data.

    The server sees three numbers per channel of each client: how many values, their sum and their
    sum of squares. The scaler is that of the pooled data.

    >>> from catchment import Plan, Recording, fit
    >>> clients = {"a": [Recording(np.array([0.0, 2.0]))], "b": [Recording(np.array([4.0]))]}
    >>> plan = Plan(algorithm=FederatedScaling(channels=1))
    >>> plan.algorithm.scaler(fit(plan, clients).state).mean
    array([2.])
    """

    channels: int

    def start(self) -> Moments:
        nothing = np.zeros(self.channels)
        return Moments(nothing.astype(np.int64), nothing, nothing, nothing)

    def broadcast(self, state: Moments, turn: Turn) -> Parts:
        return NOTHING

    def client_update(self, received: Parts, data: Data, turn: Turn) -> SentMoments:
        moments = Moments.of(data())
        if not moments.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        return SentMoments(moments)

    def read_update(self, parts: Parts, turn: Turn) -> SentMoments:
        return SentMoments(self._read(parts))

    def server_update(self, state: Moments, total: SentMoments, turn: Turn) -> Moments:
        return state + total.moments

    def scaler(self, state: Moments) -> Scaler:
        """Return the scaler that the sums amount to."""
        return Scaler.from_moments(state)

    def model(self, state: Moments) -> Model | None:
        return None

    def save_state(self, state: Moments) -> Parts:
        return SentMoments(state).parts()

    def load_state(self, parts: Parts) -> Moments:
        return self._read(parts)

    def _read(self, parts: Parts) -> Moments:
        count, total, squares = parts.expect("moments", 3).arrays
        if {array.shape for array in parts.arrays} != {(self.channels,)}:
            raise UploadError(
                "shape", f"moments of {parts.shapes()} came, there are {self.channels} channels"
            )
        if not all(np.isfinite(array).all() for array in parts.arrays):
            raise UploadError("not-finite", "the moments hold NaN or infinite numbers")
        whole = (count >= 0) & (count < 2**53) & (count == np.floor(count))
        # The mean's square cannot exceed the mean of squares, but for rounding.
        possible = total**2 <= count * squares * (1 + 1e-9)
        if not (whole & possible).all():
            raise UploadError("moments", "no values can have these moments")
        return Moments(count.astype(np.int64), total, squares, np.zeros(self.channels))

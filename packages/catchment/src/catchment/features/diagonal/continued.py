"""Go on with a recording from the modes and units that its steps so far have left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catchment.arrays import Array
from catchment.features.diagonal.diagonal import BLOCK_STEPS, DiagonalReservoir

Arrays = tuple[Array, ...]


@dataclass(frozen=True, eq=False)
class DiagonalContinuation:
    """A diagonal reservoir that carries its states, and behind them the moments of its pool."""

    inner: DiagonalReservoir

    def rows(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows of the next steps and what to carry; see `Continuation`."""
        inner, u = self.inner, self.inner.checked_inputs(u)
        state = inner.at_rest() if not carried else tuple(array.copy() for array in carried[:3])
        moments = carried[3:]
        wanted = np.arange(steps, steps + len(u)) >= inner.washout
        found = []
        for first in range(0, len(u), BLOCK_STEPS):
            block = slice(first, first + BLOCK_STEPS)
            z = inner.advance(state, u[block], wanted[block])
            if inner.pool is None:
                found.append(z)
            elif len(z):
                moments = (inner.with_moments(z, moments[0] if moments else None),)
        rows = np.concatenate(found) if found else np.empty((0, inner.n_features))
        return inner.checked_rows(rows) if inner.pool is None else rows, (*state, *moments)

    def end(self, steps: int, carried: Arrays) -> Array:
        """Return the row of a pool, if there is one; see `Continuation`."""
        n = steps - self.inner.washout
        if self.inner.pool is None or n < 1:
            return np.empty((0, self.inner.n_features))
        return self.inner.checked_rows(self.inner.row_of(carried[3], n))

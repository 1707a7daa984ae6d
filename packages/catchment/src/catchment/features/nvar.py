"""`NVAR`: delayed inputs and their products, a reservoir without a reservoir.

Nonlinear vector autoregression, or the next generation of reservoir computing (Gauthier, Bollt,
Griffith and Barbosa 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from catchment.arrays import Array, NonNegativeInt, PositiveInt
from catchment.compiling import njit
from catchment.features.base import Arrays, FeatureMap, warn_of_clipping
from catchment.features.echo_state.kernels import SAFE_MATH
from catchment.features.echo_state.weights import ROUND
from catchment.parallel import ordered_map

DELAY_DIGITS = 22  # of inputs; their products have 50 bits
R_DELAY = ROUND / 2**DELAY_DIGITS
LARGEST = 50_000  # features
LIMIT = 8.0  # largest absolute value of an input


@dataclass(frozen=True)
class NVAR(FeatureMap):
    """A constant, delayed inputs, and their products of two, or of two and three; a row per step.

    With k delays of I inputs there are n = k I linear features, n (n + 1) / 2 products of two and
    n (n + 1) (n + 2) / 6 of three. Inputs have 22 binary digits after the point and are cut off at
    8 in absolute value, so pass inputs of standard deviation about 1. Before a recording's first
    step they are zero.

    Parameters
    ----------
    delays
        How many values of each channel, the present one among them.
    stride
        Steps from one to the next.
    order
        Factors of the largest products: 1, 2 or 3.
    washout
        Steps at the start of each recording that give no features.
    bits
        Bits of the features; "auto" is 16 for classes and 24 for numbers, None no rounding.

    >>> built = NVAR(delays=2).build(1, per_step=True)
    >>> built.names()
    ['1', 'u0', 'u0@1', 'u0 u0', 'u0 u0@1', 'u0@1 u0@1']
    >>> built.rows([[2.0, 3.0]])[0]
    array([[1., 2., 0., 4., 0., 0.],
           [1., 3., 2., 9., 6., 4.]])
    """

    delays: PositiveInt = 10
    stride: PositiveInt = 1
    order: Annotated[int, Ge(1), Le(3)] = 2
    washout: NonNegativeInt = 0
    bits: int | Literal["auto"] | None = "auto"
    n_inputs: int | None = None

    per_step = True
    constant = True
    standardize = True
    class_bits = 16  # products are far below their bounds

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_inputs is not None and self.n_features > LARGEST:
            raise ValueError(
                f"{self.delays} delays of {self.n_inputs} inputs have {self.n_features} features "
                f"of order {self.order}; ask for fewer delays, {LARGEST} are the most"
            )

    @property
    def _sizes(self) -> list[int]:
        """How many features there are of no factor, of one, two and three."""
        return [
            comb(self.delays * self.known_inputs + order - 1, order)
            for order in range(self.order + 1)
        ]

    @property
    def n_features(self) -> int:
        return sum(self._sizes)

    @property
    def bounds(self) -> Array:
        return np.repeat([LIMIT**order for order in range(self.order + 1)], self._sizes)

    def names(self) -> list[str]:
        linear = [
            f"u{c}" + (f"@{d * self.stride}" if d else "")
            for d in range(self.delays)
            for c in range(self.known_inputs)
        ]
        found = ["1", *linear]
        for order in range(2, self.order + 1):
            found += [" ".join(names) for names in combinations_with_replacement(linear, order)]
        return found

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        def work(u: Array) -> Array:
            return self._rows_from(u, len(u) - self.after_washout(u))

        return list(ordered_map(work, inputs, threads=threads))

    def _rows_from(self, u: Array, first: int) -> Array:
        """Return the rows (n, F) of the steps of u (T, I) from the first on."""
        warn_of_clipping(np.count_nonzero(np.abs(u) > LIMIT), u.size, LIMIT)
        rows = np.empty((max(0, len(u) - first), self.n_features))
        monomials(np.ascontiguousarray(u), first, self.delays, self.stride, self.order, LIMIT, rows)
        return rows

    def go_on(self, u: Array, steps: int, carried: Arrays) -> tuple[Array, Arrays]:
        """Return the rows of the next steps; the last inputs that it looks at are carried."""
        reach = (self.delays - 1) * self.stride
        before = carried[0] if carried else np.empty((0, u.shape[1]))
        known = np.concatenate([before, self.checked_inputs(u)])
        rows = self._rows_from(known, len(before) + max(0, self.washout - steps))
        return self.checked_rows(rows), (known[max(0, len(known) - reach) :],)


@njit(nogil=True, cache=True, fastmath=SAFE_MATH, error_model="numpy")
def monomials(u, first, delays, stride, order, limit, out):
    """Monomials of delayed inputs u (T, I), of the steps from the first on, into rows of out.

    A row is 1, the delayed inputs, their products in pairs, and with order 3 in triples.
    """
    T, I = u.shape
    n = delays * I
    x = np.empty(n)
    for t in range(first, T):
        z = out[t - first]
        for d in range(delays):
            for c in range(I):
                past = u[t - d * stride, c] if t >= d * stride else 0.0
                x[d * I + c] = min(max(past, -limit), limit) + R_DELAY - R_DELAY
        z[0] = 1.0
        z[1 : n + 1] = x
        place = n + 1
        if order > 1:
            for i in range(n):
                for j in range(i, n):
                    z[place + j - i] = x[i] * x[j]
                place += n - i
        if order > 2:
            for i in range(n):
                for j in range(i, n):
                    pair = x[i] * x[j] + R_DELAY - R_DELAY
                    for k in range(j, n):
                        z[place + k - j] = pair * x[k]
                    place += n - j

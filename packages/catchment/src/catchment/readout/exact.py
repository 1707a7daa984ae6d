"""Sums of products of integers, exact: products in floating point, totals in integers.

A float64 sum of integers is exact in any order as long as no partial sum passes 2^53, a
float32 sum up to 2^24. By Cauchy and Schwarz no partial sum of k_i k_j passes the larger of the
sums of k_i^2 and k_j^2, so it is enough to watch those. Before they would pass the limit, what was
summed is added to totals in int64, and before these could overflow their upper digits move on.
"""

from __future__ import annotations

import math
import warnings
from functools import lru_cache, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array, Integers, aligned
from catchment.errors import CoarseTargetsWarning
from catchment.readout import integers
from catchment.readout.fixed_point import LARGEST_CLASS, LARGEST_TARGET, TARGET_DIGITS, FixedPoint
from catchment.readout.statistics import RidgeStatistics, pack

FINE = 2.0**-16  # targets that are all smaller have fewer than 20 bits
PIECE = 20  # binary digits of a piece of a target
N_PIECES = 4
SINGLE_BITS = 8  # features of so few bits are multiplied in float32, if targets are whole
_MOST_COLUMNS = 2048  # added at once: sums grow by less than 2^59
_FULL = 1 << 62  # what sums hold at most before some of it is moved
_CARRY = 32  # digits that stay
FEW = 256  # features of which the places of all sums are kept: clients are many then


class Gram:
    """The sum of Z Z' (n, n) over blocks Z (n, m), without the interpreter's lock.

    In fixed point that of K K' as integers: rows are features, pieces of targets, and ones.

    Parameters
    ----------
    fixed
        Of the features; few bits are multiplied in float32 if targets are whole.
    constant
        Whether the first feature is 1 in every row. In fixed point it is then counted as such: as
        2^bits it would fill the sums before any other.

    >>> total = Gram(2)
    >>> total.add(np.array([[1.0, 2.0], [3.0, 4.0]]))
    >>> np.triu(total.result())
    array([[ 5., 11.],
           [ 0., 25.]])
    >>> total = Gram(2, FixedPoint(4, ((1, 2),)))
    >>> total.add(np.array([[0.25, 0.5], [1.0, 1.0]]))
    >>> np.triu(total.result())
    array([[5, 3],
           [0, 2]])
    """

    def __init__(self, n: int, fixed: FixedPoint | None = None, *, constant: bool = False) -> None:
        from catchment.readout import exact_kernels as kernels

        single = fixed is not None and fixed.is_whole and fixed.bits <= SINGLE_BITS
        self.n, twice = n, 2 if single else 1
        self.width = kernels.WIDTH * twice
        self.height = -(-n // self.width) * self.width
        self.room = aligned(
            (kernels.GROUP * twice * self.height,), np.float32 if single else np.float64
        )
        self.sums: Any = aligned((self.height**2,))
        self.rounding: Any = (None, None, None, math.inf)  # as the compiled pass takes it
        if fixed is not None:
            F, scale, bits = fixed.n_features, np.ones(n), np.zeros(n, dtype=np.int64)
            scale[:F], bits[:F] = np.ldexp(1.0, fixed.digits), fixed.bits
            bits[F:-1] = SINGLE_BITS if fixed.is_whole else PIECE
            if constant:
                scale[0], bits[0] = 1.0, 0
            energies = np.empty(len(self.room) // kernels.PIECE)
            self.rounding = (scale, np.ldexp(1.0, bits), energies, 2.0**24 if single else 2.0**53)
            self.sums = self.sums.view(np.int64)
        self.clear()

    def clear(self) -> None:
        """Begin another sum, in the memory of the last."""
        self.sums[:] = 0
        self.held = 0  # no entry of the sums is larger, if they are integers
        self.carried: NDArray[np.int64] | None = None  # what was moved away, in units of 2^32

    def add(self, Z: Array) -> None:
        """Add the products of rows Z (n, m), fastest if numbers along one axis are neighbors."""
        from catchment.readout.exact_kernels import add_product

        if len(Z) != self.n:
            raise ValueError(f"{len(Z)} rows came for a sum of {self.n}; give as many")
        # The pass goes by places in memory, so it takes no other numbers and none backward.
        if Z.dtype != np.float64 or min(Z.strides) < 0 or not Z.flags.aligned:
            Z = np.array(Z, dtype=np.float64, order="C")
        held = (self.room, self.width, self.sums, self.height, *self.rounding)
        for first in range(0, Z.shape[1], _MOST_COLUMNS):
            part = Z[:, first : first + _MOST_COLUMNS]
            # The numbers as they lie in memory, and how far rows and columns are apart.
            (n, m), (down, on) = part.shape, np.floor_divide(part.strides, part.itemsize).tolist()
            size = (1 + (n - 1) * down + (m - 1) * on,)
            z = np.lib.stride_tricks.as_strided(part, size, (part.itemsize,))
            grown = add_product(z, (down, on), n, m, *held)
            if self.sums.dtype != np.int64:
                continue
            self.held += 1 + int(grown)
            if self.held >= _FULL:
                moved = self.sums >> _CARRY
                self.carried = moved if self.carried is None else self.carried + moved
                self.sums -= moved << _CARRY
                self.held = 1 << _CARRY

    def result(self) -> integers.Whole:
        """Return the sum; what lies below its diagonal has no meaning."""
        n, shape = self.n, (self.height, self.height)
        sums: integers.Whole = self.sums.reshape(shape)[:n, :n]
        if self.carried is None:
            return sums
        carried = self.carried.reshape(shape)[:n, :n]
        return integers.added(integers.multiplied(carried, 1 << _CARRY), sums)


def target_pieces(targets: list[Array], fixed: FixedPoint) -> tuple[list[Array], tuple[int, ...]]:
    """Return targets (n, K) or (K,) as integers (n, P K) or (P K,), and the places of pieces.

    Piece p of a target counts 2^(20 p - digits); pieces that are zero throughout are left out. NaN
    stays NaN.

    >>> target_pieces([np.array([[1.25 + 2.0**-36], [0.5]])], FixedPoint(20, ((1, 20),), 36))
    ([array([[1.0000e+00, 8.1920e+04],
           [0.0000e+00, 3.2768e+04]])], (0, 1))
    """
    if not targets:
        return [], (0,)
    y = np.concatenate(list(map(np.atleast_2d, targets)))
    highest = float(np.fmax.reduce(y, axis=None, initial=0.0))
    largest = max(highest, -float(np.fmin.reduce(y, axis=None, initial=0.0)))
    check_targets(largest, fixed, fixed.is_whole and bool(((np.rint(y) != y) & (y == y)).any()))
    if fixed.is_whole:
        return list(targets), (0,)
    # Lowest first; those of two are enough for all but very large targets.
    left = np.rint(y * 2.0**TARGET_DIGITS)
    n_pieces = 2 if largest * 2.0**TARGET_DIGITS < 2.0 ** (2 * PIECE - 1) else N_PIECES
    found: dict[int, Array] = {}
    for p in range(n_pieces - 1, 0, -1):
        found[p] = np.rint(left * 2.0 ** (-PIECE * p))
        left -= found[p] * 2.0 ** (PIECE * p)
    found[0] = left
    places = tuple(p for p in sorted(found) if (np.abs(found[p]) > 0).any()) or (0,)
    pieces = np.concatenate([found[p] for p in places], axis=1)
    parts, start = [], 0
    for y in targets:
        end = start + y.size // y.shape[-1]
        parts.append(pieces[start] if y.ndim == 1 else pieces[start:end])
        start = end
    return parts, places


def check_targets(largest: float, fixed: FixedPoint, parts: bool) -> None:
    """Raise, or warn, if targets do not suit fixed point.

    Parameters
    ----------
    largest
        Of their absolute values.
    parts
        Whether they are to be integers, and one is not.
    """
    if fixed.is_whole:
        if largest > LARGEST_CLASS or parts:
            raise ValueError(
                f"targets of classes are integers up to {LARGEST_CLASS}, and others came (up "
                f"to {largest:g}); pass classes=False if they are numbers"
            )
    elif not largest < LARGEST_TARGET:
        raise ValueError(
            f"a target is {largest:g}; in fixed point they stay below 2^40, so scale the targets"
        )
    elif 0.0 < largest < FINE:
        warnings.warn(
            f"the largest target is {largest:.3g}, of which whole multiples of 2^-{TARGET_DIGITS} "
            f"keep {largest * 2.0**TARGET_DIGITS:.3g} steps; scale the targets, or pass bits=None",
            CoarseTargetsWarning,
            stacklevel=3,
        )


@lru_cache(maxsize=8)  # asked for every client, of which a round may have a million
def _places_of(F: int, K: int, width: int) -> tuple[Integers, Integers]:
    """Return where the numbers of `RidgeStatistics.vector` lie in rows of this width.

    And which of them are of the first row.
    """
    at = np.arange((F + K + 1) * width).reshape(-1, width)
    Z, Y, one, upper = slice(F), slice(F, F + K), F + K, np.triu_indices
    parts = at[Z, one], at[Y, one], at[Z, Z][upper(F)], at[Z, Y].reshape(-1), at[Y, Y][upper(K)]
    places = np.concatenate(parts)
    return places, np.flatnonzero(places < width)


def statistics_of(
    M: integers.Whole,
    n_rows: int,
    fixed: FixedPoint,
    places: tuple[int, ...],
    constant: bool,
    fingerprint: str,
) -> RidgeStatistics:
    """Return the statistics of rows of features Z, pieces of targets Y, and ones.

    Parameters
    ----------
    M
        [Z; Y'; 1] [Z; Y'; 1]', of which only the upper triangle counts.
    """
    F, n, weight = fixed.n_features, len(M), float(int(M[-1, -1]))
    unit = 1 << int(fixed.digits[0]) if constant else 1
    first = integers.multiplied(M[0], unit)
    corner = integers.multiplied(first[: min(F, 1)], unit)
    few = 0 < F <= FEW and places == (0,) and M.strides[1] == M.itemsize
    if (
        few and corner.dtype == first.dtype == M.dtype == np.int64
    ):  # not of many rows and a constant
        down, about = M.strides[0] // M.itemsize, ((F, n - F - 1), fingerprint, fixed)
        flat = np.lib.stride_tricks.as_strided(M, ((n - 1) * down + n,), (M.itemsize,))
        which, row = _places_of(F, n - F - 1, down)
        vector = flat[which]
        vector[row] *= unit
        vector[n - 1] *= unit  # of Z'Z, which lies behind Z'1 and Y'1
        return RidgeStatistics.of_vector(n_rows, weight, vector, *about)
    gram = pack(M[:F, :F]).astype(np.result_type(corner, first, M), copy=False)
    gram[:F] = np.concatenate([corner, first[1:F]])
    edge, below = np.concatenate([first[None, F:][:F], M[1:F, F:]]), M[F:-1, F:]
    # The rows of Y' are pieces of K targets, each of so many units.
    K = len(below) // len(places)
    target_sum, cross = below[:, -1].copy(), edge[:, :K].copy()
    target_gram = pack(below[:K, :K])
    if places != (0,):
        pieces = [(p * K, PIECE * place) for p, place in enumerate(places)]
        known, both = below.tolist(), [(a, b, d + e) for a, d in pieces for b, e in pieces]
        target_sum = np.array(
            [sum(known[a + k][-1] << d for a, d in pieces) for k in range(K)], "O"
        )
        parts = [integers.multiplied(edge[:, a : a + K], 1 << d) for a, d in pieces]
        cross = reduce(integers.added, parts)
        products = [
            sum(known[min(a + i, b + j)][max(a + i, b + j)] << d for a, b, d in both)
            for i in range(K)
            for j in range(i, K)
        ]
        target_gram = np.array(products, dtype=object)
    sums = (edge[:, -1].copy(), target_sum, gram, cross, target_gram)
    return RidgeStatistics(n_rows, weight, *sums, fingerprint, fixed)


def exact_statistics(
    z: Array, y: Array, fixed: FixedPoint, *, weight: Array | None = None, fingerprint: str = ""
) -> RidgeStatistics:
    """Return the statistics of features (n, F) that lie in fixed point and targets (n, K), all
    known.

    >>> z, y = np.array([[0.5], [0.25]]), np.array([[1.0], [0.0]])
    >>> exact_statistics(z, y, FixedPoint(4, ((1, 4),))).gram
    array([80])
    """
    if z.shape[1] != fixed.n_features:
        raise ValueError(f"features have {z.shape[1]} columns, fixed point has {fixed.n_features}")
    if not len(z):
        return RidgeStatistics.zero(z.shape[1], y.shape[1], fingerprint, fixed)
    for first in range(0, len(z), 32):  # so few that they stay in the cache
        whole = z[first : first + 32] / fixed.scale
        off = (np.rint(whole) != whole) | (np.abs(whole) > 2.0**fixed.bits)
        if off.any():
            row, column = np.argwhere(off)[0] + (first, 0)
            raise ValueError(
                f"feature {column} is {z[row, column]!r} in row {row}, not in fixed point of "
                f"{fixed.bits} bits; pass rows as the map makes them"
            )
    found = []
    for value in [1] if weight is None else whole_weights(weight):
        mine = slice(None) if weight is None else weight == value
        rows = z[mine]
        (pieces,), places = target_pieces([y[mine]], fixed)
        constant = bool(
            rows.size and (rows[:, 0] == 1.0).all() and 0 <= fixed.digits[0] <= fixed.bits
        )
        sums = Gram(z.shape[1] + pieces.shape[1] + 1, fixed, constant=constant)
        sums.add(np.concatenate([rows, pieces, np.ones((len(rows), 1))], axis=1).T)
        made = statistics_of(sums.result(), len(rows), fixed, places, constant, fingerprint)
        found.append(made if value == 1 else made.scaled(value))
    return reduce(add, found)


def whole_weights(weight: Array) -> list[int]:
    """Return the different weights, ascending; ValueError if one is not whole.

    >>> whole_weights(np.array([2.0, 1.0, 2.0]))
    [1, 2]
    """
    values = np.unique(weight)
    odd = values[np.rint(values) != values]
    if len(odd):
        raise ValueError(
            f"a weight is {odd[0]:g}; in fixed point weights are integers, so multiply all of "
            "them by one number and round, or use a map with bits=None"
        )
    return [int(value) for value in values]

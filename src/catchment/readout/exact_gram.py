"""Sums of products of whole numbers, exact: products by BLAS, totals in integers.

A float64 sum of whole numbers is exact in any order as long as no partial sum passes 2^53, a
float32 sum up to 2^24. By Cauchy and Schwarz no partial sum of k_i k_j passes the larger of the
sums of k_i^2 and k_j^2, so it is enough to watch those. When they would pass the limit, what
was summed moves to a total: from float32 to float64, and from float64 what is a multiple of 2^30,
counted in those.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.readout import integers
from catchment.readout.gram import add_gram
from catchment.readout.grid import LARGEST_CLASS, LARGEST_TARGET, TARGET_DIGITS, Grid
from catchment.readout.packing import packed_length
from catchment.readout.statistics import RidgeStatistics

PIECE = 20  # binary digits of a piece of a target
N_PIECES = 4
SINGLE_BITS = 8  # features of so few bits are multiplied in float32, if targets are whole
MOST_CHUNK = 128  # columns whose squares are summed together
_UNIT = 1 << 30  # of the total of float64 sums
_LINE = 64  # bytes of a cache line


class ExactGram:
    """The sum of K K' (n, n) over whole numbers K (n, m), as integers.

    Parameters
    ----------
    scale
        (n,) what rows are multiplied by to be whole numbers: powers of two.
    bits
        (n,) their absolute values are at most 2^bits.
    single
        Whether to multiply in float32.

    >>> total = ExactGram(np.array([4.0, 1.0]), np.array([2, 1]), single=True)
    >>> total.add(np.array([[0.25, 0.5], [1.0, 2.0]]))
    >>> total.result()
    array([[5, 5],
           [0, 5]])
    """

    def __init__(self, scale: Array, bits: NDArray[np.int64], *, single: bool) -> None:
        n = len(scale)
        self.scale, self.most = scale, np.ldexp(1.0, bits)
        self.single, self.dtype = single, np.dtype(np.float32 if single else np.float64)
        self.limit = 2.0**24 if single else 2.0**53
        widest = int(bits.max(initial=0))
        # One chunk alone always stays below the limit.
        self.chunk = min(MOST_CHUNK, 1 << ((23 if single else 52) - 2 * widest))
        self.sums = np.empty((n, n), dtype=self.dtype)
        self.room = np.empty(0, dtype=self.dtype)
        self.energy, self.filled = np.zeros(n), False
        self.total = np.zeros((n, n))  # in units of 2^30 in float64, of 1 in float32
        self.held = 0  # no entry that was moved to the total is larger, in its units

    def add(self, Z: Array, *, overwrite: bool = False) -> None:
        """Add the products of rows Z (n, m), or of the transpose of rows that lie one by one.

        Parameters
        ----------
        overwrite
            Whether Z may be lost, which saves going through memory twice.
        """
        from catchment.readout import exact_kernels as kernels

        n, m = Z.shape
        if m == 0:
            return
        if Z.itemsize not in Z.strides:
            Z = np.ascontiguousarray(Z)
        along = Z.strides[1] == Z.itemsize
        lines = Z if along else Z.T
        energies = np.empty((-(-m // self.chunk), n))
        units = self.scale, self.most, self.chunk
        if overwrite and not self.single:
            again = kernels.round_rows if along else kernels.round_columns
            again(*_flat(lines), *units, m, energies)
            K = lines
        else:
            make = kernels.whole_rows if along else kernels.whole_columns
            K = self._room(*lines.shape)
            make(*_flat(lines), *units, *_flat(K), m, energies)
        self._multiply(K if along else K.T, energies)

    def _room(self, count: int, length: int) -> NDArray[Any]:
        """Return room for (count, length) numbers, the same memory each time.

        Lines are a little longer than needed: with a power of two between them they would compete
        for the same few places in the cache.
        """
        apart = length + _LINE // self.dtype.itemsize
        if len(self.room) < count * apart:
            self.room = np.empty(count * apart, dtype=self.dtype)
        return self.room[: count * apart].reshape(count, apart)[:, :length]

    def _multiply(self, K: NDArray[Any], energies: Array) -> None:
        """Add K K', in as few products as the sums of squares (chunks, n) of its columns allow."""
        from catchment.readout.exact_kernels import count_fitting

        first = 0
        while first < len(energies):
            stop = first + int(count_fitting(energies, first, self.energy, self.limit))
            if stop == first:
                self._empty()
                continue
            columns = slice(first * self.chunk, stop * self.chunk)
            add_gram(self.sums, K[:, columns], keep=self.filled)
            self.filled, first = True, stop

    def _empty(self) -> None:
        """Make room in the sums by moving them to the total."""
        from catchment.readout import exact_kernels as kernels

        if not self.filled:
            return
        self.held += int(self.energy.max()) // (1 if self.single else _UNIT) + 1
        if self.held >= 1 << 53:
            raise OverflowError("more rows came than a sum can hold; accumulate them in parts")
        if self.single:
            kernels.empty_single(self.sums, self.total)
            self.energy, self.filled = np.zeros(len(self.energy)), False
        else:
            kernels.empty_double(self.sums, self.total, float(_UNIT))
            self.energy = np.full(len(self.energy), float(_UNIT))

    def result(self) -> integers.Whole:
        """Return the sum, whose lower triangle is zero."""
        sums = np.triu(self.sums).astype(np.int64) if self.filled else None
        if self.single:
            self._empty()
            return self.total.astype(np.int64)
        if self.held == 0:
            return self.total.astype(np.int64) if sums is None else sums
        assert sums is not None
        moved = integers.multiplied(self.total.astype(np.int64), _UNIT)
        return integers.added(moved, sums)


def is_single(grid: Grid) -> bool:
    """Whether features and targets have so few bits that products are taken in float32."""
    return grid.is_whole and grid.bits <= SINGLE_BITS


def exact_gram(grid: Grid, n_target_rows: int, *, constant: bool) -> ExactGram:
    """Return an empty sum for rows of features, of pieces of targets, and of ones."""
    scale, bits = row_units(grid, n_target_rows, constant=constant)
    return ExactGram(scale, bits, single=is_single(grid))


def row_units(grid: Grid, n_target_rows: int, *, constant: bool) -> tuple[Array, NDArray[np.int64]]:
    """Return what rows of features, targets and ones are multiplied by, and their bits.

    Parameters
    ----------
    constant
        Whether the first feature is 1 in every row. It is then counted as such: as 2^bits it would
        fill the sums before any other.
    """
    n = grid.n_features + n_target_rows + 1
    scale, bits = np.ones(n), np.zeros(n, dtype=np.int64)
    scale[: grid.n_features] = np.ldexp(1.0, grid.digits)
    bits[: grid.n_features] = grid.bits
    bits[grid.n_features : -1] = SINGLE_BITS if grid.is_whole else PIECE
    if constant:
        scale[0], bits[0] = 1.0, 0
    return scale, bits


def _flat(lines: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return the memory of lines whose numbers are neighbours, and how far lines are apart."""
    count, length = lines.shape
    apart = lines.strides[0] // lines.itemsize if count > 1 else length
    size = (count - 1) * apart + length
    return np.lib.stride_tricks.as_strided(lines, (size,), (lines.itemsize,)), apart


def target_pieces(targets: list[Array], grid: Grid) -> tuple[list[Array], tuple[int, ...]]:
    """Return targets (n, K) or (K,) as whole numbers (n, P K) or (P K,), and the places of pieces.

    Piece p of a target counts 2^(20 p - digits); pieces that are zero throughout are left out. NaN
    stays NaN.

    >>> target_pieces([np.array([[1.25]])], Grid(20, ((1, 20),), 36))
    ([array([[2.62144e+05, 1.00000e+00]])], (1, 2))
    """
    largest = max((float(np.nanmax(np.abs(y), initial=0.0)) for y in targets), default=0.0)
    if grid.is_whole:
        if largest > LARGEST_CLASS or any((np.rint(y) != y)[~np.isnan(y)].any() for y in targets):
            raise ValueError(
                f"targets of classes are whole numbers up to {LARGEST_CLASS}, and others came (up "
                f"to {largest:g}); pass classes=False if they are numbers"
            )
        return list(targets), (0,)
    if not largest < LARGEST_TARGET:
        raise ValueError(
            f"a target is {largest:g}; on a grid they stay below 2^40, so scale the targets"
        )
    split = [_split(y) for y in targets]
    used = [p for p in range(N_PIECES) if any(np.nan_to_num(s[p]).any() for s in split)] or [0]
    return [np.concatenate([s[p] for p in used], axis=-1) for s in split], tuple(used)


def _split(y: Array) -> list[Array]:
    """Return four pieces, each of the shape of y, lowest first; exact in float64."""
    left = np.rint(y * 2.0**TARGET_DIGITS)
    found: list[Array] = []
    for p in range(N_PIECES - 1, 0, -1):
        piece = np.rint(left * 2.0 ** (-PIECE * p))
        left = left - piece * 2.0 ** (PIECE * p)
        found.append(piece)
    return [left, *reversed(found)]


def statistics_of(
    gram: integers.Whole,
    edge: integers.Whole,
    n_rows: int,
    grid: Grid,
    places: tuple[int, ...],
    *,
    constant: bool,
    fingerprint: str,
) -> RidgeStatistics:
    """Return the statistics of sums over rows of features Z, pieces of targets Y, and ones.

    Parameters
    ----------
    gram
        The packed triangle of Z'Z.
    edge
        [Z'Y, Z'1; Y'Y, Y'1; _, 1'1], with the upper triangle of Y'Y.
    """
    F, P = grid.n_features, len(places)
    K = (edge.shape[1] - 1) // P
    below = edge[F:-1].astype(object)
    weight, edge = float(int(edge[-1, -1])), edge[:F].copy()
    if constant:
        unit = 1 << int(grid.digits[0])
        gram = _times(_times(gram, slice(F), unit), slice(1), unit)
        edge = _times(edge, slice(1), unit)
    cross = np.zeros((F, K), dtype=np.int64)
    target_sum, target_gram = np.zeros(K, dtype=object), np.zeros((K, K), dtype=object)
    square = np.triu(below[:, :-1]) + np.triu(below[:, :-1], 1).T
    for p, place in enumerate(places):
        mine = slice(p * K, (p + 1) * K)
        unit = 1 << PIECE * place
        cross = integers.added(cross, integers.multiplied(edge[:, mine], unit))
        target_sum = target_sum + below[mine, -1] * unit
        for q, other in enumerate(places):
            block = square[mine, q * K : (q + 1) * K]
            target_gram = target_gram + block * (unit << PIECE * other)
    return RidgeStatistics(
        n_rows,
        weight,
        integers.canonical(edge[:, -1].copy()),
        target_sum,
        gram,
        cross,
        target_gram[np.triu_indices(K)],
        fingerprint,
        grid,
    )


def _times(values: integers.Whole, where: slice, factor: int) -> integers.Whole:
    """Return the array with some of its entries multiplied."""
    some = integers.multiplied(values[where], factor)
    found = values.astype(object) if some.dtype == object else values
    found[where] = some
    return found


def packed_whole(M: integers.Whole, n: int) -> integers.Whole:
    """Return the packed upper triangle of the first n rows and columns."""
    if M.dtype == object:
        return integers.canonical(M[:n, :n][np.triu_indices(n)])
    from catchment.readout.exact_kernels import packed_upper

    found = np.empty(packed_length(n), dtype=np.int64)
    packed_upper(M, found)
    return found

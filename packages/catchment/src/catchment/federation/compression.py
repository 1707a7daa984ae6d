"""Smaller uploads, each with a bound on what it does to the readout.

`Float32` halves any upload. `FactorUpload` is for ridge statistics. The moments of a client,
centred at its means, are M = R'R with R (r, F + K) of as many rows as M has rank: fewer rows than
features make a small upload, exact to rounding. Rounding R instead of M keeps M free of negative
eigenvalues and costs half the digits in its small ones, so 16 bits of R often do where 16 bits of M
would not. Column j of R has length s_j, and every entry is rounded to a multiple of q s_j.

With A the factors of all clients on top of each other, b their targets, W the exact readout and
W + dW the one from rounded factors A + dA and b + db,

    (A~'A~ + ridge I) dW = A~'e + dA'r,    A~ = A + dA,  e = db - dA W,  r = b - A W,

and so, because no ridge system shrinks a vector by less than its smallest eigenvalue,

    |dW| <= |e| / (2 sqrt(ridge)) + |dA| |r| / ridge,

in Frobenius norms, with |dA|^2 <= (q/2)^2 rank sum s_j^2 by the rounding. It holds with exact and
rounded exchanged, so the server can compute it from what it has. For float32 statistics it is
(|dC| + |W| |dG|) / ridge. Both are besides what float64 itself rounds.

Uploads between rounds are differences already: a round of `FederatedRidge` with increments sends
the moments of new rows only, and those have a low rank.

A factor tells the server exactly what the statistics tell; rounding hides nothing.

Uploads of fewer numbers that say exactly the same, for statistics on a grid.

Of a Gram matrix of low rank a client sends a few rows, from which `catchment.readout.low_rank`
makes the whole matrix without a rounding. What else there is in the statistics travels as always.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from catchment.arrays import Array
from catchment.errors import IntegrityError, UploadError
from catchment.federation.algorithm import Additive, Needs, Turn, Upload
from catchment.federation.protection import Protection, Read
from catchment.federation.upload_checks import moment_matrix
from catchment.readout import integers
from catchment.readout.grid import Grid
from catchment.readout.low_rank import (
    LARGEST,
    independent_rows,
    low_rank_length,
    saving,
    whole_gram,
)
from catchment.readout.solve import squared_errors
from catchment.readout.statistics import SUMS, Readout, RidgeStatistics, pack
from catchment.wire import Fact, Kind, Parts, taken_apart

RANK_TOLERANCE = 4 * float(np.finfo(np.float64).eps)  # times the number of columns
SINGLE = 2.0**-24  # relative rounding of a float32
_CODES: dict[int, type[np.generic]] = {8: np.int8, 16: np.int16, 32: np.float32, 64: np.float64}
LOW_RANK = "low-rank-statistics"
WORTHWHILE = 0.1  # share of the Gram matrix; for less nobody looks for its rank
_GRAM = 1 + SUMS.index("gram")  # its place among the arrays of statistics


@dataclass(frozen=True, kw_only=True)
class Float32(Protection):
    """Send every float64 array as float32: half the bytes, seven digits; whole numbers stay.

    Counts of up to 2^24 rows stay exact. Statistics that fit an ill-posed readout (a small ridge)
    do not survive this; `readout_bound` says so, `FactorUpload` mostly does.

    >>> sent = Float32().on_client(RidgeStatistics.zero(3, 1), Turn(0, ())).parts()
    >>> {array.dtype.name for array in sent.arrays}
    {'float32'}
    """

    def on_client(self, upload: Upload, turn: Turn) -> Packed:
        parts = taken_apart(upload)
        arrays = tuple(_single(array) for array in parts.arrays)
        return Packed(replace(parts, arrays=arrays), upload)

    def read_update(self, parts: Parts, turn: Turn, inner: Read) -> Additive:
        arrays = tuple(
            array.astype(np.float64) if array.dtype == np.float32 else array
            for array in parts.arrays
        )
        return inner(replace(parts, arrays=arrays), turn)

    def readout_bound(self, total: RidgeStatistics, readout: Readout) -> float:
        """Return a bound on the Frobenius norm of the readout's error, infinite at ridge 0.

        A product of columns is at most the product of their lengths, for each client and so for
        the sum; hence |dG| <= 2^-24 tr G, and as much again for each number in the centring.
        """
        ridge = float(np.min(readout.ridge))
        if ridge <= 0:
            return float("inf")
        M = moment_matrix(total).diagonal()
        G, Y = M[1 : 1 + total.n_features].sum(), M[1 + total.n_features :].sum()
        dG, dC = 4 * SINGLE * G, 4 * SINGLE * np.sqrt(G * Y)
        return float((dC + np.linalg.norm(readout.weights, 2) * dG) / ridge)


def _single(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype != np.float64:
        return array
    largest = float(np.abs(array).max(initial=0.0))
    if largest > float(np.finfo(np.float32).max):
        raise UploadError("range", f"a value of {largest:.3g} is too large for a float32")
    return array.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Packed:
    """An upload that is already taken apart, and what it was made of."""

    content: Parts
    source: Upload

    def parts(self) -> Parts:
        return self.content


@dataclass(frozen=True, kw_only=True)
class FactorUpload(Protection):
    """Send ridge statistics as a factor of their moments, of low rank where the rows are few.

    Parameters
    ----------
    bits
        Of each entry of the factor: 64 is exact to rounding; 32 is float32; 16 and 8 are whole
        numbers with a scale of their own for every column.

    >>> rng = np.random.default_rng(0)
    >>> s = RidgeStatistics.from_states(rng.normal(size=(5, 80)), rng.normal(size=(5, 1)))
    >>> [len(value.parts().to_bytes()) for value in (s, FactorUpload().on_client(s, Turn(0, ())))]
    [27420, 3726]
    """

    needs: ClassVar[Needs] = Needs(
        each_client="factors do not add; choose another compression, or do without"
    )
    messages: ClassVar[tuple[Kind, ...]] = (
        Kind(
            "moment-factor",
            "a factor of the sums over the client's rows, which the server multiplies out",
            (
                "all that the sums tell: how many rows there are, and for classes how many of each",
                "the mean state of each class; a class with one sequence gives that sequence's "
                "state",
                "if the rows are fewer than the features, also from the size of the message how "
                "many",
            ),
        ),
    )

    bits: Literal[64, 32, 16, 8] = 64

    def __post_init__(self) -> None:
        if self.bits not in _CODES:
            raise ValueError(f"bits is {self.bits}; pass 64, 32, 16 or 8")

    @property
    def step(self) -> float:
        """Largest rounding error of an entry, relative to its column's length."""
        match self.bits:
            case 64:
                return 2.0**-53
            case 32:
                return SINGLE
        return 0.5 / _largest(self.bits)

    def on_client(self, upload: Upload, turn: Turn) -> Packed:
        statistics = RidgeStatistics.from_parts(taken_apart(upload))
        return Packed(_encoded(statistics, self.bits), upload)

    def read_update(self, parts: Parts, turn: Turn, inner: Read) -> Additive:
        return inner(_decoded(parts, self.bits).parts(), replace(turn, changed=True))

    def readout_bound(self, total: RidgeStatistics, readout: Readout) -> float:
        """Return a bound on the Frobenius norm of the readout's error, infinite at ridge 0.

        Parameters
        ----------
        total
            The sum that the server has, of rounded factors.
        readout
            Solved from it.
        """
        ridge = float(np.min(readout.ridge))
        relative = self.step * float(np.sqrt(total.n_features + total.n_targets))
        if ridge <= 0 or relative >= 1:
            return float("inf")
        # The exact columns may be longer than the rounded ones, by as much as was rounded.
        relative /= 1 - relative
        dA = relative * np.sqrt(total.lower_moments()[0].diagonal().sum())
        db = relative * np.sqrt(total.target_moments().sum())
        e = db + dA * np.linalg.norm(readout.weights, 2)
        r = np.sqrt(squared_errors(total, readout).sum())
        return float(e / (2 * np.sqrt(ridge)) + dA * r / ridge)


def _largest(bits: int) -> int:
    return int(2 ** (bits - 1) - 1)


def _encoded(statistics: RidgeStatistics, bits: int) -> Parts:
    M = moment_matrix(statistics)
    if not np.isfinite(M).all():
        raise UploadError("not-finite", "the statistics hold NaN or infinite numbers")
    n = statistics.weight
    means = M[0, 1:] / n if n > 0 else np.zeros(len(M) - 1)
    R, order = _factor(M[1:, 1:] - n * np.outer(means, means), M.diagonal()[1:])
    scales = np.linalg.norm(R, axis=0)
    entries = R[_trapezoid(*R.shape)]
    if bits < 64:
        columns = np.broadcast_to(np.where(scales > 0, scales, 1.0), R.shape)
        entries = entries / columns[_trapezoid(*R.shape)]
    codes = np.rint(entries * _largest(bits)) if bits < 32 else entries
    facts: dict[str, Fact] = {
        "fingerprint": statistics.fingerprint,
        "features": statistics.n_features,
        "rank": len(R),
    }
    return Parts(
        "moment-factor",
        facts,
        (
            np.array([statistics.n_rows, n]),
            means,
            order.astype(np.uint32),
            scales if bits < 64 else np.zeros(0),
            codes.astype(_CODES[bits]),
        ),
    )


def _factor(M: Array, raw: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return R (r, m) and the order (m,) of its columns, with R'R = M[order][:, order].

    Cholesky with pivots, on columns scaled to the raw moments (m,) they were left over from: what
    is below their rounding has rank zero.
    """
    root = np.sqrt(np.where(raw > 0, raw, 1.0))
    scaled = M / np.outer(root, root)
    tolerance = RANK_TOLERANCE * len(M)
    factor, order, rank, _ = lapack.dpstrf(scaled, tol=tolerance, lower=0)
    order = order.astype(np.int64) - 1
    # LAPACK compares pivots with the tolerance only after the first one.
    rank = 0 if scaled.diagonal().max(initial=0.0) <= tolerance else int(rank)
    return np.triu(factor)[:rank] * root[order], order


def _trapezoid(n_rows: int, n_columns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.triu_indices(n_rows, m=n_columns)


def _decoded(parts: Parts, bits: int) -> RidgeStatistics:
    counts, means, order, scales, codes = parts.expect("moment-factor", 5).arrays
    F, rank = parts.facts.get("features"), parts.facts.get("rank")
    size = len(order)
    if type(F) is not int or type(rank) is not int or not (0 <= F <= size and 0 <= rank <= size):
        raise IntegrityError(
            f"a factor of rank {rank!r} and {F!r} features came for {size} columns"
        )
    n_entries = rank * size - rank * (rank - 1) // 2
    shapes = (counts.shape, means.shape, scales.shape, codes.shape)
    if shapes != ((2,), (size,), (size if bits < 64 else 0,), (n_entries,)):
        raise IntegrityError(f"the arrays of a factor of rank {rank} came with shapes {shapes}")
    if codes.dtype != _CODES[bits] or not np.array_equal(np.sort(order), np.arange(size)):
        raise IntegrityError(f"a factor of {bits} bits came as {codes.dtype}, or out of order")
    if not (0 <= counts[0] < 2**53 and counts[0] == int(counts[0])):
        raise IntegrityError(f"{counts[0]} is not a number of rows")
    R = np.zeros((rank, size))
    R[_trapezoid(rank, size)] = codes.astype(np.float64)
    if bits < 64:
        R *= scales / (_largest(bits) if bits < 32 else 1)
    name = str(parts.facts["fingerprint"])
    return _statistics(R[:, np.argsort(order)], counts, means, F, name)


def _statistics(R: Array, counts: Array, means: Array, F: int, fingerprint: str) -> RidgeStatistics:
    n = float(counts[1])
    M = R.T @ R + n * np.outer(means, means)
    return RidgeStatistics(
        int(counts[0]),
        n,
        n * means[:F],
        n * means[F:],
        pack(M[:F, :F]),
        M[:F, F:].copy(),
        pack(M[F:, F:]),
        fingerprint,
    )


@dataclass(frozen=True, kw_only=True)
class SmallestUpload(Protection):
    """Send statistics on a grid as they are, or in fewer numbers that say exactly the same.

    The Gram matrix of fewer rows than features has that rank, and that many of its rows say the
    rest. Each client sends what is smaller for it, after it has put its own message together again
    and found every number equal; the message says which. The server therefore adds the very same
    whole numbers, and their digests, what is unlearned and what is verified do not change by a bit.
    Messages of other kinds, and statistics that are float64, are sent as they are.

    >>> rng = np.random.default_rng(0)
    >>> z, y = np.round(256 * rng.uniform(-1, 1, size=(5, 80))) / 256, np.ones((5, 1))
    >>> s = RidgeStatistics.from_states(z, y, grid=Grid(8, ((80, 8),)))
    >>> sent = [value.parts() for value in (s, SmallestUpload().on_client(s, Turn(0, ())))]
    >>> [(parts.kind, len(parts.to_bytes())) for parts in sent]
    [('ridge-statistics', 8274), ('low-rank-statistics', 1687)]
    """

    needs: ClassVar[Needs] = Needs(
        each_client="rows of Gram matrices do not add; leave it out: a secure sum hides sums of "
        "one shape"
    )
    messages: ClassVar[tuple[Kind, ...]] = (
        Kind(
            LOW_RANK,
            "the sums over the client's rows, and of their products between features as many rows "
            "as say the others",
            (
                *RidgeStatistics.KIND.tells,
                "the raw inputs, in part or whole, as any sums of fewer rows than features",
                "from the size of the message that the client has fewer rows than features, and "
                "how many of them are independent, which the sums tell as well",
            ),
        ),
    )

    def on_client(self, upload: Upload, turn: Turn) -> Upload:
        if not isinstance(upload, RidgeStatistics) or upload.grid is None:
            return upload
        found = _low_rank(upload)
        return upload if found is None else Packed(found, upload)

    def read_update(self, parts: Parts, turn: Turn, inner: Read) -> Additive:
        return inner(_whole(parts) if parts.kind == LOW_RANK else parts, turn)


def _low_rank(statistics: RidgeStatistics) -> Parts | None:
    """Return the statistics in fewer numbers, None if there are none that say the same."""
    F, grid, gram = statistics.n_features, statistics.grid, statistics.gram
    most = min(statistics.n_rows, F)
    if grid is None or saving(most, F) < WORTHWHILE or gram.dtype != np.int64:
        return None
    if _bound(grid, statistics.weight) >= LARGEST:
        return None
    pivots, entries = independent_rows(gram.astype(np.int64), F, most)
    plain = statistics.parts()
    arrays = list(plain.arrays)
    arrays[_GRAM] = integers.to_limbs(entries, grid.limbs["gram"])
    found = Parts(LOW_RANK, plain.facts, (*arrays, pivots.astype(np.uint32)))
    try:
        same = np.array_equal(_whole(found).arrays[_GRAM], plain.arrays[_GRAM])
    except UploadError:  # independent, but not modulo every prime
        return None
    return found if same else None


def _whole(parts: Parts) -> Parts:
    """Return low-rank statistics as they would have come otherwise."""
    *arrays, pivots = parts.expect(LOW_RANK, len(SUMS) + 2).arrays
    grid = Grid.from_json(str(parts.facts.get("grid")))
    F, limbs, numbers = grid.n_features, arrays[_GRAM], arrays[0]
    rank = len(pivots) if pivots.ndim == 1 else -1
    if pivots.dtype != np.uint32 or not 0 <= rank <= F or (pivots >= F).any():
        raise IntegrityError(f"{pivots.shape} rows of {pivots.dtype} came for {F} features")
    if len(np.unique(pivots)) != rank:
        raise IntegrityError("a low-rank upload has a feature twice")
    n_limbs = grid.limbs["gram"]
    if limbs.dtype != np.int64 or limbs.shape != (n_limbs, low_rank_length(rank, F)):
        raise IntegrityError(f"the rows of rank {rank} came as {limbs.dtype} of {limbs.shape}")
    if integers.largest(limbs) > integers.LARGEST_LIMB:
        raise UploadError("range", f"gram holds {integers.largest(limbs)}, more than it can be")
    if numbers.shape != (2,) or not 0 <= numbers[1] < 2**53:
        raise IntegrityError(f"the counts of {LOW_RANK!r} came with shape {numbers.shape}")
    entries = integers.from_limbs(limbs)
    if entries.dtype != np.int64:
        raise UploadError("range", "gram holds more than 64 bits")
    gram = whole_gram(pivots.astype(np.int64), entries, F, _bound(grid, float(numbers[1])))
    arrays[_GRAM] = integers.to_limbs(gram, n_limbs)
    return Parts(RidgeStatistics.KIND.name, parts.facts, tuple(arrays))


def _bound(grid: Grid, weight: float) -> int:
    """Return what no entry of the Gram matrix of rows of this weight exceeds."""
    return int(weight) << 2 * grid.bits

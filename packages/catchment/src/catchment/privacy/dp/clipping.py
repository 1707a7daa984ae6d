"""From an upload to a vector of bounded length, and from a noisy sum of such vectors back.

Ridge statistics are the moments M = [[n, s', t'], [s, G, C], [t, C', Y'Y]] of rows (1, z, y). A
client's vector is the upper triangle of B M B' / n, off-diagonal entries times sqrt 2 so that its
length is the Frobenius norm. B leaves (1, z) as it is, or whitens it by public statistics, and
multiplies y by a public factor. Shortening the whole vector equals giving the client less weight,
so what is left are still moments. Of a weighted sum, or any value with a field marked WEIGHT, the
vector is the client's mean, and every client then weighs one. Of `Counts` these are shares, never
longer than 1 (in each column): they are multiplied by the bound, whatever that was chosen for, so
that noise is as small beside them as it can be. Numbers marked REMARK, such as a
training loss, never leave the client: in the sum they are zero.

The vector is computed in float64, also from statistics in fixed point, whose sums are integers:
a mean and a whitening are not whole. Then it is cut to whole multiples of a step (`whole_steps`),
and of these everything is exact: the bound is checked in integers, and for statistics on a
grid the multiples themselves travel, are summed and get the noise.

A noisy sum is made solvable: negative eigenvalues go to zero, and the (1, z) block gets
c s D sqrt(2 (F + 1)) on its diagonal, about the largest eigenvalue of the noise. All of it uses
public numbers and the noisy sum only, so it costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from catchment.arrays import Array, Integers, PositiveFloat, check_fields
from catchment.errors import IntegrityError, UploadError
from catchment.federation.algorithm import Upload
from catchment.federation.checks import moment_matrix
from catchment.readout.intervals import Counts
from catchment.readout.statistics import RidgeStatistics, matrix_size, pack, unpack
from catchment.wire import (
    CLIENTS,
    COUNTED,
    LATER,
    REMARK,
    SIGNED,
    WEIGHT,
    Fact,
    Kind,
    Message,
    Shape,
    Summable,
    marked,
    places_of,
    serialize,
)

# Whitening never blows a direction up beyond this share of the strongest one.
WHITENING_FLOOR = 1e-4
# Kept below the bound by this share, so that rounding cannot carry a vector over it.
MARGIN = 2.0**-30
LARGEST = 2.0**53  # multiples of a step; a number beyond would not be exact as float64


@dataclass(frozen=True, eq=False)
class Clipped(Summable):
    """A sum of vectors of bounded length, and what they were made from."""

    KIND: ClassVar[Kind] = Kind(
        "clipped",
        "the client's sums or parameters, exact but for being scaled down to an agreed length; "
        "noise only where the clients themselves add it",
        (
            "unless the clients add noise, what the sums or parameters tell, but for their length: "
            "noise that the server adds later bounds what the model tells, not what this does",
        ),
    )

    # Whole multiples of a step: these multiples, if `grid` names the step, and else their values.
    vector: Annotated[NDArray[Any], Shape("numbers"), SIGNED]
    n_clients: Annotated[int, CLIENTS]
    about: Mapping[str, Fact]
    epsilon: float | None = None  # of the release it is for, if the noise is in it
    grid: Annotated[str | None, LATER] = None  # such as "2^-20"
    # Sequences in it, of which each is bounded by itself; 0 if clients are, and with distributed
    # noise, under which their exact number must not be told.
    n_records: Annotated[int, COUNTED] = 0
    delta: Annotated[float | None, LATER] = None

    def __post_init__(self) -> None:
        if self.n_clients < 1:
            raise UploadError("count", f"{self.n_clients} clients cannot be")
        expected = np.float64 if self.grid is None else np.int64
        if self.vector.dtype != expected:
            raise UploadError(
                "type", f"the vector came as {self.vector.dtype}; it is {np.dtype(expected)}"
            )


@dataclass(frozen=True, kw_only=True)
class Clip:
    """How an upload becomes a vector, and how long that may be.

    All three settings must be public: fixed beforehand, or computed from data that anyone may see.
    Taking them from the clients' own data undoes the privacy they are there for.

    Parameters
    ----------
    bound
        Longest vector; longer ones are shortened to it.
    target_scale
        Factor on the targets. About one over their spread serves best (3 for one-hot classes).
    reference
        Statistics of public data with the same features, also generated or of another
        population. Noise is then spread evenly over the directions in which features vary, and a
        readout of the same privacy is far more accurate.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> Clip(bound=8.0).length(s), Clip(bound=8.0).length(s + s)
    (4.0, 4.0)
    """

    bound: PositiveFloat
    target_scale: PositiveFloat = 1.0
    reference: RidgeStatistics | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.reference is not None and self.reference.weight <= 0:
            raise ValueError("the reference holds no rows; compute it from public data")

    @classmethod
    def from_public(
        cls, clients: Iterable[RidgeStatistics], *, target_scale: float = 3.0, whiten: bool = True
    ) -> Clip:
        """Return settings from the statistics of public clients: the median length is the bound.

        >>> rng = np.random.default_rng(0)
        >>> public = [RidgeStatistics.from_states(rng.normal(size=(50, 4)), np.ones((50, 1)))
        ...           for _ in range(5)]
        >>> 8 < Clip.from_public(public).bound < 12
        True
        """
        known = list(clients)
        if not known:
            raise ValueError("there are no public clients; pass at least one")
        total = sum(known[1:], start=known[0])
        free = cls(bound=1.0, target_scale=target_scale, reference=total if whiten else None)
        bound = float(np.median([free.length(client) for client in known]))
        return cls(bound=bound, target_scale=target_scale, reference=free.reference)

    @cached_property
    def whitening(self) -> tuple[Array, Array]:
        """The map (1 + F, 1 + F) of rows (1, z) to white ones, and its inverse."""
        assert self.reference is not None
        n = 1 + self.reference.n_features
        values, vectors = eigh(moment_matrix(self.reference.floats)[:n, :n] / self.reference.weight)
        root = np.sqrt(np.maximum(values, 0.0) + WHITENING_FLOOR * values[-1])
        return (vectors / root).T, vectors * root

    def length(self, upload: Upload) -> float:
        """Return the length of an upload's vector before it is clipped."""
        return float(np.linalg.norm(self._vector(upload)[0]))

    def clipped(self, upload: Upload, grid: float, *, whole: bool = False) -> Clipped:
        """Return an upload's vector, at most `bound` long: multiples of the grid, or their values.

        The bound holds to the last digit, as `whole_steps` proves.
        """
        vector, about = self._vector(upload)
        steps = whole_steps(vector, self.bound, grid)
        if whole:
            return Clipped(steps, 1, about, grid=step_name(grid))
        return Clipped(steps * grid, 1, about)

    def _vector(self, upload: Upload) -> tuple[Array, dict[str, Fact]]:
        about: dict[str, Fact]
        if isinstance(upload, RidgeStatistics):
            vector, about = self._moments(upload.floats), {"targets": upload.n_targets}
        elif weight := _weight(upload):
            vector, about = _mean(serialize(upload), *weight)
            vector = vector * self._enlarged(serialize(upload).kind, about)
            remarks: list[Fact] = [*places_of(upload, REMARK)]
            about |= {"remarks": remarks} if remarks else {}
        else:
            raise UploadError(
                "kind",
                "noise is defined for ridge statistics and for sums with a weight, not for "
                f"{serialize(upload).kind!r}; leave the protection out or send one of these",
            )
        if not np.isfinite(vector).all():
            raise UploadError("not-finite", "the upload holds NaN or infinite numbers")
        sent = serialize(upload)
        return vector, {"kind": sent.kind, "facts": dict(sent.facts), **about}

    def _enlarged(self, kind: object, about: Mapping[str, Fact]) -> float:
        """Return the factor, public, on the vector of counts: the bound over their largest length.

        1 for anything else than counts.
        """
        shapes = about.get("shapes")
        if kind != Counts.KIND.name or not isinstance(shapes, list):
            return 1.0
        return self.bound * (1 - 2 * MARGIN) / math.sqrt(max(shapes[0][0], 1))

    def _moments(self, statistics: RidgeStatistics) -> Array:
        if not statistics.weight > 0:
            size = 1 + statistics.n_features + statistics.n_targets
            return np.zeros(size * (size + 1) // 2)
        M = moment_matrix(statistics) / statistics.weight
        if self.reference is not None:
            if self.reference.fingerprint != statistics.fingerprint:
                raise UploadError("fingerprint", "the clip's reference is of other features")
            M = _congruent(M, self.whitening[0])
        _scale_targets(M, statistics.n_targets, self.target_scale)
        return pack(M) * _roots(len(M))

    def upload(self, total: Clipped, ridge: float = 0.0) -> Message:
        """Return a noisy sum as the upload it stands for.

        Parameters
        ----------
        ridge
            c s D in the module's formula; only statistics have one.
        """
        facts, K = total.about.get("facts"), total.about.get("targets")
        if not isinstance(facts, Mapping):
            raise IntegrityError("a clipped vector does not say what it was made from")
        if K is None:
            factor = self._enlarged(total.about.get("kind"), total.about)
            return _weighted(replace(total, vector=total.vector / factor), facts)
        M = unpack(total.vector / _roots(matrix_size(len(total.vector))))
        if type(K) is not int or not 0 < K < len(M) - 1:
            raise IntegrityError(f"a clipped vector of {str(K)[:20]} targets cannot be read")
        values, vectors = eigh(M)
        # Not quite to zero: the moments must pass for such in spite of rounding.
        M = (vectors * np.maximum(values, 1e-10 * values[-1])) @ vectors.T
        n = len(M) - K
        M[np.arange(n), np.arange(n)] += ridge * math.sqrt(2 * n)
        _scale_targets(M, K, 1 / self.target_scale)
        if self.reference is not None:
            M = _congruent(M, self.whitening[1])
        M = (M + M.T) / 2
        statistics = RidgeStatistics(
            max(1, round(float(M[0, 0]))),
            float(M[0, 0]),
            M[0, 1:n].copy(),
            M[0, n:].copy(),
            pack(M[1:n, 1:n]),
            M[1:n, n:].copy(),
            pack(M[n:, n:]),
            str(facts.get("fingerprint", "")),
        )
        parts = statistics.parts()
        return Message(parts.kind, {**parts.facts, "noisy": True}, parts.arrays)


def whole_steps(vector: Array, bound: float, step: float) -> Integers:
    """Return a vector (L,), shortened to the bound if it is longer, in whole multiples of a step.

    No multiple that is returned is longer than bound / step, which is what noise is calibrated to:

    - Division by the step, a power of two, is exact, and every number is then cut toward zero. So
      no entry grows, nor does the length; to round to the nearest could add sqrt(L) / 2.
    - The shortening itself is done in float64, and what it is off by is not relied upon: the sum of
      the squares of the multiples is compared with floor((bound / step)^2) in integers of any
      size. Were it above, every entry that is not zero would move one toward zero, and again,
      until it is not.

    Two clients' vectors are therefore within 2 bound / step of each other, and a sum moves by no
    more than bound / step when a client is added or left out.

    >>> whole_steps(np.array([3.0, -4.0]), 6.0, 0.5), whole_steps(np.array([3.0, -4.0]), 2.6, 0.5)
    (array([ 6, -8]), array([ 3, -4]))
    """
    longest, length = bound * (1 - MARGIN), float(np.linalg.norm(vector))
    if length > longest:
        vector = vector * (longest / length)
    multiples = np.trunc(vector / step)
    if not (np.abs(multiples) < LARGEST).all():
        raise UploadError(
            "range", f"a bound of {bound:g} is too long for steps of {step:g}; use less epsilon"
        )
    steps: Integers = multiples.astype(np.int64)
    most = square_steps(bound, step)
    while square_length(steps) > most:
        steps = steps - np.sign(steps)
    return steps


def square_steps(bound: float, step: float) -> int:
    """Return the most that the squares of whole multiples of a step may add up to.

    >>> square_steps(2.5, 1.0)
    6
    """
    return math.floor((Fraction(bound) / Fraction(step)) ** 2)


def square_length(steps: Integers) -> int:
    """Return the sum of the squares of integers (L,) above -2^63, exactly.

    >>> square_length(np.array([2**40, -3])) == 2**80 + 9
    True
    """
    size, pieces = np.abs(steps), []
    while size.any():
        pieces.append(size & 0xFFFF)
        size = size >> 16
    # Products of 16 bits add up exactly in 64 for up to 2^31 numbers.
    pairs = ((i, j) for i in range(len(pieces)) for j in range(len(pieces)))
    return sum(int(pieces[i] @ pieces[j]) << 16 * (i + j) for i, j in pairs)


def step_name(step: float) -> str:
    """Return how a step, a power of two, is written.

    >>> step_name(0.25)
    '2^-2'
    """
    return f"2^{math.frexp(step)[1] - 1}"


def _weight(upload: Upload) -> tuple[float] | None:
    """Return what an upload's arrays are divided by to give a mean, if it declares that."""
    name = marked(type(upload), WEIGHT)
    # Of a value with others inside, one weight says nothing of theirs.
    return (float(vars(upload)[name]),) if name and "parts" not in serialize(upload).facts else None


def _mean(parts: Message, weight: float) -> tuple[Array, dict[str, Fact]]:
    """Return the arrays of a weighted sum divided by its weight, and how to put them back."""
    numbers, *arrays = parts.arrays
    divided = [array / weight if weight > 0 else array for array in arrays]
    # In float64 whatever came: lengths of float32 vectors are off by more than MARGIN.
    vector = np.concatenate([array.ravel() for array in divided], dtype=np.float64)
    return vector, {"numbers": len(numbers), "shapes": [list(array.shape) for array in divided]}


def _weighted(total: Clipped, facts: Mapping[str, Fact]) -> Message:
    """Return a sum of means as the weighted sum in which every client weighs one."""
    shapes, n_numbers = total.about.get("shapes"), total.about.get("numbers")
    if not isinstance(shapes, list) or type(n_numbers) is not int or not 0 < n_numbers < 9:
        raise IntegrityError("a clipped weighted sum does not say its shapes")
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) != len(total.vector):
        raise IntegrityError(f"{len(total.vector)} numbers came for shapes {shapes}")
    flat = np.split(total.vector, np.cumsum(sizes)[:-1])
    arrays = [part.reshape(shape) for part, shape in zip(flat, shapes, strict=True)]
    counts = np.full(n_numbers, float(total.n_clients))
    remarks = total.about.get("remarks", [])
    if not isinstance(remarks, list) or not set(remarks) <= set(range(n_numbers)):
        raise IntegrityError("a clipped weighted sum has remarks where it has no numbers")
    counts[remarks] = 0.0
    return Message(str(total.about.get("kind")), facts, (counts, *arrays))


def _roots(size: int) -> Array:
    """Return the factors of a packed triangle under which its length is the Frobenius norm."""
    root = np.full((size, size), math.sqrt(2))
    np.fill_diagonal(root, 1.0)
    return pack(root)


def _congruent(M: Array, T: Array) -> Array:
    """Return B M B' where B applies T to the leading block and leaves the rest."""
    n = len(T)
    out = M.copy()
    out[:n] = T @ out[:n]
    out[:, :n] = out[:, :n] @ T.T
    return out


def _scale_targets(M: Array, n_targets: int, factor: float) -> None:
    M[-n_targets:] *= factor
    M[:, -n_targets:] *= factor

"""Sums from which ridge regression is solved exactly; adding two is pooling their data.

With features Z (n, F) and targets Y (n, K) the statistics are n, Z'1, Y'1, G = Z'Z, C = Z'Y and
Y'Y. The ridge solution is W = (G + ridge I)^-1 C (Bacciu et al., IJCNN 2021, eq. 3) on centred
moments, so that the intercept is not penalised. The ridge is never part of the statistics: eqs. 7,
9 and 12 of that paper add it once per client and per increment, which makes the solution depend on
how the data were cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.linalg import blas

from catchment.arrays import Array, refuse_nonfinite
from catchment.errors import FingerprintError
from catchment.readout.packing import mirror_lower, pack, packed_length, unpack_lower
from catchment.readout.readout import Readout
from catchment.structure import ROWS, Kind, Shape, Structure, Triangle

# A variance below this share of the second moment is rounding left by the subtraction of the mean.
CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class RidgeStatistics(Structure):
    """Additive moments of features and targets.

    They travel as half a Gram matrix, with no ridge and no names. `gram` and `target_gram` are
    packed upper triangles. `weight` is the sum of the sample weights and equals `n_rows` when none
    were given. `fingerprint` names the features: statistics of different features do not add.

    >>> z, y = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])
    >>> a, b = RidgeStatistics.from_states(z[:1], y[:1]), RidgeStatistics.from_states(z[1:], y[1:])
    >>> (a + b).solve(0.0).weights
    array([[2.]])
    >>> (a + b) - b == a
    True
    """

    KIND: ClassVar[Kind] = Kind(
        "ridge-statistics",
        "sums over the client's rows: how many there are, the sum of every feature and target, and "
        "the sums of their products",
        (
            "how many rows the client has, and for classes how many of each, exactly",
            "the mean state of each class; a class with one sequence gives that sequence's state",
            "whether a given recording is among the client's",
        ),
    )

    n_rows: Annotated[int, ROWS]
    weight: float
    feature_sum: Annotated[Array, Shape("features")]
    target_sum: Annotated[Array, Shape("targets")]
    gram: Annotated[Array, Triangle("features")]
    cross: Annotated[Array, Shape("features", "targets")]
    target_gram: Annotated[Array, Triangle("targets")]
    fingerprint: str = ""

    def __post_init__(self) -> None:
        F, K = self.cross.shape
        shapes = ((F,), (K,), (packed_length(F),), (packed_length(K),))
        arrays = (self.feature_sum, self.target_sum, self.gram, self.target_gram)
        if tuple(array.shape for array in arrays) != shapes:
            names = ("feature_sum", "target_sum", "gram", "target_gram")
            for name, array, shape in zip(names, arrays, shapes, strict=True):
                if array.shape != shape:
                    raise ValueError(
                        f"{name} has shape {array.shape}, expected {shape} for "
                        f"{F} features and {K} targets"
                    )
        if self.n_rows < 0:
            raise ValueError(f"n_rows is {self.n_rows}; statistics cannot hold fewer than no rows")

    @classmethod
    def zero(cls, n_features: int, n_targets: int, fingerprint: str = "") -> RidgeStatistics:
        """Return the statistics of no data."""
        return cls(
            0,
            0.0,
            np.zeros(n_features),
            np.zeros(n_targets),
            np.zeros(packed_length(n_features)),
            np.zeros((n_features, n_targets)),
            np.zeros(packed_length(n_targets)),
            fingerprint,
        )

    @classmethod
    def from_states(
        cls, z: Array, y: Array, *, weight: Array | None = None, fingerprint: str = ""
    ) -> RidgeStatistics:
        """Return the statistics of features (n, F) and targets (n, K).

        Parameters
        ----------
        z
            (n, F) features.
        y
            (n, K) targets. A row with a NaN target is left out, whole.
        weight
            (n,) non-negative sample weights; ones if not given.
        """
        z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if z.ndim != 2 or y.ndim != 2 or len(z) != len(y):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} must be matrices with equally many rows"
            )
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            if weight.shape != (len(z),) or not np.isfinite(weight).all() or (weight < 0).any():
                raise ValueError(
                    f"weight has shape {weight.shape} for {len(z)} rows; "
                    "pass one finite, non-negative number per row"
                )
        known = ~np.isnan(y).any(axis=1)
        if not known.all():
            z, y = z[known], y[known]
            weight = None if weight is None else weight[known]
        refuse_nonfinite(z, "features")
        refuse_nonfinite(y, "targets")
        known_weight = np.ones(len(z)) if weight is None else weight
        if weight is None:
            zr, yr = z, y
        else:
            # Roots on both sides, so that the product is symmetric and costs half.
            root = np.sqrt(weight)[:, None]
            zr, yr = z * root, y * root
        return cls(
            len(z),
            float(known_weight.sum()),
            _column_sums(z, known_weight),
            _column_sums(y, known_weight),
            pack(zr.T @ zr),
            zr.T @ yr,
            pack(yr.T @ yr),
            fingerprint,
        )

    @property
    def n_features(self) -> int:
        return len(self.cross)

    @property
    def n_targets(self) -> int:
        return len(self.target_sum)

    def __add__(self, other: RidgeStatistics) -> RidgeStatistics:
        self._refuse_mixing(other)
        return RidgeStatistics(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.feature_sum + other.feature_sum,
            self.target_sum + other.target_sum,
            self.gram + other.gram,
            self.cross + other.cross,
            self.target_gram + other.target_gram,
            self.fingerprint,
        )

    def __sub__(self, other: RidgeStatistics) -> RidgeStatistics:
        """Return the statistics without the other's rows, which must be among these."""
        self._refuse_mixing(other)
        if other.n_rows > self.n_rows:
            raise ValueError(
                f"cannot take {other.n_rows} rows out of {self.n_rows}; "
                "subtract only statistics that were added"
            )
        if other.n_rows == self.n_rows:
            return RidgeStatistics.zero(self.n_features, self.n_targets, self.fingerprint)
        return RidgeStatistics(
            self.n_rows - other.n_rows,
            self.weight - other.weight,
            self.feature_sum - other.feature_sum,
            self.target_sum - other.target_sum,
            self.gram - other.gram,
            self.cross - other.cross,
            self.target_gram - other.target_gram,
            self.fingerprint,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RidgeStatistics):
            return NotImplemented
        return (
            self.fingerprint == other.fingerprint
            and self.n_rows == other.n_rows
            and self.weight == other.weight
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in ("feature_sum", "target_sum", "gram", "cross", "target_gram")
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def scaled(self, factor: float) -> RidgeStatistics:
        """Return the statistics with every row's weight multiplied by the factor."""
        return RidgeStatistics(
            self.n_rows,
            self.weight * factor,
            self.feature_sum * factor,
            self.target_sum * factor,
            self.gram * factor,
            self.cross * factor,
            self.target_gram * factor,
            self.fingerprint,
        )

    def moments(self, *, intercept: bool = True) -> tuple[Array, Array]:
        """Return the Gram matrix (F, F) and cross moments (F, K), centred if there is an intercept.

        A feature that does not vary has zeros there once it is centred.

        >>> z, y = np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]])
        >>> RidgeStatistics.from_states(z, y).moments()
        (array([[2.]]), array([[4.]]))
        """
        lower, cross = self.lower_moments(intercept=intercept)
        return mirror_lower(lower), cross

    def lower_moments(self, *, intercept: bool = True) -> tuple[Array, Array]:
        """Return what `moments` does, with only the lower triangle of the Gram matrix filled in.

        >>> z, y = np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([[0.0], [4.0]])
        >>> np.tril(RidgeStatistics.from_states(z, y).lower_moments()[0])
        array([[2. , 0. ],
               [1. , 0.5]])
        """
        G, C = unpack_lower(self.gram), self.cross.copy()
        if not intercept or self.weight <= 0:
            return G, C
        raw = G.diagonal().copy()
        G = blas.dsyr(-1.0 / self.weight, self.feature_sum, lower=1, a=G, overwrite_a=1)
        C -= np.outer(self.feature_sum / self.weight, self.target_sum)
        constant = np.flatnonzero(G.diagonal() <= CONSTANT * raw)
        if len(constant):
            G[constant] = 0.0
            G[:, constant] = 0.0
            C[constant] = 0.0
        return G, C

    def target_moments(self, *, intercept: bool = True) -> Array:
        """Return the second moment (K,) of each target, centred if there is an intercept.

        >>> RidgeStatistics.from_states(np.ones((2, 1)), np.array([[0.0], [4.0]])).target_moments()
        array([8.])
        """
        q = unpack_lower(self.target_gram).diagonal().copy()
        if intercept and self.weight > 0:
            q -= self.target_sum**2 / self.weight
        return np.maximum(q, 0.0)

    def solve(self, ridge: float | Array = 1e-6, *, intercept: bool = True) -> Readout:
        """Return the readout that minimises squared error plus ridge times squared weights.

        Parameters
        ----------
        ridge
            One number, or (K,) numbers, one per output.
        intercept
            Whether to fit an intercept, which is not penalised.
        """
        from catchment.readout.solve import solve_readout

        return solve_readout(self, ridge, intercept=intercept)

    def _refuse_mixing(self, other: RidgeStatistics) -> None:
        if not isinstance(other, RidgeStatistics):
            raise TypeError(f"cannot combine RidgeStatistics with {type(other).__name__}")
        if self.fingerprint != other.fingerprint:
            raise FingerprintError(
                f"statistics of different features do not add: {self.fingerprint[:12] or 'none'} "
                f"and {other.fingerprint[:12] or 'none'}; use one recipe and one feature map"
            )
        if self.cross.shape != other.cross.shape:
            raise ValueError(
                f"statistics of {self.cross.shape} and {other.cross.shape} features and targets "
                "do not add"
            )


def _column_sums(rows: Array, weight: Array) -> Array:
    """Return the weighted sum (n_columns,) over rows, by blocks so that rounding does not pile up.

    A centred moment is a small difference of large sums; one running sum over 20 000 equal values
    is already wrong in the twelfth digit and would give a constant feature a variance.
    """
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), 512):
        total += weight[start : start + 512] @ rows[start : start + 512]
    return total

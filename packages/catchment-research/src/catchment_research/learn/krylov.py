"""Ridge regression by products with the Gram matrix, for those who cannot have the matrix itself.

For (A + ridge I) W = B with a symmetric A (F, F) that is known by its products A V alone. The block
form of conjugate gradients keeps an orthonormal basis V (F, m) of what B, A B, A^2 B, ... span and
T = V'AV. W = V (T + ridge I)^-1 V'B is the best approximation in that space for every ridge at once
(shifting A changes no such space) and all outputs share the space. A block adds as many directions
as there are outputs, fewer once some are exhausted, so W is exact after F / K products at the
latest. New directions are made orthogonal to all earlier ones twice, so that rounding does not slow
this down as it does where only the last two are kept.

The residual R = B - (A + ridge I) W costs nothing, and because no ridge system shrinks a vector by
less than its ridge, W is off by at most |R| / ridge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.linalg import eigh, qr

from catchment import Array
from catchment.wire import Shape

INDEPENDENT = 1e-14  # of a column's length: what is left of it below is rounding
ROUNDING = 2e-15  # a residual of this share of |A| |W| is as small as float64 makes it


@dataclass(frozen=True, eq=False)
class Krylov:
    """What is known of one ridge system after some products.

    Parameters
    ----------
    basis, projected
        V (F, m) and T = V'AV (m, m).
    start
        V'B (m0, K), as the first directions span B.
    lengths
        Of the columns of B (K,); they are divided by them.
    directions
        (F, k), of which the product with A is wanted next; none once the space is exhausted.
    coupling
        (k, k_last) with A V_last = V T_last + directions coupling.
    """

    basis: Annotated[Array, Shape("features", "basis")]
    projected: Annotated[Array, Shape("basis", "basis")]
    start: Array
    lengths: Array
    directions: Array
    coupling: Array

    @classmethod
    def of(cls, B: Array) -> Krylov:
        """Return what is known before any product.

        >>> np.abs(Krylov.of(np.array([[3.0], [4.0]])).directions.ravel())
        array([0.6, 0.8])
        """
        lengths = np.linalg.norm(B, axis=0)
        unit = B / np.where(lengths > 0, lengths, 1.0)
        Q = _orthonormal(unit, 1.0)
        F = len(B)
        none = np.zeros((Q.shape[1], 0))
        return cls(np.zeros((F, 0)), np.zeros((0, 0)), Q.T @ unit, lengths, Q, none)

    @property
    def is_exhausted(self) -> bool:
        """Whether no direction is left, so that solutions are exact."""
        return not self.directions.size

    def after(self, product: Array) -> Krylov:
        """Return what is known with the product (F, k) of A and the directions.

        >>> A, B = np.diag([1.0, 2.0]), np.array([[1.0], [1.0]])
        >>> known = Krylov.of(B)
        >>> for _ in range(2): known = known.after(A @ known.directions)
        >>> known.is_exhausted, known.solutions(np.array([1.0]))[0].ravel()
        (True, array([0.5       , 0.33333333]))
        """
        V = np.hstack([self.basis, self.directions])
        m, k = self.basis.shape[1], self.directions.shape[1]
        along = V.T @ product
        T = np.zeros((m + k, m + k))
        T[:m, :m] = self.projected
        T[:, m:] = along
        T[m:, :m] = along[:m].T
        T[m:, m:] = (along[m:] + along[m:].T) / 2
        rest = product - V @ along
        rest -= V @ (V.T @ rest)
        longest = float(np.linalg.norm(product, axis=0).max(initial=0.0))
        largest = max(longest, float(np.abs(T).max(initial=0.0)))
        room = len(V) - V.shape[1]
        Q = _orthonormal(rest, largest)[:, :room]
        Q = _orthonormal(Q - V @ (V.T @ Q), 1.0)
        return replace(self, basis=V, projected=T, directions=Q, coupling=Q.T @ rest)

    def solutions(self, ridges: Array) -> Array:
        """Return W (R, F, K) for each of some ridges."""
        inside = self._inside(ridges)[0]
        return np.asarray(np.einsum("fm,rmk->rfk", self.basis, inside) * self.lengths)

    def doubts(self, ridges: Array) -> Array:
        """Return for each ridge (R,) by how much W may be off, relative to its length.

        It is the largest over the outputs of |R| / (ridge |W|), 0 where the residual is as small
        as float64 makes it or no direction is left.
        """
        left, inside = self._residuals(ridges)
        size = np.asarray(ridges)[:, None] * np.linalg.norm(inside, axis=1)
        return _ratio(left, size)

    def misfits(self, ridges: Array) -> Array:
        """Return for each ridge (R,) by how much outputs may be off, relative to their length.

        The outputs' errors E and the outputs themselves are measured as the system does, by
        E'(A + ridge I) E <= |R|^2 / ridge and W'(A + ridge I) W = W'B.
        """
        left, inside = self._residuals(ridges)
        energy = np.einsum("rmk,mk->rk", inside[:, : len(self.start)], self.start)
        return _ratio(left, np.sqrt(np.asarray(ridges)[:, None] * np.maximum(energy, 0.0)))

    def _residuals(self, ridges: Array) -> tuple[Array, Array]:
        """Return |R| (R, K), 0 where it is rounding, and the solutions in the basis."""
        if not self.basis.shape[1]:
            nothing = np.zeros((len(ridges), *self.start.shape))
            return np.where(self.lengths > 0, np.inf, np.zeros((len(ridges), 1))), nothing
        inside, largest = self._inside(ridges)
        last = inside[:, inside.shape[1] - self.coupling.shape[1] :]
        left = np.linalg.norm(np.einsum("kl,rlo->rko", self.coupling, last), axis=1)
        rounding = ROUNDING * largest * np.linalg.norm(inside, axis=1)
        return np.where(left <= rounding, 0.0, left), inside

    def _inside(self, ridges: Array) -> tuple[Array, float]:
        """Return the solutions (R, m, K) in the basis, of B's columns of length 1, and |T|."""
        values, vectors = eigh(self.projected, check_finite=False)
        values = np.maximum(values, 0.0)
        b = vectors[: len(self.start)].T @ self.start
        shifted = values[None, :, None] + np.asarray(ridges)[:, None, None]
        smallest = np.finfo(np.float64).tiny
        y = np.where(shifted > smallest, b / np.maximum(shifted, smallest), 0.0)
        return np.einsum("mn,rnk->rmk", vectors, y), float(values.max(initial=0.0))


def _ratio(left: Array, size: Array) -> Array:
    """Return the largest (R,) over outputs of left / size (R, K), 0 where nothing is left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(left == 0, 0.0, left / size)
    return np.asarray(found.max(axis=1, initial=0.0))


def _orthonormal(X: Array, length: float) -> Array:
    """Return an orthonormal basis of the columns, without what is rounding beside the length."""
    if not X.size:
        return np.zeros((len(X), 0))
    Q, R, _ = qr(X, mode="economic", pivoting=True, check_finite=False)
    rank = int((np.abs(R.diagonal()) > INDEPENDENT * length).sum())
    return np.ascontiguousarray(Q[:, :rank])

"""Ridge regression on the rows themselves, for ridges at which normal equations lose digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import qr, solve_triangular, svd

from catchment.arrays import Array, refuse_nonfinite
from catchment.readout import EPS, Readout, checked_ridges, singular_error


def solve_rows(
    z: Array,
    y: Array,
    ridge: float,
    *,
    weight: Array | None = None,
    intercept: bool = True,
    method: Literal["qr", "svd"] = "qr",
) -> Readout:
    """Return the ridge readout of the rows themselves, for ridges below 1e-8.

    The condition number enters once, not squared as in the statistics; the price is that all rows
    are in memory. At ridge 0 and dependent features "qr" raises, "svd" gives the smallest weights.

    Parameters
    ----------
    z
        (n, F) features.
    y
        (n, K) targets. A row with a NaN target is left out, whole.
    weight
        (n,) non-negative sample weights; ones if not given.

    >>> z, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [5.0]])
    >>> solve_rows(z, y, 0.0, method="svd").weights.round(12)
    array([[2.]])
    """
    beta = float(checked_ridges(ridge, 1)[0])
    if method not in ("qr", "svd"):
        raise ValueError(f"method is {method!r}; choose 'qr' or 'svd'")
    rows = _Rows.of(z, y, weight, intercept)
    W = _solve_qr(rows.z, rows.y, beta) if method == "qr" else _solve_svd(rows.z, rows.y, beta)
    return Readout(W, rows.target_mean - rows.feature_mean @ W, beta)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows ready for least squares: known, centred, multiplied by the roots of their weights."""

    z: Array
    y: Array
    feature_mean: Array
    target_mean: Array

    @classmethod
    def of(cls, z: Array, y: Array, weight: Array | None, intercept: bool) -> _Rows:
        z, y = np.asarray(z, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if z.ndim != 2 or y.ndim != 2 or len(z) != len(y):
            raise ValueError(
                f"features {z.shape} and targets {y.shape} must be matrices with equally many rows"
            )
        w = np.ones(len(z)) if weight is None else np.asarray(weight, dtype=np.float64)
        if w.shape != (len(z),) or not np.isfinite(w).all() or (w < 0).any():
            raise ValueError(
                f"weight has shape {w.shape} for {len(z)} rows; "
                "pass one finite, non-negative number per row"
            )
        known = ~np.isnan(y).any(axis=1) & (w > 0)
        z, y, w = z[known], y[known], w[known]
        if len(z) == 0:
            raise ValueError("there are no rows with a target and a weight; add data first")
        refuse_nonfinite(z, "features")
        refuse_nonfinite(y, "targets")
        root = np.sqrt(w)[:, None]
        if not intercept:
            return cls(z * root, y * root, np.zeros(z.shape[1]), np.zeros(y.shape[1]))
        means = w @ z / w.sum(), w @ y / w.sum()
        return cls((z - means[0]) * root, (y - means[1]) * root, *means)


def _solve_qr(z: Array, y: Array, ridge: float) -> Array:
    F = z.shape[1]
    Z = np.vstack([z, np.sqrt(ridge) * np.eye(F)])
    if len(Z) < F:
        raise singular_error(np.zeros(F), ridge, len(z))
    Q, R = qr(Z, mode="economic", overwrite_a=True, check_finite=False)
    pivots = np.abs(R.diagonal())
    if (pivots <= len(Z) * EPS * np.linalg.norm(R, axis=0)).any():
        raise singular_error(svd(z, compute_uv=False)[::-1] ** 2, ridge, len(z))
    return np.asarray(solve_triangular(R, Q[: len(z)].T @ y, check_finite=False))


def _solve_svd(z: Array, y: Array, ridge: float) -> Array:
    U, s, V = svd(z, full_matrices=False, check_finite=False)
    kept = s > max(z.shape) * EPS * s[0]
    inverse = np.divide(s, s**2 + ridge, out=np.zeros_like(s), where=kept)
    return np.asarray(V.T @ (inverse[:, None] * (U.T @ y)))

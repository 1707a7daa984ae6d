"""Upper triangular factors R with R'R = A'A: more rows in, two merged into one, by LAPACK.

Householder reflections take new rows B into R without forming a product: [R; B] = Q R~ (dtpqrt,
which leaves the zeros of R alone). Each column is wrong by a few units in its own last place, and
no square is ever taken, so R keeps what a Gram matrix loses: columns whose differences are below
the root of the machine's precision. Rows of R may have any sign; here its diagonal is not negative.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from catchment.arrays import Array
from catchment.readout import unpack_lower

BLOCK = 32  # columns that LAPACK reflects together


def with_rows(triangle: Array, rows: Array) -> Array:
    """Return the factor (n, n) of what a triangle stands for and of further rows (m, n).

    >>> with_rows(np.zeros((2, 2)), np.array([[3.0, 0.0], [4.0, 0.0]])).round(12) + 0.0
    array([[5., 0.],
           [0., 0.]])
    """
    if len(rows) == 0 or len(triangle) == 0:
        return triangle
    return _reflected(triangle, rows, 0)


def merged(one: Array, other: Array) -> Array:
    """Return the factor (n, n) of all rows behind two factors.

    >>> merged(np.diag([3.0, 1.0]), np.diag([4.0, 0.0])).round(12) + 0.0
    array([[5., 0.],
           [0., 1.]])
    """
    return one if len(one) == 0 else _reflected(one, other, len(one))


def _reflected(triangle: Array, rows: Array, n_triangular: int) -> Array:
    block = min(BLOCK, len(triangle))
    found, _, _, info = lapack.dtpqrt(n_triangular, block, triangle, rows)
    if info:
        raise ValueError(f"LAPACK refused a factor of shape {triangle.shape} (info {info})")
    upper = np.triu(found)
    return np.asarray(np.where(upper.diagonal() < 0, -1.0, 1.0)[:, None] * upper)


def unpacked_triangle(packed: Array) -> Array:
    """Return the upper triangle (n, n) of its packed numbers, zeros below it.

    >>> unpacked_triangle(np.array([1.0, 2.0, 3.0]))
    array([[1., 2.],
           [0., 3.]])
    """
    return np.triu(unpack_lower(packed).T)

"""Integer statistics of rows that are there already."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from catchment.arrays import Array
from catchment.readout.exact_gram import exact_gram, packed_whole, statistics_of, target_pieces
from catchment.readout.grid import Grid
from catchment.readout.statistics import RidgeStatistics

BLOCK = 2048  # rows multiplied together


def exact_statistics(
    z: Array, y: Array, grid: Grid, *, weight: Array | None = None, fingerprint: str = ""
) -> RidgeStatistics:
    """Return the statistics of features (n, F) that lie on a grid and targets (n, K), all known.

    >>> z, y = np.array([[0.5], [0.25]]), np.array([[1.0], [0.0]])
    >>> exact_statistics(z, y, Grid(4, ((1, 4),))).gram
    array([80])
    """
    _check_rows(z, grid)
    if weight is None:
        return _unweighted(z, y, grid, fingerprint)
    found = RidgeStatistics.zero(z.shape[1], y.shape[1], fingerprint, grid)
    groups = [(value, weight == value) for value in whole_weights(weight)]
    parts = [_unweighted(z[m], y[m], grid, fingerprint).scaled(value) for value, m in groups]
    return reduce(add, parts, found)


def whole_weights(weight: Array) -> list[int]:
    """Return the different weights, ascending; ValueError if one is not whole.

    >>> whole_weights(np.array([2.0, 1.0, 2.0]))
    [1, 2]
    """
    values = np.unique(weight)
    odd = values[np.rint(values) != values]
    if len(odd):
        raise ValueError(
            f"a weight is {odd[0]:g}; on a grid weights are whole numbers, so multiply all of "
            "them by one number and round, or use a map with grid=None"
        )
    return [int(value) for value in values]


def _check_rows(z: Array, grid: Grid) -> None:
    if z.shape[1] != grid.n_features:
        raise ValueError(f"features have {z.shape[1]} columns, the grid has {grid.n_features}")
    if not z.size:
        return
    from catchment.readout.exact_kernels import first_off_grid

    flat = np.require(z, requirements=["C", "W"]).reshape(-1)
    place = int(first_off_grid(flat, np.ldexp(1.0, grid.digits), 2.0**grid.bits))
    if place >= 0:
        row, column = divmod(place, z.shape[1])
        raise ValueError(
            f"feature {column} is {z[row, column]!r} in row {row}, which is not on its grid of "
            f"{grid.bits} bits; round rows with catchment.features.grid.on_grid"
        )


def _unweighted(z: Array, y: Array, grid: Grid, fingerprint: str) -> RidgeStatistics:
    if not len(z):
        return RidgeStatistics.zero(z.shape[1], y.shape[1], fingerprint, grid)
    (pieces,), places = target_pieces([y], grid)
    constant = bool(z.shape[1] and (z[:, 0] == 1.0).all() and 0 <= grid.digits[0] <= grid.bits)
    total = exact_gram(grid, pieces.shape[1], constant=constant)
    rows = np.concatenate([z, pieces, np.ones((len(z), 1))], axis=1)
    for start in range(0, len(rows), BLOCK):
        total.add(rows[start : start + BLOCK].T)
    M, F = total.result(), grid.n_features
    return statistics_of(
        packed_whole(M, F),
        M[:, F:],
        len(z),
        grid,
        places,
        constant=constant,
        fingerprint=fingerprint,
    )

"""The spectral radius of a sparse matrix: its largest absolute eigenvalue.

A matrix is first cut into the strongly connected parts of its graph, whose eigenvalues together
are its own: a matrix without a cycle has only zeros, exactly. Small parts are solved densely. Large
ones go to ARPACK, which is asked for several eigenvalues in a wide subspace: the random matrices
used here have many eigenvalues near the edge of a disc, and asked for only one or two it returns,
without any error, one that is not the largest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from catchment.arrays import Array
from catchment.features.echo_state.random_words import Purpose, Words, uniform
from catchment.features.echo_state.weights import SparseRows
from catchment.parallel import single_blas_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DENSE_UP_TO = 500
DENSE_AT_MOST = 4000
N_EIGENVALUES = 6
SUBSPACE, WIDE_SUBSPACE = 120, 400
RESTARTS = 100
TOLERANCE = 1e-9


def spectral_radius(W: SparseRows) -> float:
    """Return the largest absolute eigenvalue of a square matrix.

    >>> spectral_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [0.0, -2.0]])))
    2.0
    >>> spectral_radius(SparseRows.from_dense(np.array([[0.0, 2.0], [0.0, 0.0]])))
    0.0
    """
    # scipy.sparse takes a third of a second to import: only who scales a matrix pays for it.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    if W.n_columns != W.n_rows:
        raise ValueError(f"the matrix is {W.n_rows} x {W.n_columns}; give a square one")
    if W.n_nonzero == 0:
        return 0.0
    if not np.isfinite(W.values).all():
        raise ValueError("the matrix has entries that are not finite; replace them")
    columns = W.columns.astype(np.int64)
    # A copy, because zeros are taken out in place, and a matrix may be read-only.
    parts = (W.values, columns, W.starts)
    matrix = csr_array(parts, shape=(W.n_rows, W.n_columns), copy=True)
    matrix.eliminate_zeros()
    _, part = connected_components(matrix, directed=True, connection="strong")  # type: ignore[arg-type]  # stubs lack csr_array
    sizes = np.bincount(part)
    # A part of one unit is its own eigenvalue.
    alone = np.abs(matrix.diagonal())[sizes[part] == 1]
    radii = [float(alone.max(initial=0.0))]
    with single_blas_thread():
        for label in np.flatnonzero(sizes > 1):
            units = np.flatnonzero(part == label)
            radii.append(_connected_radius(matrix[units][:, units]))
    return max(radii)


def _connected_radius(matrix: csr_array) -> float:
    N = matrix.shape[0]
    # An iteration cannot tell the eigenvalues of a cycle apart: all have the same size.
    if matrix.nnz == N:
        return float(np.exp(np.log(np.abs(matrix.data)).mean()))
    if N <= DENSE_UP_TO:
        return _dense_radius(matrix.toarray())
    radius = _arpack_radius(matrix, SUBSPACE)
    if radius is None and N <= DENSE_AT_MOST:
        return _dense_radius(matrix.toarray())
    radius = _arpack_radius(matrix, WIDE_SUBSPACE) if radius is None else radius
    if radius is not None:
        return radius
    raise ArithmeticError(
        f"the largest eigenvalue of a matrix of {N} units did not converge; choose another seed, "
        "or a topology whose radius is known (ring, permutation, orthogonal)"
    )


def _dense_radius(matrix: Array) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def _arpack_radius(matrix: csr_array, subspace: int) -> float | None:
    """Return the radius by Arnoldi iteration from a fixed start, or None if it did not converge."""
    from scipy.sparse.linalg import ArpackError, eigs

    N = matrix.shape[0]
    start = uniform(Words(seed=0, layer=0, purpose=Purpose.PROBE), N, -1.0, 1.0)
    try:
        values = eigs(
            matrix,
            k=N_EIGENVALUES,
            ncv=subspace,
            which="LM",
            v0=start,
            tol=TOLERANCE,
            maxiter=RESTARTS,
            return_eigenvectors=False,
        )
    except ArpackError:
        return None
    return float(np.abs(values).max())

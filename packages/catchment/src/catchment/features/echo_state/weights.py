"""The numbers of one layer: a sparse recurrent matrix, a sparse input matrix, and per-unit values.

    x(t) = (1 - a) x(t-1) + a f( g (W_in u(t) + W x(t-1) + b) + s )

with leak a, activation f, and gain g and shift s of intrinsic plasticity (1 and 0 unless adapted).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array

ACTIVATIONS = ("tanh", "sigmoid", "relu", "sin", "identity")


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix (n_rows, n_columns) by its non-zeros, row after row, columns ascending.

    >>> m = SparseRows.from_dense(np.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> m.values, m.columns
    (array([2., 3.]), array([1, 0], dtype=uint32))
    >>> m.to_dense()
    array([[0., 2.],
           [3., 0.]])
    """

    starts: NDArray[np.int64]  # (n_rows + 1,)
    columns: NDArray[np.uint32]  # (nnz,)
    values: Array  # (nnz,)
    n_columns: int

    @classmethod
    def from_dense(cls, matrix: Array) -> SparseRows:
        rows, columns = np.nonzero(matrix)
        return cls.from_coordinates(rows, columns, matrix[rows, columns], *matrix.shape)

    @classmethod
    def from_coordinates(
        cls,
        rows: NDArray[np.integer],
        columns: NDArray[np.integer],
        values: Array,
        n_rows: int,
        n_columns: int,
    ) -> SparseRows:
        """Return the matrix with these entries; positions must be distinct."""
        order = np.lexsort((columns, rows))
        starts = np.zeros(n_rows + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=n_rows), out=starts[1:])
        return cls(starts, columns[order].astype(np.uint32), values[order].copy(), n_columns)

    @property
    def n_rows(self) -> int:
        return len(self.starts) - 1

    @property
    def n_nonzero(self) -> int:
        return len(self.values)

    @property
    def density(self) -> float:
        return self.n_nonzero / max(1, self.n_rows * self.n_columns)

    def rows(self) -> NDArray[np.int64]:
        """Return the row (nnz,) of each non-zero."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.starts))

    def to_dense(self) -> Array:
        matrix = np.zeros((self.n_rows, self.n_columns))
        matrix[self.rows(), self.columns] = self.values
        return matrix

    def times(self, factor: float) -> SparseRows:
        return SparseRows(self.starts, self.columns, self.values * factor, self.n_columns)


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Everything that drives one layer of N units."""

    W: SparseRows  # (N, N)
    W_in: SparseRows  # (N, I)
    bias: Array  # (N,)
    leak: Array  # (N,)
    gain: Array  # (N,)
    shift: Array  # (N,)
    activation: NDArray[np.uint8]  # (N,) index into ACTIVATIONS

    def __post_init__(self) -> None:
        N = self.W.n_rows
        if self.W.n_columns != N or self.W_in.n_rows != N:
            raise ValueError(
                f"W is {self.W.n_rows} x {self.W.n_columns} and W_in has {self.W_in.n_rows} rows; "
                "W must be square and W_in must have a row per unit"
            )
        for name in ("bias", "leak", "gain", "shift", "activation"):
            if getattr(self, name).shape != (N,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({N},)")

    @property
    def n_units(self) -> int:
        return self.W.n_rows

    @property
    def n_inputs(self) -> int:
        return self.W_in.n_columns

    def digest(self) -> bytes:
        """Return the SHA-256 of every number, in little-endian order."""
        sha = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            parts = (
                (value.starts, value.columns, value.values, np.int64(value.n_columns))
                if isinstance(value, SparseRows)
                else (value,)
            )
            for part in parts:
                array = np.asarray(part)
                sha.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
        return sha.digest()


_UNIT = ("bias", "leak", "gain", "shift", "activation")
_SPARSE = ("starts", "columns", "values")
_PER_LAYER = len(_UNIT) + 2 * (len(_SPARSE) + 1)


def layer_arrays(layer: LayerWeights) -> tuple[NDArray[Any], ...]:
    """Return the numbers of a layer as arrays, in a fixed order; `layers_of` reads them."""
    arrays: list[NDArray[Any]] = [getattr(layer, name) for name in _UNIT]
    for matrix in (layer.W, layer.W_in):
        arrays += [getattr(matrix, name) for name in _SPARSE]
        arrays.append(np.array([matrix.n_columns], dtype=np.int64))
    return tuple(arrays)


def layers_of(arrays: Sequence[NDArray[Any]]) -> tuple[LayerWeights, ...]:
    """Return the layers whose arrays these are, after checking what the kernels trust."""
    if not arrays or len(arrays) % _PER_LAYER:
        raise ValueError(f"{len(arrays)} arrays came, a layer has {_PER_LAYER}")
    starts = range(0, len(arrays), _PER_LAYER)
    return tuple(_layer(arrays[first : first + _PER_LAYER]) for first in starts)


def _layer(arrays: Sequence[NDArray[Any]]) -> LayerWeights:
    bias, leak, gain, shift, activation = arrays[: len(_UNIT)]
    for array in (bias, leak, gain, shift):
        _typed(array, np.float64)
    _typed(activation, np.uint8)
    if (activation >= len(ACTIVATIONS)).any():
        raise ValueError(f"activation {activation.max()} is unknown")
    middle = len(_UNIT) + len(_SPARSE) + 1
    W, W_in = _sparse(arrays[len(_UNIT) : middle]), _sparse(arrays[middle:])
    return LayerWeights(W, W_in, bias, leak, gain, shift, activation)


def _sparse(arrays: Sequence[NDArray[Any]]) -> SparseRows:
    """Return the matrix, after checking that every index is inside."""
    starts, columns, values, width = arrays
    for array, dtype in ((starts, np.int64), (columns, np.uint32), (values, np.float64)):
        _typed(array, dtype)
    n_columns = int(width[0]) if width.shape == (1,) else -1
    inside = starts.ndim == columns.ndim == values.ndim == 1 and len(columns) == len(values)
    inside = inside and len(starts) > 0 and starts[0] == 0 and starts[-1] == len(values)
    if not (inside and (np.diff(starts) >= 0).all() and (columns < max(n_columns, 0)).all()):
        raise ValueError("a sparse matrix points outside itself")
    return SparseRows(starts, columns, values, n_columns)


def _typed(array: NDArray[Any], dtype: type[np.generic]) -> None:
    if array.dtype != dtype:
        raise TypeError(f"an array has type {array.dtype}, not {np.dtype(dtype)}")

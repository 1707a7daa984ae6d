"""An echo-state map in fixed point in integers, as its form in C holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Integers
from catchment.features import EchoState
from catchment.features.echo_state import MOST_WEIGHT_DIGITS, Program


@dataclass(frozen=True, eq=False)
class IntegerRows:
    """A sparse matrix of integers, row after row."""

    starts: Integers  # (n_rows + 1,)
    columns: Integers  # (nnz,)
    values: Integers  # (nnz,)

    @classmethod
    def from_dense(cls, matrix: Integers) -> IntegerRows:
        rows, columns = np.nonzero(matrix)
        starts = np.searchsorted(rows, np.arange(len(matrix) + 1))
        return cls(starts, columns, matrix[rows, columns])


@dataclass(frozen=True, eq=False)
class IntegerLayer:
    """One layer of N units: every weight an integer of 2^-weight_digits."""

    weight_digits: int
    recurrent: IntegerRows  # (N, N)
    input: IntegerRows  # (N, I)
    bias: Integers  # (N,)
    leak: Integers  # (N,) of the map's leak_digits
    activation: Integers  # (N,) index into ACTIVATIONS

    @classmethod
    def of(cls, program: Program, leak_digits: int) -> IntegerLayer:
        """Return the integers of a layer that is in fixed point."""
        N, I, w = program.n_units, program.n_inputs, program.weight_digits
        matrix = np.zeros((N, N + I + 1), dtype=np.int64)
        rows = np.repeat(np.arange(N), np.diff(program.starts))
        matrix[rows, program.columns] = whole(program.values, w)
        return cls(
            w,
            IntegerRows.from_dense(matrix[:, :N]),
            IntegerRows.from_dense(matrix[:, N:-1]),
            matrix[:, -1],
            whole(program.leak, leak_digits),
            program.activation.astype(np.int64),
        )

    @property
    def n_units(self) -> int:
        return len(self.bias)


@dataclass(frozen=True, eq=False)
class IntegerMap:
    """An echo-state map in fixed point, in integers."""

    digits: int
    leak_digits: int
    n_inputs: int
    layers: tuple[IntegerLayer, ...]
    feature_bits: int
    feature_digits: Integers  # (features of one step,)
    cut: tuple[int, int] = (0, 0)
    bias: bool = False
    input: bool = True
    state: bool = True
    pool: str | None = None
    segments: int = 1
    washout: int = 0

    @classmethod
    def of(cls, features: EchoState) -> IntegerMap:
        """Return the integers of a map; ValueError if it or its features have no grid."""
        bits, feature_bits = features.reservoir.grid, features.feature_grid
        if not isinstance(bits, int) or not isinstance(feature_bits, int):
            raise ValueError(
                f"the reservoir's grid is {bits} and the features' {feature_bits}; the C form "
                "needs both, so set grid and feature_grid"
            )
        leak_digits = min(bits, MOST_WEIGHT_DIGITS)
        return cls(
            bits,
            leak_digits,
            features.known_inputs,
            tuple(IntegerLayer.of(program, leak_digits) for program in features.programs),
            feature_bits,
            features.grid_digits[: features.n_base],
            features.reservoir.cut,
            features.bias,
            features.input,
            features.state,
            features.pool,
            features.segments,
            features.washout,
        )

    @property
    def n_units(self) -> int:
        return sum(layer.n_units for layer in self.layers)

    @property
    def n_features(self) -> int:
        base = self.bias + self.input * self.n_inputs + self.state * self.n_units
        return base * self.segments * (2 if self.pool == "mean_std" else 1)

    def n_rows(self, n_steps: int) -> int:
        return n_steps - self.washout if self.pool is None else 1


def whole(values: NDArray[np.floating[Any]], digits: int | Integers) -> Integers:
    """Return numbers that lie in fixed point in steps of 2^-digits; ValueError if one does not.

    >>> whole(np.array([0.5, -0.75]), 2)
    array([ 2, -3])
    """
    scaled = np.ldexp(values.astype(np.float64), digits)
    found: Integers = np.rint(scaled).astype(np.int64)
    if not np.array_equal(found, scaled):
        raise ValueError(
            f"{values[found != scaled][0]} has more than {digits} binary digits after the point; "
            "pass numbers that lie on the grid"
        )
    return found

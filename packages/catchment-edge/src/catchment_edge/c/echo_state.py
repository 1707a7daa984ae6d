"""Echo states in C, in integers of 32 bits.

Tables and functions stand around `sources/grid.c`. The state moves on with every step, and rows are
made of base features: at every step, or pooled over a piece, or over each of its segments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.features import EchoState, form
from catchment.features.echo_state import ACTIVATIONS, MOST_WEIGHT_DIGITS, Program
from catchment_edge.c.map_code import (
    Field,
    MapCode,
    Setting,
    Table,
    known_bits,
    own_code,
)
from catchment_edge.c.pieces import template

MOST_ENTRIES = 1 << 16  # that an index of two bytes tells apart
POOLS = {
    None: "GRID_STEPS",
    "last": "GRID_LAST",
    "mean": "GRID_MEAN",
    "mean_std": "GRID_MEAN_STD",
    "max": "GRID_MAX",
}


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
            "pass numbers in fixed point"
        )
    return found


def dense(program: Program) -> Array:
    """Return the weights (N, N + I + 1) of a layer: of states, of inputs, and offsets."""
    N, I = program.n_units, program.n_inputs
    matrix = np.zeros((N, N + I + 1))
    matrix[np.repeat(np.arange(N), np.diff(program.starts)), program.columns] = program.values
    return matrix


def sparse(matrix: NDArray[Any]) -> tuple[Integers, Integers, NDArray[Any]]:
    """Return where the rows of a matrix start, and the columns and values of what is not zero."""
    rows, columns = np.nonzero(matrix)
    return np.searchsorted(rows, np.arange(len(matrix) + 1)), columns, matrix[rows, columns]


@form("c", EchoState)
def echo_code(features: EchoState, setting: Setting, prefix: str) -> MapCode:
    """Return the code of an echo-state map."""
    return _Maker(features, setting, prefix).code()


class _Maker:
    """What the code of an echo-state map consists of."""

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        self.features, self.p = features, prefix
        self.pool, self.base, self.washout = features.pool, features.n_base, features.washout
        self.programs, self.n_units = features.programs, features.reservoir.n_units
        names = (ACTIVATIONS[k] for one in self.programs for k in one.activation)
        self.activations = frozenset(names)
        self.digits = known_bits(features.reservoir.bits)
        self.reach = int(np.ldexp(features.reservoir.range, self.digits))
        if self.reach >= 1 << 31 or self.n_units >= MOST_ENTRIES:
            raise ValueError(
                f"{self.n_units} units and an input range of "
                f"{features.reservoir.range:g} do not fit the C form; use fewer units or a "
                "smaller range"
            )
        length = features.reservoir.cut[0]
        self.cut = length > 0 and (setting.steps is None or setting.steps > length)
        top_bits = self.digits + int(np.ceil(np.log2(max(float(features.step_bounds.max()), 1.0))))
        steps = setting.steps or 1 << max(1, 52 - top_bits)
        steps_bits = (steps - self.washout).bit_length()
        self.sum_type = "int32_t" if top_bits + steps_bits <= 31 else "int64_t"
        self.wide_squares = 2 * top_bits + steps_bits > 64
        first, second = (self.sum_type, "first", "0"), ("uint64_t", "second", "0")
        above = (("uint64_t", "above", "0"),) if self.wide_squares else ()
        kept = {"mean": (first,), "mean_std": (first, second, *above)}
        kept["max"] = (("int32_t", "extreme", "INT32_MIN"),)
        self.sums = kept.get(self.pool or "", ())

    def code(self) -> MapCode:
        features = self.features
        return own_code(
            features,
            self.p,
            self.text(),
            self.operations(),
            least_steps=self.washout + features.segments,
            needs_steps=features.segments > 1,
            sources=("grid.h", "grid.c", "prepare.c"),
            tables=self._tables(),
            fields=self._fields(),
            activations=self.activations,
            traits=self._traits(),
        )

    def operations(self) -> float:
        weights = sum(np.count_nonzero(dense(one)[:, :-1]) for one in self.programs)
        return float(weights + 2 * self.n_units + (self.base if self.pool == "mean_std" else 0))

    def _tables(self) -> tuple[Table, ...]:
        found = [Table("int8_t", f"{self.p}_digits", self.features.feature_digits[: self.base])]
        leak_digits = min(self.digits, MOST_WEIGHT_DIGITS)
        for k, program in enumerate(self.programs):
            name, N = f"{self.p}_{k}", program.n_units
            matrix = whole(dense(program), program.weight_digits)
            for kind, part in (("recurrent", matrix[:, :N]), ("input", matrix[:, N:-1])):
                starts, columns, values = sparse(part)
                none = np.zeros(1, dtype=np.int64)  # C can declare no table without entries
                found += [
                    Table("uint32_t", f"{name}_{kind}_starts", starts),
                    Table("uint16_t", f"{name}_{kind}_columns", columns if len(columns) else none),
                    Table("int32_t", f"{name}_{kind}_values", values if len(values) else none),
                ]
            found += [
                Table("int32_t", f"{name}_bias", matrix[:, -1]),
                Table("int32_t", f"{name}_leak", whole(program.leak, leak_digits)),
                Table("uint8_t", f"{name}_activation", program.activation.astype(np.int64)),
            ]
        return tuple(found)

    def _fields(self) -> tuple[Field, ...]:
        p, N = self.p, self.n_units
        largest = max(program.n_units for program in self.programs)
        found = [Field("int32_t", f"{p}_x", N), Field("int32_t", f"{p}_next", largest)]
        if self.cut:
            found += [Field("int32_t", f"{p}_warm", N), Field("uint32_t", f"{p}_place", 1)]
        found += [Field(kind, f"{p}_{name}", self.base) for kind, name, _ in self.sums]
        found += [Field("uint32_t", f"{p}_part", 1)] if self.features.segments > 1 else []
        return tuple(found)

    def _traits(self) -> tuple[str, ...]:
        """Return what its instructions are made of."""
        features, pool = self.features, f"pool {self.pool}"
        found = ["one layer" if len(self.programs) == 1 else "layers", pool]
        found += sorted(self.activations)
        found += ["mixed"] if len(self.activations) > 1 else []
        found += [f"segments, {pool}"] if features.segments > 1 else []
        found += ["words"]
        found += ["cut"] if self.cut else []
        found += [f"{pool}, {self.sum_type}"] if "mean" in pool else []
        found += ["wide"] if self.wide_squares and self.pool == "mean_std" else []
        found += ["washout"] if self.washout and self.pool not in (None, "last") else []
        found += [f"base {int(features.bias)}{int(features.input)}{int(features.state)}"]
        return tuple(f"echo state, {one}" for one in found)

    def text(self) -> str:
        """Return its constants and functions."""
        one, (L, M) = self.features, self.features.reservoir.cut
        read = [int(one.bias), int(one.input), int(one.state), POOLS[self.pool]]
        marks = {
            "P": self.p,
            "LAYERS": self.programs,
            "DIGITS": self.digits,
            "LEAK_DIGITS": min(self.digits, MOST_WEIGHT_DIGITS),
            "INPUTS": one.known_inputs,
            "REACH": self.reach,
            "UNITS": self.n_units,
            "BASE": self.base,
            "L": L,
            "M": M,
            "CUT": self.cut,
            "READ": read,
            "POOL": self.pool,
            "SUMS": self.sums,
            "WIDE": self.wide_squares,
            "SEGMENTS": one.segments,
            "WASHOUT": self.washout,
            "BITS": one.feature_bits,
            "FEATURES": one.n_features,
        }
        return template("echo_state.c", marks)

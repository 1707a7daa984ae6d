"""Echo states in C: in integers of 32 or 16 bits, or in float32.

Tables and functions stand around `sources/grid.c` and `sources/float_reservoir.c`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.features import EchoState, Reservoir, form
from catchment.features.echo_state import ACTIVATIONS, BOUNDED, Program
from catchment_edge.c.map_code import Field, MapCode, Setting, Table
from catchment_edge.c.streaming import Streaming, Sum
from catchment_edge.whole_map import IntegerLayer, IntegerMap

Q15 = 15  # digits of states and weights that fit words of 16 bits
MOST_ENTRIES = 1 << 16  # that an index of two bytes tells apart
MOST_ROUNDED = 22  # bits of features that single precision can round
FEW_STEPS = 256
POOLS = {
    None: "GRID_STEPS",
    "last": "GRID_LAST",
    "mean": "GRID_MEAN",
    "mean_std": "GRID_MEAN_STD",
    "max": "GRID_MAX",
}


@form("c", EchoState)
def map_code(features: EchoState, setting: Setting, prefix: str) -> MapCode:
    """Return the code of an echo-state map.

    In single precision features are rounded to their grid as in training; states are not.
    """
    if setting.number == "float32":
        return _FloatMaker(features, setting, prefix).code()
    if features.reservoir.grid is None or features.feature_grid is None:
        raise ValueError(
            f"the map has no grid, which --number {setting.number} needs; export it with "
            '--number float32, or train it with grid="auto"'
        )
    return _IntegerMaker(features, setting, prefix).code()


@form("q15", EchoState)
def in_q15(features: EchoState) -> EchoState:
    """Return the map with states and features of at most 15 digits, the same if it has no more.

    >>> from catchment import EchoState
    >>> in_q15(EchoState(20).build(1, per_step=True, classes=True)).reservoir.grid
    15
    """
    reservoir = features.reservoir
    linear = [k for layer in reservoir.layers for k in layer.activation if k not in BOUNDED]
    if linear:
        raise ValueError(
            "q15 holds states between -1 and 1, and units with relu or identity go beyond; "
            "export with --number whole or float32"
        )
    bits = Q15 if reservoir.grid is None else min(reservoir.grid, Q15)
    feature_bits = Q15 if features.feature_grid is None else min(features.feature_grid, Q15)
    if (bits, feature_bits) == (reservoir.grid, features.feature_grid):
        return features
    coarser = Reservoir(
        reservoir.layers,
        grid=bits,
        input_range=reservoir.input_range,
        known_cut=reservoir.cut if reservoir.grid is not None else (0, 0),
    )
    read = replace(features, feature_grid=None, precision="float64").reading(coarser)
    return replace(read, feature_grid=feature_bits)


class _Maker(ABC):
    """What the code of an echo-state map consists of; the subclasses are its kinds of numbers."""

    sources: tuple[str, ...]

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        self.features, self.setting, self.p = features, setting, prefix

    def code(self) -> MapCode:
        features = self.features
        bits, digits = self.grid()
        return MapCode(
            self.p,
            features.known_inputs,
            features.known_inputs,
            features.n_features,
            bits,
            digits,
            self.text(),
            self.operations(),
            per_step=features.per_step,
            washout=features.washout,
            least_steps=features.washout + features.segments,
            needs_steps=features.segments > 1,
            sources=self.sources,
            tables=self.tables(),
            fields=self.fields(),
            activations=self.activations(),
            traits=self.traits(),
        )

    def grid(self) -> tuple[int | None, Any]:
        """Return bits and digits of the features, if they are integers."""
        return None, None

    @abstractmethod
    def text(self) -> str:
        """Return the structs and functions."""

    @abstractmethod
    def operations(self) -> float:
        """Return multiply-adds of a step: weights, leaks, and squares of a pool."""

    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """Return weights, leaks, activations, and what features are rounded to."""

    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """Return states, sums of the pool, and where a sequence that is cut stands."""

    def activations(self) -> frozenset[str]:
        """Return the names of the units' functions."""
        return frozenset(ACTIVATIONS[k] for one in self.features.programs for k in one.activation)

    @abstractmethod
    def own_traits(self, pool: str) -> list[str]:
        """Return what only instructions of its kind of number are made of."""

    def traits(self) -> tuple[str, ...]:
        """Return what its instructions are made of."""
        features, pool = self.features, f"pool {self.features.pool}"
        layers = "one layer" if len(features.programs) == 1 else "layers"
        found = [layers, pool, *sorted(self.activations())]
        found += ["mixed"] if len(self.activations()) > 1 else []
        found += [f"segments, {pool}"] if features.segments > 1 else []
        found += self.own_traits(pool)
        found += [f"base {int(features.bias)}{int(features.input)}{int(features.state)}"]
        return tuple(f"echo state, {one}" for one in found)

    def layer_text(self, k: int, sizes: str) -> str:
        """Return the struct of layer k, which begins with its sizes."""
        name = f"{self.p}_{k}"
        rows = [
            f"{{{name}_{kind}_starts, {name}_{kind}_columns, {name}_{kind}_values}}"
            for kind in ("recurrent", "input")
        ]
        own = f"{name}_bias, {name}_leak, {name}_activation"
        return f"    {{{sizes},\n     {rows[0]},\n     {rows[1]},\n     {own}}}"


def _row_tables(
    word: str, name: str, starts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any]
) -> list[Table]:
    """Return a sparse matrix; C can declare no table without entries."""
    none = np.zeros(1, dtype=np.int64)
    return [
        Table("uint32_t", f"{name}_starts", starts),
        Table("uint16_t", f"{name}_columns", columns if len(columns) else none),
        Table(word, f"{name}_values", values if len(values) else none),
    ]


class _IntegerMaker(_Maker):
    sources = ("grid.h", "grid.c", "prepare.c")

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        super().__init__(features, setting, prefix)
        self.map = IntegerMap.of(features)
        self.word = "int16_t" if setting.number == "q15" else "int32_t"
        self.reach = int(np.ldexp(features.reservoir.input_range, self.map.digits))
        self.base = len(self.map.feature_digits)
        if self.reach >= 1 << 31 or self.map.n_units >= MOST_ENTRIES:
            raise ValueError(
                f"{self.map.n_units} units and an input range of "
                f"{features.reservoir.input_range:g} do not fit the C form; use fewer units, a "
                "smaller input_range, or --number float32"
            )
        largest = max(float(features.step_bounds.max()), 1.0)
        self.top_bits = self.map.digits + int(np.ceil(np.log2(largest)))
        steps = setting.steps or 1 << max(1, 52 - self.top_bits)
        self.steps_bits = (steps - self.map.washout).bit_length()

    def grid(self) -> tuple[int | None, Any]:
        digits = self.map.feature_digits
        return self.map.feature_bits, np.tile(digits, self.map.n_features // len(digits))

    @property
    def cut(self) -> bool:
        """Whether a piece can be so long that it is cut."""
        length, steps = self.map.cut[0], self.setting.steps
        return length > 0 and (steps is None or steps > length)

    @property
    def sum_type(self) -> str:
        return "int32_t" if self.top_bits + self.steps_bits <= 31 else "int64_t"

    @property
    def wide_squares(self) -> bool:
        return 2 * self.top_bits + self.steps_bits > 64

    def tables(self) -> tuple[Table, ...]:
        found = [Table("int8_t", f"{self.p}_digits", self.map.feature_digits)]
        for k, layer in enumerate(self.map.layers):
            found += self._layer_tables(layer, f"{self.p}_{k}")
        return tuple(found)

    def _layer_tables(self, layer: IntegerLayer, name: str) -> list[Table]:
        rows = [
            table
            for kind, of in (("recurrent", layer.recurrent), ("input", layer.input))
            for table in _row_tables(self.word, f"{name}_{kind}", of.starts, of.columns, of.values)
        ]
        return [
            *rows,
            Table(self.word, f"{name}_bias", layer.bias),
            Table("int32_t", f"{name}_leak", layer.leak),
            Table("uint8_t", f"{name}_activation", layer.activation),
        ]

    def fields(self) -> tuple[Field, ...]:
        p, N = self.p, self.map.n_units
        found = [
            Field(self.word, f"{p}_x", N),
            Field(self.word, f"{p}_next", max(layer.n_units for layer in self.map.layers)),
        ]
        if self.cut:
            found += [Field(self.word, f"{p}_warm", N), Field("uint32_t", f"{p}_place", 1)]
        return (*found, *self.streaming.fields)

    def operations(self) -> float:
        weights = sum(len(x.recurrent.values) + len(x.input.values) for x in self.map.layers)
        pool = self.base if self.map.pool == "mean_std" else 0
        return float(weights + 2 * self.map.n_units + pool)

    def own_traits(self, pool: str) -> list[str]:
        m = self.map
        found = ["q15" if self.word == "int16_t" else "words"]
        found += ["cut"] if self.cut else []
        found += [f"{pool}, {self.sum_type}"] if "mean" in pool else []
        found += ["wide"] if self.wide_squares and m.pool == "mean_std" else []
        found += ["washout"] if m.washout and m.pool not in (None, "last") else []
        return found

    def text(self) -> str:
        return "\n".join([self._structs(), self._enter(), self.streaming.text()])

    @property
    def streaming(self) -> Streaming:
        """What the map does with a step."""
        p, m = self.p, self.map
        write, declares = self._write()
        return Streaming(
            p,
            self.base,
            m.n_features,
            tuple(self._advance()),
            self._reset(),
            write,
            sums=self._sums(),
            add=self._add(),
            declares=("uint32_t i;",) if self.cut else (),
            write_declares=declares,
            washout=m.washout,
            segments=m.segments,
        )

    def _structs(self) -> str:
        p, m = self.p, self.map
        widths = [m.n_inputs, *(layer.n_units for layer in m.layers)]
        layers = [
            self.layer_text(k, f"{layer.n_units}, {widths[k]}, {layer.weight_digits}")
            for k, layer in enumerate(m.layers)
        ]
        joined = ",\n".join(layers)
        L, M = m.cut
        return f"""
static const struct grid_layer {p}_layers[] = {{
{joined}
}};

static const struct grid_map {p}_map = {{
    {m.digits}, {m.leak_digits}, {m.n_inputs}, {m.n_units}, {len(m.layers)}, {L}, {M}, {p}_layers,
    {int(m.bias)}, {int(m.input)}, {int(m.state)}, {POOLS[m.pool]}, {m.segments}, {m.washout},
    {m.feature_bits}, {p}_digits
}};
"""

    def _enter(self) -> str:
        return f"""
static void {self.p}_enter(const value *u, word *v)
{{
    uint32_t i;
    for (i = 0; i < {self.map.n_inputs}; i++)
        v[i] = double_on_grid(u[i], {self.map.digits}, {self.reach});
}}
"""

    def _reset(self) -> tuple[str, ...]:
        p = self.p
        zero = (f"for (i = 0; i < {self.map.n_units}; i++)", f"    s->{p}_x[i] = 0;")
        return (*zero, *((f"s->{p}_place[0] = 0;",) if self.cut else ()))

    def _advance(self) -> list[str]:
        """Return what moves the state on; a part of a cut sequence warms up beside the one before.

        Part k of L steps starts from rest at step k L - M.
        """
        p, N, (L, M) = self.p, self.map.n_units, self.map.cut
        step = f"grid_step(&{p}_map, v, s->{p}_x, s->{p}_next);"
        if not self.cut:
            return [step]
        place = f"s->{p}_place[0]"
        warm = f"grid_step(&{p}_map, v, s->{p}_warm, s->{p}_next);"
        return [
            f"if ({place} == {L}) {{",
            f"    {place} = 0;",
            f"    for (i = 0; i < {N}; i++)",
            f"        s->{p}_x[i] = s->{p}_warm[i];",
            "}",
            f"if ({place} == {L - M})",
            f"    for (i = 0; i < {N}; i++)",
            f"        s->{p}_warm[i] = 0;",
            *([f"if ({place} >= {L - M})", f"    {warm}"] if M < L else [warm]),
            step,
            f"{place}++;",
        ]

    def _sums(self) -> tuple[Sum, ...]:
        first, second = Sum(self.sum_type, "first"), Sum("uint64_t", "second")
        above = (Sum("uint64_t", "above"),) if self.wide_squares else ()
        extreme = Sum("int32_t", "extreme", "INT32_MIN")
        kept = {"mean": (first,), "mean_std": (first, second, *above), "max": (extreme,)}
        return kept.get(self.map.pool or "", ())

    def _add(self) -> tuple[str, ...]:
        p = self.p
        lines = [f"int32_t x = base_feature(&{p}_map, j, v, s->{p}_x);"]
        if self.map.pool == "max":
            return (*lines, f"if (x > s->{p}_extreme[j])", f"    s->{p}_extreme[j] = x;")
        if self.map.pool == "mean_std":
            lines += ["uint64_t square = (uint64_t)((int64_t)x * x);"]
            lines += [f"s->{p}_second[j] += square;"]
            if self.wide_squares:
                lines += [f"s->{p}_above[j] += s->{p}_second[j] < square;"]
        return (*lines, f"s->{p}_first[j] += x;")

    def _write(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what writes features j of a part, or of a step, and its declarations."""
        p, pool = self.p, self.map.pool
        now = f"base_feature(&{p}_map, j, v, s->{p}_x)"
        if pool in ("mean", "mean_std"):
            mean = f"mean_on_grid(&{p}_map, j, s->{p}_first[j], steps)"
            lines = [f"row[j] = (feature){mean};"]
        else:
            this = f"s->{p}_extreme[j]" if pool == "max" else now
            lines = [f"row[j] = (feature)on_feature_grid(&{p}_map, j, {this});"]
        if pool != "mean_std":
            return tuple(lines), ()
        lines += [
            f"sum.first = s->{p}_first[j];",
            f"sum.second_low = s->{p}_second[j];",
            f"sum.second_high = {f's->{p}_above[j]' if self.wide_squares else '0'};",
            f"row[{self.base} + j] = (feature)deviation_on_grid(&{p}_map, j, &sum, steps);",
        ]
        return tuple(lines), ("struct grid_sum sum;",)


class _FloatMaker(_Maker):
    sources = ("float_reservoir.c",)

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        if features.reservoir.n_units >= MOST_ENTRIES:
            raise ValueError(
                f"{features.reservoir.n_units} units do not fit the C form; use fewer than "
                f"{MOST_ENTRIES}"
            )
        super().__init__(features, setting, prefix)
        self.programs: tuple[Program, ...] = features.programs
        # Sums of many steps keep what single precision loses of each.
        self.long = setting.steps is None or setting.steps > FEW_STEPS
        bits = features.feature_grid
        self.rounds = isinstance(bits, int) and bits <= MOST_ROUNDED

    def tables(self) -> tuple[Table, ...]:
        found: list[Table] = []
        if self.rounds:
            digits = self.features.grid_digits[: self.features.n_base]
            found.append(Table("float", f"{self.p}_unit", np.ldexp(1.0, digits)))
        for k, program in enumerate(self.programs):
            found += _layer_tables(program, f"{self.p}_{k}")
        return tuple(found)

    def fields(self) -> tuple[Field, ...]:
        p = self.p
        largest = max(program.n_units for program in self.programs)
        own = (
            Field("float", f"{p}_x", self.features.reservoir.n_units),
            Field("float", f"{p}_next", largest),
        )
        return (*own, *self.streaming.fields)

    def operations(self) -> float:
        weights = sum(len(program.values) for program in self.programs)
        pool = self.features.n_base if self.features.pool == "mean_std" else 0
        return float(weights + self.features.reservoir.n_units + pool)

    def own_traits(self, pool: str) -> list[str]:
        found = [f"long, {pool}"] if self.long else []
        found += [f"rounded, {pool}"] if self.rounds else []
        found += ["cut off"] if self.features.reservoir.grid is not None else []
        return found + (["washout"] if self.features.washout else [])

    def text(self) -> str:
        p = self.p
        layers = ",\n".join(
            self.layer_text(k, f"{one.n_units}, {one.n_inputs}")
            for k, one in enumerate(self.programs)
        )
        structs = f"static const struct float_layer {p}_layers[] = {{\n{layers}\n}};\n"
        return "\n".join([structs, self._enter(), self._base(), self.streaming.text()])

    @property
    def streaming(self) -> Streaming:
        """What the map does with a step."""
        p, N, features = self.p, self.features.reservoir.n_units, self.features
        step = f"float_step({p}_layers, {len(self.programs)}, v, s->{p}_x, s->{p}_next);"
        return Streaming(
            p,
            features.n_base,
            features.n_features,
            (step,),
            (f"for (i = 0; i < {N}; i++)", f"    s->{p}_x[i] = 0;"),
            self._write(),
            sums=self._sums(),
            add=self._add(),
            washout=features.washout,
            segments=features.segments,
        )

    def _enter(self) -> str:
        """Return how a sample enters; a map in fixed point cuts it off at its range."""
        reservoir = self.features.reservoir
        lines = ["v[i] = u[i];"]
        if reservoir.grid is not None:
            top = f"{float(reservoir.input_range)!r}f"
            lines = [f"v[i] = u[i] > {top} ? {top} : u[i] < -{top} ? -{top} : u[i];"]
        return f"""static void {self.p}_enter(const value *u, word *v)
{{
    uint32_t i;
    for (i = 0; i < {self.features.known_inputs}; i++)
        {lines[0]}
}}
"""

    def _base(self) -> str:
        """Return the function that gives base feature j of a step."""
        p, features, I = self.p, self.features, self.features.known_inputs
        lines = ["    if (j-- == 0)\n        return 1.0f;"] if features.bias else []
        if features.input and features.state:
            lines += [f"    return j < {I} ? v[j] : s->{p}_x[j - {I}];"]
        elif features.input:
            lines += ["    return v[j];"]
        elif features.state:
            lines += [f"    return s->{p}_x[j];"]
        else:
            lines = ["    (void)j;", "    return 1.0f;"]
        unused = ["    (void)s;", "    (void)v;"]
        head = f"static float {p}_base(const state *s, const word *v, uint32_t j)"
        return "\n".join([head, "{", *unused, *lines, "}\n"])

    def _sums(self) -> tuple[Sum, ...]:
        if self.features.pool == "max":
            return (Sum("float", "extreme", "-FLT_MAX"),)
        rest = ("rest",) if self.long else ()
        if self.features.pool == "mean":
            return tuple(Sum("float", name) for name in ("first", *rest))
        if self.features.pool == "mean_std":
            names = ("first", "second", *(("rest", "second_rest") if self.long else ()))
            # Sums about the first step of a part keep what single precision would lose.
            return (Sum("float", "about", "NAN"), *(Sum("float", name) for name in names))
        return ()

    def _add(self) -> tuple[str, ...]:
        p = self.p
        lines = (f"float x = {p}_base(s, v, j);",)
        if self.features.pool == "max":
            return (*lines, f"if (x > s->{p}_extreme[j])", f"    s->{p}_extreme[j] = x;")
        first, second = f"s->{p}_first[j] += x;", f"s->{p}_second[j] += x * x;"
        if self.long:
            first = f"float_add(&s->{p}_first[j], &s->{p}_rest[j], x);"
            second = f"float_add(&s->{p}_second[j], &s->{p}_second_rest[j], x * x);"
        if self.features.pool == "mean":
            return (*lines, first)
        return (
            *lines,
            f"if (isnan(s->{p}_about[j]))",
            f"    s->{p}_about[j] = x;",
            f"x -= s->{p}_about[j];",
            first,
            second,
        )

    def _write(self) -> tuple[str, ...]:
        p, base, pool = self.p, self.features.n_base, self.features.pool
        rounded = (lambda x: f"float_on_grid({x}, {p}_unit[j])") if self.rounds else str
        if pool == "max":
            return (f"row[j] = {rounded(f's->{p}_extreme[j]')};",)
        if pool == "mean":
            return (f"row[j] = {rounded(f's->{p}_first[j] / (float)steps')};",)
        if pool == "mean_std":
            mean, deviation = f"s->{p}_about[j] + m", "sqrtf(d > 0 ? d : 0)"
            return (
                f"float m = s->{p}_first[j] / (float)steps;",
                f"float d = s->{p}_second[j] / (float)steps - m * m;",
                f"row[j] = {rounded(mean)};",
                f"row[{base} + j] = {rounded(deviation)};",
            )
        return (f"row[j] = {rounded(f'{p}_base(s, v, j)')};",)


def _layer_tables(program: Program, name: str) -> list[Table]:
    N, I = program.n_units, program.n_inputs
    matrix: Array = np.zeros((N, N + I + 1))
    rows = np.repeat(np.arange(N), np.diff(program.starts))
    matrix[rows, program.columns] = program.values
    found = []
    for kind, part in (("recurrent", matrix[:, :N]), ("input", matrix[:, N:-1])):
        at, columns = np.nonzero(part)
        starts = np.searchsorted(at, np.arange(N + 1))
        found += _row_tables("float", f"{name}_{kind}", starts, columns, part[at, columns])
    return [
        *found,
        Table("float", f"{name}_bias", matrix[:, -1]),
        Table("float", f"{name}_leak", program.leak),
        Table("uint8_t", f"{name}_activation", program.activation),
    ]

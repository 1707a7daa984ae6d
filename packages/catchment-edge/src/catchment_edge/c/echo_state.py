"""Echo states in C: in integers of 32 or 16 bits, or in float32.

Tables and functions stand around `sources/grid.c` and `sources/float_reservoir.c`. The state moves
on with every step, and rows are made of base features: at every step, or pooled over a piece, or
over each of its segments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.features import EchoState, Reservoir, form
from catchment.features.echo_state import ACTIVATIONS, BOUNDED, MOST_WEIGHT_DIGITS, Program
from catchment_edge.c.map_code import (
    Field,
    MapCode,
    Setting,
    Table,
    each_input,
    functions_text,
)

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
    """Return the code of an echo-state map.

    In single precision features are rounded to their grid as in training; states are not.
    """
    if setting.number == "float32":
        return _FloatMaker(features, setting, prefix).code()
    if features.reservoir.bits is None or features.feature_bits is None:
        raise ValueError(
            f"the map has no grid, which --number {setting.number} needs; export it with "
            '--number float32, or train it with bits="auto"'
        )
    return _IntegerMaker(features, setting, prefix).code()


@form("q15", EchoState)
def in_q15(features: EchoState) -> EchoState:
    """Return the map with states and features of at most 15 digits, the same if it has no more.

    >>> from catchment import EchoState
    >>> in_q15(EchoState(20).build(1, per_step=True, classes=True)).reservoir.bits
    15
    """
    reservoir = features.reservoir
    linear = [k for layer in reservoir.layers for k in layer.activation if k not in BOUNDED]
    if linear:
        raise ValueError(
            "q15 holds states between -1 and 1, and units with relu or identity go beyond; "
            "export with --number whole or float32"
        )
    bits = Q15 if reservoir.bits is None else min(reservoir.bits, Q15)
    feature_bits = Q15 if features.feature_bits is None else min(features.feature_bits, Q15)
    if (bits, feature_bits) == (reservoir.bits, features.feature_bits):
        return features
    coarser = Reservoir.of_layers(
        reservoir.layers,
        bits=bits,
        input_range=reservoir.input_range,
        cut=reservoir.cut if reservoir.bits is not None else (0, 0),
    )
    read = replace(features, feature_bits=None, precision="float64").reading(coarser)
    return replace(read, feature_bits=feature_bits)


class _Maker(ABC):
    """What the code of an echo-state map consists of; the subclasses are its kinds of numbers."""

    sources: tuple[str, ...]
    word = "float"  # C type of weights and states
    wide_word = "float"  # C type of leaks
    sums: tuple[tuple[str, str, str], ...] = ()  # type, name and start of what a pool keeps
    cut = False  # whether a piece can be so long that it is cut

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        self.features, self.setting, self.p = features, setting, prefix
        self.pool, self.base, self.washout = features.pool, features.n_base, features.washout
        self.programs, self.n_units = features.programs, features.reservoir.n_units
        names = (ACTIVATIONS[k] for one in self.programs for k in one.activation)
        self.activations = frozenset(names)

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
            "\n".join(
                [
                    self.structs(),
                    functions_text(self.p, enter=each_input(features.known_inputs, self.entered())),
                    *self._functions(),
                ]
            ),
            self.operations(),
            per_step=features.per_step,
            washout=self.washout,
            least_steps=self.washout + features.segments,
            needs_steps=features.segments > 1,
            sources=self.sources,
            tables=self._tables(),
            fields=self._fields(),
            activations=self.activations,
            traits=self._traits(),
        )

    def grid(self) -> tuple[int | None, Any]:
        """Return bits and digits of the features, if they are integers."""
        return None, None

    def numbers(self, values: NDArray[np.floating[Any]], digits: int) -> NDArray[Any]:
        """Return weights or leaks as the tables hold them."""
        return values

    @abstractmethod
    def feature_table(self) -> list[Table]:
        """Return what features are rounded to."""

    @abstractmethod
    def structs(self) -> str:
        """Return the constant structs that point to the tables, and functions about them."""

    @abstractmethod
    def operations(self) -> float:
        """Return multiply-adds of a step: weights, leaks, and squares of a pool."""

    @abstractmethod
    def own_traits(self, pool: str) -> list[str]:
        """Return what only instructions of its kind of number are made of."""

    @abstractmethod
    def entered(self) -> str:
        """Return how a sample u[i] enters."""

    @abstractmethod
    def advance(self) -> list[str]:
        """Return statements that move the state on by the words `v`."""

    @abstractmethod
    def add(self) -> list[str]:
        """Return statements that add base feature j of this step to the sums."""

    @abstractmethod
    def write(self) -> tuple[list[str], list[str]]:
        """Return declarations, and what writes row[j] and row[base + j] after `steps` steps."""

    def _tables(self) -> tuple[Table, ...]:
        found, leak_digits = self.feature_table(), 0
        if self.features.reservoir.bits is not None:
            leak_digits = min(self.features.reservoir.bits, MOST_WEIGHT_DIGITS)
        for k, program in enumerate(self.programs):
            name, N = f"{self.p}_{k}", program.n_units
            matrix = self.numbers(dense(program), program.weight_digits)
            for kind, part in (("recurrent", matrix[:, :N]), ("input", matrix[:, N:-1])):
                starts, columns, values = sparse(part)
                none = np.zeros(1, dtype=np.int64)  # C can declare no table without entries
                found += [
                    Table("uint32_t", f"{name}_{kind}_starts", starts),
                    Table("uint16_t", f"{name}_{kind}_columns", columns if len(columns) else none),
                    Table(self.word, f"{name}_{kind}_values", values if len(values) else none),
                ]
            found += [
                Table(self.word, f"{name}_bias", matrix[:, -1]),
                Table(self.wide_word, f"{name}_leak", self.numbers(program.leak, leak_digits)),
                Table("uint8_t", f"{name}_activation", program.activation.astype(np.int64)),
            ]
        return tuple(found)

    def _fields(self) -> tuple[Field, ...]:
        p, N = self.p, self.n_units
        largest = max(program.n_units for program in self.programs)
        found = [Field(self.word, f"{p}_x", N), Field(self.word, f"{p}_next", largest)]
        if self.cut:
            found += [Field(self.word, f"{p}_warm", N), Field("uint32_t", f"{p}_place", 1)]
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

    def _functions(self) -> list[str]:
        """Return the functions empty, reset, write, step and row."""
        p, base, sums, segments = self.p, self.base, self.sums, self.features.segments
        empty = [f"s->{p}_{name}[i] = {start};" for _, name, start in sums]
        reset = [f"for (i = 0; i < {self.n_units}; i++)", f"    s->{p}_x[i] = 0;"]
        reset += [f"s->{p}_place[0] = 0;"] if self.cut else []
        reset += [f"s->{p}_part[0] = 0;"] if segments > 1 else []
        reset += [f"{p}_empty(s);"] if sums else []
        declares, write = self.write()
        step = ["uint32_t i;"] if self.cut else []
        step += ["uint32_t j;"] if sums else []
        step += ["uint32_t part, begin, end;"] if segments > 1 else []
        step += ["(void)t;", "(void)steps;", "(void)row;", *self.advance()]
        if self.washout and (sums or segments > 1):
            step += [f"if (t < {self.washout})", "    return;"]
        step += _loop("j", base, self.add()) if sums else []
        step += self._part_ends(segments) if segments > 1 else []
        row = [f"{p}_write(s, v, t + 1 - {self.washout}, row);"]
        if segments > 1:  # `step` has written all parts
            row = ["(void)s;", "(void)v;", "(void)t;", "(void)row;"]
        at = "const word *v, uint32_t t"
        texts = {
            f"{p}_empty(state *s)": ["uint32_t i;", *_loop("i", base, empty)],
            f"{p}_reset(state *s)": ["uint32_t i;", *reset],
            f"{p}_write(state *s, const word *v, uint32_t steps, feature *row)": [
                *("uint32_t j;", *declares, "(void)v;", "(void)steps;"),
                *_loop("j", base, write),
            ],
            f"{p}_step(state *s, {at}, uint32_t steps, feature *row)": step,
            f"{p}_row(state *s, {at}, feature *row)": row,
        }
        return [
            "\n".join([f"static void {head}", "{", *(f"    {line}" for line in body), "}\n"])
            for head, body in texts.items()
            if sums or not head.startswith(f"{p}_empty")
        ]

    def _part_ends(self, n: int) -> list[str]:
        p, rest = self.p, f"(uint64_t)(steps - {self.washout})"
        return [
            f"part = s->{p}_part[0];",
            f"begin = (uint32_t)({rest} * part / {n});",
            f"end = (uint32_t)({rest} * (part + 1) / {n});",
            f"if (t + 1 - {self.washout} == end) {{",
            f"    {p}_write(s, v, end - begin, row + part * {self.features.n_features // n});",
            f"    s->{p}_part[0]++;",
            *([f"    {p}_empty(s);"] if self.sums else []),
            "}",
        ]


def _loop(index: str, n: int, body: list[str]) -> list[str]:
    lines = [f"    {line}" for line in body]
    return [f"for ({index} = 0; {index} < {n}; {index}++) {{", *lines, "}"]


class _IntegerMaker(_Maker):
    sources = ("grid.h", "grid.c", "prepare.c")
    wide_word = "int32_t"

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        super().__init__(features, setting, prefix)
        assert features.reservoir.bits is not None
        self.digits: int = features.reservoir.bits
        self.word = "int16_t" if setting.number == "q15" else "int32_t"
        self.reach = int(np.ldexp(features.reservoir.input_range, self.digits))
        if self.reach >= 1 << 31 or self.n_units >= MOST_ENTRIES:
            raise ValueError(
                f"{self.n_units} units and an input range of "
                f"{features.reservoir.input_range:g} do not fit the C form; use fewer units, a "
                "smaller input_range, or --number float32"
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

    def grid(self) -> tuple[int | None, Any]:
        bits = self.features.feature_bits
        assert isinstance(bits, int)
        return bits, self.features.grid_digits

    def numbers(self, values: NDArray[np.floating[Any]], digits: int) -> NDArray[Any]:
        return whole(values, digits)

    def feature_table(self) -> list[Table]:
        return [Table("int8_t", f"{self.p}_digits", self.features.grid_digits[: self.base])]

    def operations(self) -> float:
        weights = sum(np.count_nonzero(dense(one)[:, :-1]) for one in self.programs)
        return float(weights + 2 * self.n_units + (self.base if self.pool == "mean_std" else 0))

    def own_traits(self, pool: str) -> list[str]:
        found = ["q15" if self.word == "int16_t" else "words"]
        found += ["cut"] if self.cut else []
        found += [f"{pool}, {self.sum_type}"] if "mean" in pool else []
        found += ["wide"] if self.wide_squares and self.pool == "mean_std" else []
        return found + (["washout"] if self.washout and self.pool not in (None, "last") else [])

    def structs(self) -> str:
        p, one = self.p, self.features
        layers = [
            self.layer_text(k, f"{program.n_units}, {program.n_inputs}, {program.weight_digits}")
            for k, program in enumerate(self.programs)
        ]
        joined, (L, M) = ",\n".join(layers), one.reservoir.cut
        sizes = f"{self.digits}, {min(self.digits, MOST_WEIGHT_DIGITS)}, {one.known_inputs}, "
        sizes += f"{self.n_units}, {len(layers)}, {L}, {M}"
        reading = f"{int(one.bias)}, {int(one.input)}, {int(one.state)}, {POOLS[self.pool]}"
        return f"""
static const struct grid_layer {p}_layers[] = {{
{joined}
}};

static const struct grid_map {p}_map = {{
    {sizes}, {p}_layers,
    {reading}, {one.segments}, {self.washout},
    {one.feature_bits}, {p}_digits
}};
"""

    def entered(self) -> str:
        return f"double_on_grid(u[i], {self.digits}, {self.reach})"

    def advance(self) -> list[str]:
        """Return what moves the state on; a part of a cut sequence warms up beside the one before.

        Part k of L steps starts from rest at step k L - M.
        """
        p, N, (L, M) = self.p, self.n_units, self.features.reservoir.cut
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

    def add(self) -> list[str]:
        p = self.p
        lines = [f"int32_t x = base_feature(&{p}_map, j, v, s->{p}_x);"]
        if self.pool == "max":
            return [*lines, f"if (x > s->{p}_extreme[j])", f"    s->{p}_extreme[j] = x;"]
        if self.pool == "mean_std":
            lines += ["uint64_t square = (uint64_t)((int64_t)x * x);"]
            lines += [f"s->{p}_second[j] += square;"]
            if self.wide_squares:
                lines += [f"s->{p}_above[j] += s->{p}_second[j] < square;"]
        return [*lines, f"s->{p}_first[j] += x;"]

    def write(self) -> tuple[list[str], list[str]]:
        p, pool = self.p, self.pool
        if pool not in ("mean", "mean_std"):
            now = f"base_feature(&{p}_map, j, v, s->{p}_x)"
            this = f"s->{p}_extreme[j]" if pool == "max" else now
            return [], [f"row[j] = (feature)on_feature_grid(&{p}_map, j, {this});"]
        lines = [f"row[j] = (feature)mean_on_grid(&{p}_map, j, s->{p}_first[j], steps);"]
        if pool == "mean":
            return [], lines
        return ["struct grid_sum sum;"], [
            *lines,
            f"sum.first = s->{p}_first[j];",
            f"sum.second_low = s->{p}_second[j];",
            f"sum.second_high = {f's->{p}_above[j]' if self.wide_squares else '0'};",
            f"row[{self.base} + j] = (feature)deviation_on_grid(&{p}_map, j, &sum, steps);",
        ]


class _FloatMaker(_Maker):
    sources = ("float_reservoir.c",)

    def __init__(self, features: EchoState, setting: Setting, prefix: str) -> None:
        super().__init__(features, setting, prefix)
        if self.n_units >= MOST_ENTRIES:
            raise ValueError(
                f"{self.n_units} units do not fit the C form; use fewer than {MOST_ENTRIES}"
            )
        # Sums of many steps keep what single precision loses of each.
        self.long = setting.steps is None or setting.steps > FEW_STEPS
        bits = features.feature_bits
        self.rounds = isinstance(bits, int) and bits <= MOST_ROUNDED
        if self.pool == "max":
            self.sums = (("float", "extreme", "-FLT_MAX"),)
        elif self.pool in ("mean", "mean_std"):
            names = ["first", "second"] if self.pool == "mean_std" else ["first"]
            rests = ["rest", "second_rest"][: len(names)] if self.long else []
            self.sums = tuple(("float", name, "0") for name in (*names, *rests))
            if self.pool == "mean_std":
                # Sums about the first step of a part keep what single precision would lose.
                self.sums = (("float", "about", "NAN"), *self.sums)

    def feature_table(self) -> list[Table]:
        unit = np.ldexp(1.0, self.features.grid_digits[: self.base]) if self.rounds else None
        return [] if unit is None else [Table("float", f"{self.p}_unit", unit)]

    def operations(self) -> float:
        weights = sum(len(program.values) for program in self.programs)
        return float(weights + self.n_units + (self.base if self.pool == "mean_std" else 0))

    def own_traits(self, pool: str) -> list[str]:
        found = [f"long, {pool}"] if self.long else []
        found += [f"rounded, {pool}"] if self.rounds else []
        found += ["cut off"] if self.features.reservoir.bits is not None else []
        return found + (["washout"] if self.washout else [])

    def structs(self) -> str:
        """Return the layers, and the function that gives base feature j of a step."""
        p, features, I = self.p, self.features, self.features.known_inputs
        layers = ",\n".join(
            self.layer_text(k, f"{one.n_units}, {one.n_inputs}")
            for k, one in enumerate(self.programs)
        )
        lines = ["    if (j-- == 0)\n        return 1.0f;"] if features.bias else []
        if features.input and features.state:
            lines += [f"    return j < {I} ? v[j] : s->{p}_x[j - {I}];"]
        elif features.input or features.state:
            lines += [f"    return {'v[j]' if features.input else f's->{p}_x[j]'};"]
        else:
            lines = ["    (void)j;", "    return 1.0f;"]
        head = f"static float {p}_base(const state *s, const word *v, uint32_t j)"
        base = "\n".join([head, "{", "    (void)s;", "    (void)v;", *lines, "}\n"])
        return f"static const struct float_layer {p}_layers[] = {{\n{layers}\n}};\n\n{base}"

    def entered(self) -> str:
        """Return how a sample enters; a map in fixed point cuts it off at its range."""
        reservoir = self.features.reservoir
        top = f"{float(reservoir.input_range)!r}f"
        cut_off = f"u[i] > {top} ? {top} : u[i] < -{top} ? -{top} : u[i]"
        return "u[i]" if reservoir.bits is None else cut_off

    def advance(self) -> list[str]:
        p = self.p
        return [f"float_step({p}_layers, {len(self.programs)}, v, s->{p}_x, s->{p}_next);"]

    def add(self) -> list[str]:
        p = self.p
        lines = [f"float x = {p}_base(s, v, j);"]
        if self.pool == "max":
            return [*lines, f"if (x > s->{p}_extreme[j])", f"    s->{p}_extreme[j] = x;"]
        first, second = f"s->{p}_first[j] += x;", f"s->{p}_second[j] += x * x;"
        if self.long:
            first = f"float_add(&s->{p}_first[j], &s->{p}_rest[j], x);"
            second = f"float_add(&s->{p}_second[j], &s->{p}_second_rest[j], x * x);"
        if self.pool == "mean":
            return [*lines, first]
        lines += [f"if (isnan(s->{p}_about[j]))", f"    s->{p}_about[j] = x;"]
        return [*lines, f"x -= s->{p}_about[j];", first, second]

    def write(self) -> tuple[list[str], list[str]]:
        p = self.p
        rounded = (lambda x: f"float_on_grid({x}, {p}_unit[j])") if self.rounds else str
        if self.pool == "mean_std":
            return [], [
                f"float m = s->{p}_first[j] / (float)steps;",
                f"float d = s->{p}_second[j] / (float)steps - m * m;",
                f"row[j] = {rounded(f's->{p}_about[j] + m')};",
                f"row[{self.base} + j] = {rounded('sqrtf(d > 0 ? d : 0)')};",
            ]
        this = {"max": f"s->{p}_extreme[j]", "mean": f"s->{p}_first[j] / (float)steps"}
        return [], [f"row[j] = {rounded(this.get(self.pool or '', f'{p}_base(s, v, j)'))};"]

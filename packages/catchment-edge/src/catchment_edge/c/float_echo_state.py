"""Echo states in single precision: tables and functions around `sources/float_reservoir.c`."""

from __future__ import annotations

import numpy as np

from catchment import Array
from catchment.features import EchoStateMap, digits_after_point
from catchment.features.echo_state import ACTIVATIONS, Program
from catchment_edge.c.map_code import Field, MapCode, Setting, Table
from catchment_edge.c.streaming import Streaming, Sum

MOST_ROUNDED = 22  # bits of features that single precision can round
FEW_STEPS = 256
MOST_ENTRIES = 1 << 16  # that an index of two bytes tells apart


def map_code(features: EchoStateMap, setting: Setting, prefix: str) -> MapCode:
    """Return the code of an echo-state map in single precision.

    Features are rounded to their grid as in training; states are not.
    """
    made = _Maker(features, setting, prefix)
    return MapCode(
        prefix,
        features.n_inputs,
        features.n_inputs,
        features.n_features,
        None,
        None,
        made.text(),
        made.operations(),
        per_step=features.per_step,
        washout=features.washout,
        least_steps=features.washout + features.segments,
        needs_steps=features.segments > 1,
        sources=("float_reservoir.c",),
        tables=made.tables(),
        fields=made.fields(),
        activations=made.activations(),
        traits=made.traits(),
    )


class _Maker:
    def __init__(self, features: EchoStateMap, setting: Setting, prefix: str) -> None:
        if features.reservoir.n_units >= MOST_ENTRIES:
            raise ValueError(
                f"{features.reservoir.n_units} units do not fit the C form; use fewer than "
                f"{MOST_ENTRIES}"
            )
        self.map, self.setting, self.p = features, setting, prefix
        self.programs: tuple[Program, ...] = features.programs
        # Sums of many steps keep what single precision loses of each.
        self.long = setting.steps is None or setting.steps > FEW_STEPS
        self.rounds = features.grid is not None and features.grid <= MOST_ROUNDED

    def tables(self) -> tuple[Table, ...]:
        """Return weights, leaks, activations, and the units that features are rounded to."""
        found: list[Table] = []
        if self.rounds:
            assert self.map.grid is not None
            digits = digits_after_point(self.map.bounds, self.map.grid)[: self.map.n_base]
            found.append(Table("float", f"{self.p}_unit", np.ldexp(1.0, digits)))
        for k, program in enumerate(self.programs):
            found += _layer_tables(program, f"{self.p}_{k}")
        return tuple(found)

    def fields(self) -> tuple[Field, ...]:
        """Return states and sums of the pool."""
        p = self.p
        largest = max(program.n_units for program in self.programs)
        own = (
            Field("float", f"{p}_x", self.map.reservoir.n_units),
            Field("float", f"{p}_next", largest),
        )
        return (*own, *self.streaming.fields)

    def operations(self) -> float:
        """Return multiply-adds of a step: weights, leaks, and squares of a pool."""
        weights = sum(len(program.values) for program in self.programs)
        pool = self.map.n_base if self.map.pool == "mean_std" else 0
        return float(weights + self.map.reservoir.n_units + pool)

    def activations(self) -> frozenset[str]:
        """Return the names of the units' functions."""
        return frozenset(ACTIVATIONS[k] for one in self.programs for k in one.activation)

    def traits(self) -> tuple[str, ...]:
        """Return what its instructions are made of."""
        features = self.map
        layers = "one layer" if len(self.programs) == 1 else "layers"
        pool = f"pool {features.pool}"
        found = [f"echo state, {layers}", f"echo state, {pool}"]
        found += [f"echo state, {one}" for one in sorted(self.activations())]
        found += ["echo state, mixed"] if len(self.activations()) > 1 else []
        found += [f"echo state, long, {pool}"] if self.long else []
        found += [f"echo state, segments, {pool}"] if features.segments > 1 else []
        found += [f"echo state, rounded, {pool}"] if self.rounds else []
        found += ["echo state, cut off"] if features.reservoir.grid is not None else []
        found += (
            ["echo state, washout"] if features.washout and pool not in ("None", "last") else []
        )
        found += [
            f"echo state, base {int(features.bias)}{int(features.input)}{int(features.state)}"
        ]
        return tuple(found)

    def text(self) -> str:
        """Return the structs and functions."""
        p = self.p
        layers = ",\n".join(_layer_text(one, f"{p}_{k}") for k, one in enumerate(self.programs))
        structs = f"static const struct float_layer {p}_layers[] = {{\n{layers}\n}};\n"
        return "\n".join([structs, self._enter(), self._base(), self.streaming.text()])

    @property
    def streaming(self) -> Streaming:
        """What the map does with a step."""
        p, N, features = self.p, self.map.reservoir.n_units, self.map
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
        """Return how a sample enters; a map on a grid cuts it off at its range."""
        reservoir = self.map.reservoir
        lines = ["v[i] = u[i];"]
        if reservoir.grid is not None:
            top = f"{float(reservoir.input_range)!r}f"
            lines = [f"v[i] = u[i] > {top} ? {top} : u[i] < -{top} ? -{top} : u[i];"]
        return f"""static void {self.p}_enter(const value *u, word *v)
{{
    uint32_t i;
    for (i = 0; i < {self.map.n_inputs}; i++)
        {lines[0]}
}}
"""

    def _base(self) -> str:
        """Return the function that gives base feature j of a step."""
        p, features, I = self.p, self.map, self.map.n_inputs
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
        if self.map.pool == "max":
            return (Sum("float", "extreme", "-FLT_MAX"),)
        rest = ("rest",) if self.long else ()
        if self.map.pool == "mean":
            return tuple(Sum("float", name) for name in ("first", *rest))
        if self.map.pool == "mean_std":
            names = ("first", "second", *(("rest", "second_rest") if self.long else ()))
            # Sums about the first step of a part keep what single precision would lose.
            return (Sum("float", "about", "NAN"), *(Sum("float", name) for name in names))
        return ()

    def _add(self) -> tuple[str, ...]:
        p = self.p
        lines = (f"float x = {p}_base(s, v, j);",)
        if self.map.pool == "max":
            return (*lines, f"if (x > s->{p}_extreme[j])", f"    s->{p}_extreme[j] = x;")
        first, second = f"s->{p}_first[j] += x;", f"s->{p}_second[j] += x * x;"
        if self.long:
            first = f"float_add(&s->{p}_first[j], &s->{p}_rest[j], x);"
            second = f"float_add(&s->{p}_second[j], &s->{p}_second_rest[j], x * x);"
        if self.map.pool == "mean":
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
        p, base, pool = self.p, self.map.n_base, self.map.pool
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
        values = part[at, columns]
        found += [
            Table("uint32_t", f"{name}_{kind}_starts", starts),
            Table("uint16_t", f"{name}_{kind}_columns", columns if len(columns) else np.zeros(1)),
            Table("float", f"{name}_{kind}_values", values if len(values) else np.zeros(1)),
        ]
    return [
        *found,
        Table("float", f"{name}_bias", matrix[:, -1]),
        Table("float", f"{name}_leak", program.leak),
        Table("uint8_t", f"{name}_activation", program.activation),
    ]


def _layer_text(program: Program, name: str) -> str:
    rows = [
        f"{{{name}_{kind}_starts, {name}_{kind}_columns, {name}_{kind}_values}}"
        for kind in ("recurrent", "input")
    ]
    own = f"{name}_bias, {name}_leak, {name}_activation"
    sizes = f"{program.n_units}, {program.n_inputs}"
    return f"    {{{sizes},\n     {rows[0]},\n     {rows[1]},\n     {own}}}"

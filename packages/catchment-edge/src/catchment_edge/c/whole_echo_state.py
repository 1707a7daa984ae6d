"""Echo states in whole numbers: tables and functions around `sources/grid.c`."""

from __future__ import annotations

import numpy as np

from catchment import Integers
from catchment.features import EchoStateMap
from catchment.features.echo_state import ACTIVATIONS
from catchment_edge.c.map_code import Field, MapCode, Setting, Table
from catchment_edge.c.streaming import Streaming, Sum
from catchment_edge.whole_map import IntegerLayer, IntegerMap, IntegerRows

POOLS = {
    None: "GRID_STEPS",
    "last": "GRID_LAST",
    "mean": "GRID_MEAN",
    "mean_std": "GRID_MEAN_STD",
    "max": "GRID_MAX",
}
MOST_ENTRIES = 1 << 16  # that an index of two bytes tells apart


def map_code(features: EchoStateMap, setting: Setting, prefix: str) -> MapCode:
    """Return the code of a map with a grid, in words of 32 or, in q15, of 16 bits."""
    made = _Maker(features, setting, prefix)
    whole = made.map
    return MapCode(
        prefix,
        whole.n_inputs,
        whole.n_inputs,
        whole.n_features,
        whole.feature_bits,
        np.tile(whole.feature_digits, whole.n_features // len(whole.feature_digits)),
        made.text(),
        made.operations(),
        per_step=whole.pool is None,
        washout=whole.washout,
        least_steps=whole.washout + whole.segments,
        needs_steps=whole.segments > 1,
        sources=("grid.h", "grid.c", "prepare.c"),
        tables=made.tables(),
        fields=made.fields(),
        activations=made.activations(),
        traits=made.traits(),
    )


class _Maker:
    def __init__(self, features: EchoStateMap, setting: Setting, prefix: str) -> None:
        self.map, self.setting, self.p = IntegerMap.of(features), setting, prefix
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
        """Return weights, leaks, activations and digits."""
        found = [Table("int8_t", f"{self.p}_digits", self.map.feature_digits)]
        for k, layer in enumerate(self.map.layers):
            found += self._layer_tables(layer, f"{self.p}_{k}")
        return tuple(found)

    def _layer_tables(self, layer: IntegerLayer, name: str) -> list[Table]:
        def rows(of: IntegerRows, kind: str) -> list[Table]:
            return [
                Table("uint32_t", f"{name}_{kind}_starts", of.starts),
                Table("uint16_t", f"{name}_{kind}_columns", _not_empty(of.columns)),
                Table(self.word, f"{name}_{kind}_values", _not_empty(of.values)),
            ]

        return [
            *rows(layer.recurrent, "recurrent"),
            *rows(layer.input, "input"),
            Table(self.word, f"{name}_bias", layer.bias),
            Table("int32_t", f"{name}_leak", layer.leak),
            Table("uint8_t", f"{name}_activation", layer.activation),
        ]

    def fields(self) -> tuple[Field, ...]:
        """Return states, sums of the pool, and where a sequence that is cut stands."""
        p, N = self.p, self.map.n_units
        found = [
            Field(self.word, f"{p}_x", N),
            Field(self.word, f"{p}_next", max(layer.n_units for layer in self.map.layers)),
        ]
        if self.cut:
            found += [Field(self.word, f"{p}_warm", N), Field("uint32_t", f"{p}_place", 1)]
        return (*found, *self.streaming.fields)

    def operations(self) -> float:
        """Return multiply-adds of a step: weights, leaks, and squares of a pool."""
        weights = sum(len(x.recurrent.values) + len(x.input.values) for x in self.map.layers)
        pool = self.base if self.map.pool == "mean_std" else 0
        return float(weights + 2 * self.map.n_units + pool)

    def activations(self) -> frozenset[str]:
        """Return the names of the units' functions."""
        return frozenset(ACTIVATIONS[k] for layer in self.map.layers for k in layer.activation)

    def traits(self) -> tuple[str, ...]:
        """Return what its instructions are made of."""
        m, words = self.map, "q15" if self.word == "int16_t" else "words"
        layers = "one layer" if len(m.layers) == 1 else "layers"
        pool = f"pool {m.pool}"
        found = [f"echo state, {words}", f"echo state, {layers}", f"echo state, {pool}"]
        found += [f"echo state, {one}" for one in sorted(self.activations())]
        found += ["echo state, mixed"] if len(self.activations()) > 1 else []
        found += [f"echo state, segments, {pool}"] if m.segments > 1 else []
        found += ["echo state, cut"] if self.cut else []
        found += [f"echo state, {pool}, {self.sum_type}"] if "mean" in pool else []
        found += ["echo state, wide"] if self.wide_squares and m.pool == "mean_std" else []
        found += ["echo state, washout"] if m.washout and m.pool not in (None, "last") else []
        found += [f"echo state, base {int(m.bias)}{int(m.input)}{int(m.state)}"]
        return tuple(found)

    def text(self) -> str:
        """Return the structs and functions."""
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
        layers = []
        for k, layer in enumerate(m.layers):
            name, I = f"{p}_{k}", m.n_inputs if k == 0 else m.layers[k - 1].n_units
            rows = [
                f"{{{name}_{kind}_starts, {name}_{kind}_columns, {name}_{kind}_values}}"
                for kind in ("recurrent", "input")
            ]
            own = f"{name}_bias, {name}_leak, {name}_activation"
            layers.append(
                f"    {{{layer.n_units}, {I}, {layer.weight_digits},\n     {rows[0]},\n"
                f"     {rows[1]},\n     {own}}}"
            )
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


def _not_empty(values: Integers) -> Integers:
    """Return an array that C can declare: it has none without entries."""
    return values if len(values) else np.zeros(1, dtype=np.int64)

"""Maps inside maps in C: side by side, with a norm, projected, and random features of rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from catchment import Array
from catchment.features import DIGITS as NORM_DIGITS
from catchment.features import (
    FARTHEST,
    VALUE_DIGITS,
    WEIGHT_DIGITS,
    AppendNorm,
    RandomFourierFeatures,
    RandomProjection,
    form,
)
from catchment_edge.c.map_code import Field, MapCode, Setting, Table
from catchment_edge.c.maps_steps import enter_text, sources_of
from catchment_edge.c.maps_windows import fitting, row_grid

MOST_NORM = 256  # channels whose squares a double holds
MOST_WORD = 31  # bits of a sum that fits a word


@form("c", AppendNorm)
def norm_code(one: AppendNorm, setting: Setting, prefix: str) -> MapCode:
    """Return the code of a map that sees the length of the samples too."""
    from catchment_edge.c.maps import map_code

    n, p = one.n_inputs, f"{prefix}_n"
    assert n is not None
    if n > MOST_NORM:
        raise ValueError(
            f"AppendNorm has {n} channels, and its form in C takes up to {MOST_NORM}; train with "
            "fewer, or export with --to onnx"
        )
    inner = map_code(one.map, setting, p)
    enter = f"""
static void {prefix}_enter(const value *u, word *v)
{{
    value all[{n + 1}];
    uint32_t i;
    for (i = 0; i < {n}; i++)
        all[i] = u[i];
    all[{n}] = norm_of(u, {n}, {math.isqrt(n << 2 * NORM_DIGITS)});
    {p}_enter(all, v);
}}
"""
    return replace(
        inner,
        prefix=prefix,
        n_inputs=n,
        text=inner.text + enter + _forwarded(inner, prefix, "row", ""),
        sources=tuple(dict.fromkeys([*inner.sources, "numbers.c", "norm.c"])),
        operations=inner.operations + n,
    )


def _of_row(inner: MapCode, prefix: str) -> str:
    """Return the functions of a map that makes its row of an inner one by PREFIX_of_row."""
    enter = f"""
static void {prefix}_enter(const value *u, word *v)
{{
    {inner.prefix}_enter(u, v);
}}
"""
    after = f"    {prefix}_of_row(s, row);\n"
    return enter + _forwarded(inner, prefix, f"s->{prefix}_inner", after)


def _forwarded(inner: MapCode, prefix: str, row: str, after: str) -> str:
    """Return the functions of a map that call those of the map inside.

    Parameters
    ----------
    row
        Where the inner row goes.
    after
        Statements that make the row of it.
    """
    p = inner.prefix
    if not inner.streams:
        return f"""
static void {prefix}_window(state *s, const word *v, uint32_t steps, feature *row)
{{
    {p}_window(s, v, steps, {row});
{after}}}
"""
    ignored = "" if row == "row" else "    (void)row;\n"
    return f"""
static void {prefix}_reset(state *s)
{{
    {p}_reset(s);
}}

static void {prefix}_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row)
{{
{ignored}    {p}_step(s, v, t, steps, {row});
}}

static void {prefix}_row(state *s, const word *v, uint32_t t, feature *row)
{{
    {p}_row(s, v, t, {row});
{after}}}
"""


@form("c", RandomProjection)
def projected_code(one: RandomProjection, setting: Setting, prefix: str) -> MapCode:
    """Return the code of features that are mixed into fewer."""
    from catchment_edge.c.maps import map_code

    p = prefix
    inner = map_code(one.inner, setting, f"{p}_p")
    flips, kept = one._drawn
    work = _projection_work(inner, one, setting)
    tables = [
        fitting("uint8_t", f"{p}_flips", np.packbits(flips < 0, bitorder="little")),
        fitting("uint16_t", f"{p}_kept", kept),
    ]
    if inner.digits is not None and len(set(inner.digits.tolist())) > 1:
        tables.append(Table("int8_t", f"{p}_shifts", inner.digits.max() - inner.digits))
    sums = f"""
static void {p}_of_row(state *s, feature *row)
{{
{_projection_text(inner, one, setting, p, work)}}}
"""
    fields = (
        Field(setting.feature, f"{p}_inner", inner.n_features),
        Field(work, f"{p}_sums", one._padded),
    )
    form = "_float" if setting.number == "float32" else ""
    bits, digits = row_grid(one, setting)
    return replace(
        inner,
        prefix=p,
        n_features=one.n_features,
        bits=bits,
        digits=digits,
        text=inner.text + sums + _of_row(inner, p),
        operations=inner.operations + _spread(one._padded * math.log2(one._padded), inner, setting),
        sources=tuple(
            dict.fromkeys(
                [*inner.sources, *sources_of(f"projected{form}.c", setting=setting)],
            )
        ),
        tables=(*inner.tables, *tables),
        fields=(*inner.fields, *fields),
    )


def _projection_work(inner: MapCode, one: RandomProjection, setting: Setting) -> str:
    """Return the type of sums of features."""
    if setting.number == "float32":
        return "float"
    assert inner.bits is not None
    assert inner.digits is not None
    reach = np.ldexp(1.0, inner.digits.max() - inner.digits + inner.bits).sum()
    return "int32_t" if reach < 2.0**MOST_WORD else "int64_t"


def _projection_text(
    inner: MapCode, one: RandomProjection, setting: Setting, p: str, work: str
) -> str:
    """Return the statements that mix a row."""
    F, n = inner.n_features, one._padded
    digits = 0
    if one.grid is not None:
        digits = int(one.grid_digits[0])
    root, bound = math.sqrt(F), one.bound
    if work == "float":
        name, value = "projected_sums", f"s->{p}_inner[j]"
        sum_ = f"s->{p}_sums[{p}_kept[k]]"
        numbers = f"{root!r}f, {bound!r}f"
    else:
        assert inner.digits is not None
        name = f"projected_sums{work[3:5]}"
        value = f"({work})s->{p}_inner[j]"
        if len(set(inner.digits.tolist())) > 1:
            value += f" * (({work})1 << {p}_shifts[j])"
        unit = float(np.ldexp(1.0, -inner.digits.max()))
        sum_ = f"(double)s->{p}_sums[{p}_kept[k]] * {unit.hex()}"
        numbers = f"{root.hex()}, {bound.hex()}"
    return f"""    uint32_t j, k;
    for (j = 0; j < {F}; j++) {{
        {work} x = {value};
        s->{p}_sums[j] = projected_flips({p}_flips, j) ? -x : x;
    }}
    for (; j < {n}; j++)
        s->{p}_sums[j] = 0;
    {name}(s->{p}_sums, {n});
    for (k = 0; k < {one.features}; k++)
        row[k] = projected_feature({sum_}, {numbers},
                                   {digits}, {one.grid or 0});
"""


@form("c", RandomFourierFeatures)
def fourier_code(one: RandomFourierFeatures, setting: Setting, prefix: str) -> MapCode:
    """Return the code of random features of inputs or of another map's rows."""
    from catchment_edge.c.maps import map_code

    p, (W, phases) = prefix, one._weights
    scaled = np.rint(np.ldexp(W.T, WEIGHT_DIGITS)).astype(np.int64)
    narrow = int(np.abs(scaled).max()) < 2**15
    tables = [fitting("int16_t" if narrow else "int32_t", f"{p}_weights", scaled)]
    if one.activation == "cos":
        tables.append(_phase_table(phases, p, setting))
    bits, digits = row_grid(one, setting)
    sources = _fourier_sources(setting)
    mixed = _fourier_text(one, setting, p, narrow)
    operations = float(W.size)
    if one.map is None:
        assert one.n_inputs is not None
        return MapCode(
            p,
            one.n_inputs,
            one.n_inputs,
            one.features,
            bits,
            digits,
            mixed + _fourier_inputs(one.n_inputs, setting, p),
            operations,
            per_step=True,
            sources=sources,
            tables=tuple(tables),
        )
    inner = map_code(one.map, setting, f"{p}_f")
    values, more = _fourier_values(inner, setting, p)
    fields = (
        Field(setting.feature, f"{p}_inner", inner.n_features),
        Field(setting.word, f"{p}_values", inner.n_features),
    )
    return replace(
        inner,
        prefix=p,
        n_features=one.features,
        bits=bits,
        digits=digits,
        text=inner.text + mixed + values + _of_row(inner, p),
        operations=inner.operations + _spread(operations, inner, setting),
        sources=tuple(dict.fromkeys([*inner.sources, *sources])),
        tables=(*inner.tables, *tables, *more),
        fields=(*inner.fields, *fields),
    )


def _spread(operations: float, inner: MapCode, setting: Setting) -> float:
    """Return the operations of a row for each step."""
    return operations if inner.per_step else operations / (setting.steps or 100)


def _fourier_sources(setting: Setting) -> tuple[str, ...]:
    if setting.number == "float32":
        return sources_of("random_fourier_float.c", setting=setting)
    return sources_of("grid.h", "grid.c", "random_fourier.c", setting=setting)


def _phase_table(phases: Array, p: str, setting: Setting) -> Table:
    if setting.number == "float32":
        return Table("float", f"{p}_phases", phases)
    scaled = np.rint(np.ldexp(phases, WEIGHT_DIGITS + VALUE_DIGITS)).astype(np.int64)
    return Table("int32_t", f"{p}_phases", scaled)


def _fourier_text(one: RandomFourierFeatures, setting: Setting, p: str, narrow: bool) -> str:
    n = one._width
    sum_ = f"fourier_sum{16 if narrow else 32}({p}_weights + j * {n}, x, {n})"
    phase = f" + {p}_phases[j]" if one.activation == "cos" else ""
    name = "fourier_cosine" if one.activation == "cos" else "fourier_relu"
    return f"""
static void {p}_mixed(const word *x, feature *row)
{{
    uint32_t j;
    for (j = 0; j < {one.features}; j++)
        row[j] = {name}({sum_}{phase}, {one.grid or 0});
}}
"""


def _fourier_inputs(n_inputs: int, setting: Setting, p: str) -> str:
    enter = enter_text(p, n_inputs, VALUE_DIGITS, setting, int(FARTHEST))
    if setting.number == "float32":
        enter = f"""
static void {p}_enter(const value *u, word *v)
{{
    uint32_t i;
    for (i = 0; i < {n_inputs}; i++)
        v[i] = fourier_value(u[i]);
}}
"""
    return f"""{enter}
static void {p}_reset(state *s)
{{
    (void)s;
}}

static void {p}_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row)
{{
    (void)s;
    (void)v;
    (void)t;
    (void)steps;
    (void)row;
}}

static void {p}_row(state *s, const word *v, uint32_t t, feature *row)
{{
    (void)s;
    (void)t;
    {p}_mixed(v, row);
}}
"""


def _fourier_values(inner: MapCode, setting: Setting, p: str) -> tuple[str, list[Table]]:
    """Return the function of an inner row, taken as values of 14 digits, and the tables needed."""
    tables, digits = [], ""
    if setting.number != "float32":
        assert inner.digits is not None
        tables = [Table("int8_t", f"{p}_digits", inner.digits)]
        digits = f", {p}_digits[j]"
    text = f"""
static void {p}_of_row(state *s, feature *row)
{{
    uint32_t j;
    for (j = 0; j < {inner.n_features}; j++)
        s->{p}_values[j] = fourier_value(s->{p}_inner[j]{digits});
    {p}_mixed(s->{p}_values, row);
}}
"""
    return text, tables

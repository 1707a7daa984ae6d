"""Maps that follow the samples in C: NVAR and diagonal reservoirs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array
from catchment.features import NVAR, DiagonalReservoir, form
from catchment.features.diagonal import (
    BIAS_DIGITS,
    EIGENVALUE_DIGITS,
    INPUT_WEIGHT_DIGITS,
    LEAK_DIGITS,
    MIX_DIGITS,
)
from catchment_edge.c.echo_state import whole
from catchment_edge.c.map_code import Field, MapCode, Setting, Table
from catchment_edge.c.maps_windows import fitting, row_grid

NVAR_DIGITS, DIAGONAL_DIGITS = 22, 24  # of inputs
LIMIT = 8  # where both cut inputs off


@form("c", NVAR)
def nvar_code(one: NVAR, setting: Setting, prefix: str) -> MapCode:
    """Return the code of delayed inputs and their products."""
    n_inputs, p = one.n_inputs, prefix
    assert n_inputs is not None
    reach = (one.delays - 1) * one.stride + 1
    text = f"""
static const struct nvar {p}_map = {{
    {n_inputs}, {one.delays}, {one.stride}, {one.order}, {one.grid or 0}
}};
{enter_text(p, n_inputs, NVAR_DIGITS, setting)}
static void {p}_reset(state *s)
{{
    nvar_reset(&{p}_map, s->{p}_ring, s->{p}_at);
}}

static void {p}_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row)
{{
    (void)t;
    (void)steps;
    (void)row;
    nvar_step(&{p}_map, s->{p}_ring, s->{p}_at, v);
}}

static void {p}_row(state *s, const word *v, uint32_t t, feature *row)
{{
    (void)v;
    (void)t;
    nvar_delayed(&{p}_map, s->{p}_ring, s->{p}_at[0], s->{p}_x);
    nvar_row(&{p}_map, s->{p}_x, row);
}}
"""
    return MapCode(
        p,
        n_inputs,
        n_inputs,
        one.n_features,
        *row_grid(one, setting),
        text,
        float(one.n_features),
        per_step=True,
        washout=one.washout,
        sources=sources_of("nvar.c", f"nvar_{form_of(setting)}.c", setting=setting),
        fields=(
            Field(setting.word, f"{p}_ring", reach * n_inputs),
            Field(setting.word, f"{p}_x", one.delays * n_inputs),
            Field("uint32_t", f"{p}_at", 1),
        ),
    )


@form("c", DiagonalReservoir)
def diagonal_code(one: DiagonalReservoir, setting: Setting, prefix: str) -> MapCode:
    """Return the code of a diagonal reservoir, with a row per step or one per piece."""
    n_inputs, p, drawn = one.n_inputs, prefix, one.wiring
    assert n_inputs is not None
    k, Q = drawn.eigenvalues.shape[1], drawn.M.shape[1]
    P = len(drawn.leak) - Q
    weight = float(np.abs(drawn.M[:-1]).max()) if Q else 0.0
    size = f"{weight!r}f" if setting.number == "float32" else str(int(weight * 2**MIX_DIGITS))
    text = f"""
static const struct diagonal {p}_map = {{
    {n_inputs}, {k}, {P}, {Q}, {one.grid or 0}, {size}, {p}_eigenvalues, {p}_input,
    {p}_shifts, {p}_turns, {p}_signs, {p}_bias, {p}_leak
}};
{enter_text(p, n_inputs, DIAGONAL_DIGITS, setting)}{_diagonal_functions(one, p, setting)}"""
    return MapCode(
        p,
        n_inputs,
        n_inputs,
        one.n_features,
        *row_grid(one, setting),
        text,
        one.cost,
        per_step=one.per_step,
        washout=one.washout,
        sources=sources_of(
            "diagonal.c" if setting.number != "float32" else "diagonal_float.c", setting=setting
        ),
        tables=_diagonal_tables(one, p, setting),
        fields=_diagonal_fields(one, p, setting),
    )


def _diagonal_functions(one: DiagonalReservoir, p: str, setting: Setting) -> str:
    near = "" if setting.number == "float32" else f"s->{p}_near, "
    add, row = "", f"diagonal_row(&{p}_map, v, s->{p}_x, s->{p}_q, row);"
    unused = "    (void)t;\n"
    if one.pool is not None:
        when = f"    if (t >= {one.washout})\n    " if one.washout else ""
        first = f"t == {one.washout}"
        add = f"{when}    diagonal_add(&{p}_map, v, s->{p}_x, s->{p}_q, {first}, s->{p}_sums);\n"
        row = f"diagonal_pooled(&{p}_map, s->{p}_sums, t + 1 - {one.washout}, row);"
        unused = "    (void)v;\n"
    return f"""
static void {p}_reset(state *s)
{{
    diagonal_reset(&{p}_map, s->{p}_x, s->{p}_q);
}}

static void {p}_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row)
{{
    (void)t;
    (void)steps;
    (void)row;
    diagonal_step(&{p}_map, v, s->{p}_x, {near}s->{p}_q);
{add}}}

static void {p}_row(state *s, const word *v, uint32_t t, feature *row)
{{
{unused}    {row}
}}
"""


def _diagonal_tables(one: DiagonalReservoir, p: str, setting: Setting) -> tuple[Table, ...]:
    drawn = one.wiring
    signs = np.sign(drawn.M[:-1])

    def numbers(name: str, values: Array, digits: int) -> Table:
        if setting.number == "float32":
            return Table("float", f"{p}_{name}", _some(values))
        return Table("int32_t", f"{p}_{name}", _some(whole(values, digits)))

    return (
        numbers("eigenvalues", drawn.eigenvalues, EIGENVALUE_DIGITS),
        numbers("input", drawn.W, INPUT_WEIGHT_DIGITS),
        fitting("int16_t", f"{p}_shifts", _some(drawn.shifts)),
        fitting("uint16_t", f"{p}_turns", _some(drawn.turns)),
        Table("int8_t", f"{p}_signs", _some(signs)),
        numbers("bias", drawn.M[-1], BIAS_DIGITS),
        numbers("leak", drawn.leak, LEAK_DIGITS),
    )


def _diagonal_fields(one: DiagonalReservoir, p: str, setting: Setting) -> tuple[Field, ...]:
    drawn = one.wiring
    states, others = 2 * drawn.eigenvalues.shape[1], max(1, len(drawn.leak))
    floats = setting.number == "float32"
    found = [
        Field("float" if floats else "int64_t", f"{p}_x", states),
        Field("float" if floats else "int64_t", f"{p}_q", others),
    ]
    if not floats:
        found.append(Field("int32_t", f"{p}_near", states))
    if one.pool is not None:
        n_base = one.n_features // 2
        found.append(Field("float" if floats else "double", f"{p}_sums", 3 * n_base))
    return tuple(found)


def _some(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that C can declare: it has none without entries."""
    return values if values.size else np.zeros(1)


def form_of(setting: Setting) -> str:
    """Return what the names of source files say of the numbers."""
    return "float" if setting.number == "float32" else "whole"


def sources_of(*names: str, setting: Setting) -> tuple[str, ...]:
    """Return these source files and those that all maps need."""
    return ("numbers.c", f"feature_{form_of(setting)}.c", *names)


def enter_text(
    prefix: str, n_inputs: int, digits: int, setting: Setting, limit: int = LIMIT
) -> str:
    """Return the function that rounds inputs to so many digits and cuts them off."""
    word = f"(word)number_from_double(u[i], {digits}, {limit << digits})"
    if setting.number == "float32":
        word = f"u[i] > {limit}.0f ? {limit}.0f : u[i] < -{limit}.0f ? -{limit}.0f : u[i]"
    return f"""
static void {prefix}_enter(const value *u, word *v)
{{
    uint32_t i;
    for (i = 0; i < {n_inputs}; i++)
        v[i] = {word};
}}
"""

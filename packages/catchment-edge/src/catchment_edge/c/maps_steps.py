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
    Wiring,
)
from catchment_edge.c.echo_state import whole
from catchment_edge.c.map_code import (
    Field,
    MapCode,
    Setting,
    Table,
    each_input,
    fitting,
    functions_text,
    own_code,
)

NVAR_DIGITS, DIAGONAL_DIGITS = 22, 24  # of inputs
LIMIT = 8  # where both cut inputs off


@form("c", NVAR)
def nvar_code(one: NVAR, setting: Setting, prefix: str) -> MapCode:
    """Return the code of delayed inputs and their products."""
    n_inputs, p = one.known_inputs, prefix
    reach = (one.delays - 1) * one.stride + 1
    text = f"""
static const struct nvar {p}_map = {{
    {n_inputs}, {one.delays}, {one.stride}, {one.order}, {one.bits or 0}
}};
"""
    map_, ring = f"&{p}_map", f"s->{p}_ring"
    text += functions_text(
        p,
        enter=each_input(n_inputs, word_text(NVAR_DIGITS)),
        reset=f"nvar_reset({map_}, {ring}, s->{p}_at);",
        step=f"nvar_step({map_}, {ring}, s->{p}_at, v);",
        row=f"nvar_delayed({map_}, {ring}, s->{p}_at[0], s->{p}_x);\n"
        f"nvar_row({map_}, s->{p}_x, row);",
    )
    fields = (
        Field("int32_t", f"{p}_ring", reach * n_inputs),
        Field("int32_t", f"{p}_x", one.delays * n_inputs),
        Field("uint32_t", f"{p}_at", 1),
    )
    sources = sources_of("nvar.c")
    return own_code(one, p, text, float(one.n_features), sources=sources, fields=fields)


@form("c", DiagonalReservoir)
def diagonal_code(one: DiagonalReservoir, setting: Setting, prefix: str) -> MapCode:
    """Return the code of a diagonal reservoir, with a row per step or one per piece."""
    n_inputs, p, drawn = one.known_inputs, prefix, one.wiring
    k, Q = drawn.eigenvalues.shape[1], drawn.M.shape[1]
    P = len(drawn.leak) - Q
    weight = float(np.abs(drawn.M[:-1]).max()) if Q else 0.0
    size = int(weight * 2**MIX_DIGITS)
    text = f"""
static const struct diagonal {p}_map = {{
    {n_inputs}, {k}, {P}, {Q}, {one.bits or 0}, {size}, {p}_eigenvalues, {p}_input,
    {p}_shifts, {p}_turns, {p}_signs, {p}_bias, {p}_leak
}};
"""
    fields = [
        Field("int64_t", f"{p}_x", 2 * k),
        Field("int64_t", f"{p}_q", max(1, P + Q)),
        Field("int32_t", f"{p}_near", 2 * k),
    ]
    seen = f"v, s->{p}_x, s->{p}_q"
    step = f"diagonal_step(&{p}_map, v, s->{p}_x, s->{p}_near, s->{p}_q);"
    row = f"diagonal_row(&{p}_map, {seen}, row);"
    if one.pool is not None:
        fields.append(Field("double", f"{p}_sums", 3 * (one.n_features // 2)))
        when = f"if (t >= {one.washout})\n    " if one.washout else ""
        step += f"\n{when}diagonal_add(&{p}_map, {seen}, t == {one.washout}, s->{p}_sums);"
        row = f"diagonal_pooled(&{p}_map, s->{p}_sums, t + 1 - {one.washout}, row);"
    text += functions_text(
        p,
        enter=each_input(n_inputs, word_text(DIAGONAL_DIGITS)),
        reset=f"diagonal_reset(&{p}_map, s->{p}_x, s->{p}_q);",
        step=step,
        row=row,
    )
    known = {"sources": sources_of("diagonal.c"), "tables": _diagonal_tables(drawn, p)}
    return own_code(one, p, text, one.cost, fields=tuple(fields), **known)


def _diagonal_tables(drawn: Wiring, p: str) -> tuple[Table, ...]:
    def numbers(name: str, values: Array, digits: int) -> Table:
        return Table("int32_t", f"{p}_{name}", _some(whole(values, digits)))

    return (
        numbers("eigenvalues", drawn.eigenvalues, EIGENVALUE_DIGITS),
        numbers("input", drawn.W, INPUT_WEIGHT_DIGITS),
        fitting("int16_t", f"{p}_shifts", _some(drawn.shifts)),
        fitting("uint16_t", f"{p}_turns", _some(drawn.turns)),
        Table("int8_t", f"{p}_signs", _some(np.sign(drawn.M[:-1]))),
        numbers("bias", drawn.M[-1], BIAS_DIGITS),
        numbers("leak", drawn.leak, LEAK_DIGITS),
    )


def _some(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that C can declare: it has none without entries."""
    return values if values.size else np.zeros(1)


def sources_of(*names: str) -> tuple[str, ...]:
    """Return these source files and those that all maps need."""
    return ("numbers.c", "feature.c", *names)


def word_text(digits: int, limit: int = LIMIT) -> str:
    """Return the word of input u[i], rounded to so many digits and cut off."""
    return f"(word)number_from_double(u[i], {digits}, {limit << digits})"

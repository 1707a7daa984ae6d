"""Constant arrays as C text."""

from __future__ import annotations

import math
import textwrap

import numpy as np

from catchment_edge.c.map_code import Table

LINE = 96


def table_text(table: Table) -> str:
    """Return the declaration of a table with its numbers.

    >>> print(table_text(Table("int16_t", "bias", np.array([3, -1]))))
    static const int16_t bias[2] = {
        3, -1};
    """
    values = table.values.reshape(-1)
    if table.type in ("float", "double"):
        words = [_float(float(x), table.type) for x in values]
    else:
        words = [_whole(int(x), table.type) for x in values]
    body = textwrap.fill(", ".join(words), LINE, initial_indent="    ", subsequent_indent="    ")
    return f"static const {table.type} {table.name}[{len(words)}] = {{\n{body}}};"


def _whole(value: int, kind: str) -> str:
    if kind == "int64_t":
        # The smallest number has no literal of its own.
        return f"INT64_C({value})" if value > -(2**63) else "INT64_MIN"
    if kind == "uint64_t":
        return f"UINT64_C({value})"
    return f"{value}" if value > -(2**31) else "(-2147483647 - 1)"


def _float(value: float, kind: str) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        raise ValueError("a model with an infinite number cannot be written; train it again")
    if kind == "double":
        return _with_point(repr(value))
    return _with_point(np.format_float_scientific(np.float32(value), unique=True, trim="0")) + "f"


def _with_point(text: str) -> str:
    return text if any(sign in text for sign in ".en") else text + ".0"

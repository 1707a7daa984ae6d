"""Maps inside maps in C: side by side, with a norm, projected, and random features of rows.

Maps side by side share a window where they read one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from catchment.features import DIGITS as NORM_DIGITS
from catchment.features import (
    FARTHEST,
    VALUE_DIGITS,
    WEIGHT_DIGITS,
    AppendNorm,
    FeatureMap,
    FeatureUnion,
    RandomFourierFeatures,
    RandomProjection,
    form,
)
from catchment_edge.c.map_code import (
    Field,
    MapCode,
    Setting,
    Table,
    each_input,
    fitting,
    functions_text,
    known_bits,
    map_code,
    own_code,
    row_digits,
)
from catchment_edge.c.maps import WindowMap, group_code, sources_of, word_text

MOST_NORM = 256  # channels whose squares a double holds
MOST_WORD = 31  # bits of a sum that fits a word


@form("c", AppendNorm)
def norm_code(one: AppendNorm, setting: Setting, prefix: str) -> MapCode:
    """Return the code of a map that sees the length of the samples too."""
    n, p = one.known_inputs, f"{prefix}_n"
    if n > MOST_NORM:
        raise ValueError(
            f"AppendNorm has {n} channels, and its form in C takes up to {MOST_NORM}; train with "
            "fewer, or export with --to onnx"
        )
    inner = map_code(one.map, setting, p)
    enter = f"""value all[{n + 1}];
uint32_t i;
for (i = 0; i < {n}; i++)
    all[i] = u[i];
all[{n}] = norm_of(u, {n}, {math.isqrt(n << 2 * NORM_DIGITS)});
{p}_enter(all, v);"""
    return replace(
        inner,
        prefix=prefix,
        n_inputs=n,
        text=inner.text + _forwarded(inner, prefix, "row", "", enter),
        sources=tuple(dict.fromkeys([*inner.sources, "numbers.c", "norm.c"])),
        operations=inner.operations + n,
    )


def _of_row(inner: MapCode, prefix: str) -> str:
    """Return the functions of a map that makes its row of an inner one by PREFIX_of_row."""
    return _forwarded(inner, prefix, f"s->{prefix}_inner", f"\n{prefix}_of_row(s, row);")


def _forwarded(inner: MapCode, prefix: str, row: str, after: str, enter: str = "") -> str:
    """Return the functions of a map that call those of the map inside.

    Parameters
    ----------
    row
        Where the inner row goes.
    after
        Statements that make the row of it.
    enter
        Statements that take in the values; those of the map inside if not given.
    """
    p = inner.prefix
    enter = enter or f"{p}_enter(u, v);"
    if not inner.streams:
        window = f"{p}_window(s, v, steps, {row});{after}"
        return functions_text(prefix, enter=enter, window=window)
    return functions_text(
        prefix,
        enter=enter,
        reset=f"{p}_reset(s);",
        step=f"{p}_step(s, v, t, steps, {row});",
        row=f"{p}_row(s, v, t, {row});{after}",
    )


@form("c", RandomProjection)
def projected_code(one: RandomProjection, setting: Setting, prefix: str) -> MapCode:
    """Return the code of features that are mixed into fewer."""
    p = prefix
    inner = map_code(one.inner, setting, f"{p}_p")
    flips, kept = one._drawn
    assert inner.bits is not None
    assert inner.digits is not None
    reach = np.ldexp(1.0, inner.digits.max() - inner.digits + inner.bits).sum()
    work = "int32_t" if reach < 2.0**MOST_WORD else "int64_t"
    tables = [
        fitting("uint8_t", f"{p}_flips", np.packbits(flips < 0, bitorder="little")),
        fitting("uint16_t", f"{p}_kept", kept),
    ]
    if len(set(inner.digits.tolist())) > 1:
        tables.append(Table("int8_t", f"{p}_shifts", inner.digits.max() - inner.digits))
    sums = functions_text(p, of_row=_projection_text(inner, one, p, work))
    fields = (
        Field(setting.feature, f"{p}_inner", inner.n_features),
        Field(work, f"{p}_sums", one._padded),
    )
    bits, digits = row_digits(one)
    return replace(
        inner,
        prefix=p,
        n_features=one.n_features,
        bits=bits,
        digits=digits,
        text=inner.text + sums + _of_row(inner, p),
        operations=inner.operations + _spread(one._padded * math.log2(one._padded), inner, setting),
        sources=tuple(dict.fromkeys([*inner.sources, *sources_of("projected.c")])),
        tables=(*inner.tables, *tables),
        fields=(*inner.fields, *fields),
    )


def _projection_text(inner: MapCode, one: RandomProjection, p: str, work: str) -> str:
    """Return the statements that mix a row."""
    F, n = inner.n_features, one._padded
    assert inner.digits is not None
    value = f"({work})s->{p}_inner[j]"
    if len(set(inner.digits.tolist())) > 1:
        value += f" * (({work})1 << {p}_shifts[j])"
    unit = float(np.ldexp(1.0, -inner.digits.max()))
    sum_ = f"(double)s->{p}_sums[{p}_kept[k]] * {unit.hex()}"
    numbers = f"{math.sqrt(F).hex()}, {one.bound.hex()}"
    return f"""uint32_t j, k;
for (j = 0; j < {F}; j++) {{
    {work} x = {value};
    s->{p}_sums[j] = projected_flips({p}_flips, j) ? -x : x;
}}
for (; j < {n}; j++)
    s->{p}_sums[j] = 0;
projected_sums{work[3:5]}(s->{p}_sums, {n});
for (k = 0; k < {one.features}; k++)
    row[k] = projected_feature({sum_}, {numbers},
                               {int(one.feature_digits[0])}, {one.bits or 0});"""


@form("c", RandomFourierFeatures)
def fourier_code(one: RandomFourierFeatures, setting: Setting, prefix: str) -> MapCode:
    """Return the code of random features of inputs or of another map's rows."""
    p, (W, phases) = prefix, one._weights
    scaled = np.rint(np.ldexp(W.T, WEIGHT_DIGITS)).astype(np.int64)
    narrow = int(np.abs(scaled).max()) < 2**15
    tables = [fitting("int16_t" if narrow else "int32_t", f"{p}_weights", scaled)]
    if one.activation == "cos":
        scaled = np.rint(np.ldexp(phases, WEIGHT_DIGITS + VALUE_DIGITS)).astype(np.int64)
        tables.append(Table("int32_t", f"{p}_phases", scaled))
    bits, digits = row_digits(one)
    sources = sources_of("grid.h", "grid.c", "random_fourier.c")
    mixed = _fourier_text(one, p, narrow)
    operations = float(W.size)
    if one.map is None:
        enter = each_input(one.known_inputs, word_text(VALUE_DIGITS, int(FARTHEST)))
        row = functions_text(p, enter=enter, reset="", step="", row=f"{p}_mixed(v, row);")
        return own_code(one, p, mixed + row, operations, sources=sources, tables=tuple(tables))
    inner = map_code(one.map, setting, f"{p}_f")
    assert inner.digits is not None
    F = inner.n_features
    fields = Field(setting.feature, f"{p}_inner", F), Field("int32_t", f"{p}_values", F)
    # An inner row is taken as values of 14 digits.
    values = f"""uint32_t j;
for (j = 0; j < {F}; j++)
    s->{p}_values[j] = fourier_value(s->{p}_inner[j], {p}_digits[j]);
{p}_mixed(s->{p}_values, row);"""
    return replace(
        inner,
        prefix=p,
        n_features=one.features,
        bits=bits,
        digits=digits,
        text=inner.text + mixed + functions_text(p, of_row=values) + _of_row(inner, p),
        operations=inner.operations + _spread(operations, inner, setting),
        sources=tuple(dict.fromkeys([*inner.sources, *sources])),
        tables=(*inner.tables, *tables, Table("int8_t", f"{p}_digits", inner.digits)),
        fields=(*inner.fields, *fields),
    )


def _spread(operations: float, inner: MapCode, setting: Setting) -> float:
    """Return the operations of a row for each step."""
    return operations if inner.per_step else operations / (setting.steps or 100)


def _fourier_text(one: RandomFourierFeatures, p: str, narrow: bool) -> str:
    n = one._width
    sum_ = f"fourier_sum{16 if narrow else 32}({p}_weights + j * {n}, x, {n})"
    phase = f" + {p}_phases[j]" if one.activation == "cos" else ""
    name = "fourier_cosine" if one.activation == "cos" else "fourier_relu"
    return f"""
static void {p}_mixed(const word *x, feature *row)
{{
    uint32_t j;
    for (j = 0; j < {one.features}; j++)
        row[j] = {name}({sum_}{phase}, {one.bits or 0});
}}
"""


@dataclass(frozen=True, eq=False)
class Part:
    """One of the maps: its code, where its words and its features begin, and its own bits.

    `place` is None for maps of windows that are together: they know their places themselves.
    """

    code: MapCode
    word: int
    place: int

    def call(self, stride: int) -> str:
        """Return statements that write its features of a window."""
        p, row = self.code.prefix, _plus("row", self.place)
        if not self.code.streams:
            return f"{p}_window(s, {_plus('v', self.word)}, steps, {row});\n"
        last = _plus(f"v + (steps - 1) * {stride}u", self.word)
        return f"""{p}_reset(s);
for (t = 0; t < steps; t++)
    {p}_step(s, {_plus(f"v + t * {stride}u", self.word)}, t, steps, {row});
{p}_row(s, {last}, steps - 1, {row});
"""


@form("c", FeatureUnion)
def concat_code(features: FeatureUnion, setting: Setting, prefix: str) -> MapCode:
    """Return the code of maps side by side."""
    leaves = list(_leaves(features, 0))
    parts = _parts(leaves, setting, prefix, 0)
    stride = setting.stride or sum(one.code.n_words for one in parts)
    windows = any(not one.code.streams for one in parts)
    if windows:
        parts = _parts(leaves, setting, prefix, stride)
    codes = [one.code for one in parts]
    bits, digits = row_digits(features)
    shifts = ""  # statements that bring maps with fewer bits to the bits of all
    for one, place in leaves:
        few, end = known_bits(one.feature_bits), place + one.n_features
        if few != bits:
            shifts += f"for (j = {place}; j < {end}; j++)\n"
            shifts += f"    row[j] = (feature)(row[j] * {1 << (bits - few)});\n"
    texts = [one.text for one in codes]
    texts.append(_concat_functions(prefix, parts, stride if windows else 0, shifts))
    return MapCode(
        prefix,
        codes[0].n_inputs,
        sum(one.n_words for one in codes),
        features.n_features,
        bits,
        digits,
        "".join(texts),
        sum(one.operations for one in codes),
        streams=not windows,
        per_step=features.per_step,
        washout=features.washout,
        least_steps=max(one.least_steps for one in codes),
        needs_steps=any(one.needs_steps for one in codes),
        sources=tuple(dict.fromkeys(name for one in codes for name in one.sources)),
        tables=tuple(table for one in codes for table in one.tables),
        fields=tuple(field for one in codes for field in one.fields),
        activations=frozenset[str]().union(*(one.activations for one in codes)),
        traits=tuple(dict.fromkeys(trait for one in codes for trait in one.traits)),
    )


def _leaves(features: FeatureMap, place: int) -> Iterator[tuple[FeatureMap, int]]:
    """Yield the maps that are side by side, those of nested ones too, and their first features."""
    if not isinstance(features, FeatureUnion):
        yield features, place
        return
    for one in features.maps:
        yield from _leaves(one, place)
        place += one.n_features


def _parts(
    leaves: list[tuple[FeatureMap, int]], setting: Setting, prefix: str, stride: int
) -> list[Part]:
    """Return the parts: all maps of windows as one, which come first, and each of the others."""
    placed = replace(setting, stride=stride)
    found: list[Part] = []
    windows = [(one, place) for one, place in leaves if isinstance(one, WindowMap)]
    if windows:
        found.append(Part(group_code(windows, placed, f"{prefix}_w"), 0, 0))
    word = found[0].code.n_words if found else 0
    for k, (one, place) in enumerate(leaves):
        if not isinstance(one, WindowMap):
            code = map_code(one, placed, f"{prefix}_{k}")
            found.append(Part(code, word, place))
            word += code.n_words
    return found


def _plus(name: str, number: int) -> str:
    return f"{name} + {number}" if number else name


def _concat_functions(prefix: str, parts: list[Part], stride: int, shifts: str) -> str:
    """Return the functions of maps side by side; of windows if their words have a stride."""

    def calls(name: str, arguments: str) -> str:
        found = ""
        for one in parts:
            given = arguments.replace("V", _plus("v", one.word))
            given = given.replace("ROW", _plus("row", one.place))
            found += f"{one.code.prefix}_{name}({given});\n"
        return found

    declared = "uint32_t j;\n" if shifts else ""
    if not stride:
        return functions_text(
            prefix,
            enter=calls("enter", "u, V"),
            reset=calls("reset", "s"),
            step=calls("step", "s, V, t, steps, ROW"),
            row=declared + calls("row", "s, V, t, ROW") + shifts,
        )
    declared += "uint32_t t;\n" if any(one.code.streams for one in parts) else ""
    window = declared + "".join(one.call(stride) for one in parts) + shifts
    return functions_text(prefix, enter=calls("enter", "u, V"), window=window)

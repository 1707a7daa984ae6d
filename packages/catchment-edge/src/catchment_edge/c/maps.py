"""Maps in C: of windows (MiniRocket, window statistics and Hydra), NVAR and diagonal reservoirs.

Those of windows read one buffer of samples. It holds each sample once, as `window.c` says, however
many maps read it with however many digits. The others follow the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Array, Integers
from catchment.features import (
    BLOCK,
    KINDS,
    NVAR,
    TABLE_DIGITS,
    DiagonalReservoir,
    FeatureMap,
    Hydra,
    MiniRocket,
    WindowStatistics,
    band_ends,
    digits_after_point,
    form,
    tables,
)
from catchment.features.diagonal import (
    BIAS_DIGITS,
    EIGENVALUE_DIGITS,
    INPUT_WEIGHT_DIGITS,
    LEAK_DIGITS,
    MIX_DIGITS,
    Wiring,
)
from catchment.features.hydra import WEIGHT_BITS, group_channels, group_list, input_digits, weights
from catchment.features.minirocket import _schedule
from catchment.features.window_statistics import DIGITS
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
    row_digits,
)

WindowMap = MiniRocket | WindowStatistics | Hydra
MOST_CHANNELS = 255  # that a list of bytes can name
MOST_WORD = 2**28  # a word has two bits more, and a bit is left for rounding
SINE_DIGITS = 29
MOST_MOVES = 20
NVAR_DIGITS, DIAGONAL_DIGITS = 22, 24  # of inputs
LIMIT = 8  # where both cut inputs off


@dataclass(frozen=True)
class Reading:
    """How a map reads samples: rounded to so many digits, cut off at a limit in that unit."""

    digits: int
    limit: int

    @classmethod
    def of(cls, one: WindowMap) -> Reading:
        """Return how this map reads."""
        match one:
            case MiniRocket():
                digits = one.digits
            case WindowStatistics():
                digits = DIGITS
            case Hydra():
                digits = input_digits(one.range, _hydra_channels(one).shape[1])
        return cls(digits, int(np.floor(one.range * 2.0**digits)))


@dataclass(frozen=True)
class Words:
    """What the buffer holds of each sample, fine enough for all maps that read it.

    >>> Words.of([Reading(16, 2**22), Reading(12, 2**15)])
    Words(digits=16, limit=4194304, extra=2)
    """

    digits: int
    limit: int
    extra: int  # bits that tell how a sample was rounded: none if all maps read the same digits

    @classmethod
    def of(cls, readings: list[Reading]) -> Words:
        """Return the words that these can be read from."""
        digits = max(one.digits for one in readings)
        limit = max(one.limit << (digits - one.digits) for one in readings)
        extra = 2 if len({one.digits for one in readings}) > 1 else 0
        if limit > MOST_WORD:
            raise ValueError(
                f"samples of {digits} binary digits up to {limit / 2**digits:g} do not fit a word "
                "of 32 bits; train with input ranges that are nearer to each other"
            )
        return cls(digits, limit, extra)

    def shift(self, reading: Reading) -> int:
        """Return by how much a map shifts a word."""
        return self.digits + self.extra - reading.digits if self.extra else 0

    def cut(self, reading: Reading) -> int:
        """Return where a map cuts words off, 0 if the buffer holds just what it reads."""
        same = (reading.digits, reading.limit) == (self.digits, self.limit)
        return 0 if same else reading.limit

    @property
    def entered(self) -> str:
        """The C expression of a word of sample u[i]."""
        if self.extra:
            return f"window_word(u[i], {self.digits}, {self.limit})"
        return f"(word)number_from_double(u[i], {self.digits}, {self.limit})"


@dataclass(frozen=True)
class Leaf:
    """A map of windows in C: `call` writes its row, of a window v, to `row`.

    Parameters
    ----------
    work
        Numbers of scratch memory, which maps that run one after another share.
    """

    call: str
    text: str
    tables: tuple[Table, ...]
    fields: tuple[Field, ...]
    sources: tuple[str, ...]
    work: int
    operations: float  # for a window


@dataclass(frozen=True)
class Reader:
    """All that a map's code depends on beside its own settings."""

    prefix: str
    steps: int
    stride: int  # words from one step to the next
    shift: int
    bits: int  # of its features, 0 if they are float64
    limit: int
    work: str  # the field of scratch memory


@form("c", MiniRocket, WindowStatistics, Hydra)
def window_code(one: WindowMap, setting: Setting, prefix: str) -> MapCode:
    """Return the code of one map that reads a window."""
    return group_code([(one, 0)], setting, prefix)


def group_code(maps: Sequence[tuple[WindowMap, int]], setting: Setting, prefix: str) -> MapCode:
    """Return the code of maps that read the same window, one after another.

    Parameters
    ----------
    maps
        Each with the place of its first feature in the row.
    """
    n_inputs, name = maps[0][0].known_inputs, type(maps[0][0]).__name__
    if n_inputs > MOST_CHANNELS:
        raise ValueError(
            f"{name} has {n_inputs} channels, and its form in C takes up to {MOST_CHANNELS}; train "
            "with fewer, or export with --to onnx"
        )
    if setting.steps is None:
        raise ValueError(
            f"{name} needs a whole recording at once; pass --steps with the length of recordings, "
            "or train with windows"
        )
    readings = [Reading.of(one) for one, _ in maps]
    words = Words.of(readings)
    leaves = []
    for k, ((features, place), reading) in enumerate(zip(maps, readings, strict=True)):
        stride, bits = setting.stride or n_inputs, features.feature_bits or 0
        how = words.shift(reading), bits, words.cut(reading)
        reader = Reader(f"{prefix}_{k}", setting.steps, stride, *how, f"{prefix}_work")
        leaf = LEAVES[type(features)](features, reader)
        leaves.append(replace(leaf, call=leaf.call.replace("ROW", f"row + {place}")))
    return _joined(leaves, words, [one for one, _ in maps], setting.steps, prefix)


def _joined(
    leaves: list[Leaf], words: Words, maps: list[WindowMap], steps: int, prefix: str
) -> MapCode:
    n_inputs = maps[0].known_inputs
    text = "".join(one.text for one in leaves) + functions_text(
        prefix,
        enter=each_input(n_inputs, words.entered),
        window="\n".join(one.call for one in leaves),
    )
    sources = dict.fromkeys(
        ["numbers.c", "feature.c", "window.c", *(name for one in leaves for name in one.sources)]
    )
    bits, digits = row_digits(maps[0]) if len(maps) == 1 else (None, None)
    work = Field("int32_t", f"{prefix}_work", max(one.work for one in leaves))
    return MapCode(
        prefix,
        n_inputs,
        n_inputs,
        sum(one.n_features for one in maps),
        bits,
        digits,
        text,
        sum(one.operations for one in leaves) / steps,
        streams=False,
        least_steps=steps,
        sources=tuple(sources),
        tables=tuple(table for one in leaves for table in one.tables),
        fields=(work, *(field for one in leaves for field in one.fields)),
    )


def _minirocket(one: MiniRocket, reader: Reader) -> Leaf:
    p, T = reader.prefix, reader.steps
    schedule = _schedule(one, T, one.known_inputs)
    rows = []
    for group, after in pairwise(schedule.groups.tolist()):
        chosen = tuple(schedule.channels[group[1] : after[1]].tolist())
        rows += [(chosen, group[0], f) for f in range(group[2], after[2])]
    rows.sort()
    order = np.array([f for _, _, f in rows])
    starts: dict[tuple[int, ...], int] = {}
    lists: list[int] = []
    for chosen, _, _ in rows:
        if chosen not in starts:
            starts[chosen] = len(lists)
            lists += [len(chosen), *chosen]
    kernel, padded = schedule.kinds[order].T
    dilation = np.array([d for _, d, _ in rows])
    text = f"""
static const struct minirocket {p}_map = {{
    {T}, {reader.stride}, {schedule.pad}, {one.features}, {reader.shift}, {reader.bits},
    {reader.limit}, {p}_bias, {p}_place, {p}_dilation, {p}_channels, {p}_kernel, {p}_lists
}};
"""
    n_sums = len(set(zip([a for a, _, _ in rows], dilation.tolist(), strict=True)))
    return Leaf(
        f"minirocket_row(&{p}_map, v, s->{reader.work}, ROW);",
        text,
        (
            Table("int32_t", f"{p}_bias", schedule.biases[order]),
            fitting("uint16_t", f"{p}_place", schedule.places[order]),
            fitting("uint16_t", f"{p}_dilation", dilation),
            fitting("uint16_t", f"{p}_channels", np.array([starts[a] for a, _, _ in rows])),
            fitting("uint8_t", f"{p}_kernel", kernel + 128 * (1 - padded)),
            fitting("uint8_t", f"{p}_lists", np.array(lists)),
        ),
        (),
        ("minirocket.c",),
        2 * T + 2 * schedule.pad,
        T * (4.0 * one.features + 2.0 * n_sums + sum(map(len, starts))),
    )


def _statistics(one: WindowStatistics, reader: Reader) -> Leaf:
    p, T, I = reader.prefix, reader.steps, one.known_inputs
    blocks = -(-T // BLOCK)
    L = T // blocks
    first, last = band_ends(L)
    range_bits = -int(digits_after_point(np.array([one.range]), 0)[0])
    pairs = int(bool(one.correlations))
    text = f"""
static const struct statistics {p}_map = {{
    {T}, {reader.stride}, {I}, {blocks}, {L}, {reader.shift}, {reader.bits}, {range_bits},
    {reader.limit}, {pairs}, {p}_first, {p}_last, {p}_sines
}};
"""
    call = (
        f"statistics_row(&{p}_map, v, s->{reader.work}, s->{p}_center, s->{p}_sum,\n"
        f"                   s->{p}_root, ROW);"
    )
    spectrum = 2.0 * (L // 2) * ((L + 1) // 2) * blocks
    return Leaf(
        call,
        text,
        (
            fitting("uint8_t", f"{p}_first", first),
            fitting("uint8_t", f"{p}_last", last),
            Table("int32_t", f"{p}_sines", sines(L)),
        ),
        (
            Field("int32_t", f"{p}_center", I),
            Field("int32_t", f"{p}_sum", I),
            Field("double", f"{p}_root", I),
        ),
        ("window_statistics.c",),
        T * (1 + pairs),
        I * (spectrum + 2.0 * len(KINDS) * T) + pairs * T * I * (I - 1) / 2,
    )


def sines(length: int) -> Integers:
    """Return a turn of sines from which the tapered cosines and sines of a spectrum are made.

    It has the odd multiples of pi / (2 L) and, where L is odd, the even ones too, of 29 binary
    digits. Where a number of the library's tables is so near to a tie that these do not decide it,
    one of its two sines is moved by a last digit or two; ValueError if that does not help.

    >>> len(sines(128))
    256
    """
    unit = 1 + length % 2
    angles = np.arange(2 * unit * length) * 2 // unit + (unit == 1)
    found = np.rint(np.ldexp(np.sin(np.pi * angles / (2 * length)), SINE_DIGITS)).astype(np.int64)
    for _ in range(MOST_MOVES):
        wrong = False
        for plus, minus, expected in _spectrum_places(length, len(found)):
            shift = SINE_DIGITS + 1 - TABLE_DIGITS
            off = expected - ((found[plus] - found[minus] + (1 << (shift - 1))) >> shift)
            wrong |= bool(off.any())
            found[plus[off != 0]] += np.sign(off[off != 0])
        if not wrong:
            return found
    raise ValueError(
        f"the spectrum of blocks of {length} steps has no compact form in C; train with another "
        "window"
    )


def _spectrum_places(length: int, turn: int) -> list[tuple[Integers, Integers, Integers]]:
    """Return for cosines and for sines which two of the table make each, and the library's own."""
    unit = turn // (2 * length)
    t, k = np.arange((length + 1) // 2)[:, None], np.arange(1, length // 2 + 1)
    low = unit * k - 1 + t * unit * (2 * k - 1)
    high = unit * (k + 1) - 1 + t * unit * (2 * k + 1)
    quarter, half = unit * length // 2, length // 2
    cosine, sine = (one.astype(np.int64) for one in tables(length))
    return [
        (high % turn, low % turn, cosine),
        ((low + quarter)[:half] % turn, (high + quarter)[:half] % turn, sine),
    ]


def _hydra(one: Hydra, reader: Reader) -> Leaf:
    p, T = reader.prefix, reader.steps
    groups = group_list(one.n_groups, T, one.length or T)
    channels = _hydra_channels(one)
    together = channels.shape[1]
    pad = 4 * int(groups[:, 0].max())
    unit = 2.0 ** (input_digits(one.range, together) + WEIGHT_BITS) * together
    text = f"""
static const struct hydra {p}_map = {{
    {T}, {reader.stride}, {pad}, {one.n_groups}, {together}, {reader.shift}, {reader.bits},
    {reader.limit}, {unit}, {p}_dilations, {p}_lists, {p}_weights
}};
"""
    return Leaf(
        f"hydra_row(&{p}_map, v, s->{reader.work}, ROW);",
        text,
        (
            fitting("uint16_t", f"{p}_dilations", groups[:, 0]),
            fitting("uint8_t", f"{p}_lists", channels),
            fitting("int16_t", f"{p}_weights", weights(one.n_groups, one.seed)),
        ),
        (),
        ("hydra.c",),
        T + 2 * pad,
        T * one.n_groups * (72.0 + together),
    )


def _hydra_channels(one: Hydra) -> Integers:
    return group_channels(one.n_groups, one.seed, one.known_inputs)


LEAVES: dict[type[FeatureMap], Callable[[Any, Reader], Leaf]] = {
    MiniRocket: _minirocket,
    WindowStatistics: _statistics,
    Hydra: _hydra,
}


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

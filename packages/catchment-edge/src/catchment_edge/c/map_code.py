"""What the C of one feature map is, as a value: every map gives one, the generator joins them.

A map in C is a few static functions that start with `prefix`, plus tables and fields of the state.
It is written in terms of four types, which the generated file defines before anything else:

    state     all RAM of the model; a map's own fields are s->PREFIX_...
    value     a prepared sample, a double
    word      what a map keeps of a sample, an int32_t
    feature   one number of a feature row: int16_t where the features have at most 14 bits, else
              int32_t

Every map has

    void PREFIX_enter(const value *u, word *v);
        The I prepared values u of one step as the map's `n_words` words: cut off at its range and
        rounded to its own bits. Words of past steps may be kept in a buffer in their place.

A streaming map (`streams`) also has

    void PREFIX_reset(state *s);
        A piece begins: a recording, or a window.
    void PREFIX_step(state *s, const word *v, uint32_t t, uint32_t steps, feature *row);
        Step t = 0, 1, ... of a piece. `steps` is the piece's length where it is known, else 0: only
        maps that set `needs_steps` may use it. It may write parts of the row already.
    void PREFIX_row(state *s, const word *v, uint32_t t, feature *row);
        Called after step t where a row is due: at every step from the washout on (`per_step`), or
        once, after the last step of a piece.

and a map of windows (not `streams`)

    void PREFIX_window(state *s, const word *v, uint32_t steps, feature *row);
        The row of a whole piece, whose words lie at v[t * n_words + i]. Scratch memory is a field
        of the state: nothing large may be on the stack. Its length is known when the map's code is
        made (`Setting.steps`), or at most that.

`sources` names files of `export/sources`. Of them the generator takes the functions, tables, enums
and structs that the map's code needs, directly or through others, makes them static, and leaves
out the rest; so a file may hold more than one map needs. Preprocessor lines and prototypes in them
are left out, too, so nothing may depend on macros; a function that is passed on is written `&f`.
Names in one file must not have another meaning in another file that a model may need at once.

A nested map asks `map_code` for the code of its inner maps with prefixes of their own, joins their
tables, fields and text, and writes functions that call theirs: a FeatureUnion's `enter` writes the
words of its parts one after another, and its `row` hands `row + offset` on.
"""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment import Integers
from catchment.features import FeatureMap, form_maker, name_of

BYTES = {
    "int8_t": 1,
    "uint8_t": 1,
    "int16_t": 2,
    "uint16_t": 2,
    "int32_t": 4,
    "uint32_t": 4,
    "float": 4,
    "int64_t": 8,
    "uint64_t": 8,
    "double": 8,
}
_SIGNATURES = {
    "enter": "const value *u, word *v",
    "reset": "state *s",
    "step": "state *s, const word *v, uint32_t t, uint32_t steps, feature *row",
    "row": "state *s, const word *v, uint32_t t, feature *row",
    "window": "state *s, const word *v, uint32_t steps, feature *row",
    "of_row": "state *s, feature *row",
}
LINE = 96
# Files whose code of maps registers itself, as soon as one is asked for.
FORMS = ("echo_state", "maps", "maps_nested")


@dataclass(frozen=True)
class Setting:
    """What a map's code is made for.

    Parameters
    ----------
    steps
        Steps of a piece: the window's, or of the longest recording; None if that is not known.
    fixed
        Whether all pieces have just so many steps: windows.
    bits
        Bits of the widest row of whole features, those of maps inside others counted.
    stride
        Words from one step of a window to the next, where a map's words lie among those of others;
        0 where it has them all.
    """

    steps: int | None = None
    fixed: bool = False
    bits: int = 0
    stride: int = 0

    @property
    def feature(self) -> str:
        """C type of a feature."""
        return "int16_t" if self.bits <= 14 else "int32_t"


@dataclass(frozen=True, eq=False)
class Table:
    """A constant array: `static const TYPE NAME[] = {...};`.

    >>> import numpy as np
    >>> Table("int16_t", "m_bias", np.array([3, -1])).n_bytes
    4
    """

    type: str
    name: str
    values: NDArray[Any]

    @property
    def n_bytes(self) -> int:
        return BYTES[self.type] * self.values.size


@dataclass(frozen=True)
class Field:
    """An array in the state: `TYPE NAME[LENGTH];`."""

    type: str
    name: str
    length: int

    @property
    def n_bytes(self) -> int:
        return BYTES[self.type] * self.length


@dataclass(frozen=True, eq=False)
class MapCode:
    """A feature map in C; this module's text says what its functions are.

    Parameters
    ----------
    prefix
        What the names of its functions, tables and fields start with.
    bits, digits
        Feature j is k 2^-digits[j], |k| <= 2^bits. None where maps beside each other differ.
    least_steps
        The fewest steps that a piece can have, the washout counted.
    text
        The functions, and constant structs that point to the tables.
    operations
        Multiplications with additions for one step; for a map of windows, of a window divided by
        its steps.
    traits
        What its instructions are made of, by name; `code_size` adds up the bytes of each.
    activations
        Which of its functions `grid_activate` must have, for maps that call it; of several maps
        those of all.
    """

    prefix: str
    n_inputs: int
    n_words: int
    n_features: int
    bits: int | None
    digits: Integers | None
    text: str
    operations: float
    streams: bool = True
    per_step: bool = False
    washout: int = 0
    least_steps: int = 1
    needs_steps: bool = False
    sources: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    fields: tuple[Field, ...] = ()
    activations: frozenset[str] = frozenset()
    traits: tuple[str, ...] = ()


def functions_text(prefix: str, **bodies: str) -> str:
    """Return functions of a map from the statements of each, by the names above.

    >>> print(functions_text("m", reset=""), end="")
    <BLANKLINE>
    static void m_reset(state *s)
    {
        (void)s;
    }
    """
    found = ""
    for name, body in bodies.items():
        known = re.findall(r"(\w+)(?:,|$)", _SIGNATURES[name])
        unused = [one for one in known if not re.search(rf"\b{one}\b", body)]
        lines = [*body.strip("\n").splitlines(), *(f"(void){one};" for one in unused)]
        inside = "\n".join(f"    {line}" for line in lines)
        found += f"\nstatic void {prefix}_{name}({_SIGNATURES[name]})\n{{\n{inside}\n}}\n"
    return found


def each_input(n_inputs: int, word: str) -> str:
    """Return the statements of an `enter` that makes a word of every input u[i]."""
    return f"uint32_t i;\nfor (i = 0; i < {n_inputs}; i++)\n    v[i] = {word};"


def table_text(table: Table) -> str:
    """Return the declaration of a table with its numbers.

    >>> print(table_text(Table("int16_t", "bias", np.array([3, -1]))))
    static const int16_t bias[2] = {
        3, -1};
    """
    words = [_number(x, table.type) for x in table.values.reshape(-1)]
    body = textwrap.fill(", ".join(words), LINE, initial_indent="    ", subsequent_indent="    ")
    return f"static const {table.type} {table.name}[{len(words)}] = {{\n{body}}};"


def _number(value: Any, kind: str) -> str:
    """Return a number as C has it."""
    if kind == "int64_t":
        # The smallest number has no literal of its own.
        return f"INT64_C({int(value)})" if value > -(2**63) else "INT64_MIN"
    if kind == "uint64_t":
        return f"UINT64_C({int(value)})"
    if kind not in ("float", "double"):
        return f"{int(value)}" if value > -(2**31) else "(-2147483647 - 1)"
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        raise ValueError("a model with an infinite number cannot be written; train it again")
    if kind == "double":
        text = repr(float(value))
    else:
        text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    text = text if any(sign in text for sign in ".en") else text + ".0"
    return text if kind == "double" else text + "f"


def map_code(features: FeatureMap, setting: Setting, prefix: str = "map") -> MapCode:
    """Return the code of a map; ValueError with what can be done instead if there is none.

    Parameters
    ----------
    prefix
        What its names start with, different for each of the maps of one model.
    """
    for name in FORMS:
        import_module(f"catchment_edge.c.{name}")
    make = form_maker("c", features)
    if make is not None:
        code: MapCode = make(features, setting, prefix)
        return code
    instead = ", or export it with --to onnx" if name_of(features) == "encoder" else ""
    raise ValueError(
        f"{type(features).__name__} cannot be written as C; train with EchoState or "
        f"WindowStatistics{instead}"
    )


def known_bits(bits: int | str | None) -> int:
    """Return the bits of what is in fixed point; ValueError for float64, which has no form in C."""
    if not isinstance(bits, int):
        raise ValueError(
            "the map is not in fixed point, which its form in C needs; train it with "
            'bits="auto", or export it with --to onnx'
        )
    return bits


def fitting(type_: str, name: str, values: NDArray[Any]) -> Table:
    """Return a table of integers; ValueError if one is too large for its type.

    >>> fitting("uint8_t", "m_lists", np.array([255])).n_bytes
    1
    >>> fitting("uint8_t", "m_lists", np.array([256]))
    Traceback (most recent call last):
    ValueError: the C form keeps m_lists in uint8_t, and 256 does not fit; train with fewer ...
    """
    most = np.iinfo(type_.removesuffix("_t")).max
    if values.size and values.max() > most:
        raise ValueError(
            f"the C form keeps {name} in {type_}, and {int(values.max())} does not fit; train with "
            "fewer features or shorter windows"
        )
    return Table(type_, name, values)


def row_digits(features: FeatureMap) -> tuple[int, Integers]:
    """Return bits and digits of a map's features as integers."""
    return known_bits(features.feature_bits), features.feature_digits


def own_code(
    features: FeatureMap, prefix: str, text: str, operations: float, **parts: Any
) -> MapCode:
    """Return the code of a map that keeps a word of each of its inputs."""
    I, row = features.known_inputs, row_digits(features)
    told: dict[str, Any] = {"per_step": features.per_step, "washout": features.washout, **parts}
    return MapCode(prefix, I, I, features.n_features, *row, text, operations, **told)


def widest_bits(features: FeatureMap) -> int:
    """Return the bits of the widest row in a map, those of maps inside counted.

    >>> from catchment import RandomProjection, WindowStatistics
    >>> wide = RandomProjection(WindowStatistics(bits=20), 10, bits=8)
    >>> widest_bits(wide.build(1, per_step=False))
    20
    """
    return max([features.feature_bits or 0, *(widest_bits(one) for one in features.inner_maps)])

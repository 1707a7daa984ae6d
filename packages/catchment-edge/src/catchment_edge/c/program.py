"""The text of the C file and of its header: preparation, pieces of time, readout, and the API."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

import catchment
from catchment_edge.c.golden import golden_text
from catchment_edge.c.layout import Layout
from catchment_edge.c.map_code import MapCode, table_text
from catchment_edge.c.pieces import Piece, needed, template, uses_of


def _string(text: str) -> str:
    """Return a C string; what is not ASCII is written as octal bytes of UTF-8.

    >>> print(_string("Z\u00fcrich"))
    "Z\\303\\274rich"
    """
    found = "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{found}"'


_ACTIVATIONS = {
    "tanh": "tanh_of(p, p_digits, digits)",
    "sigmoid": "sigmoid_of(p, p_digits, digits)",
    "relu": "p < 0 ? 0 : linear_of(p, p_digits, digits)",
    "sin": "sin_of(p, p_digits, digits)",
    "identity": "linear_of(p, p_digits, digits)",
}
_ACTIVATE = "static int32_t grid_activate(int code, int64_t p, int p_digits, int digits)"


def source_text(layout: Layout) -> str:
    """Return the C file."""
    n = layout.name
    head = f"""/* {_title(layout)} The header says how to use it. */
#include "{n}.h"

typedef struct {n}_state state;
typedef {n}_value value;
typedef int32_t word;
typedef {layout.feature} feature;
typedef int32_t grid_word;
typedef uint16_t grid_index;
"""
    own = [*(table_text(one) for one in layout.tables), *_own_texts(layout), golden_text(layout)]
    return joined([head, library_text(layout.map, pieces_of(layout)), *own])


def joined(parts: Iterable[str]) -> str:
    """Return parts of a C file as one, with at most one empty line between lines."""
    text = "\n".join(part.strip("\n") + "\n" for part in parts if part)
    return re.sub(r"\n{3,}", "\n\n", text)


def library_text(code: MapCode, pieces: Sequence[Piece]) -> str:
    """Return what a file takes from the library's C sources, functions declared first."""
    # So that the order of the files does not matter.
    heads = [piece.head for piece in pieces if piece.is_function]
    heads += [_ACTIVATE] if code.activations else []
    types = [piece.text for piece in pieces if not piece.is_function]
    functions = [piece.text for piece in pieces if piece.is_function]
    return "\n".join([*types, *(f"{head};" for head in heads), "", *functions])


def pieces_of(layout: Layout) -> list[Piece]:
    """Return what the file takes from the library's C sources."""
    return map_pieces(layout.map, _own_texts(layout))


def map_pieces(code: MapCode, texts: Iterable[str]) -> list[Piece]:
    """Return what texts around a map take from the library's C sources."""
    defined = {"grid_word", "grid_index"} | ({"grid_activate()"} if code.activations else set())
    return needed(("prepare.c", *code.sources), uses_of("\n".join(texts)), defined)


def _own_texts(layout: Layout) -> list[str]:
    """Return the functions that are written for this model."""
    names = ",\n    ".join(map(_string, layout.model.classes or ()))
    own = template("program.c", {**layout.marks, "CLASSES": names})
    return [activate_text(layout.map), layout.map.text, own]


def header_text(layout: Layout) -> str:
    """Return the header: sizes, the state, and the functions."""
    bad = "infinite" if layout.holds else "missing or infinite"
    if layout.by_recording and layout.setting.steps:
        bad += f", or the recording longer than {layout.setting.steps} steps"
    more = {
        "TITLE": _title(layout),
        "TOLD": _told(layout),
        "FIELDS": "\n".join(f"    {one.type} {one.name}[{one.length}];" for one in layout.fields),
        "BAD": bad,
        "CLASSES": layout.model.classes is not None,
    }
    return template("model.h", more | layout.marks)


def _title(layout: Layout) -> str:
    return f"{layout.name}: a model of catchment {catchment.__version__}, in C99."


def _told(layout: Layout) -> str:
    """Return what the reader of the header must know, as lines of a comment."""
    preprocessing, found = layout.model.preprocessing, []
    if layout.model.channels is not None:
        found.append("Channels: " + ", ".join(layout.model.channels) + ".")
    if preprocessing.rate is not None:
        found.append(f"The device must sample at {preprocessing.rate:g} Hz.")
    if layout.holds:
        found.append(
            "A missing sample is NaN: the last value is held. Before the first value of a channel "
            "it is zero in a stream, and that value in a whole recording."
        )
    else:
        found.append("No sample may be missing.")
    if layout.map.per_step and layout.cutting.window:
        found.append("Each step of a window has scores, before the window is whole.")
    found.append("Integers: features are the very ones of the library.")
    lines = (line for sentence in found for line in textwrap.wrap(sentence, 94))
    return "\n".join(f" * {line}" for line in lines).replace("*/", "* /")


def activate_text(code: MapCode) -> str:
    """Return the choice among those activations that a map has."""
    chosen = [
        (k, call) for k, (one, call) in enumerate(_ACTIVATIONS.items()) if one in code.activations
    ]
    if not chosen:
        return ""
    lines = [f"    if (code == {c})\n        return (int32_t)({call});" for c, call in chosen[:-1]]
    lines = lines or ["    (void)code;"]
    last = f"    return (int32_t)({chosen[-1][1]});"
    return "\n".join([_ACTIVATE, "{", *lines, last, "}"])

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


def _prepared(layout: Layout) -> str:
    """Return the function that fills gaps and scales."""
    I = layout.map.n_inputs
    refused = "2" if layout.holds else "0"
    compare = "==" if layout.holds else "!="
    lines = [
        "/* Samples as the map takes them; 0 if one cannot be. */",
        "static int prepared(state *s, const value *sample, value *u)",
        "{",
        "    uint32_t i;",
        *([] if layout.holds else ["    (void)s;"]),
        f"    for (i = 0; i < {I}; i++)",
        f"        if (kind_of_double(sample[i]) {compare} {refused})",
        "            return 0;",
        f"    for (i = 0; i < {I}; i++) {{",
    ]
    raw = "sample[i]"
    if layout.holds:
        lines += [
            "        if (kind_of_double(sample[i]) == 0) {",
            "            s->held[i] = sample[i];",
            "            s->known[i] = 1;",
            "        }",
        ]
        raw = "s->held[i]"
    scaled = raw if layout.scaler is None else f"({raw} - scale_mean[i]) / scale_size[i]"
    lines.append(
        f"        u[i] = {'s->known[i] ? ' + scaled + ' : 0' if layout.holds else scaled};"
    )
    return "\n".join([*lines, "    }", "    return 1;", "}"])


def _entered(layout: Layout) -> str:
    """Return the function that takes the words of one step and says whether a row came out."""
    washout, W, S = layout.map.washout, layout.cutting.window, layout.cutting.step
    lines = ["    uint32_t t = s->t[0];"]
    steps = f"{W}u" if W else "s->steps[0]" if layout.told_steps else "0"
    if W:
        lines += ["    if (t == 0)\n        map_reset(s);"]
        lines += [f"    s->t[0] = t + 1 == {S} ? 0 : t + 1;"]
        lines += [f"    if (t >= {W})\n        return 0;"] if S > W else []
    elif layout.map.per_step:
        lines += [f"    s->t[0] = t < {washout} ? t + 1 : t;"] if washout else []
    else:
        most = layout.setting.steps  # sums have room for so many
        lines += [f"    if (t >= {most})\n        return -1;"] if most else []
        lines += ["    s->t[0] = t + 1;"]
    lines += [f"    map_step(s, v, t, {steps}, s->row);"]
    if layout.map.per_step:
        lines += [f"    if (t < {washout})\n        return 0;"] if washout else []
        lines += ["    map_row(s, v, t, s->row);", "    return 1;"]
    elif W:
        lines += [f"    if (t + 1 < {W})\n        return 0;"]
        lines += ["    map_row(s, v, t, s->row);", "    return 1;"]
    else:
        n = layout.map.n_words
        lines[0] += "\n    uint32_t i;"
        lines += [f"    for (i = 0; i < {n}; i++)\n        s->last[i] = v[i];", "    return 0;"]
    lines = _entered_kept(layout) if layout.kept_steps else lines
    return "static int entered(state *s, const word *v)\n{\n" + "\n".join(lines) + "\n}"


def _entered_kept(layout: Layout) -> list[str]:
    n, W, S = layout.map.n_words, layout.kept_steps, layout.cutting.step
    lines = ["    uint32_t t = s->t[0], i;"]
    if layout.by_recording:
        lines += [f"    if (t >= {W})\n        return -1;"]
    elif S > W:
        lines += [
            f"    if (t >= {W}) {{",
            f"        s->t[0] = t + 1 == {S} ? 0 : t + 1;\n        return 0;\n    }}",
        ]
    lines += [
        f"    for (i = 0; i < {n}; i++)\n        s->kept[t * {n} + i] = v[i];",
        "    s->t[0] = t + 1;",
    ]
    if layout.by_recording:
        return [*lines, "    return 0;"]
    lines += [f"    if (t + 1 < {W})\n        return 0;", _window_row(layout)]
    if S < W:
        lines += [
            "    /* The next window begins with what this one ends with. */",
            f"    for (i = 0; i < {(W - S) * n}; i++)\n        s->kept[i] = s->kept[i + {S * n}];",
        ]
    rest = "0" if S == W else f"{W - S}" if S < W else f"{W}"
    return [*lines, f"    s->t[0] = {rest};", "    return 1;"]


def _window_row(layout: Layout, steps: str = "") -> str:
    n, W = layout.map.n_words, steps or f"{layout.kept_steps}u"
    if not layout.map.streams:
        return f"    map_window(s, s->kept, {W}, s->row);"
    return f"""    map_reset(s);
    for (t = 0; t < {W}; t++)
        map_step(s, s->kept + t * {n}, t, {W}, s->row);
    map_row(s, s->kept + ({W} - 1) * {n}, {W} - 1, s->row);"""


def _reset(layout: Layout) -> str:
    name, lines = layout.name, ["    s->t[0] = 0;"]
    if layout.holds:
        lines.insert(0, "    uint32_t i;")
        lines.append(f"    for (i = 0; i < {layout.map.n_inputs}; i++)\n        s->known[i] = 0;")
    if layout.told_steps:
        lines.append("    s->steps[0] = 0;")
    if layout.map.streams and not layout.kept_steps:
        lines.append("    map_reset(s);")
    body = "\n".join(lines)
    text = f"void {name}_reset(struct {name}_state *s)\n{{\n{body}\n}}"
    if layout.told_steps:
        text += f"""

void {name}_begin(struct {name}_state *s, uint32_t steps)
{{
    {name}_reset(s);
    s->steps[0] = steps;
}}"""
    return text


def _finish(layout: Layout) -> str:
    name = layout.name
    head = f"int {name}_finish(struct {name}_state *s, float *scores)"
    if not layout.by_recording:
        return f"{head}\n{{\n    (void)s;\n    (void)scores;\n    return 0;\n}}"
    least = layout.map.least_steps
    known = " || t != s->steps[0]" if layout.told_steps else ""
    row = "    map_row(s, s->last, t - 1, s->row);"
    if layout.kept_steps:
        row = _window_row(layout, "t")
    return f"""
{head}
{{
    uint32_t t = s->t[0];
    if (t < {least}{known})
        return 0;
{row}
    readout(s->row, scores);
    return 1;
}}"""


def _predict(layout: Layout) -> str:
    W, S, marks = layout.cutting.window, layout.cutting.step, layout.marks
    held = cut = ""
    if layout.map.per_step and W:
        # Rows of a window come before it is whole; what is left at the end has none.
        cut = f"\n    steps = steps < {W} ? 0 : (steps - {W}) / {S} * {S} + {W};"
    if layout.holds:
        held = template("held.c", marks).rstrip("\n")
    indent = " " * (len(layout.name) + 13)
    return template("predict.c", marks | {"HELD": held, "CUT": cut, "INDENT": indent})


def _class(layout: Layout) -> str:
    names = layout.model.classes
    if names is None:
        return ""
    return template(
        "classes.c", {**layout.marks, "CLASS_NAMES": ",\n    ".join(map(_string, names))}
    )


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
    readout, step = (template(name, layout.marks) for name in ("readout.c", "step.c"))
    before = [activate_text(layout.map), layout.map.text, _prepared(layout), readout]
    after = [step, _finish(layout), _predict(layout), _class(layout)]
    return [*before, _entered(layout), _reset(layout), *after]


def header_text(layout: Layout) -> str:
    """Return the header: sizes, the state, and the functions."""
    bad, marks = "infinite" if layout.holds else "missing or infinite", layout.marks
    if layout.by_recording and layout.setting.steps:
        bad += f", or the recording longer than {layout.setting.steps} steps"
    more = {
        "TITLE": _title(layout),
        "TOLD": _told(layout),
        "FIELDS": "\n".join(f"    {one.type} {one.name}[{one.length}];" for one in layout.fields),
        "BEGIN": template("begin.h", marks) if layout.told_steps else "",
        "BAD": bad,
        "CLASSES": template("classes.h", marks) if layout.model.classes is not None else "",
    }
    return template("model.h", more | marks)


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

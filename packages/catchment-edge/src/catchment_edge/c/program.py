"""The text of the C file and of its header."""

from __future__ import annotations

import re

import catchment
from catchment_edge.c.driver import driver_texts
from catchment_edge.c.golden import golden_text
from catchment_edge.c.layout import Layout
from catchment_edge.c.map_code import MapCode
from catchment_edge.c.pieces import Piece, needed, uses_of
from catchment_edge.c.tables import table_text

_WHOLE_ACTIVATIONS = {
    "tanh": "tanh_of(p, p_digits, digits)",
    "sigmoid": "sigmoid_of(p, p_digits, digits)",
    "relu": "p < 0 ? 0 : linear_of(p, p_digits, digits)",
    "sin": "sin_of(p, p_digits, digits)",
    "identity": "linear_of(p, p_digits, digits)",
}
_FLOAT_ACTIVATIONS = {
    "tanh": "tanhf(p)",
    "sigmoid": "1.0f / (1.0f + expf(-p))",
    "relu": "p < 0 ? 0 : p",
    "sin": "sinf(p)",
    "identity": "p",
}
_ACTIVATE = {
    True: "static int32_t grid_activate(int code, int64_t p, int p_digits, int digits)",
    False: "static float float_activate(int code, float p)",
}


def source_text(layout: Layout) -> str:
    """Return the C file."""
    pieces = pieces_of(layout)
    types = [piece.text for piece in pieces if not piece.is_function]
    functions = [piece.text for piece in pieces if piece.is_function]
    # Declared first, so that the order of the files does not matter.
    heads = [piece.head for piece in pieces if piece.is_function]
    heads += [activate_head(whole=layout.whole)] if layout.map.activations else []
    forward = "\n".join(f"{head};" for head in heads) + "\n"
    own = [*(table_text(one) for one in layout.tables), *_own_texts(layout), golden_text(layout)]
    body = "\n".join(part.strip("\n") + "\n" for part in own if part)
    text = "\n".join([_source_head(layout), *types, forward, *functions, body])
    return re.sub(r"\n{3,}", "\n\n", text)


def pieces_of(layout: Layout) -> list[Piece]:
    """Return what the file takes from the library's C sources."""
    defined = {"grid_word", "grid_index"}
    defined |= {"grid_activate()"} if layout.map.activations else set()
    uses = uses_of("\n".join(_own_texts(layout)))
    return needed(("prepare.c", *layout.map.sources), uses, defined)


def _own_texts(layout: Layout) -> list[str]:
    """Return the functions that are written for this model."""
    activate = activate_text(layout.map, whole=layout.whole)
    return [activate, layout.map.text, *driver_texts(layout)]


def header_text(layout: Layout) -> str:
    """Return the header: sizes, the state, and the functions."""
    n, up = layout.name, layout.name.upper()
    bad = "infinite" if layout.holds else "missing or infinite"
    if layout.by_recording and layout.setting.steps:
        bad += f", or the recording longer than {layout.setting.steps} steps"
    fields = "\n".join(f"    {one.type} {one.name}[{one.length}];" for one in layout.fields)
    return f"""/* {_title(layout)}
 *
{_comment(_told(layout))}
 */
#ifndef {up}_H
#define {up}_H

#include <stdint.h>

#define {up}_CHANNELS {layout.map.n_inputs}
#define {up}_OUTPUTS {layout.n_outputs}
#define {up}_WINDOW {layout.cutting.window} /* steps; 0: none */
#define {up}_FEATURES {layout.map.n_features}

#ifdef __cplusplus
extern "C" {{
#endif

typedef {layout.setting.value} {n}_value; /* a raw sample of one channel */

/* All memory that there is. The caller provides it. */
struct {n}_state {{
{fields}
}};

/* A recording begins. */
void {n}_reset(struct {n}_state *s);
{_begin(layout)}
/* One sample of all channels. 1: the scores are new; 0: they are not;
 * -1: a sample is {bad}: it is left out. */
int {n}_step(struct {n}_state *s, const {n}_value *sample, float *scores);

/* The recording ends. 1: the scores are of the whole recording; 0: there are none. */
int {n}_finish(struct {n}_state *s, float *scores);

/* A whole recording, step after step: the mean of its scores. 1, or as in step and finish. */
int {n}_predict(struct {n}_state *s, const {n}_value *samples, uint32_t steps, float *scores);
{_classes(layout)}
#ifdef {up}_SELFTEST
/* 0 if recordings with known scores have these scores; else the number of the first that has not,
 * counted from 1. */
int {n}_selftest(struct {n}_state *s);
#endif

#ifdef __cplusplus
}}
#endif

#endif
"""


def _begin(layout: Layout) -> str:
    if not layout.told_steps:
        return ""
    return f"""
/* A recording of this many steps begins: its parts depend on its length. {layout.name}_predict
 * does it by itself; after {layout.name}_reset alone a recording has no scores. */
void {layout.name}_begin(struct {layout.name}_state *s, uint32_t steps);
"""


def _classes(layout: Layout) -> str:
    if layout.model.classes is None:
        return ""
    n = layout.name
    return f"""
extern const char *const {n}_classes[{layout.n_outputs}];

/* The number of the class with the largest score. */
int {n}_class(const float *scores);
"""


def _title(layout: Layout) -> str:
    return f"{layout.name}: a model of catchment {catchment.__version__}, in C99."


def _told(layout: Layout) -> list[str]:
    """Return what the reader of the header must know."""
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
    numbers = {
        "whole": "Integers: features are the very ones of the library.",
        "q15": "Integers of 16 bits.",
        "float32": "Single precision; needs tanhf, expf or sinf of math.h where the map has them.",
    }
    if layout.map.per_step and layout.cutting.window:
        found.append("Each step of a window has scores, before the window is whole.")
    return [*found, numbers[layout.number]]


def _comment(sentences: list[str], width: int = 94) -> str:
    import textwrap

    return "\n".join(
        f" * {line}" for sentence in sentences for line in textwrap.wrap(sentence, width)
    ).replace("*/", "* /")


def _source_head(layout: Layout) -> str:
    n = layout.name
    grid = "int16_t" if layout.number == "q15" else "int32_t"
    types = f"typedef {grid} grid_word;\ntypedef uint16_t grid_index;\n" if layout.whole else ""
    include = "" if layout.whole else "#include <float.h>\n#include <math.h>\n"
    return f"""/* {_title(layout)} The header says how to use it. */
#include "{n}.h"
{include}
typedef struct {n}_state state;
typedef {n}_value value;
typedef {layout.setting.word} word;
typedef {layout.feature} feature;
{types}"""


def activate_head(*, whole: bool) -> str:
    """Return the head of the function that chooses among activations."""
    return _ACTIVATE[whole]


def activate_text(code: MapCode, *, whole: bool) -> str:
    """Return the choice among those activations that a map has."""
    calls, kind = (_WHOLE_ACTIVATIONS, "int32_t") if whole else (_FLOAT_ACTIVATIONS, "float")
    chosen = [(number, calls[one]) for number, one in enumerate(calls) if one in code.activations]
    if not chosen:
        return ""
    lines = [f"    if (code == {c})\n        return ({kind})({call});" for c, call in chosen[:-1]]
    lines = lines or ["    (void)code;"]
    last = f"    return ({kind})({chosen[-1][1]});"
    return "\n".join([_ACTIVATE[whole], "{", *lines, last, "}"])

"""The text of the C file and of its header: preparation, pieces of time, readout, and the API.

Its self-test compares scores on recordings whose samples are integers times a power of two.
Features are compared, too: by the FNV-1a hash of all rows.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

import catchment
from catchment import Array, Integers
from catchment.data import Recording
from catchment.features import Pipeline
from catchment.readout import Model
from catchment_edge.c.layout import Cutting, Layout
from catchment_edge.c.map_code import MapCode, Table, table_text
from catchment_edge.c.pieces import Piece, needed, template, uses_of

MOST_NUMBERS = 6000  # of all recordings together, if one window is not longer
DIGITS = 10  # binary digits of a sample after the point, in units of its channel's spread
MISSING = -(2**31)
SEED = 20
_ACTIVATIONS = {
    "tanh": "tanh_of(p, p_digits, digits)",
    "sigmoid": "sigmoid_of(p, p_digits, digits)",
    "relu": "p < 0 ? 0 : linear_of(p, p_digits, digits)",
    "sin": "sin_of(p, p_digits, digits)",
    "identity": "linear_of(p, p_digits, digits)",
}
_ACTIVATE = "static int32_t grid_activate(int code, int64_t p, int p_digits, int digits)"


@dataclass(frozen=True, eq=False)
class Golden:
    """Recordings (T, I) as integers of `unit` (I,), and what the model says of them."""

    model: Model
    samples: list[Integers]
    unit: Array

    def recordings(self) -> list[Recording]:
        """Return the recordings in raw units, NaN where a sample is missing."""
        return [
            Recording(np.where(one == MISSING, np.nan, one * self.unit)) for one in self.samples
        ]

    @cached_property
    def outputs(self) -> list[Array]:
        """Outputs (rows, K) of each recording."""
        return self.model.outputs(self.recordings())

    @property
    def scores(self) -> Array:
        """Means (n, K) of the outputs."""
        return np.array([y.mean(axis=0) for y in self.outputs])

    def hashes(self, digits: Integers) -> list[int]:
        """Return the FNV-1a hash of the whole features of each recording, a word at a time."""
        found = []
        for recording in self.recordings():
            h = 2166136261
            for rows in self.model.pipeline.rows([recording]):
                for k in np.rint(np.ldexp(rows, digits)).astype(np.int64).ravel().tolist():
                    h = ((h ^ (k & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
            found.append(h)
        return found


def golden(layout: Layout) -> Golden:
    """Return recordings that the model has scores for: slow waves, noise and, if held, gaps."""
    I = layout.map.n_inputs
    mean, spread = np.zeros(I), np.ones(I)
    if layout.scaler is not None:
        mean, spread = layout.scaler.mean, layout.scaler.scale
    reach = np.abs(mean) + 8 * spread
    unit = np.ldexp(1.0, np.maximum(np.frexp(spread)[1] - DIGITS, np.frexp(reach)[1] - 23))
    rng = np.random.default_rng(SEED)
    samples = []
    for k, T in enumerate(_lengths(layout)):
        t = np.arange(T)[:, None]
        waves = np.sin(t / (2.0 + 3 * rng.random(I)) + 6 * rng.random(I))
        loud = rng.choice([0.5, 1.0, 1.5])
        u = mean + spread * loud * (waves + 0.4 * rng.standard_normal((T, I)))
        whole = np.rint(u / unit).astype(np.int64)
        if layout.holds and k == 1:
            whole[T // 3 : T // 3 + 3, 0] = MISSING
        samples.append(whole)
    return Golden(in_steps(layout.model, layout.cutting), samples, unit)


def in_steps(model: Model, cutting: Cutting) -> Model:
    """Return a model with windows in steps and no rate: a device's samples have no times."""
    counted = replace(
        model.preprocessing, rate=None, window=cutting.window or None, step=cutting.step or None
    )
    return replace(model, before=Pipeline(counted, model.features))


def _lengths(layout: Layout) -> list[int]:
    """Return the steps of each recording; the first is taken whatever its length."""
    W, S = layout.cutting.window, layout.cutting.step
    least = layout.map.least_steps
    if W:
        rest = 0 if layout.map.per_step else 1  # steps that are left of a last window
        wanted = [W, W + S, W + 2 * S + rest]
    else:
        wanted = [least + 20, least + 33, least + 50]
        wanted = [min(T, layout.steps or T) for T in wanted]
    kept, left = wanted[:1], MOST_NUMBERS // layout.map.n_inputs - wanted[0]
    for T in wanted[1:]:
        if left >= T:
            kept.append(T)
            left -= T
    return kept


def tolerance(layout: Layout) -> Array:
    """Return how far (K,) scores may be from the library's: single precision has seven digits."""
    readout = layout.model.readout
    scale = 1.0 + np.abs(readout.intercept) + np.abs(readout.weights).max(axis=0)
    return np.asarray(1e-6 * scale)


def golden_text(layout: Layout) -> str:
    """Return the self-test, compiled only where it is asked for."""
    data, digits = golden(layout), layout.map.digits
    assert digits is not None
    tables = [
        Table("int32_t", "golden_samples", np.concatenate([one.ravel() for one in data.samples])),
        Table("double", "golden_unit", data.unit),
        Table("uint32_t", "golden_steps", np.array([len(one) for one in data.samples])),
        Table("float", "golden_scores", data.scores),
        Table("float", "golden_tolerance", tolerance(layout)),
        Table("uint32_t", "golden_hashes", np.array(data.hashes(digits))),
    ]
    texts = "\n\n".join(table_text(one) for one in tables)
    return template("selftest.c", layout.marks | {"TABLES": texts, "SAMPLES": len(data.samples)})


def _string(text: str) -> str:
    """Return a C string; what is not ASCII is written as octal bytes of UTF-8.

    >>> print(_string("Z\u00fcrich"))
    "Z\\303\\274rich"
    """
    found = "".join(
        chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{found}"'


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

"""The C of a device that trains: constants, tables, and the pieces that it needs, as one file."""

from __future__ import annotations

import re
import secrets
from importlib import resources

import numpy as np

import catchment
from catchment.data import Scaler
from catchment_edge.c.code_size import bytes_of, map_traits
from catchment_edge.c.map_code import Table
from catchment_edge.c.pieces import Piece, needed, uses_of
from catchment_edge.c.plan import struct_bytes
from catchment_edge.c.program import activate_head, activate_text
from catchment_edge.c.tables import table_text
from catchment_edge.training.layout import PIECE, Layout
from catchment_edge.training.messages import message_text, moments_parts, sums_parts

FORMS = ("float32", "whole", "q15")  # as the hello counts them
GAPS = ("hold", "error", "restart")
_SOURCES = resources.files("catchment_edge") / "sources"
_INCLUDE = re.compile(r'^#include ".*"\n', re.MULTILINE)
_BASE = (
    *("bytes.h", "bytes.c", "wide.c", "sha256.h", "sha256.c", "crc32.c"),
    *("packing.h", "packing.c", "wire.h", "wire.c"),
)
# Bytes of instructions, measured with arm-none-eabi-gcc 12.2 -Os for a Cortex-M4F.
_CODE = {
    "whole": 6080,
    "scale 0, whole": 0,
    "scale 1, whole": 120,
    "scale 2, whole": 1420,
    "numbers, whole": 530,
    "float32": 5050,
    "scale 0, float32": 0,
    "scale 1, float32": 130,
    "scale 2, float32": 1730,
    "numbers, float32": 70,
    "kept": 180,
    "majority": 60,
    "masks": 11060,
}


_MASKS = ("boxes.c", "hkdf.c", "masks.c")


def secret_text() -> str:
    """Return the header with a device's own secret, a new one each time."""
    numbers = ", ".join(map(str, secrets.token_bytes(32)))
    return (
        "/* The secret of one device: every device has another, and nobody else has it. */\n"
        f"static const uint8_t SECRET[32] = {{{numbers}}};\n"
    )


def source_text(layout: Layout) -> str:
    """Return the C file."""
    name = layout.name
    moments = []
    if layout.scale == 2:
        moments = [_source("moments.c"), message_text("MOMENTS", moments_parts(layout), "moments")]
    parts = [
        _head(layout),
        _settings(layout),
        *map(_source, _BASE),
        _map_text(layout),
        *map(table_text, _tables(layout)),
        _source("sums.c"),
        _source("upload.c"),
        message_text("SUMS", sums_parts(layout), "upload"),
        *moments,
        *map(_source, ("feed.c", "trained_readout.c", "link.c")),
        *map(_source, _MASKS if layout.neighbors else ()),
        f"void {name}_serve(void)\n{{\n    while (link_answer())\n        ;\n}}\n",
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts))


def header_text(layout: Layout) -> str:
    """Return the header: sizes, what the firmware calls, and what it gives."""
    up, name, task = layout.name.upper(), layout.name, layout.task
    return f"""/* {_title(layout)} */
#ifndef {up}_H
#define {up}_H

#include <stdint.h>

#define {up}_CHANNELS {task.channels}
#define {up}_OUTPUTS {task.outputs}
#define {up}_FEATURES {layout.map.n_features}
#define {up}_WINDOW {task.window} /* steps; 0: none */

#ifdef __cplusplus
extern "C" {{
#endif

/* Answers frames until the link is closed; what the device holds stays for the next call. */
void {name}_serve(void);

/* What the firmware gives. The link to the gateway, and the sensor's line, which the gateway never
 * sees: one byte, and 0 when there will be no more. */
int port_read(uint8_t *one);
void port_write(const uint8_t *bytes, uint32_t count);
int sensor_read(uint8_t *one);

#ifdef __cplusplus
}}
#endif

#endif
"""


def _title(layout: Layout) -> str:
    return f"{layout.name}: a device that trains, of catchment {catchment.__version__}, in C99."


def _source(name: str) -> str:
    return _INCLUDE.sub("", (_SOURCES / name).read_text(encoding="utf-8"))


def _head(layout: Layout) -> str:
    fields = "\n".join(f"    {one.type} {one.name}[{one.length}];" for one in layout.state)
    grid = "int16_t" if layout.number == "q15" else "int32_t"
    types = f"typedef {grid} grid_word;\ntypedef uint16_t grid_index;\n" if layout.whole else ""
    include = "" if layout.whole else "#include <float.h>\n#include <math.h>\n"
    secret = f'#include "monocypher.h"\n#include "{layout.name}_secret.h"\n'
    secret *= layout.neighbors > 0
    return f"""/* {_title(layout)} */
#include "{layout.name}.h"
{secret}{include}
typedef struct {{
{fields}
}} state;
typedef {layout.setting.value} value;
typedef {layout.setting.word} word;
typedef {layout.feature} feature;
{types}"""


def _settings(layout: Layout) -> str:
    task, code, F = layout.task, layout.map, layout.map.n_features
    bits = code.bits or 0
    values: dict[str, object] = {
        "NUMBER": FORMS.index(layout.number),
        "WHOLE": int(layout.whole),
        "CHANNELS": task.channels,
        "WORDS": code.n_words,
        "OUTPUTS": task.outputs,
        "FEATURES": F,
        "FEATURE_BITS": bits,
        "WEIGHT_BITS": min(30, 62 - bits - F.bit_length()),
        "CLASSES": int(task.classes is not None),
        "PER_STEP": int(code.per_step),
        "STREAMS": int(code.streams),
        "WASHOUT": code.washout,
        "LEAST": code.least_steps,
        "EVERY": layout.every,
        "HORIZON": max(task.preprocessing.horizons, default=0),
        "WINDOW": task.window,
        "STEP": task.step,
        "KEPT": layout.kept,
        "MAJORITY": int(layout.majority),
        "GAPS": GAPS.index(task.preprocessing.gaps),
        "SCALE": layout.scale,
        "PIECE": PIECE,
        "MASKS": int(layout.neighbors > 0),
        "PAIRS": layout.neighbors,
        "MOST_ROWS": f"{layout.sums.most_rows}u",
        "GRAM": layout.sums.gram,
        "SUM": layout.sums.sum,
    }
    return "".join(f"#define DEVICE_{key} {value}\n" for key, value in values.items())


def _map_text(layout: Layout) -> str:
    """Return the map's tables and functions, and those of the sources that they need."""
    code, pieces = layout.map, map_pieces(layout)
    own = [*map(table_text, code.tables), *_own_texts(layout)]
    body = "\n".join(part.strip("\n") + "\n" for part in own if part)
    types = [piece.text for piece in pieces if not piece.is_function]
    functions = [piece.text for piece in pieces if piece.is_function]
    heads = [piece.head for piece in pieces if piece.is_function]
    heads += [activate_head(whole=layout.whole)] if code.activations else []
    return "\n".join([*types, *(f"{head};" for head in heads), *functions, body])


def map_pieces(layout: Layout) -> list[Piece]:
    """Return what the map takes from the library's C sources."""
    defined = {"grid_word", "grid_index"}
    defined |= {"grid_activate()"} if layout.map.activations else set()
    uses = uses_of("\n".join(_own_texts(layout)))
    return needed(("prepare.c", *layout.map.sources), uses, defined)


def _own_texts(layout: Layout) -> list[str]:
    return [activate_text(layout.map, whole=layout.whole), layout.map.text]


def _tables(layout: Layout) -> list[Table]:
    task = layout.task
    names = {"FINGERPRINT": task.features.fingerprint, "COURSE": task.course or "00" * 32}
    found = [
        Table("uint8_t", name, np.frombuffer(bytes.fromhex(one), np.uint8))
        for name, one in names.items()
    ]
    if layout.map.digits is not None:
        found.append(Table("int16_t", "FEATURE_DIGITS", layout.map.digits))
    if isinstance(task.preprocessing.scale, Scaler):
        found.append(Table("double", "SCALE_MEAN", task.preprocessing.scale.mean))
        found.append(Table("double", "SCALE_DIVISOR", task.preprocessing.scale.scale))
    return found


def table_bytes(layout: Layout) -> int:
    """Return the bytes of constants: the map's, and the device's own."""
    tables = sum(table.n_bytes for table in (*layout.map.tables, *_tables(layout)))
    return tables + struct_bytes(layout.map.text)


def code_bytes(layout: Layout) -> int:
    """Return the bytes of instructions, about, for an ARM Cortex-M4 compiled for size."""
    own = sum(_CODE[one] for one in _traits(layout))
    return own + bytes_of(map_traits(layout.map, map_pieces(layout)), whole=layout.whole)


def _traits(layout: Layout) -> list[str]:
    """Return what adds instructions to a device beside its map."""
    kind = "whole" if layout.whole else "float32"
    numbers = [f"numbers, {kind}"] if layout.task.classes is None else []
    kept, majority = ["kept"] * (layout.kept > 0), ["majority"] * layout.majority
    masks = ["masks"] * (layout.neighbors > 0)
    return [kind, f"scale {layout.scale}, {kind}", *numbers, *kept, *majority, *masks]

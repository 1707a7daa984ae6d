"""The C of a device that trains: constants, tables, and the pieces that it needs, as one file.

The C that writes what a device sends (descriptions of arrays, and the header's text) is taken from
an empty value of the library itself, so that a device's bytes cannot differ from a client's in
anything but the numbers.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

import catchment
from catchment.data import Preprocessing, Scaler
from catchment.features import FeatureMap
from catchment.federation.learn import FederatedScaling
from catchment.readout import SUMS, FixedPoint, RidgeStatistics, statistics_name
from catchment.wire import CHUNK, FEWEST, Message
from catchment_edge.c.code import bytes_of, map_traits, struct_bytes
from catchment_edge.c.map_code import Table, table_text
from catchment_edge.c.pieces import template
from catchment_edge.c.program import activate_text, joined, library_text, map_pieces
from catchment_edge.training.layout import PIECE, Layout

_NAMES = {
    "upload": ("counts", *SUMS),
    "moments": ("count", "total", "squares"),
    "autocovariances": ("counts", "products", "pairs", "missing", "squares", "crossed"),
}
GAPS = ("hold", "error", "restart")
SOURCES = resources.files("catchment_edge") / "sources"
_INCLUDE = re.compile(r'^#include ".*"\n', re.MULTILINE)
BASE = (
    *("bytes.h", "bytes.c", "wide.c", "sha256.h", "sha256.c", "crc32.c"),
    *("packing.h", "packing.c", "wire.h", "wire.c"),
)
# Bytes of instructions, measured with arm-none-eabi-gcc 12.2 -Os for a Cortex-M4F.
_CODE = {
    "device": 6080,
    "scale 0": 0,
    "scale 1": 120,
    "scale 2": 1420,
    "numbers": 530,
    "kept": 180,
    "majority": 60,
    "masks": 11060,
}
_MASKS = ("boxes.c", "hkdf.c", "shares.c", "masks.c")


def sums_parts(layout: Layout) -> Message:
    """Return the statistics of no rows, as they travel."""
    task, features = layout.task, layout.task.features
    fixed = FixedPoint.of(features, classes=task.classes is not None)
    name = statistics_name(features, row_stride=task.row_stride)
    return RidgeStatistics.zero(features.n_features, task.outputs, name, fixed).parts()


def moments_texts(scale: int, channels: int) -> list[str]:
    """Return what a device that is told its scale sends first: the moments of its samples."""
    empty = FederatedScaling(channels=channels).start().parts()
    found = [source("moments.c"), message_text("MOMENTS", empty, "moments")]
    return found if scale == 2 else []


def constants(
    features: FeatureMap, workflow: str, preprocessing: Preprocessing, *more: Table
) -> list[Table]:
    """Return what a device says of itself, more, and the scale if it has one."""
    names = {"FINGERPRINT": features.fingerprint, "COURSE": workflow or "00" * 32}
    found = [
        Table("uint8_t", name, np.frombuffer(bytes.fromhex(one), np.uint8))
        for name, one in names.items()
    ]
    if isinstance(preprocessing.scale, Scaler):
        mean, divisor = preprocessing.scale.mean, preprocessing.scale.scale
        more = (
            *more,
            Table("double", "SCALE_MEAN", mean),
            Table("double", "SCALE_DIVISOR", divisor),
        )
    return [*found, *more]


def serving_text(name: str) -> str:
    """Return the function that a firmware calls."""
    return f"void {name}_serve(void)\n{{\n    while (link_answer())\n        ;\n}}\n"


def message_text(name: str, parts: Message, prefix: str) -> str:
    """Return the tables of a message, whose numbers functions with a prefix give.

    >>> len(message_text("MOMENTS", FederatedScaling(channels=2).start().parts(), "moments"))
    308
    """
    lines = [f"static const struct wire_array {name}_ARRAYS[{len(parts.arrays)}] = {{"]
    for one, array in zip(_NAMES[prefix], parts.arrays, strict=True):
        whole = array.dtype == np.int64
        shape = ",".join(map(str, array.shape))
        described = _quoted(f'["{"i8" if whole else "f8"}",[{shape}]')
        lines.append(f"    {{{described}, {whole:d}, {array.size}, &{prefix}_{one}}},")
    header, begin = Message(parts.kind, parts.facts).to_bytes(), b'{"arrays":['
    after = header[header.index(begin) + len(begin) :].decode()
    lines += [
        "};",
        f"static const struct wire_message {name}_MESSAGE = {{{name}_ARRAYS, {len(parts.arrays)},",
        f"    {_quoted(after)}}};",
    ]
    return "\n".join(lines) + "\n"


def most_bytes(parts: Message, bits: Sequence[int]) -> int:
    """Return the most bytes of a message of these arrays, whose entries have so many bits.

    >>> most_bytes(Message("x", {}, (np.zeros(100, dtype=np.int64),)), [8])
    250
    """
    # The header says in how many bytes an array is packed, here perhaps with more digits.
    total = len(parts.to_bytes()) + 4 * len(parts.arrays)
    total -= sum(_packed(array, 0) for array in parts.arrays)
    return total + sum(_packed(array, n) for array, n in zip(parts.arrays, bits, strict=True))


def _packed(array: NDArray[Any], bits: int) -> int:
    """Return the bytes of an array, with a bit for the sign of each entry."""
    if array.dtype != np.int64 or array.size <= CHUNK:
        return int(array.nbytes)
    chunks = -(-array.size // CHUNK)
    return min(int(array.nbytes), chunks * (1 + 8 * max(FEWEST, bits + 1)))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def secret_text() -> str:
    """Return the header with a device's own secret, a new one each time."""
    numbers = ", ".join(map(str, secrets.token_bytes(32)))
    return (
        "/* The secret of one device: every device has another, and nobody else has it. */\n"
        f"static const uint8_t SECRET[32] = {{{numbers}}};\n"
    )


def source_text(layout: Layout) -> str:
    """Return the C file."""
    texts = _map_texts(layout)
    known = {"TITLE": title_of(layout.name), "NAME": layout.name}
    return joined(
        [
            template("training.c", {**known, "L": layout, "GAPS": GAPS, "PIECE": PIECE}),
            *map(source, BASE),
            library_text(layout.map, map_pieces(layout.map, texts)),
            *map(table_text, layout.map.tables),
            *texts,
            *map(table_text, _tables(layout)),
            source("sums.c"),
            source("upload.c"),
            message_text("SUMS", sums_parts(layout), "upload"),
            *moments_texts(layout.scale, layout.task.channels),
            *map(source, ("feed.c", "trained_readout.c", "link.c")),
            *map(source, _MASKS if layout.neighbors else ()),
            *map(source, ("single.c",) if layout.neighbors and layout.task.helper else ()),
            serving_text(layout.name),
        ]
    )


def header_of(name: str, channels: int, outputs: int, features: int, window: int) -> str:
    """Return the header: sizes, what the firmware calls, and what it gives."""
    sizes = {"CHANNELS": channels, "OUTPUTS": outputs, "FEATURES": features, "WINDOW": window}
    names = {"TITLE": title_of(name), "NAME": name, "UP": name.upper()}
    return template("device.h", {**sizes, **names})


def title_of(name: str) -> str:
    """Return the first line of a device's files."""
    return f"{name}: a device that trains, of catchment {catchment.__version__}, in C99."


def source(name: str) -> str:
    """Return a piece of C without what it includes of the others."""
    return _INCLUDE.sub("", (SOURCES / name).read_text(encoding="utf-8"))


def _map_texts(layout: Layout) -> list[str]:
    return [activate_text(layout.map), layout.map.text]


def _tables(layout: Layout) -> list[Table]:
    task = layout.task
    more = []
    if layout.neighbors and task.helper:
        key = np.frombuffer(bytes.fromhex(task.helper), np.uint8)
        more.append(Table("uint8_t", "HELPER", key))
    if layout.map.digits is not None:
        more.append(Table("int16_t", "FEATURE_DIGITS", layout.map.digits))
    return constants(task.features, task.workflow, task.preprocessing, *more)


def table_bytes(layout: Layout) -> int:
    """Return the bytes of constants: the map's, and the device's own."""
    tables = sum(table.n_bytes for table in (*layout.map.tables, *_tables(layout)))
    return tables + struct_bytes(layout.map.text)


def code_bytes(layout: Layout) -> int:
    """Return the bytes of instructions, about, for an ARM Cortex-M4 compiled for size."""
    own = sum(_CODE[one] for one in _traits(layout))
    pieces = map_pieces(layout.map, _map_texts(layout))
    return own + bytes_of(map_traits(layout.map, pieces))


def _traits(layout: Layout) -> list[str]:
    """Return what adds instructions to a device beside its map."""
    found = ["device", f"scale {layout.scale}"]
    found += ["numbers"] if layout.task.classes is None else []
    found += ["kept"] if layout.kept else []
    found += ["majority"] if layout.majority else []
    return [*found, *(["masks"] if layout.neighbors else [])]

"""The C of a device that trains: constants, tables, and the pieces that it needs, as one file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

import numpy as np

from catchment.arrays import Integers
from catchment.data.scaling import Scaler
from catchment.export.device.sums_form import SumsForm
from catchment.export.device.task import Task
from catchment.export.whole_map import IntegerLayer, IntegerMap, IntegerRows
from catchment.features.echo_state.state_map import EchoStateMap
from catchment.features.grid import digits_after_point
from catchment.readout.grid import Grid
from catchment.readout.statistics import SUMS, RidgeStatistics

NUMBERS = ("float32", "whole", "q15")  # as the hello says which it is
GAPS = ("hold", "error", "restart")
_SOURCES = resources.files("catchment.export") / "sources"
_INCLUDE = re.compile(r'^#include ".*"\n', re.MULTILINE)
_GRID_NAMES = (
    *("grid_round", "grid_activate", "grid_step", "grid_states", "grid_base_features"),
    *("grid_features", "grid_feature_rows", "grid_add_row"),
)
_POOLS = (None, "last", "mean", "mean_std", "max")


@dataclass(frozen=True)
class DeviceCode:
    """A file of C and its header."""

    source: str
    header: str


def device_code(task: Task, form: SumsForm, name: str) -> DeviceCode:
    """Return the C of a device; `name` begins every name that other files see."""
    pieces = [
        f'#include "{name}.h"\n',
        "".join(f"#define {one} {name}_{one}\n" for one in _GRID_NAMES),
        _settings(task, form),
        _source("grid.h"),
        _source("grid.c"),
        _map_tables(task),
        _task_tables(task),
        *map(_source, ("bytes.h", "bytes.c", "wide.c", "sha256.h", "sha256.c", "crc32.c")),
        *map(_source, ("packing.h", "packing.c", "wire.h", "wire.c")),
        _source("grid_stream.c"),
        _source("sums.c"),
        _source("upload.c"),
        _message("SUMS", *_sums_arrays(task)),
        *_moments(task),
        _source("feed.c"),
        _source("trained_readout.c"),
        _source("link.c"),
        f"void {name}_serve(void)\n{{\n    while (link_answer())\n        ;\n}}\n",
    ]
    return DeviceCode("\n".join(pieces), _header(task, name))


def _moments(task: Task) -> list[str]:
    """Return what measures inputs for a scale, where one is to be fitted."""
    if task.prepare.scale != "federated":
        return []
    return [_source("moments.c"), _message("MOMENTS", *_moments_arrays(task))]


def _source(name: str) -> str:
    return _INCLUDE.sub("", (_SOURCES / name).read_text(encoding="utf-8"))


def _header(task: Task, name: str) -> str:
    upper = name.upper()
    return f"""#ifndef {upper}_H
#define {upper}_H

#include <stdint.h>

#define {upper}_CHANNELS {task.channels}
#define {upper}_OUTPUTS {task.outputs}
#define {upper}_FEATURES {task.features.n_features}
#define {upper}_WINDOW {task.window}

/* Answers frames until the link is closed; what the device holds stays for the next call. */
void {name}_serve(void);

/* What the port gives: one byte of the link or of the sensor's line, and 0 when it is closed. */
int port_read(uint8_t *one);
void port_write(const uint8_t *bytes, uint32_t count);
int sensor_read(uint8_t *one);

#endif
"""


def _settings(task: Task, form: SumsForm) -> str:
    scale = {"none": 0, "federated": 2}.get(str(task.prepare.scale), 1)
    bits = task.features.grid or 0
    F = task.features.n_features
    values: dict[str, object] = {
        "NUMBER": NUMBERS.index("whole"),
        "WHOLE": 1,
        "CHANNELS": task.channels,
        "OUTPUTS": task.outputs,
        "FEATURES": F,
        "FEATURE_BITS": bits,
        "WEIGHT_BITS": min(30, 62 - bits - F.bit_length()),
        "CLASSES": int(task.classes is not None),
        "PER_STEP": int(task.per_step),
        "WASHOUT": task.washout,
        "WINDOW": task.window,
        "STEP": task.step,
        "BUFFERED": int(0 < task.step < task.window),
        "MAJORITY": int(task.window > 0 and task.prepare.label == "majority"),
        "GAPS": GAPS.index(task.prepare.gaps),
        "SCALE": scale,
        "MOST_ROWS": f"{form.most_rows}u",
        "GRAM": form.gram,
        "SUM": form.sum,
        "ROW": "int32_t",
        "INPUT": "int32_t",
    }
    return "".join(f"#define DEVICE_{key} {value}\n" for key, value in values.items())


def _map_tables(task: Task) -> str:
    features = task.features
    if not isinstance(features, EchoStateMap):
        raise ValueError(
            f"{type(features).__name__} has no form in C that trains yet; use an EchoState map"
        )
    map_ = IntegerMap.of(features)
    cut = _cut(map_, task)
    lines = [_layer(k, layer) for k, layer in enumerate(map_.layers)]
    lines.append(f"static const struct grid_layer LAYERS[{len(map_.layers)}] = {{")
    below = map_.n_inputs
    for k, layer in enumerate(map_.layers):
        lines.append(
            f"    {{{layer.n_units}, {below}, {layer.weight_digits}, "
            f"{{RECURRENT_STARTS_{k}, RECURRENT_COLUMNS_{k}, RECURRENT_{k}}}, "
            f"{{INPUT_STARTS_{k}, INPUT_COLUMNS_{k}, INPUT_{k}}}, "
            f"BIAS_{k}, LEAK_{k}, ACTIVATION_{k}}},"
        )
        below = layer.n_units
    base = len(map_.feature_digits)
    lines += [
        "};",
        _table("int8_t", "BASE_DIGITS", map_.feature_digits),
        f"static const struct grid_map MAP = {{{map_.digits}, {map_.leak_digits}, "
        f"{map_.n_inputs}, {map_.n_units}, {len(map_.layers)}, {cut[0]}, {cut[1]}, LAYERS, "
        f"{map_.bias:d}, {map_.input:d}, {map_.state:d}, {_POOLS.index(map_.pool)}, "
        f"{map_.segments}, {map_.washout}, {map_.feature_bits}, BASE_DIGITS}};",
        f"#define STREAM_UNITS {map_.n_units}",
        f"#define STREAM_BASE {base}",
        f"#define STREAM_POOLED {int(map_.pool is not None)}",
        f"#define STREAM_CUT {int(cut[0] > 0)}",
        f"#define STREAM_RANGE {features.reservoir.input_range!r}",
    ]
    return "\n".join(lines) + "\n"


def _cut(map_: IntegerMap, task: Task) -> tuple[int, int]:
    length, warmup = map_.cut
    if not length or 0 < task.window <= length:
        return 0, 0
    if warmup > length:
        raise ValueError(
            f"the reservoir is cut every {length} steps and warms up for {warmup}, and a device "
            "has room for one part ahead; use windows, or a reservoir that forgets sooner"
        )
    return length, warmup


def _layer(k: int, layer: IntegerLayer) -> str:
    def rows(name: str, of: IntegerRows) -> str:
        return (
            _table("uint32_t", f"{name}_STARTS_{k}", of.starts)
            + _table("grid_index", f"{name}_COLUMNS_{k}", of.columns)
            + _table("grid_word", f"{name}_{k}", of.values)
        )

    return (
        rows("RECURRENT", layer.recurrent)
        + rows("INPUT", layer.input)
        + _table("grid_word", f"BIAS_{k}", layer.bias)
        + _table("int32_t", f"LEAK_{k}", layer.leak)
        + _table("uint8_t", f"ACTIVATION_{k}", layer.activation)
    )


def _table(kind: str, name: str, values: Iterable[object]) -> str:
    words = [str(value) for value in values] or ["0"]
    lines, line = [], "   "
    for word in words:
        if len(line) + len(word) > 96:
            lines.append(line)
            line = "   "
        line += f" {word},"
    body = "\n".join([*lines, line])
    return f"static const {kind} {name}[{len(words)}] = {{\n{body}\n}};\n"


def _task_tables(task: Task) -> str:
    digits: Integers = digits_after_point(task.features.bounds, task.features.grid or 0)
    course = bytes.fromhex(task.course) if task.course else bytes(32)
    text = _table("int16_t", "FEATURE_DIGITS", digits)
    text += _table("uint8_t", "FINGERPRINT", bytes.fromhex(task.features.fingerprint))
    text += _table("uint8_t", "COURSE", course)
    if isinstance(task.prepare.scale, Scaler):
        scaler = task.prepare.scale
        text += _table("double", "SCALE_MEAN", map(_exact, scaler.mean))
        text += _table("double", "SCALE_DIVISOR", map(_exact, scaler.scale))
    return text


def _exact(value: float) -> str:
    """Return a float64 as C99 writes it without a rounding."""
    return float(value).hex()


def _sums_arrays(task: Task) -> tuple[str, list[tuple[str, bool, int, str]]]:
    """Return what stands after the arrays in the header, and every array of statistics."""
    grid = Grid.of(task.features, classes=task.classes is not None)
    empty = RidgeStatistics.zero(
        task.features.n_features, task.outputs, task.features.fingerprint, grid
    )
    return _arrays(empty, ["counts", *SUMS], "upload")


def _moments_arrays(task: Task) -> tuple[str, list[tuple[str, bool, int, str]]]:
    from catchment.federation.learn.input_scaling import FederatedScaling

    empty = FederatedScaling(channels=task.channels).start()
    return _arrays(empty, ["count", "total", "squares"], "moments")


def _arrays(
    empty: object, names: list[str], prefix: str
) -> tuple[str, list[tuple[str, bool, int, str]]]:
    from catchment.structure import taken_apart
    from catchment.wire import Parts

    parts = taken_apart(empty)
    header = Parts(parts.kind, parts.facts).to_bytes()
    begin = header.index(b'{"arrays":[]')
    rest = header[begin + len(b'{"arrays":[') :].decode()
    arrays = []
    for name, array in zip(names, parts.arrays, strict=True):
        whole = array.dtype == np.int64
        shape = ",".join(map(str, array.shape))
        described = f'["{"i8" if whole else "f8"}",[{shape}]'
        arrays.append((described, whole, array.size, f"{prefix}_{name}"))
    return rest, arrays


def _message(name: str, rest: str, arrays: list[tuple[str, bool, int, str]]) -> str:
    lines = [f"static const struct wire_array {name}_ARRAYS[{len(arrays)}] = {{"]
    lines += [
        f"    {{{_quoted(described)}, {whole:d}, {count}, {at}}},"
        for described, whole, count, at in arrays
    ]
    lines += [
        "};",
        f"static const struct wire_message {name}_MESSAGE = {{{name}_ARRAYS, {len(arrays)},",
        f"    {_quoted(rest)}}};\n",
    ]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

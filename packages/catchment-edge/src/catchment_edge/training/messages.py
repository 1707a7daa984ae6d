"""What a device sends, as the C that writes it: descriptions of arrays, and the header's text.

They are taken from an empty value of the library itself, so that a device's bytes cannot differ
from a client's in anything but the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.federation.learn import FederatedScaling
from catchment.readout import SUMS, Grid, RidgeStatistics, statistics_name
from catchment.wire import CHUNK, FEWEST, Message
from catchment_edge.training.layout import Layout

_NAMES = {"upload": ("counts", *SUMS), "moments": ("count", "total", "squares")}


def sums_parts(layout: Layout) -> Message:
    """Return the statistics of no rows, as they travel."""
    task, features = layout.task, layout.task.features
    grid = Grid.of(features, classes=task.classes is not None)
    name = statistics_name(features.fingerprint, row_stride=task.row_stride)
    return RidgeStatistics.zero(features.n_features, task.outputs, name, grid).parts()


def moments_parts(layout: Layout) -> Message:
    """Return the moments of no samples, as they travel."""
    return FederatedScaling(channels=layout.task.channels).start().parts()


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
    lines += [
        "};",
        f"static const struct wire_message {name}_MESSAGE = {{{name}_ARRAYS, {len(parts.arrays)},",
        f"    {_quoted(_after_arrays(parts))}}};",
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


def _after_arrays(parts: Message) -> str:
    """Return what stands after the arrays in a header."""
    message = Message(parts.kind, parts.facts).to_bytes()
    begin = b'{"arrays":['
    return message[message.index(begin) + len(begin) :].decode()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

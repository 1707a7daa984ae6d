"""Reading GGUF files of version 3: the header, and tensors of three storage types as numbers.

    magic "GGUF" | version u32 | tensors u64 | entries u64 | entries | tensor places | tensor bytes

Numbers are little-endian and strings carry their length. A tensor is stored in blocks of 32:

    F32    32 float32 numbers
    Q8_0   step float16, 32 signed codes of 8 bits                      number = step * code
    Q4_1   step float16, least float16, 32 codes of 4 bits              number = step * code + least

In Q4_1 the low halves of the 16 code bytes are numbers 0 to 15, and the high halves 16 to 31.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]
MAX_ENTRIES = 1 << 24  # a lying count must not cost memory
BLOCK = 32
_STRING, _LIST = 8, 9
_NUMBERS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


@dataclass(frozen=True)
class Head:
    """What the header says of a tensor."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the file, how it is stored, and its shape."""

    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


@dataclass(frozen=True, eq=False)
class GgufFile:
    """A GGUF file whose header has been read; tensors are read when asked for."""

    path: Path
    entries: Mapping[str, Any]
    places: Mapping[str, Place]

    @classmethod
    def open(cls, path: Path) -> GgufFile:
        """Return the file; IntegrityError if its header is damaged or of an unknown kind."""
        data = np.memmap(path, dtype=np.uint8, mode="r")
        cursor = _Cursor(data, path)
        if bytes(cursor.take(4)) != b"GGUF" or cursor.number("<I") != 3:
            raise IntegrityError(f"{path} is not a GGUF file of version 3; get a fresh copy")
        n_tensors, n_entries = cursor.count(), cursor.count()
        entries = {cursor.text(): cursor.value(cursor.number("<I")) for _ in range(n_entries)}
        heads = [_head(cursor) for _ in range(n_tensors)]
        alignment = int(entries.get("general.alignment", 32))
        base = -(-cursor.at // alignment) * alignment
        places = {head.name: _place(path, head, base, len(data)) for head in heads}
        return cls(path, entries, places)

    def tensor(self, name: str) -> Floats:
        """Return a tensor as float32, its last axis the one that is contiguous in the file."""
        place = self.places[name]
        raw = np.fromfile(self.path, np.uint8, place.size, offset=place.start)
        return _STORED[place.kind][2](raw).reshape(place.shape)


def from_float32(raw: Bytes) -> Floats:
    """Return the numbers of F32 storage."""
    return raw.view("<f4").astype(np.float32)


def from_q8_0(raw: Bytes) -> Floats:
    """Return the numbers of Q8_0 storage, 34 bytes for each 32.

    >>> step = np.array([0.5], "<f2").view(np.uint8)
    >>> from_q8_0(np.concatenate([step, np.arange(32, dtype=np.uint8)]))[:4]
    array([0. , 0.5, 1. , 1.5], dtype=float32)
    """
    blocks = raw.reshape(-1, 2 + BLOCK)
    step = blocks[:, :2].copy().view("<f2").astype(np.float32)
    codes: NDArray[np.int8] = blocks[:, 2:].copy().view(np.int8)
    return (step * codes).ravel()


def from_q4_1(raw: Bytes) -> Floats:
    """Return the numbers of Q4_1 storage, 20 bytes for each 32.

    >>> head = np.array([0.5, -1.0], "<f2").view(np.uint8)
    >>> numbers = from_q4_1(np.concatenate([head, np.full(16, 0x42, np.uint8)]))
    >>> numbers[0], numbers[16]
    (np.float32(0.0), np.float32(1.0))
    """
    blocks = raw.reshape(-1, 4 + BLOCK // 2)
    head = blocks[:, :4].copy().view("<f2").astype(np.float32)
    codes = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
    return (head[:, :1] * codes.astype(np.float32) + head[:, 1:]).ravel()


# Storage type: its name, bytes of a block of 32 numbers, and what reads it.
_STORED: dict[int, tuple[str, int, Callable[[Bytes], Floats]]] = {
    0: ("F32", 4 * BLOCK, from_float32),
    3: ("Q4_1", 4 + BLOCK // 2, from_q4_1),
    8: ("Q8_0", 2 + BLOCK, from_q8_0),
}


@final
class _Cursor:
    """A place in a file's bytes that moves on as they are read, and never past their end."""

    def __init__(self, data: Bytes, path: Path) -> None:
        self.data, self.path, self.at = data, path, 0

    def take(self, n: int) -> Bytes:
        if n > len(self.data) - self.at:
            raise IntegrityError(f"{self.path} ends in the middle of its header; get a fresh copy")
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)).tobytes())[0]

    def count(self) -> int:
        n = int(self.number("<Q"))
        if n > MAX_ENTRIES:
            raise IntegrityError(f"{self.path} claims {n} entries; get a fresh copy")
        return n

    def text(self) -> str:
        return self.take(int(self.number("<Q"))).tobytes().decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _LIST:
            inner, n = self.number("<I"), self.count()
            return [self.value(inner) for _ in range(n)]
        if kind not in _NUMBERS:
            raise IntegrityError(f"{self.path} has an entry of unknown type {kind}")
        return self.number(_NUMBERS[kind])


def _head(cursor: _Cursor) -> Head:
    name = cursor.text()
    sizes = [int(cursor.number("<Q")) for _ in range(cursor.number("<I"))]
    return Head(name, tuple(reversed(sizes)), cursor.number("<I"), int(cursor.number("<Q")))


def _place(path: Path, head: Head, base: int, end: int) -> Place:
    if head.kind not in _STORED:
        known = ", ".join(entry[0] for entry in _STORED.values())
        raise IntegrityError(
            f"{head.name} in {path} is stored as type {head.kind}; only {known} are read"
        )
    n = math.prod(head.shape)
    size = 4 * n if head.kind == 0 else n // BLOCK * _STORED[head.kind][1]
    start = base + head.offset
    if (head.kind != 0 and n % BLOCK) or start + size > end:
        raise IntegrityError(f"{head.name} does not fit into {path}; get a fresh copy")
    return Place(head.shape, head.kind, start, size)

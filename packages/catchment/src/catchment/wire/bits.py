"""Whole numbers in as many bits as they need: 64 of them at a time, in planes of one bit each.

    widths, one byte for every 64 numbers | planes, eight bytes each, little-endian

A number v stands as the pattern 2 v, or -2 v - 1 if it is negative, so that small numbers of either
sign have few bits. 64 patterns make a chunk, the last one filled up with zeros; its width is the
number of bits of the largest, but at least FEWEST. Plane j of a chunk holds bit j of its patterns,
the first pattern in the lowest bit. Equal numbers give equal bytes, and no other bytes are read: a
width that could be smaller, or anything in the filling, is refused. FEWEST keeps what a message
unfolds to below sixteen times its own length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError

CHUNK = 64
FEWEST = 4
_PLANE = 8  # bytes


def packed(numbers: NDArray[np.int64]) -> bytes:
    """Return whole numbers of any shape in as few bits as each chunk needs.

    >>> len(packed(np.arange(-100, 100)))  # 4 chunks of 8 bits in place of 1600 bytes
    252
    """
    from catchment.wire.bit_kernels import pack

    v = np.ascontiguousarray(numbers, dtype=np.int64).reshape(-1)
    widths = np.empty(_chunks(v.size), dtype=np.uint8)
    planes = np.empty(CHUNK * len(widths), dtype=np.uint64)
    n_planes = pack(v, FEWEST, widths, planes)
    return widths.tobytes() + planes[:n_planes].astype("<u8", copy=False).tobytes()


def unpacked(content: memoryview, n: int) -> NDArray[np.int64]:
    """Return n whole numbers (n,) from their packed form; IntegrityError if it is none.

    >>> unpacked(memoryview(packed(np.arange(-100, 100))), 200)[:3]
    array([-100,  -99,  -98])
    """
    from catchment.wire.bit_kernels import unpack

    n_chunks = _chunks(n)
    check_length(n, len(content))
    widths = np.frombuffer(content[:n_chunks], dtype=np.uint8)
    n_planes = int(widths.sum(dtype=np.int64))
    if widths.min() < FEWEST or widths.max() > 64 or len(content) != n_chunks + _PLANE * n_planes:
        raise IntegrityError(f"{len(content)} bytes of packed numbers do not fit their own widths")
    # A copy: a message need not lie where a word of eight bytes may.
    planes = np.frombuffer(bytes(content[n_chunks:]), dtype="<u8").astype(np.uint64, copy=False)
    numbers = np.empty(n, dtype=np.int64)
    match unpack(widths, planes, FEWEST, numbers):
        case 1:
            raise IntegrityError("packed numbers take more bits than they need")
        case 2:
            raise IntegrityError("packed numbers go on after the last one")
    return numbers


def check_length(n: int, n_bytes: int) -> None:
    """Refuse a number of bytes that cannot hold n packed numbers, before anything is made of it.

    >>> check_length(10**12, 1000)
    Traceback (most recent call last):
    catchment.errors.IntegrityError: 1000 bytes cannot be 1000000000000 packed numbers
    """
    least = _chunks(n) * (1 + _PLANE * FEWEST)
    if n <= CHUNK or not least <= n_bytes < 8 * n:
        raise IntegrityError(f"{n_bytes} bytes cannot be {n} packed numbers")


def _chunks(n: int) -> int:
    return -(-n // CHUNK)

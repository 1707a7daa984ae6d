"""Integers in as many bits as they need: 64 of them at a time, in planes of one bit each.

    widths, one byte for every 64 numbers | planes, eight bytes each, little-endian

A number v stands as the pattern 2 v, or -2 v - 1 if it is negative, so that small numbers of either
sign have few bits. 64 patterns make a chunk, the last one filled up with zeros; its width is the
number of bits of the largest, but at least FEWEST. Plane j of a chunk holds bit j of its patterns,
the first pattern in the lowest bit. Equal numbers give equal bytes, and no other bytes are read: a
width that could be smaller, or anything in the filling, is refused. FEWEST keeps what a message
unfolds to below sixteen times its own length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.compiling import njit
from catchment.errors import IntegrityError
from catchment.wire.messages import CHUNK, FEWEST, PLANE, check_length

_ONE, _FIRST = np.uint64(1), np.uint64(0xFFFFFFFF)


def packed(numbers: NDArray[np.int64]) -> memoryview:
    """Return integers of any shape in as few bits as each chunk needs, as bytes.

    >>> len(packed(np.arange(-100, 100)))  # 4 chunks of 8 bits in place of 1600 bytes
    252
    """
    v = np.ascontiguousarray(numbers, dtype=np.int64).reshape(-1)
    widths = np.empty(-(-v.size // CHUNK), dtype=np.uint8)
    ahead = -(-len(widths) // PLANE)  # words for the widths, whose last byte ends the last of them
    words = np.empty(ahead + CHUNK * len(widths), dtype=np.uint64)
    end = ahead + pack(v, FEWEST, widths, words[ahead:])
    content, first = words[:end].astype("<u8", copy=False).view(np.uint8), PLANE * ahead
    content[first - len(widths) : first] = widths
    return content[first - len(widths) :].data


def unpacked(content: memoryview, n: int) -> NDArray[np.int64]:
    """Return n integers (n,) from their packed form; IntegrityError if it is none.

    >>> unpacked(memoryview(packed(np.arange(-100, 100))), 200)[:3]
    array([-100,  -99,  -98])
    """
    n_chunks = -(-n // CHUNK)
    check_length(n, len(content))
    widths = np.frombuffer(content[:n_chunks], dtype=np.uint8)
    n_planes = int(widths.sum(dtype=np.int64))
    if widths.min() < FEWEST or widths.max() > 64 or len(content) != n_chunks + PLANE * n_planes:
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


@njit(cache=True)
def pack(numbers: Any, fewest: int, widths: Any, planes: Any) -> int:
    """Fill the width of each chunk and its planes, one after the other; return their number.

    `planes` is a uint64 vector with room for 64 of each chunk.
    """
    n, used = len(numbers), 0
    for chunk in range(len(widths)):
        words, part = planes[used : used + 64], numbers[64 * chunk : min(64 * chunk + 64, n)]
        every = np.uint64(0)
        for k in range(len(part)):
            v = part[k]
            words[k] = (np.uint64(v) << _ONE) ^ np.uint64(v >> np.int64(63))
            every |= words[k]
        words[len(part) :] = 0
        width = 0
        while every:
            every >>= _ONE
            width += 1
        width = max(width, fewest)
        _turn(words, width)
        widths[chunk] = width
        used += width
    return used


@njit(cache=True)
def unpack(widths: Any, planes: Any, fewest: int, numbers: Any) -> int:
    """Fill the numbers; return 0, 1 if a width could be smaller, 2 if the filling is not empty."""
    words = np.empty(64, np.uint64)
    n, used = len(numbers), 0
    for chunk in range(len(widths)):
        width = int(widths[chunk])
        for k in range(64):
            words[k] = planes[used + k] if k < width else np.uint64(0)
        used += width
        if width > fewest and words[width - 1] == 0:
            return 1
        _turn(words, 64)
        start = 64 * chunk
        for k in range(64):
            word = words[k]
            if start + k < n:
                numbers[start + k] = np.int64((word >> _ONE) ^ (~(word & _ONE) + _ONE))
            elif word != 0:
                return 2
    return 0


@njit(cache=True)
def _turn(words: Any, width: int) -> None:
    """Turn 64 words of so many bits about the diagonal, by exchanging halves at six scales."""
    j, mask = 32, _FIRST
    while j:
        shift = np.uint64(j)
        for begin in range(0, width, 2 * j):
            for k in range(begin, begin + j):
                moved = ((words[k] >> shift) ^ words[k + j]) & mask
                words[k + j] ^= moved
                words[k] ^= moved << shift
        j >>= 1
        mask ^= mask << np.uint64(j)

"""The compiled half of `catchment.wire.bits`: 64 numbers to planes of one bit each, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from catchment.compiling import njit

_ONE, _FIRST = np.uint64(1), np.uint64(0xFFFFFFFF)


@njit(cache=True)
def pack(numbers: Any, fewest: int, widths: Any, planes: Any) -> int:
    """Fill the width of each chunk and its planes, one after the other; return their number.

    `planes` is a uint64 vector with room for 64 of each chunk.
    """
    words = np.empty(64, np.uint64)
    n, used = len(numbers), 0
    for chunk in range(len(widths)):
        start = 64 * chunk
        every = np.uint64(0)
        for k in range(64):
            word = np.uint64(0)
            if start + k < n:
                v = numbers[start + k]
                word = (np.uint64(v) << _ONE) ^ np.uint64(v >> np.int64(63))
            words[k] = word
            every |= word
        width = 0
        while every:
            every >>= _ONE
            width += 1
        width = max(width, fewest)
        _turn(words)
        widths[chunk] = width
        for k in range(width):
            planes[used + k] = words[k]
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
        _turn(words)
        start = 64 * chunk
        for k in range(64):
            word = words[k]
            if start + k < n:
                numbers[start + k] = np.int64((word >> _ONE) ^ (~(word & _ONE) + _ONE))
            elif word != 0:
                return 2
    return 0


@njit(cache=True)
def _turn(words: Any) -> None:
    """Turn 64 words of 64 bits about the diagonal, by exchanging halves at six scales."""
    j, mask = 32, _FIRST
    while j:
        shift = np.uint64(j)
        for begin in range(0, 64, 2 * j):
            for k in range(begin, begin + j):
                moved = ((words[k] >> shift) ^ words[k + j]) & mask
                words[k + j] ^= moved
                words[k] ^= moved << shift
        j >>= 1
        mask ^= mask << np.uint64(j)

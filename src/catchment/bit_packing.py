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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError

CHUNK = 64
FEWEST = 4
_PLANE = 8  # bytes
# A matrix of 8 x 8 bits in a word is turned by exchanging halves, at three scales.
_TURNS = tuple(
    (np.uint64(mask), np.uint64(shift))
    for mask, shift in ((0x00AA00AA00AA00AA, 7), (0x0000CCCC0000CCCC, 14), (0xF0F0F0F0, 28))
)

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def packed(numbers: NDArray[np.int64]) -> bytes:
    """Return whole numbers of any shape in as few bits as each chunk needs.

    >>> len(packed(np.arange(-100, 100)))  # 4 chunks of 8 bits in place of 1600 bytes
    252
    """
    v = np.ascontiguousarray(numbers, dtype=np.int64).reshape(-1)
    n_chunks = _chunks(v.size)
    patterns = np.zeros(n_chunks * CHUNK, dtype=np.uint64)
    np.left_shift(v.view(np.uint64), np.uint64(1), out=patterns[: v.size])
    patterns[: v.size] ^= (v >> 63).view(np.uint64)
    chunks = patterns.reshape(n_chunks, CHUNK)
    widths = np.maximum(_bit_lengths(np.bitwise_or.reduce(chunks, axis=1)), FEWEST)
    n_bytes = _bytes_wide(widths)
    columns = _as_bytes(chunks).reshape(n_chunks, 8, 8, 8)[..., :n_bytes]
    turned = _turned(_as_words(columns.transpose(0, 3, 1, 2)))
    planes = _as_bytes(turned).reshape(n_chunks, n_bytes, 8, 8).transpose(0, 1, 3, 2)
    lines = np.ascontiguousarray(planes).reshape(n_chunks, 8 * n_bytes, _PLANE)
    return widths.astype(np.uint8).tobytes() + lines[_kept(widths, n_bytes)].tobytes()


def unpacked(content: memoryview, n: int) -> NDArray[np.int64]:
    """Return n whole numbers (n,) from their packed form; IntegrityError if it is none.

    >>> unpacked(memoryview(packed(np.arange(-100, 100))), 200)[:3]
    array([-100,  -99,  -98])
    """
    n_chunks = _chunks(n)
    check_length(n, len(content))
    widths = np.frombuffer(content[:n_chunks], dtype=np.uint8).astype(np.int64)
    n_planes = int(widths.sum())
    if widths.min() < FEWEST or widths.max() > 64 or len(content) != n_chunks + _PLANE * n_planes:
        raise IntegrityError(f"{len(content)} bytes of packed numbers do not fit their own widths")
    n_bytes = _bytes_wide(widths)
    lines = np.zeros((n_chunks, 8 * n_bytes, _PLANE), dtype=np.uint8)
    lines[_kept(widths, n_bytes)] = np.frombuffer(content[n_chunks:], np.uint8).reshape(-1, _PLANE)
    top = lines[np.arange(n_chunks), widths - 1]
    if not (top.any(axis=1) | (widths == FEWEST)).all():
        raise IntegrityError("packed numbers take more bits than they need")
    planes = lines.reshape(n_chunks, n_bytes, 8, 8).transpose(1, 0, 3, 2)
    columns = _as_bytes(_turned(_as_words(planes))).reshape(n_bytes, n_chunks * CHUNK)
    patterns = columns[-1].astype(np.uint64)
    for column in columns[-2::-1]:
        patterns <<= np.uint64(8)
        patterns |= column
    if patterns[n:].any():
        raise IntegrityError("packed numbers go on after the last one")
    patterns = patterns[:n]
    negative = np.negative(patterns & np.uint64(1))
    patterns >>= np.uint64(1)
    patterns ^= negative
    numbers: NDArray[np.int64] = patterns.view(np.int64)
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


def _bytes_wide(widths: NDArray[np.int64]) -> int:
    return -(-int(widths.max()) // 8)


def _kept(widths: NDArray[np.int64], n_bytes: int) -> NDArray[np.bool_]:
    """Return which of the planes (n_chunks, 8 n_bytes) travel."""
    kept: NDArray[np.bool_] = np.arange(8 * n_bytes) < widths[:, None]
    return kept


def _as_bytes(words: Words) -> Bytes:
    return words.astype("<u8", copy=False).view(np.uint8)


def _as_words(rows: NDArray[Any]) -> Words:
    """Return rows (..., 8) of bytes as words (...), the first byte lowest."""
    return np.ascontiguousarray(rows).view("<u8")[..., 0].astype(np.uint64, copy=False)


def _turned(words: Words) -> Words:
    """Return words with their 8 x 8 bits turned about the diagonal, in place."""
    for mask, shift in _TURNS:
        moved = words >> shift
        moved ^= words
        moved &= mask
        words ^= moved
        moved <<= shift
        words ^= moved
    return words


def _bit_lengths(words: Words) -> NDArray[np.int64]:
    """Return how many bits each word has, 0 for 0."""
    n_bits, rest = np.zeros(len(words), dtype=np.int64), words
    for shift in (32, 16, 8, 4, 2, 1):
        above = rest >> np.uint64(shift)
        n_bits += shift * (above != 0)
        rest = np.where(above != 0, above, rest)
    n_bits += rest != 0
    return n_bits

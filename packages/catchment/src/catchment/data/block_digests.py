"""Which data a server's budget was spent on: digests of stretches, so that overlaps are found.

A recording gives one digest for all that it is, with its targets and its weight, and one for every
stretch of it, so that one that has grown, or has other targets, shares most of its digests with
what it was. Stretches are of all channels from the start, and of each channel by itself, cut where
its own values say: one that lost its first steps, or other channels, is cut at the same places. A
stretch of hardly any different values, which hardly changes, is left out, because other recordings
have it, too.

A recording of fewer steps than the shortest stretch of 16 that has changed within shares nothing
with what it was, and one of fewer than 256 may not; others of the same client's still do.

The digests are for a client's own use: of data that can be guessed they would tell whether the
guess is right.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording

FIRST = 16  # steps of the first stretch
STRETCH = 256
FEWEST_VALUES = 8  # different ones, in a stretch that tells recordings apart,
FEWEST_CHANGES = 24  # or so many steps after which a value is another: levels, or on and off
TOGETHER = 8  # values that say where a channel is cut
DIGEST_BYTES = 8


def block_digests(item: object) -> Iterator[bytes]:
    """Yield the digests (8,) of a recording and its stretches, or the one of anything else.

    >>> before = Recording(np.sin(np.arange(900.0)))
    >>> grown, moved = Recording(np.sin(np.arange(910.0))), before.part(1, 900)
    >>> known = set(block_digests(before))
    >>> [len(known & set(block_digests(other))) > 5 for other in (grown, moved)]
    [True, True]
    """
    yield digest_of(item)
    if not isinstance(item, Recording):
        return
    for start, end in _stretches(len(item.u)):
        if _tells(item.u[start:end]):
            yield _digest([b"all", item.u[start:end].tobytes()])
    for channel in np.ascontiguousarray(item.u.T):
        cuts = _own_cuts(channel)
        for start, end in zip((0, *cuts), (*cuts, len(channel)), strict=True):
            if end - start >= FEWEST_VALUES and _tells(channel[start:end]):
                yield _digest([b"one", channel[start:end].tobytes()])


def digest_of(item: object) -> bytes:
    """Return the digest (8,) of a recording with its targets and weight, or of anything else.

    >>> digest_of(Recording([1.0], name="a")) == digest_of(Recording([1.0], name="b"))
    True
    """
    if isinstance(item, Recording):
        item = (item.u, item.y, item.weight, item.per_step)
    return _digest(_pieces(item))


def _stretches(n_steps: int) -> Iterator[tuple[int, int]]:
    yield 0, min(FIRST, n_steps)
    yield 0, min(4 * FIRST, n_steps)
    for start in range(0, n_steps, STRETCH):
        yield start, min(start + STRETCH, n_steps)


def _tells(stretch: Array) -> bool:
    n_changes = int(np.count_nonzero(stretch[1:] != stretch[:-1]))
    return n_changes >= FEWEST_CHANGES or len(set(stretch.ravel().tolist())) >= FEWEST_VALUES


def _own_cuts(channel: Array) -> list[int]:
    """Return where a channel is cut, about every 64 steps: after values whose hash ends so.

    Of a few values together: a channel of a few levels has too few that differ.
    """
    values = channel.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(29)
    mixed = values.copy()
    for back in range(1, min(TOGETHER, len(values))):
        mixed[back:] += values[:-back] * np.uint64(0xD6E8FEB86659FD93 ** (back + 1) % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    cuts: list[int] = (np.flatnonzero(mixed >> np.uint64(58) == 0) + 1).tolist()
    return cuts


def _digest(pieces: Iterable[bytes]) -> bytes:
    content = hashlib.sha256()
    for piece in pieces:
        content.update(struct.pack("<Q", len(piece)))
        content.update(piece)
    return content.digest()[:DIGEST_BYTES]


def _pieces(item: object) -> Iterator[bytes]:
    """Yield the bytes of all that an example holds: arrays, texts, numbers, and what holds them."""
    match item:
        case None | bool() | int() | float() | str():
            yield repr(item).encode()
        case bytes():
            yield item
        case Mapping():
            for key, value in item.items():
                yield from _pieces(key)
                yield from _pieces(value)
        case tuple() | list():
            for value in item:
                yield from _pieces(value)
        case _ if is_dataclass(item) and not isinstance(item, type):
            for field in fields(item):
                yield from _pieces(getattr(item, field.name))
        case _:
            array = np.asarray(item)
            yield f"{array.dtype.str} {array.shape}".encode()
            yield repr(item).encode() if array.dtype.hasobject else array.tobytes()

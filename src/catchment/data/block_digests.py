"""Which data a release was about: digests of short stretches, so that overlaps are found.

A recording gives one digest for its first steps and one for every stretch of 256, so that one that
has grown since shares most of its digests with what it was. The digests are for a client's own
use: of data that can be guessed they would tell whether the guess is right.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass

import numpy as np

from catchment.data.recording import Recording

FIRST = 16  # steps of the first stretch
STRETCH = 256
DIGEST_BYTES = 8


def block_digests(item: object) -> Iterator[bytes]:
    """Yield the digests (8,) of a recording, stretch by stretch, or the one of anything else.

    >>> short, grown = Recording(np.arange(300.0)), Recording(np.arange(310.0))
    >>> before, after = set(block_digests(short)), set(block_digests(grown))
    >>> len(before), len(after), len(before & after)
    (3, 3, 2)
    """
    if not isinstance(item, Recording):
        yield _digest(_pieces(item))
        return
    whole = b"" if item.y is None or item.per_step else item.y.tobytes()
    for start, end in _stretches(len(item.u)):
        steps = item.u[start:end].tobytes()
        targets = item.y[start:end].tobytes() if item.y is not None and item.per_step else whole
        yield _digest([struct.pack("<dQ", item.weight, item.u.shape[1]), steps, targets])


def digest_of_blocks(blocks: Iterable[bytes]) -> str:
    """Return the SHA-256 of a set of digests, in hexadecimal, whatever their order.

    >>> digest_of_blocks([b"a", b"b"]) == digest_of_blocks([b"b", b"a", b"a"])
    True
    """
    return hashlib.sha256(b"".join(sorted(set(blocks)))).hexdigest()


def _stretches(n_steps: int) -> Iterator[tuple[int, int]]:
    yield 0, min(FIRST, n_steps)
    for start in range(0, n_steps, STRETCH):
        yield start, min(start + STRETCH, n_steps)


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

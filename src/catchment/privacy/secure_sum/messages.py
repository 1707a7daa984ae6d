"""What the messages of a secure sum hold: sets of clients as bits, and a value's shape in clear."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.errors import IntegrityError
from catchment.privacy.secure_sum.shamir import PRIME, SHARE_BYTES
from catchment.wire import Fact, Parts

Bytes = NDArray[np.uint8]

_TYPES = ("f8", "f4", "i8", "u8", "u4", "i1", "u1")


def as_bits(members: Collection[int], n_clients: int) -> Bytes:
    """Return a set of clients' places as bits (ceil(n_clients / 8),).

    >>> as_bits({0, 9}, 10)
    array([128,  64], dtype=uint8)
    """
    marks = np.zeros(n_clients, dtype=np.uint8)
    marks[sorted(members)] = 1
    return np.packbits(marks)


def from_bits(bits: NDArray[Any], n_clients: int) -> tuple[int, ...]:
    """Return the places that bits stand for; IntegrityError if there is a place too many.

    >>> from_bits(np.array([128, 64], dtype=np.uint8), 10)
    (0, 9)
    """
    if bits.dtype != np.uint8 or bits.shape != ((n_clients + 7) // 8,):
        raise IntegrityError(f"a set of clients came as {bits.shape} of {bits.dtype}")
    marks = np.unpackbits(bits)
    if marks[n_clients:].any():
        raise IntegrityError("a set of clients names one that is not registered")
    return tuple(int(place) for place in np.flatnonzero(marks[:n_clients]))


def rows(pieces: Iterable[bytes], width: int) -> Bytes:
    """Return byte strings of one width as rows (n, width)."""
    return np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(-1, width)


def from_rows(array: NDArray[Any], n_rows: int, width: int) -> list[bytes]:
    """Return rows as byte strings; IntegrityError if there are other than expected.

    >>> from_rows(rows([b"ab", b"cd"], 2), 2, 2)
    [b'ab', b'cd']
    """
    if array.dtype != np.uint8 or array.shape != (n_rows, width):
        raise IntegrityError(
            f"{n_rows} rows of {width} bytes were expected, {array.shape} of {array.dtype} came"
        )
    return [row.tobytes() for row in array]


def share_bytes(share: int) -> bytes:
    """Return a share as 66 bytes."""
    return share.to_bytes(SHARE_BYTES, "little")


def share_from(content: bytes) -> int:
    """Return the share of 66 bytes; IntegrityError if it is none.

    >>> share_from(share_bytes(42))
    42
    """
    share = int.from_bytes(content, "little")
    if len(content) != SHARE_BYTES or share >= PRIME:
        raise IntegrityError("a share does not lie in its field")
    return share


@dataclass(frozen=True, eq=False)
class Outline:
    """A value without its numbers: kind, facts, and the type and shape of each array."""

    kind: str
    facts: Fact
    arrays: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, parts: Parts) -> Outline:
        """Return the outline of a value.

        >>> Outline.of(Parts("pair", {}, (np.zeros((2, 3)),))).length
        6
        """
        return cls(parts.kind, parts.facts, tuple((a.dtype.str[1:], a.shape) for a in parts.arrays))

    @classmethod
    def from_fact(cls, fact: Fact) -> Outline:
        """Return the outline that `fact` made; IntegrityError if it is malformed."""
        match fact:
            case {"kind": str(kind), "facts": dict(facts), "arrays": list(listed)}:
                return cls(kind, facts, tuple(_described(entry) for entry in listed))
        raise IntegrityError("an upload does not say what it is")

    def fact(self) -> Fact:
        arrays: list[Fact] = [[code, list(shape)] for code, shape in self.arrays]
        return {"kind": self.kind, "facts": self.facts, "arrays": arrays}

    @property
    def length(self) -> int:
        return sum(math.prod(shape) for _, shape in self.arrays)

    def digest(self) -> bytes:
        """Return the SHA-256 (32,) of the outline."""
        text = json.dumps(self.fact(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).digest()

    def fill(self, vector: Array) -> Parts:
        """Return the value whose numbers are a vector (length,).

        >>> pair = Parts("pair", {}, (np.array([1.0, 2.0]), np.array([3])))
        >>> Outline.of(pair).fill(flat(pair)).arrays
        (array([1., 2.]), array([3]))
        """
        arrays, start = [], 0
        for code, shape in self.arrays:
            size = math.prod(shape)
            numbers = vector[start : start + size].reshape(shape)
            arrays.append(_as_type(numbers, np.dtype(code)))
            start += size
        facts = self.facts if isinstance(self.facts, dict) else {}
        return Parts(self.kind, facts, tuple(arrays))


def content_digest(outline: Outline, numbers: NDArray[Any]) -> bytes:
    """Return the SHA-256 of an outline and of numbers (limbs, L), one after the other (64,)."""
    little = np.ascontiguousarray(numbers, dtype="<u8")
    return outline.digest() + hashlib.sha256(little.data).digest()


def flat(parts: Parts) -> Array:
    """Return all numbers of a value as one vector; ValueError if a whole number does not fit."""
    for array in parts.arrays:
        if array.dtype.kind in "iu" and array.size and int(np.abs(array).max()) > 2**53:
            raise ValueError("a count is above 2^53; it cannot be summed exactly")
    numbers: Sequence[Array] = [array.astype(np.float64).ravel() for array in parts.arrays]
    return np.concatenate(numbers) if numbers else np.zeros(0)


def _as_type(numbers: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        return numbers.astype(dtype)
    if dtype.itemsize < 8 and numbers.size:
        # A sum of small counts may need more room than each of them.
        dtype = np.dtype(np.int64)
    return np.rint(numbers).astype(dtype)


def _described(entry: Fact) -> tuple[str, tuple[int, ...]]:
    match entry:
        case [str(code), list(shape)] if code in _TYPES and len(shape) <= 8:
            if all(type(size) is int and 0 <= size < 2**32 for size in shape):
                return code, tuple(shape)
    raise IntegrityError(f"an upload describes an array as {str(entry)[:80]}")

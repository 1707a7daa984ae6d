"""What the messages of secure aggregation hold: sets of clients as bits, and a value's shape in
clear.

Who is left out when clients say that boxes of others do not open.

Of two clients, one that complains and one that is complained of, one is at fault, and nobody can
see which: the box is for one reader. So the client with the most conflicts is left out, again and
again until none is left; at a tie the one that is complained of. A sender of bad boxes has many
conflicts, and so has a client that complains of many; each costs the round itself alone. A client
with a single conflict can cost the round one other client.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Integers
from catchment.errors import IntegrityError
from catchment.privacy.secure_aggregation.ring import (
    PRIME,
    SHARE_BYTES,
    Residues,
    Ring,
    decode,
    decode_whole,
    encode,
    encode_whole,
)
from catchment.wire import Fact, Message
from catchment.wire.messages import MAX_DEPTH

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


def cut(whole: bytes, width: int) -> list[bytes]:
    """Return pieces of one width.

    >>> cut(b"abcd", 2)
    [b'ab', b'cd']
    """
    return [whole[start : start + width] for start in range(0, len(whole), width)]


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
    def of(cls, parts: Message) -> Outline:
        """Return the outline of a value.

        >>> Outline.of(Message("pair", {}, (np.zeros((2, 3)),))).length
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

    @property
    def is_whole(self) -> bool:
        """Whether all numbers are whole: those of every part, as its grid says.

        >>> grid, counts = {"grid": "[8,[[2,8]],0]"}, np.array([3.0])
        >>> Outline.of(Message("sums", grid, (counts, np.array([1, 2])))).is_whole
        True
        >>> Outline.of(Message("sums", grid, (counts, np.array([1.5, 2])))).is_whole
        False
        """
        facts = self.facts if isinstance(self.facts, Mapping) else {}
        return bool(self.arrays) and _is_whole(facts, self.arrays, MAX_DEPTH)

    def fill(self, residues: Residues, ring: Ring) -> Message:
        """Return the value whose numbers are residues (limbs, length).

        >>> pair = Message("pair", {}, (np.array([1.0, 2.5]), np.array([3])))
        >>> Outline.of(pair).fill(encoded(pair, Ring()), Ring()).arrays
        (array([1. , 2.5]), array([3]))
        """
        arrays, start, is_whole = [], 0, self.is_whole
        for code, shape in self.arrays:
            size, dtype = math.prod(shape), np.dtype(code)
            own = residues[:, start : start + size]
            if is_whole or dtype.kind != "f":
                numbers = decode_whole(own, ring)
                # A sum of small counts may need more room than each of them.
                numbers = numbers.astype(dtype) if dtype.itemsize == 8 else numbers
            else:
                numbers = decode(own, ring).astype(dtype)
            arrays.append(numbers.reshape(shape))
            start += size
        facts = self.facts if isinstance(self.facts, dict) else {}
        return Message(self.kind, facts, tuple(arrays))


def content_digest(outline: Outline, numbers: NDArray[Any]) -> bytes:
    """Return the SHA-256 of an outline and of numbers (limbs, L), one after the other (64,)."""
    little = np.ascontiguousarray(numbers, dtype=numbers.dtype.newbyteorder("<"))
    return outline.digest() + hashlib.sha256(little.data).digest()


def encoded(parts: Message, ring: Ring, *, n_clients: int = 1) -> Residues:
    """Return all numbers of a value as residues (limbs, L); ValueError if one does not fit.

    Arrays of integers go in as they are; of a value in fixed point all numbers must be whole.

    >>> sums = Message("sums", {"grid": "[8,[[2,8]],0]"}, (np.array([2.0]), np.array([-3])))
    >>> encoded(sums, Ring(64, 0)).astype(np.int64)
    array([[ 2, -3]])
    """
    is_whole = Outline.of(parts).is_whole
    pieces: list[Residues] = [np.zeros((ring.limbs, 0), dtype=ring.dtype)]
    for array in parts.arrays:
        if is_whole or array.dtype.kind in "iu":
            pieces.append(encode_whole(_as_whole(array), ring, n_clients=n_clients))
        else:
            numbers = array.astype(np.float64).ravel()
            pieces.append(encode(numbers, ring, n_clients=n_clients))
    return np.concatenate(pieces, axis=1)


def _as_whole(array: NDArray[Any]) -> Integers:
    numbers = array.ravel()
    if array.dtype.kind == "u" and array.size and int(array.max()) >= 2**63:
        raise ValueError("a count is above 2^63; it cannot be summed")
    whole = (np.abs(numbers) <= 2.0**53) & (numbers == np.rint(numbers))
    if array.dtype.kind == "f" and not whole.all():
        raise ValueError(
            f"a message in fixed point holds numbers that are not whole, of {array.shape}; use "
            "whole weights, or a map in float64"
        )
    return numbers.astype(np.int64)


def _is_whole(facts: Mapping[str, Any], arrays: Sequence[tuple[str, Any]], depth: int) -> bool:
    """Return whether a value's arrays are integers, after at most one vector of counts."""
    match facts.get("parts"):
        case list(entries) if depth:
            start = 0
            for entry in entries:
                match entry:
                    case {"facts": dict(inside), "arrays": int(count)} if count >= 0:
                        own = arrays[start : start + count]
                        if not _is_whole(inside, own, depth - 1):
                            return False
                        start += count
                    case _:
                        return False
            return start == len(arrays)
    if not arrays:
        return True
    counts = arrays[0][0] == "f8" and len(arrays[0][1]) == 1
    sums = arrays[1:] if counts else arrays
    on_grid = isinstance(facts.get("grid"), str)
    return on_grid and bool(sums) and all(code == "i8" for code, _ in sums)


def _described(entry: Fact) -> tuple[str, tuple[int, ...]]:
    match entry:
        case [str(code), list(shape)] if code in _TYPES and len(shape) <= 8:
            if all(type(size) is int and 0 <= size < 2**32 for size in shape):
                return code, tuple(shape)
    raise IntegrityError(f"an upload describes an array as {str(entry)[:80]}")


def left_out(complaints: Mapping[int, Collection[int]]) -> dict[int, str]:
    """Return who is left out, and why.

    Parameters
    ----------
    complaints
        For each client that complains, those whose boxes did not open for it.

    >>> left_out({0: [2], 1: [2]})
    {2: 'its boxes did not open for 2 clients'}
    >>> left_out({0: [1, 2, 3]})
    {0: 'it said that the boxes of 3 clients do not open, and nobody else did'}
    """
    open_ = {(by, of) for by, senders in complaints.items() for of in senders if of != by}
    out: dict[int, str] = {}
    while open_:
        made, got = Counter(by for by, _ in open_), Counter(of for _, of in open_)
        worst = max(
            {*made, *got}, key=lambda client: (made[client] + got[client], got[client], -client)
        )
        if got[worst] >= made[worst]:
            plural = "s" * (got[worst] > 1)
            out[worst] = f"its boxes did not open for {got[worst]} client{plural}"
        else:
            out[worst] = (
                f"it said that the boxes of {made[worst]} clients do not open, and nobody else did"
            )
        open_ = {pair for pair in open_ if worst not in pair}
    return out

"""How values travel and are kept: a fixed binary form with no pickle, no compression, no surprises.

    magic "CTMT" | version u16 | body length u64 | SHA-256 of the body (32) | body
    body: header length u32 | header, canonical JSON | array bytes, little-endian, one after another

The header names the kind of value, its small facts, and the type and shape of each array. Lengths
are checked against the bytes at hand before anything is allocated, so a lying header costs nothing.
It is read strictly: UTF-8, no name twice in an object, numbers that are finite and whole ones of at
most 64 bits, and text that can be written again.

Integers of 64 bits, more than 64 of them, travel packed where that is shorter (see
`catchment.wire.bits`); the header then says in how many bytes. Such a message has format 2, any
other format 1, and both are read. `replace_file` keeps it, or any file, whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catchment.errors import IntegrityError

MAGIC = b"CTMT"
VERSION = 2
WITHOUT_PACKING = 1
LARGEST = 1 << 64  # integers of facts are below
MAX_HEADER = 1 << 24
MAX_MESSAGE = 1 << 32
MAX_DEPTH = 64
MOST_TEXT = 300  # characters of a reason that somebody else gives
SHORT_HEADER = 1 << 12  # headers of up to this many bytes are remembered once read
FEW, SHORT_FACT = 16, 1000  # facts, arrays and characters of a fact in a plain message
_PREFIX = struct.Struct("<4sHQ32s")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_TYPES = ("f8", "f4", "i8", "u8", "u4", "i2", "i1", "u1")  # little-endian
PACKED = "i8"
# Packed numbers: how many make a chunk, the fewest bits of each, and the bytes of a plane of bits.
CHUNK, FEWEST, PLANE = 64, 4, 8

Fact = str | int | float | bool | None | Sequence["Fact"] | Mapping[str, "Fact"]


@dataclass(frozen=True, eq=False)
class Message:
    """A value taken apart: what kind it is, small facts about it, and its arrays.

    Of a value that adds, the arrays hold all that adds and the facts only what must be equal.

    >>> sent = Message("pair", {"n": 2}, (np.array([1.0, 2.0]),))
    >>> got = Message.from_bytes(sent.to_bytes())
    >>> got.kind, dict(got.facts), got.arrays
    ('pair', {'n': 2}, (array([1., 2.]),))
    """

    kind: str
    facts: Mapping[str, Fact] = field(default_factory=dict)
    arrays: tuple[NDArray[Any], ...] = ()
    whole: object = field(default=None, init=False, repr=False)  # what it was made of, if here

    def to_bytes(self) -> bytes:
        """Return the value as one message; equal values give equal bytes."""
        entries: list[list[Any]] = []
        flat: list[bytes | memoryview] = []
        for array in self.arrays:
            if not (array.flags.c_contiguous and array.ndim and array.dtype.str[0] in "<|"):
                contiguous = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
                array = contiguous.reshape(array.shape)  # a number would have become a vector
            entries.append([_code(array.dtype), array.shape])
            content = array.data.cast("B") if array.size else b""
            if entries[-1][0] == PACKED and array.size > CHUNK:
                from catchment.wire.bits import packed

                fewer = packed(array)
                if len(fewer) < len(content):
                    entries[-1].append(len(fewer))
                    content = fewer
            flat.append(content)
        version = VERSION if 3 in map(len, entries) else WITHOUT_PACKING
        header = {"kind": self.kind, "facts": self.facts, "arrays": entries}
        text = _canonical(header).encode()
        pieces = [struct.pack("<I", len(text)), text, *flat]
        body = hashlib.sha256()
        for piece in pieces:
            body.update(piece)
        # Joined once: copying a large message costs as much as hashing it.
        length = sum(map(len, pieces))
        return b"".join([_PREFIX.pack(MAGIC, version, length, body.digest()), *pieces])

    @classmethod
    def from_bytes(
        cls, message: bytes, *, limit: int = MAX_MESSAGE, header_limit: int = MAX_HEADER
    ) -> Message:
        """Return the value of a message; IntegrityError if it is damaged, too large or too new."""
        if len(message) < _PREFIX.size:
            raise IntegrityError(f"the message has {len(message)} bytes, too few for a header")
        if len(message) > limit:
            raise IntegrityError(f"the message has {len(message)} bytes, the limit is {limit}")
        magic, version, length, sha256 = _PREFIX.unpack_from(message)
        if magic != MAGIC:
            raise IntegrityError("this is not a catchment message")
        if not 1 <= version <= VERSION:
            raise IntegrityError(f"the message has format {version}, not 1 to {VERSION}; upgrade")
        body = memoryview(message)[_PREFIX.size :]
        if len(body) != length:
            raise IntegrityError(
                f"the message should have {length} bytes of body, {len(body)} came"
            )
        if hashlib.sha256(body).digest() != sha256:
            raise IntegrityError("the message is damaged: its checksum does not match")
        size = struct.unpack_from("<I", body)[0] if len(body) >= 4 else header_limit + 1
        if size > header_limit or 4 + size > len(body):
            raise IntegrityError(f"the message header claims {size} bytes")
        # Clients of a round mostly send the same header, word for word.
        read = _layout if size <= SHORT_HEADER else _layout.__wrapped__
        layout, payload = read(bytes(body[4 : 4 + size])), body[4 + size :]
        if version == WITHOUT_PACKING and layout.packed:
            raise IntegrityError("the message has format 1, in which no array is packed")
        if layout.n_bytes != len(payload):
            raise IntegrityError(
                f"the header promises {layout.n_bytes} bytes of arrays, {len(payload)} came"
            )
        arrays: list[NDArray[Any]] = []
        for one in layout.arrays:
            if one.packed:
                from catchment.wire.bits import unpacked

                if 8 * math.prod(one.shape) > limit:
                    raise IntegrityError(f"an array would take more than {limit} bytes unpacked")
                numbers = unpacked(payload[one.start : one.end], math.prod(one.shape))
                arrays.append(numbers.reshape(one.shape))
            else:
                held: NDArray[Any] = np.ndarray(one.shape, one.dtype, payload, one.start)
                arrays.append(held.astype(one.native))
        # A copy: what is remembered of a header is nobody's to change.
        return cls(layout.kind, deepcopy(layout.facts), tuple(arrays))

    def as_read(self, whole: object = None) -> Message | None:
        """Return what is read of the message of this value, without reading it; with the value.

        None where only reading tells: of facts that are not plain, of unusual arrays.

        >>> Message("pair", {"unit": "m"}, (np.array([1.0]),)).as_read().arrays
        (array([1.]),)
        """
        arrays, facts = self.arrays, self.facts
        if len(arrays) > FEW or len(facts) > FEW:
            return None
        for one in arrays:
            usual = type(one) is np.ndarray and one.dtype.isnative and one.flags.c_contiguous
            if not (usual and 0 < one.ndim <= 8 and one.size > 0):
                return None
        for k, told in enumerate((self.kind, *facts, *facts.values())):
            short = type(told) is str and len(told) <= SHORT_FACT and told.isascii()
            if not (short or (k > len(facts) and (told is None or type(told) is bool))):
                return None
        # Copies, as reading makes them: who answers and who reads share nothing.
        read = Message(self.kind, dict(sorted(facts.items())), tuple(map(np.copy, arrays)))
        object.__setattr__(read, "whole", whole)
        return read

    def expect(self, kind: str, n_arrays: int) -> Message:
        """Return self; IntegrityError if it is another kind of value or has other arrays."""
        if self.kind != kind or len(self.arrays) != n_arrays:
            raise IntegrityError(
                f"expected {kind!r} with {n_arrays} arrays, got {self.kind!r} "
                f"with {len(self.arrays)}"
            )
        return self

    def shapes(self) -> list[list[int]]:
        return [list(array.shape) for array in self.arrays]


NOTHING = Message("nothing")


def plain_text(text: object, most: int = MOST_TEXT) -> str:
    """Return what somebody else wrote as one line that is safe to print and to keep.

    Control characters, such as those that move a terminal's cursor, and halves of characters
    become "?"; what is longer than `most` is cut.

    >>> plain_text("no\\x1b[31m data\\n"), plain_text("ab" * 9, 6)
    ('no?[31m data?', 'aba...')
    """
    whole = str(text)
    cut = whole if len(whole) <= most else f"{whole[: most - 3]}..."
    if cut.isprintable():
        return cut
    return "".join(one if one.isprintable() else "?" for one in cut)


def digest(message: bytes) -> bytes:
    """Return the SHA-256 (32,) of a message's body, as its prefix states it."""
    return message[_PREFIX.size - 32 : _PREFIX.size]


def join(kind: str, named: Mapping[str, Message]) -> Message:
    """Return several values as one; `split` takes it apart again."""
    entries: list[Fact] = []
    arrays: list[NDArray[Any]] = []
    for name, part in named.items():
        n = len(part.arrays)
        entries.append({"name": name, "kind": part.kind, "facts": part.facts, "arrays": n})
        arrays += part.arrays
    return Message(kind, {"parts": entries}, tuple(arrays))


def split(parts: Message, kind: str) -> dict[str, Message]:
    """Return the values that `join` put together."""
    entries = parts.facts.get("parts")
    if parts.kind != kind or not isinstance(entries, list):
        raise IntegrityError(f"expected {kind!r}, got {parts.kind!r}")
    named, first = {}, 0
    for entry in entries:
        try:
            count = entry["arrays"]
            if type(count) is not int or count < 0:
                raise ValueError(f"{count!r} is not a number of arrays")
            last = first + count
            named[str(entry["name"])] = Message(
                str(entry["kind"]), dict(entry["facts"]), parts.arrays[first:last]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise IntegrityError(f"a part of {kind!r} is malformed") from error
        first = last
    if first != len(parts.arrays) or len(named) != len(entries):
        raise IntegrityError(f"the parts of {kind!r} do not use each array once")
    return named


class _Placed(NamedTuple):
    """One array in the bytes of all: type sent, type here, shape, where, and whether packed."""

    dtype: np.dtype[Any]
    native: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int
    packed: bool


@dataclass(frozen=True, eq=False)
class _Layout:
    """What a header says."""

    kind: str
    facts: dict[str, Fact]
    arrays: tuple[_Placed, ...]
    n_bytes: int
    packed: bool  # whether any array is


@lru_cache(maxsize=256)
def _layout(text: bytes) -> _Layout:
    try:
        header = _decode(text.decode("utf-8"))
        if b"\\u" in text:
            _readable(header)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"the message header is not JSON: {plain_text(error)}") from error
    if not isinstance(header, dict):
        raise IntegrityError("the message header is not an object")
    if _deeper(header, MAX_DEPTH):
        raise IntegrityError(f"the message header is nested more than {MAX_DEPTH} deep")
    kind, facts, listed = (header.get(name) for name in ("kind", "facts", "arrays"))
    if not (isinstance(kind, str) and isinstance(facts, dict) and isinstance(listed, list)):
        raise IntegrityError("the message header lacks kind, facts or arrays")
    arrays, start, some_packed = [], 0, False
    for entry in listed:
        dtype, shape, n_packed = _described(entry)
        some_packed |= n_packed is not None
        plain = math.prod(shape) * dtype.itemsize
        end = start + (plain if n_packed is None else n_packed)
        native = dtype.newbyteorder("=")
        arrays.append(_Placed(dtype, native, shape, start, end, n_packed is not None))
        start = end
    return _Layout(kind, facts, tuple(arrays), start, some_packed)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def _whole(text: str) -> int:
    number = int(text) if len(text) <= 20 else LARGEST
    if not -(1 << 63) <= number < LARGEST:
        raise ValueError(f"{text[:24]} has more than 64 bits")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has one name twice")
    return made


_decode = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_finite, parse_int=_whole, parse_constant=_finite
).decode


def _readable(header: object) -> None:
    """Raise ValueError if text holds half a character, which nothing can write or print."""
    json.dumps(header, ensure_ascii=False).encode()


def _deeper(value: object, limit: int) -> bool:
    """Return whether lists and objects lie in one another more than `limit` deep."""
    level: list[Any] = [value]
    for _ in range(limit):
        inside = (v.values() if isinstance(v, dict) else v for v in level)
        level = [x for children in inside for x in children if isinstance(x, dict | list)]
        if not level:
            return False
    return True


def _described(entry: object) -> tuple[np.dtype[Any], tuple[int, ...], int | None]:
    """Return an array's type and shape, and its number of bytes if it is packed."""
    match entry:
        case [str(code), list(shape), *rest] if code in _TYPES and len(shape) <= 8:
            # Without the zeros: an array of no numbers may not be huge in its other directions.
            sizes = [size for size in shape if size != 0]
            sized = all(type(size) is int and 0 <= size <= MAX_MESSAGE for size in shape)
            if sized and math.prod(sizes) <= MAX_MESSAGE:
                if not rest:
                    return np.dtype(f"<{code}"), tuple(shape), None
                if code == PACKED and len(rest) == 1 and type(rest[0]) is int:
                    check_length(math.prod(shape), rest[0])
                    return np.dtype(f"<{code}"), tuple(shape), rest[0]
    raise IntegrityError(f"the message header describes an array as {str(entry)[:80]}")


def check_length(n: int, n_bytes: int) -> None:
    """Refuse a number of bytes that cannot hold n packed numbers, before anything is made of it.

    >>> check_length(10**12, 1000)
    Traceback (most recent call last):
    catchment.errors.IntegrityError: 1000 bytes cannot be 1000000000000 packed numbers
    """
    least = -(-n // CHUNK) * (1 + PLANE * FEWEST)
    if n <= CHUNK or not least <= n_bytes < 8 * n:
        raise IntegrityError(f"{n_bytes} bytes cannot be {n} packed numbers")


@cache
def _code(dtype: np.dtype[Any]) -> str:
    code = dtype.str[1:]
    if code not in _TYPES:
        raise TypeError(f"arrays of {dtype} do not travel; use one of {', '.join(_TYPES)}")
    return code


def replace_file(path: Path, content: bytes, *, mode: int = 0o666, lasting: bool = True) -> None:
    """Write a file whole or not at all: beside its place, to the disk, and then renamed.

    The mode says who may read and write it, less what the process's mask takes away; 0o600 is for
    secrets. With `lasting` it is on the disk when this returns.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "note", b"kept")
    ...     (Path(folder) / "note").read_bytes()
    b'kept'
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {path.parent}; make it first"
        )
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; name a file in it")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(draft, new, mode), "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:  # nobody has heard of the draft
        raise type(error)(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    if lasting and os.name == "posix":
        # The rename itself is only on the disk once the folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

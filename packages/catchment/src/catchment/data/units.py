"""Which data a release was about: units of a client's ledger, and segments a budget was spent on.

A unit is what its owner says belongs together: all that a node has, or one file, folder or day of
it. It is known by its name and by digests that are taken of the raw files, before anybody has
chosen columns, an order of rows, recordings or a rate: whatever way a plan reads the data, they are
the same data. Where there are no files it is known by the caller's name for it and by digests of
the recordings as they are handed in.

A server's budget is for recordings, which may overlap with others. Each gives one digest for all
that it is, with its targets and its weight, and one for every segment of it, so that one that has
grown, or has other targets, shares most of its digests with what it was. Segments are of all
channels from the start, and of each channel by itself, cut where its own values say: one that lost
its first steps, or other channels, is cut at the same places. A segment of hardly any different
values, which hardly changes, is left out, because other recordings have it, too. A recording of
fewer steps than the shortest segment of 16 that has changed within shares nothing with what it was,
and one of fewer than 256 may not; others of the same client's still do.

The digests are for a client's own use: of data that can be guessed they would tell whether the
guess is right.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.data.tables import read_columns

FIRST = 16  # steps of the first segment
SEGMENT = 256
FEWEST_VALUES = 8  # different ones, in a segment that tells recordings apart,
FEWEST_CHANGES = 24  # or so many steps after which a value is another: levels, or on and off
TOGETHER = 8  # values that say where a channel is cut
DIGEST_BYTES = 8

ALL = "data"  # what a unit is called that nobody named
PartsBy = Literal["all", "file", "folder", "date"]
DAY = len("2026-01-31")


def block_digests(item: object) -> Iterator[bytes]:
    """Yield the digests (8,) of a recording and its segments, or the one of anything else.

    >>> before = Recording(np.sin(np.arange(900.0)))
    >>> grown, moved = Recording(np.sin(np.arange(910.0))), before.part(1, 900)
    >>> known = set(block_digests(before))
    >>> [len(known & set(block_digests(other))) > 5 for other in (grown, moved)]
    [True, True]
    """
    yield digest_of(item)
    if not isinstance(item, Recording):
        return
    for start, end in _segments(len(item.u)):
        if _tells(item.u[start:end]):
            yield _digest([b"all", item.u[start:end].tobytes()])
    for channel in np.ascontiguousarray(item.u.T):
        ends = _own_cuts(channel)
        for start, end in zip((0, *ends), (*ends, len(channel)), strict=True):
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


def _segments(n_steps: int) -> Iterator[tuple[int, int]]:
    yield 0, min(FIRST, n_steps)
    yield 0, min(4 * FIRST, n_steps)
    for start in range(0, n_steps, SEGMENT):
        yield start, min(start + SEGMENT, n_steps)


def _tells(segment: Array) -> bool:
    n_changes = int(np.count_nonzero(segment[1:] != segment[:-1]))
    return n_changes >= FEWEST_CHANGES or len(set(segment.ravel().tolist())) >= FEWEST_VALUES


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
    return (np.flatnonzero(mixed >> np.uint64(58) == 0) + 1).tolist()


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


@dataclass(frozen=True, order=True)
class Piece:
    """A file, a day of one, or a recording of a client's, by the unit that it is in.

    Parameters
    ----------
    unit
        The owner's name for it; empty for an increment, which is a part of its own.
    digest
        Of all that is in it.
    recording, first, stop
        Name and steps of a recording that has a name.

    >>> monday, tuesday = Piece("", "ab", "ward", 0, 9), Piece("", "cd", "ward", 9, 15)
    >>> monday.meets(tuesday), monday.meets(Piece("", "ef", "ward", 8, 9))
    (False, True)
    >>> Piece("data", "ab").meets(Piece("data", "cd")), Piece("a", "ab").meets(Piece("b", "ab"))
    (True, True)
    """

    unit: str
    digest: str
    recording: str = ""
    first: int = 0
    stop: int = 0

    def meets(self, other: Piece) -> bool:
        same = self.recording != "" and self.recording == other.recording
        return (
            self.digest == other.digest
            or (self.unit != "" and self.unit == other.unit)
            or (same and self.first < other.stop and other.first < self.stop)
        )


@dataclass(frozen=True)
class Units:
    """The pieces of data that one release was about, and what their digests are of.

    >>> one, other = (Units("files", (Piece("data", digest),)) for digest in ("ab", "cd"))
    >>> one.meets(other), one.are(other), one.are(Units("files", (Piece("x", "ab"),)))
    (True, False, True)
    """

    kind: str
    pieces: tuple[Piece, ...]

    @cached_property
    def content(self) -> tuple[str, ...]:
        """The digests in their order, as often as they occur."""
        return tuple(sorted(one.digest for one in self.pieces))

    def _keys(self) -> Iterator[tuple[str, Piece]]:
        """Yield all by which pieces that meet are found."""
        for one in self.pieces:
            yield f"digest {one.digest}", one
            if one.unit:
                yield f"unit {one.unit}", one
            if one.recording:
                yield f"recording {one.recording}", one

    def meets(self, other: Units) -> bool:
        """Return whether some data are in both; what cannot be compared may be the same."""
        if self.kind != other.kind:
            return True
        found: dict[str, list[Piece]] = {}
        for key, one in other._keys():
            found.setdefault(key, []).append(one)
        return any(one.meets(two) for key, one in self._keys() for two in found.get(key, ()))

    def are(self, other: Units) -> bool:
        """Return whether both are the same data, whatever they are called."""
        return self.kind == other.kind and self.content == other.content

    def to_bytes(self) -> bytes:
        return json.dumps([self.kind, [astuple(one) for one in sorted(self.pieces)]]).encode()

    @classmethod
    def from_bytes(cls, kept: bytes) -> Units:
        kind, pieces = json.loads(kept)
        return cls(kind, tuple(Piece(*one) for one in pieces))


def piece_of(item: object, unit: str, *, apart: bool = False) -> Piece:
    """Return the piece that a recording, or whatever else a client holds, is of a unit.

    Parameters
    ----------
    apart
        Whether it is a part of its own, as an increment is: a recording that has a name is known by
        its steps then. One that has none is of the unit all the same.
    """
    digest = digest_of(item).hex()
    if not isinstance(item, Recording):
        return Piece("" if apart else unit, digest)
    if not item.name:
        return Piece(unit, digest)
    stop = item.first_step + item.n_steps
    return Piece("" if apart else unit, digest, item.name, item.first_step, stop)


def units_of_files(paths: Iterable[Path], by: PartsBy = "all", date: str = "") -> Units:
    """Return the units of files: of all of them, of each file or folder, or of each day.

    Parameters
    ----------
    by
        What is a unit. Files of one name in two folders are one, and so are folders of one name.
    date
        Column of dates, as text that begins with 2026-01-31 or as dates; its days are the units.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "log.csv"
    ...     _ = path.write_text("day,load\\n2026-01-01,1\\n2026-01-02,2\\n")
    ...     units = units_of_files([path]), units_of_files([path], "date", "day")
    >>> [[one.unit for one in found.pieces] for found in units]
    [['data'], ['2026-01-01', '2026-01-02']]
    """
    if by == "date":
        return Units("days", tuple(one for path in paths for one in _days(path, date)))
    pieces = []
    for path in (one.resolve() for one in paths):
        named = {"all": ALL, "file": path.name, "folder": path.parent.name}
        with path.open("rb") as file:
            pieces.append(Piece(named[by], hashlib.file_digest(file, "sha256").hexdigest()))
    return Units("files", tuple(pieces))


def _days(path: Path, date: str) -> list[Piece]:
    columns = read_columns(path)
    if date not in columns:
        raise ValueError(
            f"a file has no column {date[:80]!r}, by which [data] in policy.toml parts the data; "
            "name another in date"
        )
    column = columns[date]
    column = column.astype("datetime64[D]") if column.dtype.kind == "M" else column
    days = np.array([str(one)[:DAY] for one in column.tolist()], dtype=f"U{DAY}")
    try:
        days.astype("datetime64[D]")
    except ValueError:
        raise ValueError(
            "the column that date in [data] of policy.toml names has values that are no dates; "
            "write them as 2026-01-31"
        ) from None
    if (days == "NaT").any():
        raise ValueError("the column that date in [data] of policy.toml names has rows without one")
    return [
        Piece(str(day), _rows_digest(columns, np.flatnonzero(days == day)))
        for day in np.unique(days).tolist()
    ]


def _rows_digest(columns: dict[str, NDArray[Any]], rows: NDArray[np.intp]) -> str:
    """Return the digest of some rows; more rows elsewhere may change a column's type."""
    found = hashlib.sha256()
    for name in sorted(columns):
        column = columns[name][rows]
        if column.dtype.kind in "biuf":
            content = column.astype(np.float64).tobytes()
        else:
            content = repr(column.tolist()).encode()
        found.update(f"{len(name)} {name} {len(content)} ".encode() + content)
    return found.hexdigest()

"""A row group of a Parquet file as arrays, from which the recordings of its clients are cut.

A row group is decoded once for all clients that have rows in it, and its values pass the checks of
`Recording` together; a client is then some slices. What is out of the ordinary (rows out of order,
labels that are missing, text as times) is left to what reads frames, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from catchment import LARGEST, Array, frozen
from catchment.data import (
    Recording,
    Rows,
    epoch_of,
    in_seconds,
    is_missing,
    missing_values,
    numbers_of,
    times_of,
    trusted,
    values_of,
    whole_labels,
)
from catchment.errors import SettingError, nearest
from catchment_fleet.parquet.index import columns_in, texts_of
from catchment_fleet.parquet.storage import Storage, columns_of_folders

_TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # nanoseconds
_MISSING, _UNKNOWN = -1, -2
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Reader:
    """How the files of a lake are read; all its clients share one.

    Parameters
    ----------
    storage
        What opens the files.
    inputs, targets
        Columns of numbers, or of one label.
    classes
        The labels that may occur, where there is one.
    per_step
        Whether every step has its own target.
    recording, time
        Columns that name a row's recording, and by which rows are sorted.
    as_text
        Whether labels are text in some files and numbers in others: all are text then.
    """

    storage: Storage
    inputs: tuple[str, ...]
    targets: tuple[str, ...] = ()
    classes: tuple[Any, ...] | None = None
    per_step: bool = False
    recording: str | None = None
    time: str | None = None
    as_text: bool = False
    key: str = field(init=False, repr=False, compare=False)
    class_names: tuple[str, ...] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = None if self.classes is None else tuple(map(str, self.classes))
        object.__setattr__(self, "class_names", names)
        # Made once: a million clients ask for their row group by it.
        object.__setattr__(self, "key", repr(self))

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        named = [self.recording, self.time]
        return [*self.inputs, *self.targets, *(name for name in named if name is not None)]

    def decode(self, path: str, group: int) -> RowGroup:
        """Return a row group as arrays."""
        coded = (
            *(self.targets if self.classes else ()),
            *([self.recording] if self.recording else ()),
        )
        with self.storage.open(path, coded) as file:
            own, folders = columns_in(file, path), columns_of_folders(path)
            wanted = {name: own[name] for name in dict.fromkeys(self.columns) if name in own}
            table = file.read_row_group(group, columns=list(wanted.values()), use_threads=False)
            n_rows = file.metadata.row_group(group).num_rows
        held = {name: table.column(original) for name, original in wanted.items()}
        for name in self.columns:
            if name not in held:
                # The column that the file's folder names.
                same = pyarrow.repeat(pyarrow.scalar(folders[name], pyarrow.string()), n_rows)
                held[name] = pyarrow.chunked_array([same])
        try:
            return self._row_group(held)
        except SettingError as error:
            raise error.within(Path(path).name) from error
        except ValueError as error:
            raise ValueError(f"{Path(path).name}: {error}") from error

    def _row_group(self, held: dict[str, pyarrow.ChunkedArray]) -> RowGroup:
        def values(names: Sequence[str]) -> dict[str, NDArray[Any]]:
            return {name: values_of(held[name]) for name in dict.fromkeys(names)}

        u = frozen(numbers_of(values(self.inputs), list(self.inputs)))
        labels = targets = None
        if self.classes is not None:
            labels = _labels(held[self.targets[0]], self.classes, as_text=self.as_text)
        elif self.targets:
            targets = frozen(numbers_of(values(self.targets), list(self.targets)))
        return RowGroup(
            self,
            u,
            labels,
            targets,
            None if self.recording is None else _parts(held[self.recording], self.recording),
            None if self.time is None else Times.of(values([self.time])[self.time], self.time),
            _in_range(u) and (targets is None or _in_range(targets)),
        )


@dataclass(frozen=True, eq=False)
class Labels:
    """The label of every row: its class, or what else it is.

    `rows` (K + 1, K) are the one-hot rows of the classes, and NaN for a label that is missing;
    `unknown` are labels that are no class, by -2 - their code.
    """

    codes: Codes
    changes: Codes
    rows: Array
    unknown: tuple[Any, ...]

    def of_steps(self, start: int, stop: int, classes: tuple[Any, ...]) -> Array:
        """Return the targets (T, K) of rows; ValueError for a label that is no class."""
        codes = self.codes[start:stop]
        if self.unknown and codes.min() <= _UNKNOWN:
            label = self.unknown[_UNKNOWN - int(codes[codes <= _UNKNOWN][0])]
            raise ValueError(f"there is no class {label!r}; {nearest(str(label), classes)}")
        return frozen(self.rows[codes])


@dataclass(frozen=True, eq=False)
class Times:
    """The times of all rows, and as much of them as all clients share.

    `seconds` are those of numbers; `ticks` (n,) integers of `unit` nanoseconds. `falls` counts
    up where a time is not above the one before it.
    """

    values: NDArray[Any]
    seconds: Array | None = None
    ticks: Codes | None = None
    unit: int = 0
    falls: Codes | None = None

    @classmethod
    def of(cls, values: NDArray[Any], name: str) -> Times:
        """Return the times of a column."""
        if values.dtype.kind in "iuf":
            seconds = frozen(in_seconds(values, name).astype(np.float64))
            if not np.isfinite(seconds).all():
                return cls(values)
            return cls(values, seconds, falls=_count(seconds[1:] <= seconds[:-1]))
        unit = np.datetime_data(values.dtype)[0] if values.dtype.kind == "M" else ""
        if unit not in _TICKS or missing_values(values).any():
            return cls(values)
        ticks = values.astype(np.int64)
        falls = _count(ticks[1:] <= ticks[:-1])
        return cls(values, ticks=ticks, unit=_TICKS[unit], falls=falls)

    def rising(self, start: int, stop: int) -> Array | None:
        """Return the seconds of rows that are in order; None if that takes a closer look."""
        if self.falls is None or self.falls[start] != self.falls[stop - 1]:
            return None
        if self.seconds is not None:
            return self.seconds[start:stop]
        assert self.ticks is not None
        gaps = self.ticks[start:stop] - self.ticks[start]
        last = int(gaps[-1])
        if last >= 2**50 or last * self.unit >= 2**62:  # beyond it two times may become one
            return None
        return frozen(gaps * self.unit / 1e9)


@dataclass(frozen=True, eq=False)
class Parts:
    """Which recording each row belongs to, as a number and as text; `changes` counts up."""

    codes: Codes
    changes: Codes
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class RowGroup:
    """The rows of a row group, all columns in order; `good` if no number is out of range."""

    reader: Reader
    u: Array
    labels: Labels | None
    targets: Array | None
    parts: Parts | None
    times: Times | None
    good: bool
    target_changes: Codes | None = field(init=False)

    def __post_init__(self) -> None:
        changes = None
        if self.targets is not None and not self.reader.per_step:
            changes = _count((self.targets[1:] != self.targets[:-1]).any(axis=1))
        object.__setattr__(self, "target_changes", changes)

    @property
    def n_bytes(self) -> int:
        """About how much memory it takes."""
        n_columns = 2 * ((self.labels is not None) + (self.parts is not None)) + 3 * (
            self.times is not None
        )
        targets = 0 if self.targets is None else self.targets.nbytes
        return self.u.nbytes + targets + 8 * len(self.u) * n_columns

    def recordings(self, start: int, stop: int) -> list[Recording] | None:
        """Return the recordings of one client, whose rows these are.

        None if that takes a closer look, by `together`.
        """
        if not self.good:
            return None
        parts = self.parts
        if parts is None or parts.changes[start] == parts.changes[stop - 1]:
            one = self._one(start, stop)
            return None if one is None else [one]
        changes = parts.changes[start:stop]
        inner = start + 1 + np.flatnonzero(changes[1:] != changes[:-1])
        bounds = [start, *inner.tolist(), stop]
        seen = parts.codes[bounds[:-1]]
        if len(np.unique(seen)) < len(seen):
            return None
        made = [self._one(first, last) for first, last in pairwise(bounds)]
        good = [one for one in made if one is not None]
        return good if len(good) == len(made) else None

    def _one(self, start: int, stop: int) -> Recording | None:
        """Return rows as a recording; None if that takes a closer look."""
        reader, y, seconds, epoch = self.reader, None, None, None
        if self.times is not None:
            seconds = self.times.rising(start, stop)
            if seconds is None:
                return None
            epoch = epoch_of(self.times.values[start:stop])
        labels, targets, changes = self.labels, self.targets, self.target_changes
        if reader.per_step:
            if labels is not None and labels.unknown:
                return None
            y = self.target_rows(start, stop)
        elif labels is not None:
            code = labels.codes[start]
            if code < 0 or labels.changes[start] != labels.changes[stop - 1]:
                return None
            y = labels.rows[code]
        elif targets is not None and changes is not None:
            if changes[start] != changes[stop - 1]:
                return None
            y = targets[start]
        return trusted(self.u[start:stop], y, seconds, reader.inputs, reader.class_names, epoch)

    def target_rows(self, start: int, stop: int) -> Array | None:
        """Return the targets of rows (T, K), one-hot where they are labels."""
        if self.labels is not None:
            return self.labels.of_steps(start, stop, self.reader.classes or ())
        return None if self.targets is None else self.targets[start:stop]


def together(places: Sequence[tuple[RowGroup, int, int]], where: str) -> list[Recording]:
    """Return the recordings of a client whose rows in one file are in several places.

    An error says whose they are, and which recording is at fault.
    """
    reader = places[0][0].reader
    try:
        y = [group.target_rows(start, stop) for group, start, stop in places]
        values = [group.times.values[a:b] for group, a, b in places if group.times is not None]
        times = times_of(np.concatenate(values), reader.time or "") if values else None
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    rows = Rows(
        np.concatenate([group.u[start:stop] for group, start, stop in places]),
        None if y[0] is None else np.concatenate([one for one in y if one is not None]),
        times,
        reader.inputs,
        reader.per_step,
        reader.class_names,
    )
    made = []
    for part, own in _parts_of(places).items():
        what = where if part is None else f"{where}, recording {part!r}"
        made.append(rows.recording(np.array(own), what))
    return made


def _parts_of(places: Sequence[tuple[RowGroup, int, int]]) -> dict[str | None, list[int]]:
    """Return which of the joined rows belong to each recording, in the order of first rows."""
    names: list[str | None] = []
    for group, start, stop in places:
        if group.parts is None:
            names += [None] * (stop - start)
        else:
            names += [group.parts.texts[code] for code in group.parts.codes[start:stop].tolist()]
    found: dict[str | None, list[int]] = {}
    for row, name in enumerate(names):
        found.setdefault(name, []).append(row)
    return found


def _in_range(values: Array) -> bool:
    """Return whether all numbers that are known are within what a recording may have."""
    return not (np.abs(values) > LARGEST).any()


def _count(changes: NDArray[np.bool_]) -> Codes:
    """Return (n,) numbers that go up by one where something changes from row to row."""
    return np.append(0, np.cumsum(changes))


def _coded(column: pyarrow.ChunkedArray) -> tuple[pyarrow.Array, Codes]:
    """Return the values of a column that differ, and the number of each row's; -1 if missing."""
    whole = column.combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):
        whole = pyarrow.concat_arrays(whole.chunks)
    if not pyarrow.types.is_dictionary(whole.type):
        whole = whole.dictionary_encode()
    return whole.dictionary, np.asarray(whole.indices.fill_null(_MISSING)).astype(np.int64)


def _labels(column: pyarrow.ChunkedArray, classes: tuple[Any, ...], *, as_text: bool) -> Labels:
    if pyarrow.types.is_null(column.type):
        column = column.cast(pyarrow.string())
    values, codes = _coded(column)
    known = whole_labels(values_of(pyarrow.chunked_array([values])))
    if as_text:
        known = [None if one is None else str(one) for one in known]
    place = {label: k for k, label in enumerate(classes)}
    if len(place) != len(classes):
        raise ValueError("a class occurs twice; name every class once")
    unknown: list[Any] = []
    to_class = []
    for label in known:
        if is_missing(label):
            to_class.append(_MISSING)
        elif label in place:
            to_class.append(place[label])
        else:
            to_class.append(_UNKNOWN - len(unknown))
            unknown.append(label)
    # One more than the labels, so that a row without any finds the last.
    of_class = np.array([*to_class, _MISSING], dtype=np.int64)[codes]
    rows = np.vstack([np.eye(len(classes)), np.full(len(classes), np.nan)])
    return Labels(of_class, _count(of_class[1:] != of_class[:-1]), frozen(rows), tuple(unknown))


def _parts(column: pyarrow.ChunkedArray, name: str) -> Parts:
    if column.null_count:
        row = int(np.argmax(np.asarray(column.combine_chunks().is_null())))
        raise ValueError(f"column {name!r} is empty in row {row}; fill it or drop the row")
    values, codes = _coded(column)
    changes = _count(codes[1:] != codes[:-1])
    return Parts(codes, changes, tuple(texts_of(values).to_pylist()))

"""Whose rows are where in a lake, from the column of clients alone.

Of every file its footer and its column of clients are read, as numbers of a dictionary; what is
kept is where the rows of each client begin and end. A million clients take some tens of megabytes.

What the footers of a lake's files say of their columns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from catchment import ordered_map
from catchment.data import column_names, values_of, whole_labels
from catchment.errors import SettingError, nearest
from catchment_fleet.parquet.storage import Storage, columns_of_folders, name_of

Rows = NDArray[np.int64]


class Piece(NamedTuple):
    """Rows `start` to `stop` - 1 of a row group of a file."""

    path: str
    group: int
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Index:
    """Where each client's rows are.

    Parameters
    ----------
    names
        Of the clients, sorted.
    order
        (n,) places in `names`, in the order in which the clients first appear; None if sorted.
    first
        (n + 1,) where a client's runs of rows begin among all runs.
    groups, starts, stops
        (m,) the row group of each run, among all of the lake, and its rows.
    paths, numbers
        For each row group of the lake its file, by its place in `files`, and its number there.
    files
        Paths of all files.
    """

    names: list[str]
    order: NDArray[np.int32] | None
    first: Rows
    groups: NDArray[np.int32]
    starts: NDArray[np.int32]
    stops: NDArray[np.int32]
    paths: NDArray[np.int32]
    numbers: NDArray[np.int32]
    files: list[str]

    def place(self, name: str) -> int:
        """Return where a client stands among the names; KeyError if it does not."""
        at = bisect_left(self.names, name)
        if at == len(self.names) or self.names[at] != name:
            raise KeyError(name)
        return at

    def pieces(self, at: int) -> tuple[Piece, ...]:
        """Return where the rows of the client at a place are, in the order of files and rows."""
        begin, end = self.first[at : at + 2].tolist()
        return tuple(map(self._piece, range(begin, end)))

    def _piece(self, run: int) -> Piece:
        group = self.groups.item(run)
        path = self.files[self.paths.item(group)]
        return Piece(path, self.numbers.item(group), self.starts.item(run), self.stops.item(run))

    def part(self, names: Sequence[str]) -> Index:
        """Return where the rows of some clients are, in this order; KeyError if one has none."""
        places = self._places(names)
        at = np.sort(places)
        begins = self.first[at]
        counts = self.first[at + 1] - begins
        first = np.append(0, np.cumsum(counts))
        runs = np.repeat(begins - first[:-1], counts) + np.arange(first[-1])
        used, groups = np.unique(self.groups[runs], return_inverse=True)
        files, paths = np.unique(self.paths[used], return_inverse=True)
        return Index(
            [self.names[k] for k in at.tolist()],
            None if (at == places).all() else np.searchsorted(at, places).astype(np.int32),
            first,
            groups.astype(np.int32),
            self.starts[runs],
            self.stops[runs],
            paths.astype(np.int32),
            self.numbers[used],
            [self.files[k] for k in files.tolist()],
        )

    def _places(self, names: Sequence[str]) -> Rows:
        """Return (n,) where clients stand among the names."""
        at = self.place(names[0]) if names else 0
        if self.names[at : at + len(names)] == list(names):  # most are neighbors
            return np.arange(at, at + len(names))
        if 8 * len(names) < len(self.names):
            return np.array([self.place(name) for name in names], np.int64)
        places = dict(zip(self.names, range(len(self.names)), strict=True))
        return np.array([places[name] for name in names], np.int64)

    def n_rows(self) -> Rows:
        """Return (n,) how many rows each client has, in the order of `names`."""
        lengths = (self.stops - self.starts).astype(np.int64)
        return np.add.reduceat(lengths, self.first[:-1])


@dataclass(frozen=True, eq=False)
class _File:
    """The runs of one file: whose rows, in which of its row groups, from where to where."""

    n_groups: int
    clients: pyarrow.ChunkedArray  # of text, one for each run
    groups: Rows
    starts: Rows
    stops: Rows


def index_of(storage: Storage, files: Sequence[str], client: str) -> Index:
    """Return where the rows of each client are, who are named in a column that all files have."""

    def runs(path: str) -> _File:
        with storage.open(path, coded=(client,)) as file:
            return _runs(file, path, client)

    return _joined(list(files), list(ordered_map(runs, files)))


def columns_in(file: pyarrow.parquet.ParquetFile, path: str) -> dict[str, str]:
    """Return the columns of a file by their names without spaces around them."""
    names = file.schema_arrow.names
    return dict(zip(column_names(names, Path(path)), names, strict=True))


def _runs(file: pyarrow.parquet.ParquetFile, path: str, client: str) -> _File:
    columns = columns_in(file, path)
    counts = [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)]
    if client not in columns:
        return _of_one(columns_of_folders(path)[client], counts, path, client)
    filled = [group for group, count in enumerate(counts) if count]
    parts = []
    for group in filled:
        rows = file.read_row_group(group, columns=[columns[client]], use_threads=False)
        parts.append(_run_ends(rows.column(0).combine_chunks(), path, client, sum(counts[:group])))
    empty: Rows = np.zeros(0, dtype=np.int64)
    return _File(
        len(counts),
        pyarrow.chunked_array([names for names, _ in parts], pyarrow.large_string()),
        np.repeat(np.array(filled, dtype=np.int64), [len(stops) for _, stops in parts]),
        np.concatenate([empty, *(np.append(0, stops[:-1]) for _, stops in parts)]),
        np.concatenate([empty, *(stops for _, stops in parts)]),
    )


def _of_one(name: str | None, counts: list[int], path: str, client: str) -> _File:
    """Return the runs of a file whose folder names its client."""
    if name is None:
        raise ValueError(f"{path}: the folder names no {client!r}; rename it or leave it out")
    filled = np.flatnonzero(counts)
    names = pyarrow.chunked_array([[name] * len(filled)], pyarrow.large_string())
    return _File(len(counts), names, filled, np.zeros_like(filled), np.array(counts)[filled])


def _run_ends(
    column: pyarrow.Array, path: str, client: str, before: int
) -> tuple[pyarrow.Array, Rows]:
    """Return the clients of runs of rows as text, and where each run ends."""
    if isinstance(column, pyarrow.ChunkedArray):  # as older versions return it
        column = pyarrow.concat_arrays(column.chunks)
    if column.null_count:
        row = before + int(np.argmax(np.asarray(column.is_null())))
        raise ValueError(
            f"{name_of(path)}: column {client!r} is empty in row {row}; fill it or drop the row"
        )
    if not pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = np.asarray(column.indices)
    stops = np.append(np.flatnonzero(codes[1:] != codes[:-1]) + 1, len(codes))
    texts = texts_of(column.dictionary)
    return texts.take(pyarrow.array(codes[stops - 1])), stops


def texts_of(values: pyarrow.Array) -> pyarrow.Array:
    """Return values as the text that names a client or a recording."""
    kind = values.type
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_string(kind):
        return values.cast(pyarrow.large_string())
    if pyarrow.types.is_large_string(kind):
        return values
    numpy_values = values_of(pyarrow.chunked_array([values]))
    return pyarrow.array([str(key) for key in numpy_values.tolist()], pyarrow.large_string())


def _joined(files: list[str], found: list[_File]) -> Index:
    """Return one index of the runs of all files."""
    names = [chunk for one in found for chunk in one.clients.chunks]
    if not sum(map(len, names)):
        raise ValueError(f"there are no rows in {files[0]} nor in other files; fill the lake")
    coded = pyarrow.concat_arrays(names).dictionary_encode()
    by_name = pyarrow.compute.sort_indices(coded.dictionary)
    order = np.asarray(by_name)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    clients = rank[np.asarray(coded.indices)]
    before = np.cumsum([0, *(one.n_groups for one in found)])
    groups = np.concatenate([one.groups + at for one, at in zip(found, before, strict=False)])
    starts = np.concatenate([one.starts for one in found])
    stops = np.concatenate([one.stops for one in found])
    if (clients[1:] < clients[:-1]).any():
        by_client = np.argsort(clients, kind="stable")
        clients, groups = clients[by_client], groups[by_client]
        starts, stops = starts[by_client], stops[by_client]
    counts = np.bincount(clients, minlength=len(order))
    return Index(
        coded.dictionary.take(by_name).to_pylist(),
        None if (rank[1:] > rank[:-1]).all() else rank,
        np.append(0, np.cumsum(counts)),
        groups.astype(np.int32),
        starts.astype(np.int32),
        stops.astype(np.int32),
        np.repeat(np.arange(len(found), dtype=np.int32), [one.n_groups for one in found]),
        np.concatenate([np.arange(one.n_groups, dtype=np.int32) for one in found]),
        files,
    )


@dataclass(frozen=True, eq=False)
class Schemas:
    """The columns of each file by name, with their types; those of its folders are text."""

    storage: Storage
    files: Mapping[str, Mapping[str, pyarrow.DataType]]
    n_rows: int = 0

    def check(self, client: str, needed: Iterable[str]) -> None:
        """Raise ValueError if a file lacks a column."""
        wanted = list(needed)
        for path, columns in self.files.items():
            if client not in columns:
                raise ValueError(
                    f"{name_of(path)} has no column {client!r} that names clients; "
                    f"{nearest(client, columns)}"
                )
            missing = [name for name in wanted if name not in columns]
            if missing:
                raise ValueError(
                    f"{name_of(path)} has no column {missing[0]!r}; "
                    f"{nearest(missing[0], columns)}; write the file anew, or leave it out"
                )

    def numbers(self, named: set[str]) -> list[str]:
        """Return the columns of numbers besides those named, in the order of the first file."""
        found = {path: _numbers(columns, named) for path, columns in self.files.items()}
        first, *others = found
        for path in others:
            if set(found[path]) != set(found[first]):
                one = sorted(set(found[path]) ^ set(found[first]))[0]
                alike = [name for name in found[first] if all(name in f for f in found.values())]
                raise SettingError(
                    f"{name_of(path)} and {name_of(first)} differ in column {one!r}",
                    "inputs",
                    alike,
                )
        if not found[first]:
            raise ValueError(
                f"{name_of(first)} has no column of numbers besides those named; its columns are "
                f"{', '.join(self.files[first])}"
            )
        return found[first]

    def mixes_text(self, label: str) -> bool:
        """Return whether labels are text in some files and something else in others."""
        kinds = {_is_text(columns[label]) for columns in self.files.values()}
        return len(kinds - {None}) > 1

    def labels(self, label: str) -> tuple[Any, ...]:
        """Return the labels of all files, sorted."""

        def of_file(path: str) -> list[Any]:
            with self.storage.open(path) as file:
                own = columns_in(file, path)
                if label not in own:
                    return [columns_of_folders(path)[label]]
                read = (
                    file.read_row_group(k, columns=[own[label]]) for k in range(file.num_row_groups)
                )
                seen = [pyarrow.chunked_array([one.column(0).unique()]) for one in read]
                return [value for one in seen for value in whole_labels(values_of(one))]

        found = {v for values in ordered_map(of_file, self.files) for v in values if v is not None}
        if not found:
            raise ValueError(
                f"no file has a value in column {label!r}; fill it, or name no label for "
                "recordings without targets"
            )
        return tuple(sorted(map(str, found) if self.mixes_text(label) else found))


def schemas_of(storage: Storage, files: Sequence[str]) -> Schemas:
    """Return the columns of each file, from its footer."""

    def of_file(path: str) -> tuple[dict[str, pyarrow.DataType], int]:
        with storage.open(path) as file:
            kinds = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
            own = {name: kinds[original] for name, original in columns_in(file, path).items()}
            n_rows = file.metadata.num_rows
        return {**dict.fromkeys(columns_of_folders(path), pyarrow.string()), **own}, n_rows

    found = list(ordered_map(of_file, files))
    columns = {path: one for path, (one, _) in zip(files, found, strict=True)}
    return Schemas(storage, columns, sum(n_rows for _, n_rows in found))


def _numbers(columns: Mapping[str, pyarrow.DataType], named: set[str]) -> list[str]:
    # The index of a table that pandas wrote has no name, or one made up for Parquet.
    return [
        name
        for name, kind in columns.items()
        if name and not name.startswith("__index_level_") and name not in named and _counts(kind)
    ]


def _counts(kind: pyarrow.DataType) -> bool:
    """Return whether a column holds numbers."""
    types = pyarrow.types
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return any(
        test(inner)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    )


def _is_text(kind: pyarrow.DataType) -> bool | None:
    """Return whether a column holds text; None if it holds nothing."""
    inner = kind.value_type if pyarrow.types.is_dictionary(kind) else kind
    if pyarrow.types.is_null(inner):
        return None
    return bool(pyarrow.types.is_string(inner) or pyarrow.types.is_large_string(inner))

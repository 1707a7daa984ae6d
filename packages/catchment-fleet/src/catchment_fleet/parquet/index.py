"""Whose rows are where in a lake, from the column of clients alone.

Of every file its footer and its column of clients are read, as numbers of a dictionary; what is
kept is where the rows of each client begin and end. A million clients take some tens of megabytes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from catchment import ordered_map
from catchment.data import column_names, values_of
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
        return np.array([self.place(name) for name in names], np.int64)

    def n_rows(self) -> Rows:
        """Return (n,) how many rows each client has, in the order of `names`."""
        lengths = (self.stops - self.starts).astype(np.int64)
        return np.add.reduceat(lengths, self.first[:-1])


@dataclass(frozen=True, eq=False)
class _File:
    """The runs of one file: whose rows, in which of its row groups, from where to where."""

    n_groups: int
    clients: pyarrow.Array  # of text, one for each run
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
    names = pyarrow.array([name] * len(filled), pyarrow.large_string())
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
    names = [chunk for one in found for chunk in _chunks(one.clients)]
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


def _chunks(column: Any) -> Iterator[pyarrow.Array]:
    if isinstance(column, pyarrow.ChunkedArray):
        yield from column.chunks
    else:
        yield column

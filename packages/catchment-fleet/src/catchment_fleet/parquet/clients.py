"""The clients of a lake of Parquet files, each read when it is asked."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from catchment.data import Cache, LazyClients, Recording, kept_columns, listed
from catchment_fleet.parquet.index import Index, Piece, index_of, schemas_of
from catchment_fleet.parquet.row_groups import Reader, RowGroup, together
from catchment_fleet.parquet.storage import find_parquet, name_of

_PATH = attrgetter("path")
DEFAULT_BYTES = 1 << 28  # of decoded row groups that a process holds for the next clients
HELD: Cache[RowGroup] = Cache(DEFAULT_BYTES, attrgetter("n_bytes"), keep_last=True)
_OFTEN = 4  # times that each row group is read on average, from which a warning is due
_LOOKED_AT = 200_000  # clients from which that is told


@dataclass(frozen=True)
class ParquetClient:
    """One client's rows in the files of a lake; called, it returns its recordings.

    Nothing but places is held, so that it is cheap to send to another process.
    """

    name: str
    reader: Reader
    pieces: tuple[Piece, ...]

    def __call__(self) -> list[Recording]:
        """Return the recordings, in the order of files and of first rows."""
        if len(self.pieces) == 1:
            return self._in_file(self.pieces)
        in_files = groupby(self.pieces, key=_PATH)
        return [one for _, own in in_files for one in self._in_file(tuple(own))]

    def _in_file(self, pieces: tuple[Piece, ...]) -> list[Recording]:
        if len(pieces) == 1:
            found = self._group(pieces[0]).recordings(pieces[0].start, pieces[0].stop)
            if found is not None:
                return found
        places = [(self._group(one), one.start, one.stop) for one in pieces]
        return together(places, f"{name_of(pieces[0].path)}: client {self.name!r}")

    def _group(self, piece: Piece) -> RowGroup:
        """Return the row group of a piece, decoded now if it is not held."""
        path, group = piece.path, piece.group
        return HELD.get((self.reader.key, path, group), partial(self.reader.decode, path, group))


@final
class ParquetClients(LazyClients[ParquetClient]):
    """Client name -> what reads its recordings; the clients come as they first appear in the files.

    Parameters
    ----------
    index
        Where each client's rows are.
    reader
        How they are read.
    client
        Column that names them.
    """

    def __init__(self, index: Index, reader: Reader, client: str) -> None:
        self.index, self.reader, self.client = index, reader, client

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return self.reader.inputs

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels in the order of the outputs; None where targets are numbers or absent."""
        return self.reader.classes

    @property
    def columns(self) -> Mapping[str, str]:
        """How the files name what is no channel, for models to keep."""
        reader = self.reader
        per_step = reader.per_step and bool(reader.targets)
        return kept_columns(reader.time, reader.recording, self.client, reader.targets, per_step)

    def __getitem__(self, name: str) -> ParquetClient:
        return ParquetClient(name, self.reader, self.index.pieces(self.index.place(name)))

    def part(self, names: Sequence[str]) -> ParquetClients:
        """Return these clients in this order, with nothing of all others."""
        return ParquetClients(self.index.part(names), self.reader, self.client)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self.index.place(name)
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        names, order = self.index.names, self.index.order
        return iter(names) if order is None else map(names.__getitem__, order.tolist())

    def __len__(self) -> int:
        return len(self.index.names)

    def __repr__(self) -> str:
        return (
            f"ParquetClients({len(self)} clients, {len(self.index.files)} files, "
            f"channels={self.channels}, classes={self.classes})"
        )

    def reads(self, held: int = DEFAULT_BYTES) -> float:
        """Return how often each row group is read, on average, if clients come in order of names.

        Parameters
        ----------
        held
            Bytes of row groups that a process holds.
        """
        last = min(_LOOKED_AT, len(self))
        groups = self.index.groups[: int(self.index.first[last])]
        moves = groups[np.flatnonzero(np.diff(groups, prepend=-1))]
        n_groups = len(np.unique(moves))
        if len(moves) <= _OFTEN * n_groups:
            return len(moves) / n_groups
        n_rows = float(self.index.n_rows().sum()) / len(self.index.numbers)
        room = max(int(held / (8 * n_rows * len(self.reader.columns))), 1)
        return _n_reads(moves.tolist(), room) / n_groups


def read_parquet(
    files: str | Path | Sequence[str | Path],
    *,
    client: str,
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    recording: str | None = None,
    time: str | None = None,
    classes: Sequence[object] | Literal["auto"] = "auto",
    per_step: bool | None = None,
    filesystem: Any = None,
    leave_out: Sequence[str] = (),
    warn: bool = True,
) -> ParquetClients:
    """Return the clients of many Parquet files by name, none of which is read before it is asked.

    The footers and the column of clients are read, nothing else. A client's recordings are those of
    `read`, to the bit. Clients that are asked one after the other share the row groups that they
    lie in, of which a process holds 256 MiB: files should be sorted by client. A warning says so
    where they are not and it matters.

    Parameters
    ----------
    files
        A folder, a file, a pattern such as "lake/*.parquet", several of these, or a URI such as
        "s3://bucket/people". Of a folder without Parquet files those of its subfolders are taken,
        whose names may be columns: "client=ann/part-0.parquet".
    client
        Column whose value names a row's client.
    inputs, label, target, recording, time
        Columns, as for `read`.
    classes
        The labels that may occur, in the order of the outputs. For "auto" the column of labels is
        read, too.
    per_step
        Whether every step has its own target. If not given: yes for numbers, no for labels.
    filesystem
        A pyarrow filesystem in which `files` are paths, where a URI does not say enough.
    leave_out
        Files that are not read.
    warn
        Whether to warn where row groups would be read many times; see `slow_parts`.

    >>> import pyarrow, pyarrow.parquet, tempfile
    >>> rows = {"who": ["ann", "ann", "bob"], "x": [0.1, 0.2, 0.3], "does": ["sit", "sit", "run"]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(pyarrow.table(rows), f"{folder}/part-0.parquet")
    ...     people = read_parquet(folder, client="who", label="does")
    ...     people["ann"]()[0].u.ravel().tolist(), list(people), people.classes
    ([0.1, 0.2], ['ann', 'bob'], ('run', 'sit'))
    """
    if label is not None and target is not None:
        raise ValueError(
            f"label is {label!r} and target is {target!r}; name a column of classes or columns of "
            "numbers, not both"
        )
    storage, found = find_parquet(files, filesystem)
    paths = without(found, leave_out)
    targets = tuple(listed(target if label is None else label))
    named = [name for name in (recording, time) if name is not None]
    schemas = schemas_of(storage, paths)
    chosen = listed(inputs) or schemas.numbers({client, *targets, *named})
    schemas.check(client, [*chosen, *targets, *named])
    labels: tuple[Any, ...] | None = None
    if label is not None:
        labels = schemas.labels(label) if classes == "auto" else tuple(classes)
    reader = Reader(
        storage,
        tuple(chosen),
        targets,
        labels,
        (label is None) if per_step is None else per_step,
        recording,
        time,
        label is not None and schemas.mixes_text(label),
    )
    lake = ParquetClients(index_of(storage, paths, client), reader, client)
    for sentence in slow_parts(lake, client) if warn else ():
        warnings.warn(sentence, stacklevel=2)
    return lake


def without(paths: Sequence[str], leave_out: Sequence[str]) -> list[str]:
    """Return the files without those that are not to be read; ValueError if one is none of them."""
    kept = list(paths)
    for name in leave_out:
        others = [path for path in kept if not f"/{path}".endswith(f"/{name}")]
        if len(others) == len(kept):
            raise ValueError(f"leave_out names {name!r}, which is none of the files; delete it")
        kept = others
    if not kept:
        raise FileNotFoundError("leave_out leaves no file to read; shorten it")
    return kept


def slow_parts(lake: ParquetClients, client: str) -> Iterator[str]:
    """Yield a sentence if row groups would be read many times."""
    often = lake.reads(DEFAULT_BYTES)
    if often > _OFTEN:
        yield (
            f"the lake is not sorted by {client!r}: each of its {len(lake.index.numbers)} row "
            f"groups will be read about {often:.0f} times; sort the rows by {client!r} over all "
            "files, or write smaller row groups"
        )


def _n_reads(groups: list[int], room: int) -> int:
    """Return how many row groups are read in this order, if the last `room` of them are held."""
    held: dict[int, None] = {}
    n_reads = 0
    for group in groups:
        if group in held:
            del held[group]
        else:
            n_reads += 1
            if len(held) >= room:
                del held[next(iter(held))]
        held[group] = None
    return n_reads

"""Many files of recordings, read at once."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.data.clients import Clients
from catchment.data.frames import from_frame, missing_values
from catchment.data.recording import Recording
from catchment.data.tables import KINDS, kind_of, read_columns

_Columns = Mapping[str, NDArray[Any]]


def read(
    files: str | Path | Iterable[str | Path],
    *,
    inputs: str | Sequence[str] | None = None,
    label: str | None = None,
    target: str | Sequence[str] | None = None,
    client: str | None = None,
    recording: str | None = None,
    time: str | None = None,
    classes: Sequence[object] | Literal["auto"] = "auto",
    per_step: bool | None = None,
    client_by: Literal["file", "folder"] = "file",
) -> Clients:
    """Return the recordings of many files by client, with the classes and channels they share.

    A file without a `recording` column holds one recording of each of its clients. The recordings
    of a client that is in several files come in the order of the files' names.

    Parameters
    ----------
    files
        A folder, a file, a pattern such as "recordings/*.csv" ("**" looks in subfolders too), or
        several of these. Files are .csv, .tsv (also .gz), .parquet and .npz; a folder's other files
        are passed over.
    inputs
        Columns of the inputs. If not given, every column of numbers that has a name and is not
        named below; a counter or a clock among them should therefore be named as `time`.
    label
        Column of classes, as text or numbers.
    target
        Columns of numbers to predict, in the place of a label.
    client
        Column whose value names a row's client. Without it each file is a client, called by its
        name without the suffix; see `client_by`.
    recording
        Column whose value names a row's recording within its file and client.
    time
        Column of seconds or timestamps, by which rows are sorted; see `from_frame`.
    classes
        The labels that may occur, in the order of the outputs. "auto" takes those of all files,
        sorted. Owners who each read their own files must pass the same ones.
    per_step
        Whether every step has its own target. If not given: no where each recording has one label
        or target throughout, and yes for all recordings if it changes within any of them. Labels
        that change are not cut apart here: `Prepare(window=...)` takes a window's label from its
        steps.
    client_by
        What is a client where no column names one: each "file", or each "folder" with files in it.

    Returns
    -------
    Clients
        A mapping of client name -> list of recordings with `classes` and `channels`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, activity in [("ann", "walk"), ("bob", "sit")]:
    ...         text = f"t,ax,activity\\n0.0,1.5,{activity}\\n0.1,1.7,{activity}\\n"
    ...         _ = Path(folder, f"{name}.csv").write_text(text)
    ...     people = read(f"{folder}/*.csv", label="activity", time="t")
    >>> list(people), people.classes, people.channels
    (['ann', 'bob'], ('sit', 'walk'), ('ax',))
    >>> people["ann"][0].y, people["ann"][0].times
    (array([0., 1.]), array([0. , 0.1]))
    """
    if label is not None and target is not None:
        raise ValueError(
            f"label is {label!r} and target is {target!r}; name a column of classes or columns of "
            "numbers, not both"
        )
    tables = [_Table(path, read_columns(path), client_by) for path in find_files(files)]
    named = [*_listed(label), *_listed(target), *_listed(client), *_listed(recording)]
    chosen = _inputs(tables, {*named, *_listed(time)}) if inputs is None else _listed(inputs)
    found: tuple[Any, ...] | None = None
    if label is not None:
        tables = _with_comparable_labels(tables, label)
        found = _classes(tables, label) if classes == "auto" else tuple(classes)
    if label is not None or target is not None:
        per_step = _changes(tables, label or target, client, recording, per_step)
    held: dict[str, list[Recording]] = {}
    for table in tables:
        read_here = table.recordings(
            inputs=chosen,
            target=target if label is None else label,
            recording=recording,
            client=client,
            time=time,
            classes=found,
            per_step=per_step,
        )
        for name, recordings in read_here.items():
            if client is None and client_by == "file" and name in held:
                raise ValueError(
                    f"{table.path} gives client {name!r}, and so does a file in another folder; "
                    "rename one of them, name a client column, or, where every client has a "
                    'folder, say client_by = "folder"'
                )
            held.setdefault(name, []).extend(recordings)
    columns = {
        "time": time,
        "recording": recording,
        "client": client,
        "client_by": "folder" if client is None and client_by == "folder" else None,
        "target": "\n".join([*_listed(label), *_listed(target)]),
        "per_step": "yes" if per_step else None,
    }
    kept = {name: column for name, column in columns.items() if column}
    return Clients(held, found, tuple(chosen), kept)


def find_files(files: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the files of a folder, of a pattern or of several, sorted, each once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b.csv", "a.csv", "notes.txt"):
    ...         Path(folder, name).touch()
    ...     [path.name for path in find_files(folder)]
    ['a.csv', 'b.csv']
    """
    found: set[Path] = set()
    for pattern in [files] if isinstance(files, str | Path) else files:
        path = Path(pattern)
        if path.is_dir():
            matched = [file for file in path.iterdir() if file.is_file() and kind_of(file) in KINDS]
        elif path.is_file():
            matched = [path]
        else:
            matched = [
                file
                for file in map(Path, glob.glob(str(pattern), recursive=True))  # noqa: PTH207
                if file.is_file()
            ]
        if not matched:
            raise FileNotFoundError(
                f"there is no file {pattern} to read, nor one that it matches; pass a folder of "
                f"{', '.join(KINDS)} files or a pattern such as 'recordings/*.csv'"
            )
        found.update(matched)
    return sorted(found)


@dataclass(frozen=True)
class _Table:
    """A file and its columns; what is wrong with them is told with the file's name."""

    path: Path
    columns: _Columns
    client_by: str = "file"

    @property
    def client(self) -> str:
        if self.client_by == "folder":
            return self.path.resolve().parent.name
        name = self.path.name
        return name[: -len(".gz")].rpartition(".")[0] if name.endswith(".gz") else self.path.stem

    def column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise ValueError(
                f"{self.path.name} has no column {name!r}; it has {', '.join(self.columns)}"
            )
        return self.columns[name]

    def recordings(self, **named: Any) -> dict[str, list[Recording]]:
        try:
            clients = from_frame(self.columns, **named)
        except ValueError as error:
            raise ValueError(f"{self.path.name}: {error}") from error
        if named["client"] is None:
            return {self.client: [one for held in clients.values() for one in held]}
        return clients


def _listed(columns: str | Sequence[str] | None) -> list[str]:
    if columns is None:
        return []
    return [columns] if isinstance(columns, str) else list(columns)


def _inputs(tables: list[_Table], named: set[str]) -> list[str]:
    """Return the columns of numbers, in the order of the first file; all files must have them."""
    chosen: dict[str, _Table] = {}
    for table in tables:
        for name, values in table.columns.items():
            # The index of a table that pandas wrote has no name, or one made up for Parquet.
            unnamed = not name or name.startswith("__index_level_")
            if not unnamed and name not in named and values.dtype.kind in "iufb":
                chosen.setdefault(name, table)
    for name, origin in chosen.items():
        for table in tables:
            if name not in table.columns:
                raise ValueError(
                    f"{table.path.name} has no column {name!r}, which {origin.path.name} has; "
                    "name the columns to use with inputs="
                )
            values = table.columns[name]
            missing = missing_values(values)
            if values.dtype.kind not in "iufb" and not missing.all():
                raise ValueError(
                    f"{table.path.name} has {values[~missing][0]!r} in column {name!r}, where "
                    f"{origin.path.name} has numbers; mend it or name the columns to use with "
                    "inputs="
                )
    if not chosen:
        raise ValueError(
            f"{tables[0].path.name} has no column of numbers besides those named; its columns are "
            f"{', '.join(tables[0].columns)}"
        )
    return list(chosen)


def _with_comparable_labels(tables: list[_Table], label: str) -> list[_Table]:
    """Return the tables with labels of one kind: whole numbers as such, or text in all files."""
    columns = [_whole(table.column(label)) for table in tables]
    kinds = {type(value) for values in columns for value in values if value is not None}
    if str in kinds and len(kinds) > 1:
        columns = [[None if v is None else str(v) for v in values] for values in columns]
    made = []
    for table, values in zip(tables, columns, strict=True):
        own = np.empty(len(values), dtype=object)
        own[:] = values
        made.append(_Table(table.path, {**table.columns, label: own}, table.client_by))
    return made


def _whole(values: NDArray[Any]) -> list[Any]:
    """Return labels as Python values, None where missing; 1.0 is the label 1."""
    missing = missing_values(values)
    known = values[~missing]
    if values.dtype.kind == "f" and (known == np.floor(known)).all():
        known = known.astype(np.int64)
    labels: list[Any] = [None] * len(values)
    for row, value in zip(np.flatnonzero(~missing).tolist(), known.tolist(), strict=True):
        labels[row] = value
    return labels


def _classes(tables: list[_Table], label: str) -> tuple[Any, ...]:
    labels = {value for table in tables for value in table.column(label) if value is not None}
    if not labels:
        raise ValueError(
            f"{tables[0].path.name} has no value in column {label!r}, nor has any other file; "
            "fill it, or leave label= out for recordings without targets"
        )
    return tuple(sorted(labels))


def _changes(
    tables: list[_Table],
    target: str | Sequence[str] | None,
    client: str | None,
    recording: str | None,
    per_step: bool | None,
) -> bool:
    """Return whether a target changes within any recording, unless that is settled."""
    if per_step is not None:
        return per_step
    for table in tables:
        groups = [table.column(name).tolist() for name in (*_listed(client), *_listed(recording))]
        keys = list(zip(*groups, strict=True)) if groups else None
        for name in _listed(target):
            values = table.column(name)
            first: dict[Any, Any] = {}
            for row in np.flatnonzero(~missing_values(values)).tolist():
                key = None if keys is None else keys[row]
                if first.setdefault(key, values[row]) != values[row]:
                    return True
    return False

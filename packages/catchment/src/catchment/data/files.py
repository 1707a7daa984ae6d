"""Many files of recordings, read at once; where they lie, and how their columns agree."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.data.clients import Clients
from catchment.data.frames import first_text, from_frame, holds_text, listed, missing_values
from catchment.data.recording import Recording
from catchment.data.tables import KINDS, kind_of, read_columns
from catchment.errors import SettingError, near

ENVIRONMENT = "CATCHMENT_DATA"
MODELS_ENVIRONMENT = "CATCHMENT_MODELS"
_URI = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


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
    labels: Literal["all", "some"] = "all",
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
        that change are not cut apart here: `Preprocessing(window=...)` takes a window's label from
        its steps.
    client_by
        What is a client where no column names one: each "file", or each "folder" with files in it.
    labels
        "some" if files may lack the column of labels: they are then read with labels missing.

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
    tables = [Table(path, read_columns(path), client_by) for path in find_files(files)]
    tables = [table.with_missing(label if labels == "some" else None) for table in tables]
    predicted = listed(target if label is None else label)
    by_name = {"client": client, "recording": recording, "time": time}
    named = {*predicted, *filter(None, by_name.values())}
    for table, name in product(tables, named):
        table.column(name)
    chosen = inputs_of(tables, named) if inputs is None else listed(inputs)
    found: tuple[Any, ...] | None = None
    if label is not None:
        tables = with_comparable_labels(tables, label)
        found = classes_of(tables, label) if classes == "auto" else tuple(classes)
    else:
        refuse_text(tables, predicted)
    if predicted and per_step is None:
        per_step = targets_change(tables, predicted, client, recording)
    held: dict[str, list[Recording]] = {}
    for table in tables:
        for name, recordings in table.recordings(
            inputs=chosen, target=predicted or None, classes=found, per_step=per_step, **by_name
        ).items():
            if client is None and client_by == "file" and name in held:
                raise SettingError(
                    f"{table.path} gives client {name!r}, and so does a file in another folder",
                    "client_by",
                    "folder",
                    otherwise="rename one of them or name a client column",
                )
            held.setdefault(name, []).extend(recordings)
    kept = kept_columns(time, recording, client, predicted, bool(per_step), client_by=client_by)
    return Clients(held, found, tuple(chosen), kept)


def kept_columns(
    time: str | None,
    recording: str | None,
    client: str | None,
    predicted: Sequence[str],
    per_step: bool,
    *,
    client_by: str = "file",
) -> dict[str, str]:
    """Return the columns that are no inputs as a model keeps them, each by what it holds."""
    columns = {
        "time": time,
        "recording": recording,
        "client": client,
        "client_by": "folder" if client is None and client_by == "folder" else None,
        "target": "\n".join(predicted),
        "per_step": "yes" if per_step else None,
    }
    return {name: column for name, column in columns.items() if column}


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
            matched = [one for one in path.iterdir() if one.is_file() and kind_of(one) in KINDS]
        else:
            every = [path] if path.is_file() else glob.glob(str(pattern), recursive=True)  # noqa: PTH207
            matched = [one for one in map(Path, every) if one.is_file()]
        if not matched:
            raise FileNotFoundError(_nothing_there(path))
        found.update(matched)
    return sorted(found)


def _nothing_there(path: Path) -> str:
    """Return why there is nothing to read, and what to do."""
    kinds = ", ".join(KINDS)
    remedy = f"pass a folder of {kinds} files or a pattern such as 'recordings/*.csv'"
    if not path.is_dir():
        return f"no file matches {path}; {remedy}"
    n_inside = sum(1 for _ in path.iterdir())
    if n_inside == 0:
        return f"there is no file in {path}: the folder is empty; {remedy}"
    below = next((p for p in sorted(path.rglob("*")) if kind_of(p) in KINDS and p.is_file()), None)
    if below is not None:
        remedy = f"its subfolders have some: '{path}/**/*{kind_of(below)}' matches them"
    # No names: where the data are a client's own, what is said here goes to the server.
    others = "1 other entry" if n_inside == 1 else f"{n_inside} other entries"
    return f"there is no file of {kinds} in {path}, which has {others}; {remedy}"


def client_of(path: Path, by_folder: bool = False) -> str:
    """Return whom a file without a column of clients belongs to: its name says, or its folder.

    >>> client_of(Path("data/ann.csv.gz")), client_of(Path("data/ann.csv"), by_folder=True)
    ('ann', 'data')
    """
    if by_folder:
        return path.resolve().parent.name
    return path.name.removesuffix(".gz").rpartition(".")[0] or path.name


@dataclass(frozen=True)
class Table:
    """A file and its columns; what is wrong with them is told with the file's name."""

    path: Path
    columns: Mapping[str, NDArray[Any]]
    client_by: str = "file"

    @property
    def client(self) -> str:
        return client_of(self.path, self.client_by == "folder")

    def column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            meant = near(name, self.columns)
            raise ValueError(
                f"{self.path.name} has no column {name!r}; it has {', '.join(self.columns)}"
                f"{f'; did you mean {meant!r}?' if meant else ''}"
            )
        return self.columns[name]

    def with_missing(self, name: str | None) -> Table:
        """Return the table with a column, if it has none of this name, of missing values."""
        if name is None or name in self.columns:
            return self
        n_rows = max(map(len, self.columns.values()), default=0)
        return replace(self, columns={**self.columns, name: np.full(n_rows, None, dtype=object)})

    def recordings(self, **named: Any) -> dict[str, list[Recording]]:
        try:
            clients = from_frame(self.columns, **named)
        except SettingError as error:
            raise error.within(self.path.name) from error
        except ValueError as error:
            raise ValueError(f"{self.path.name}: {error}") from error
        if named["client"] is None:
            clients = {self.client: [one for held in clients.values() for one in held]}
        # A name that stays when files are added, or rows at a file's end.
        where = f"{self.path.resolve().parent.name}/{self.path.name}"
        for name, held in clients.items():
            clients[name] = [replace(one, name=f"{where} {k}") for k, one in enumerate(held)]
        return clients


def inputs_of(tables: list[Table], named: set[str]) -> list[str]:
    """Return the columns of numbers, in the order of the first file; all files must have them."""
    chosen: dict[str, Table] = {}
    for table in tables:
        for name, values in table.columns.items():
            # The index of a table that pandas wrote has no name, or one made up for Parquet.
            unnamed = not name or name.startswith("__index_level_")
            if not unnamed and name not in named and values.dtype.kind in "iufb":
                chosen.setdefault(name, table)
    for name, origin in chosen.items():
        for table in tables:
            own = table.columns.get(name)
            if own is None:
                wrong = f"no column {name!r}, which {origin.path.name} has"
            elif own.dtype.kind in "iufb" or missing_values(own).all():
                continue
            else:
                odd = first_text(own) or repr(own[~missing_values(own)][0])
                wrong = f"{odd} of column {name!r}, where {origin.path.name} has numbers"
            raise SettingError(
                f"{table.path.name} has {wrong}",
                "inputs",
                [
                    other
                    for other in chosen
                    if all(other in t.columns and not holds_text(t.columns[other]) for t in tables)
                ],
                otherwise="mend it",
            )
    if not chosen:
        raise ValueError(
            f"{tables[0].path.name} has no column of numbers besides those named; its columns are "
            f"{', '.join(tables[0].columns)}"
        )
    return list(chosen)


def with_comparable_labels(tables: list[Table], label: str) -> list[Table]:
    """Return the tables with labels of one kind: integers as such, or text in all files."""
    columns = [whole_labels(table.column(label)) for table in tables]
    kinds = {type(value) for values in columns for value in values if value is not None}
    if str in kinds and len(kinds) > 1:
        columns = [[None if v is None else str(v) for v in values] for values in columns]
    return [
        replace(table, columns={**table.columns, label: np.fromiter(values, dtype=object)})
        for table, values in zip(tables, columns, strict=True)
    ]


def refuse_text(tables: list[Table], targets: list[str]) -> None:
    """Raise SettingError if a target that should be a number is text, which is a label."""
    for table in tables:
        for name in targets:
            values = table.columns.get(name)
            if values is not None and holds_text(values):
                raise SettingError(
                    f"{table.path.name}: target {name!r} holds text, {first_text(values)}",
                    "label",
                    name,
                    otherwise="mend it",
                )


def whole_labels(values: NDArray[Any]) -> list[Any]:
    """Return labels as Python values, None where missing; 1.0 is the label 1."""
    there = ~missing_values(values)
    known = values[there]
    if values.dtype.kind == "f" and (known == np.floor(known)).all():
        known = known.astype(np.int64)
    labels = np.full(len(values), None, dtype=object)
    labels[there] = known
    return list(labels)


def label_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return labels (n,) as text, None where missing; 1.0 is the label 1."""
    texts = [None if label is None else str(label) for label in whole_labels(values)]
    return np.fromiter(texts, dtype=object)


def classes_of(tables: list[Table], label: str) -> tuple[Any, ...]:
    labels = {value for table in tables for value in table.column(label) if value is not None}
    if not labels:
        raise ValueError(
            f"{tables[0].path.name} has no value in column {label!r}, nor has any other file; "
            "fill it, or name no label for recordings without targets"
        )
    return tuple(sorted(labels))


def targets_change(
    tables: Iterable[Table], targets: Sequence[str], client: str | None, recording: str | None
) -> bool:
    """Return whether a target changes within any recording; files need not have all columns."""
    grouping = [name for name in (client, recording) if name is not None]
    for table in tables:
        groups = [table.columns[name].tolist() for name in grouping if name in table.columns]
        keys = list(zip(*groups, strict=True))
        for values in (table.columns[name] for name in targets if name in table.columns):
            first: dict[Any, Any] = {}
            labels = values.tolist()
            for row in np.flatnonzero(~missing_values(values)).tolist():
                if first.setdefault(keys[row] if keys else None, labels[row]) != labels[row]:
                    return True
    return False


def cache_directory() -> Path:
    """Return the directory for this user's copies of data sets.

    >>> cache_directory().name
    'catchment'
    """
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "catchment"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "catchment"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "catchment"
    return Path.home() / ".cache" / "catchment"


def data_directories(
    directory: Path | str | None = None, variable: str = ENVIRONMENT
) -> tuple[Path, ...]:
    """Return the directories that are searched, first the one that wins.

    >>> [path.name for path in data_directories("my/data")]
    ['data']
    """
    own = cache_directory() if variable == ENVIRONMENT else cache_directory() / "models"
    if directory is not None:
        return (Path(directory).expanduser(),)
    named = os.environ.get(variable)
    return (Path(named).expanduser(), own) if named else (own,)


def model_directories(directory: Path | str | None = None) -> tuple[Path, ...]:
    """Return the directories that are searched for pretrained models, first the one that wins."""
    return data_directories(directory, MODELS_ENVIRONMENT)


def is_uri(path: str | Path) -> bool:
    """Return whether a path is the address of a bucket or a server.

    >>> is_uri("s3://lake/people"), is_uri("lake/people")
    (True, False)
    """
    return isinstance(path, str) and bool(_URI.match(path))

"""Many files of recordings, read at once."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from catchment.data.clients import Clients
from catchment.data.file_tables import (
    Table,
    classes_of,
    inputs_of,
    listed,
    refuse_text,
    targets_change,
    with_comparable_labels,
)
from catchment.data.recording import Recording
from catchment.data.tables import KINDS, kind_of, read_columns
from catchment.errors import SettingError


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
    tables = [Table(path, read_columns(path), client_by) for path in find_files(files)]
    return together(
        tables,
        Named(label, target, client, recording, time, client_by),
        inputs=inputs,
        classes=classes,
        per_step=per_step,
    )


@dataclass(frozen=True)
class Named:
    """The columns that are no inputs, each by what it holds."""

    label: str | None
    target: str | Sequence[str] | None
    client: str | None
    recording: str | None
    time: str | None
    client_by: Literal["file", "folder"] = "file"

    @property
    def every(self) -> set[str]:
        """All of them."""
        fields = (self.label, self.target, self.client, self.recording, self.time)
        return {name for field in fields for name in listed(field)}

    @property
    def predicted(self) -> str | Sequence[str] | None:
        """The label, or the target."""
        return self.target if self.label is None else self.label

    def kept(self, *, per_step: bool) -> dict[str, str]:
        """Return them as a model keeps them."""
        columns = {
            "time": self.time,
            "recording": self.recording,
            "client": self.client,
            "client_by": "folder" if self.client is None and self.client_by == "folder" else None,
            "target": "\n".join(listed(self.predicted)),
            "per_step": "yes" if per_step else None,
        }
        return {name: column for name, column in columns.items() if column}


def together(
    tables: list[Table],
    named: Named,
    *,
    inputs: str | Sequence[str] | None,
    classes: Sequence[object] | Literal["auto"],
    per_step: bool | None,
) -> Clients:
    """Return the recordings of files that are open, with the classes and channels they share."""
    chosen = inputs_of(tables, named.every) if inputs is None else listed(inputs)
    found: tuple[Any, ...] | None = None
    if named.label is not None:
        tables = with_comparable_labels(tables, named.label)
        found = classes_of(tables, named.label) if classes == "auto" else tuple(classes)
    else:
        refuse_text(tables, listed(named.target))
    if named.predicted is not None:
        per_step = targets_change(tables, named.predicted, named.client, named.recording, per_step)
    held: dict[str, list[Recording]] = {}
    for table in tables:
        read_here = table.recordings(
            inputs=chosen,
            target=named.predicted,
            recording=named.recording,
            client=named.client,
            time=named.time,
            classes=found,
            per_step=per_step,
        )
        for name, recordings in read_here.items():
            if named.client is None and named.client_by == "file" and name in held:
                raise SettingError(
                    f"{table.path} gives client {name!r}, and so does a file in another folder",
                    "client_by",
                    "folder",
                    otherwise="rename one of them or name a client column",
                )
            held.setdefault(name, []).extend(_named(recordings, table.path))
    return Clients(held, found, tuple(chosen), named.kept(per_step=bool(per_step)))


def _named(recordings: list[Recording], path: Path) -> Iterator[Recording]:
    """Yield recordings with a name that stays when files are added, or rows at a file's end."""
    where = f"{path.resolve().parent.name}/{path.name}"
    for number, one in enumerate(recordings):
        yield replace(one, name=f"{where} {number}")


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
        matched = _matched(pattern)
        if not matched:
            raise FileNotFoundError(_nothing_there(Path(pattern)))
        found.update(matched)
    return sorted(found)


def _matched(pattern: str | Path) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        return [file for file in path.iterdir() if file.is_file() and kind_of(file) in KINDS]
    if path.is_file():
        return [path]
    matches = map(Path, glob.glob(str(pattern), recursive=True))  # noqa: PTH207
    return [file for file in matches if file.is_file()]


def _nothing_there(path: Path) -> str:
    """Return why there is nothing to read, and what to do."""
    kinds = ", ".join(KINDS)
    remedy = f"pass a folder of {kinds} files or a pattern such as 'recordings/*.csv'"
    if not path.is_dir():
        return f"there is no file {path} to read, nor one that it matches; {remedy}"
    n_inside = sum(1 for _ in path.iterdir())
    if n_inside == 0:
        return f"there is no file in {path}: the folder is empty; {remedy}"
    below = next((p for p in sorted(path.rglob("*")) if kind_of(p) in KINDS and p.is_file()), None)
    if below is not None:
        remedy = f"its subfolders have some: '{path}/**/*{kind_of(below)}' matches them"
    # No names: where the data are a client's own, what is said here goes to the server.
    others = "1 other entry" if n_inside == 1 else f"{n_inside} other entries"
    return f"there is no file of {kinds} in {path}, which has {others}; {remedy}"

"""One's own files as the data of a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from catchment.data.clients import Cached
from catchment.data.clients import Clients as ReadClients
from catchment.data.files import is_uri
from catchment.data.recording import Recording
from catchment.errors import SettingError
from catchment.plans.about import About, Clients, Recordings
from catchment.plugins import plugin


@dataclass(frozen=True, kw_only=True)
class Files:
    """Your own CSV, Parquet or npz files.

    Parameters
    ----------
    files
        A folder, a file, a pattern such as "recordings/*.csv", or a list of these, relative to the
        plan's folder. Without a client column every file is a client, named after it.
    inputs
        Columns of the inputs; if not given, every column of numbers that is not named below.
    label
        Column of classes.
    target
        Columns of numbers to predict, in the place of a label. With neither, a horizon in [prepare]
        says how far ahead the inputs are predicted.
    client, recording, time
        Columns that name a row's client and recording, and by which rows are sorted.
    classes
        The labels that may occur, in the order of the outputs; "auto" takes those of all files,
        which only somebody who can read all files can do.
    per_step
        Whether every step has its own label or target. If not given, whether it changes within a
        recording; where nobody can read all files, numbers do and labels do not.
    client_by
        What is a client where no column names one: each "file", or each "folder" with files in it.
    goes_on
        Whether recordings get more steps at the ends of their files; with increments = "new".
    leave_out
        Names of files that are not to be read, such as "ann.csv" or "ann/monday.csv".
    """

    files: str | tuple[str, ...]
    inputs: tuple[str, ...] | str | None = None
    label: str | None = None
    target: tuple[str, ...] | str | None = None
    client: str | None = None
    recording: str | None = None
    time: str | None = None
    classes: tuple[str, ...] | tuple[int, ...] | Literal["auto"] = "auto"
    per_step: bool | None = None
    client_by: Literal["file", "folder"] = "file"
    goes_on: bool = False
    leave_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.label is not None and self.target is not None:
            raise ValueError(
                f"label is {self.label!r} and target is {self.target!r}; name a column of classes "
                "or columns of numbers, not both"
            )
        if self.label is None and self.classes != "auto":
            raise ValueError('classes are of a label; add the column of labels, label = "..."')
        for name in ("files", "inputs"):
            if getattr(self, name) == ():
                raise ValueError(f"{name} is an empty list; name at least one")

    @property
    def has_targets(self) -> bool:
        return self.label is not None or self.target is not None

    @property
    def is_settled(self) -> bool:
        """Whether the plan says everything that clients share, so that no file need be read."""
        labels = self.label is None or self.classes != "auto"
        steps = self.per_step is not None or not self.has_targets
        return self.inputs is not None and labels and steps

    def paths(self, base: Path) -> list[Path]:
        """Return the files in the order of their names; FileNotFoundError if there are none."""
        from catchment.data.files import find_files

        found = find_files([base / pattern for pattern in _listed(self.files)])
        for name in self.leave_out:
            kept = [path for path in found if not f"/{path.as_posix()}".endswith(f"/{name}")]
            if len(kept) == len(found):
                raise ValueError(f"leave_out names {name!r}, which is none of the files; delete it")
            found = kept
        if not found:
            raise FileNotFoundError("leave_out leaves no file to read; shorten it")
        return found

    def first_files(self, base: Path) -> list[Path]:
        """Return the first file of each pattern."""
        from catchment.data.files import find_files

        return [find_files(base / pattern)[0] for pattern in _listed(self.files)]

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        if self.is_lake(base):
            return self._lake(base)
        paths = self.paths(base)
        if self.client is None and self.is_settled:
            if self.client_by == "folder":
                return Recordings(self._folders(paths), self.about())
            clients: Clients = {client_of(path): Cached(OneFile(path, self)) for path in paths}
            if len(clients) < len(paths):
                raise ValueError(f"two files of {self.files} have one name; rename one of them")
            return Recordings(clients, self.about())
        found, usable = self._readable(paths)
        first = next(one for held in found.values() for one in held)
        classes = None if found.classes is None else tuple(map(str, found.classes))
        about = usable.how.about(found.channels or (), classes, bool(first.per_step))
        settled = replace(self, inputs=about.channels, per_step=about.per_step)
        if found.classes is not None:
            settled = replace(settled, classes=tuple(found.classes))
        every: Clients = dict(found)
        if usable.bad:
            # Each of them is a client, which the run asks, names and leaves out. Clients are dealt
            # in their order, which a bad file must not change.
            unread = {client_of(path): OneFile(path, settled) for path in usable.bad}
            names = [client_of(path) for path in paths]
            every = {name: found[name] if name in found else unread[name] for name in names}
        return Recordings(every, about, notices=usable.notices)

    def is_lake(self, base: Path) -> bool:
        """Return whether the clients of these files are read one by one, by row groups."""
        if any(map(is_uri, _listed(self.files))):
            return True
        if self.client is None or not self.is_settled:
            return False
        places = [base / pattern for pattern in _listed(self.files)]
        if all(place.is_dir() and not _kinds_in(place) for place in places):
            return True  # of its subfolders, then
        return {kind for place in places for kind in _kinds_in(place)} == {".parquet"}

    def lake_lines(self, base: Path) -> list[str]:
        """Return what the footers of a lake's files say, in lines."""
        parquet = plugin("readers", "parquet", needed_for="folders of Parquet files")
        storage, paths = parquet.find_parquet(self._places(base))
        found = parquet.schemas_of(storage, paths)
        files = "1 Parquet file" if len(paths) == 1 else f"{len(paths):,} Parquet files"
        columns = ", ".join(next(iter(found.files.values())))
        return [f"{files} with {found.n_rows:,} rows, read client by client; columns: {columns}"]

    def _places(self, base: Path) -> list[str | Path]:
        return [one if is_uri(one) else base / one for one in _listed(self.files)]

    def _lake(self, base: Path) -> Recordings:
        """Return the clients of Parquet files, of which only the names are read now."""
        if self.client is None or not self.is_settled:
            raise ValueError(
                f"{_listed(self.files)[0]} is a bucket, whose clients are read one by one; write "
                "client, inputs, per_step and, for a label, classes into [data]"
            )
        parquet = plugin("readers", "parquet", needed_for="folders of Parquet files")
        lake = parquet.open_lake(
            self._places(base),
            client=self.client,
            inputs=self.inputs,
            label=self.label,
            target=self.target,
            recording=self.recording,
            time=self.time,
            classes=self.classes,
            per_step=self.per_step,
            leave_out=self.leave_out,
        )
        return Recordings(lake, self.about(), notices=tuple(parquet.slow_parts(lake, self.client)))

    def _folders(self, paths: list[Path]) -> Clients:
        """Return a client for each folder, read when it is asked."""
        held: dict[str, list[Path]] = {}
        for path in paths:
            held.setdefault(path.resolve().parent.name, []).append(path)
        return {name: Cached(SomeFiles(tuple(own), self)) for name, own in held.items()}

    def _readable(self, paths: list[Path]) -> tuple[ReadClients, Usable]:
        """Return what can be read; an error if that is nothing, or no file is a client."""
        try:
            return self.read(paths), Usable(self)
        except (ValueError, OSError):
            apart = self.client is None and self.client_by == "file"
            usable = self._usable(paths) if apart else Usable(self)
            if len(usable.bad) == len(paths) or usable == Usable(self):
                raise
            good = [path for path in paths if path not in usable.bad]
            return usable.how.read(good), usable

    def _usable(self, paths: list[Path]) -> Usable:
        """Return how most files are read, and which of them cannot be read so."""
        seen = {path: channels for path in paths if (channels := self._channels(path))}
        bad = tuple(path for path in paths if path not in seen)
        if not seen or self.inputs is not None:
            return Usable(self, bad)
        usual, n_alike = Counter(seen.values()).most_common(1)[0]
        if 2 * n_alike <= len(paths):
            return Usable(self, bad)
        how = replace(self, inputs=usual)
        bad = tuple(path for path in paths if path not in seen or how._channels(path) is None)
        notices = [
            f"{path.name} has {', '.join(own)} besides {', '.join(usual)}, which most files have: "
            "it is not used"
            for path in paths
            if path not in bad and (own := [name for name in seen[path] if name not in usual])
        ]
        return Usable(how, bad, tuple(notices))

    def _channels(self, path: Path) -> tuple[str, ...] | None:
        """Return the inputs of a file by itself, or None if it cannot be read."""
        try:
            return self.read([path]).channels
        except (ValueError, OSError):
            return None

    def read(self, paths: list[Path]) -> ReadClients:
        """Return the recordings of some files, with the channels and classes they share."""
        # An extra: only those who read files need it.
        from catchment.data.files import read

        try:
            return read(
                paths,
                inputs=self.inputs,
                label=self.label,
                target=self.target,
                client=self.client,
                recording=self.recording,
                time=self.time,
                classes=self.classes,
                per_step=self.per_step,
                client_by=self.client_by,
            )
        except SettingError as error:
            # Who comes here wrote a plan, and mends it there.
            raise ValueError(error.in_plan()) from error

    def about(
        self,
        channels: tuple[str, ...] = (),
        classes: tuple[str, ...] | None = None,
        per_step: bool | None = None,
    ) -> About:
        """Return what clients share: as the plan says it, and else as it was found."""
        known = tuple(_listed(self.inputs)) if self.inputs is not None else channels
        named = classes if self.classes == "auto" else tuple(map(str, self.classes))
        steps = self.per_step if self.per_step is not None else per_step
        if steps is None:
            steps = self.target is not None
        columns = {
            "time": self.time,
            "recording": self.recording,
            "client": self.client,
            "client_by": "folder" if self.client is None and self.client_by == "folder" else "",
            "target": self.label or "\n".join(_listed(self.target)),
            "per_step": "yes" if steps else "",
        }
        kept = tuple((name, column) for name, column in columns.items() if column)
        return About(known, named if self.label is not None else None, steps, kept)


@dataclass(frozen=True)
class Usable:
    """How files are read, which of them cannot be read so, and what is passed over."""

    how: Files
    bad: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class OneFile:
    """The recordings of one file, all of one client."""

    path: Path
    how: Files

    def __call__(self) -> list[Recording]:
        return [one for held in self.how.read([self.path]).values() for one in held]


@dataclass(frozen=True)
class SomeFiles:
    """The recordings of several files, all of one client."""

    paths: tuple[Path, ...]
    how: Files

    def __call__(self) -> list[Recording]:
        return [one for held in self.how.read(list(self.paths)).values() for one in held]


def _kinds_in(place: Path) -> set[str]:
    """Return the kinds of files of a folder or pattern."""
    from catchment.data.files import find_files
    from catchment.data.tables import kind_of

    try:
        return {kind_of(path) for path in find_files(place)}
    except FileNotFoundError:
        return set()


def client_of(path: Path) -> str:
    """Return the client that a file is: its name without the suffix.

    >>> client_of(Path("logs/ann.csv.gz")), client_of(Path("ann.2.parquet"))
    ('ann', 'ann.2')
    """
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def _listed(names: tuple[str, ...] | str | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)

"""Where the data of a plan come from: one's own files, invented, or public.

Every client is a source that is read when it is asked, once per process (`Cached`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from catchment.data.cache import Cached
from catchment.data.catalogue import CATALOGUE
from catchment.data.clients import Clients as ReadClients
from catchment.data.generators import mackey_glass, narma
from catchment.data.recording import Recording
from catchment.data.wearables import ACTIVITIES, CHANNELS, wearable_user
from catchment.engine.local import Source, data_of

Clients = dict[str, Source]


@dataclass(frozen=True)
class About:
    """What everyone must know of the data before anything is built.

    Parameters
    ----------
    channels
        Names of the inputs.
    classes
        Names of the outputs, if they are classes.
    per_step
        Whether raw recordings have a target for every step; False if they have none.
    columns
        How files name what is no channel; the model keeps it.
    """

    channels: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    per_step: bool = False
    columns: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, eq=False)
class Recordings:
    """Clients as a source has them, and the publisher's test part if there is one."""

    clients: Clients
    about: About
    test: Clients = field(default_factory=dict)


class Origin(Protocol):
    """Where data come from."""

    @property
    def has_targets(self) -> bool:
        """Whether recordings have targets; else a horizon must say what is predicted."""

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        """Return the clients and what they share."""


@dataclass(frozen=True, kw_only=True)
class Wearables:
    """Invented activity recordings of people who differ, made on the spot.

    Parameters
    ----------
    users
        How many people.
    windows_per_user
        Recordings of each.
    steps
        Length of a recording, at 50 steps per second.
    """

    users: int = 12
    windows_per_user: int = 40
    steps: int = 128

    @property
    def has_targets(self) -> bool:
        return True

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        if self.users < 1:
            raise ValueError(f"users is {self.users}; pass at least 1")
        clients: Clients = {
            f"user-{user:03d}": Cached(Wearer(seed, user, self.windows_per_user, self.steps))
            for user in range(self.users)
        }
        return Recordings(clients, About(CHANNELS, ACTIVITIES))


@dataclass(frozen=True)
class Wearer:
    """One invented person's recordings."""

    seed: int
    user: int
    windows: int
    steps: int

    def __call__(self) -> list[Recording]:
        return wearable_user(self.seed, self.user, windows_per_user=self.windows, steps=self.steps)


@dataclass(frozen=True, kw_only=True)
class MackeyGlass:
    """A Mackey-Glass series, to be forecast: say how far with a horizon in [prepare].

    Parameters
    ----------
    steps
        Length of the series.
    delay
        Its tau; mildly chaotic from about 17.
    """

    steps: int = 3000
    delay: float = 17.0

    @property
    def has_targets(self) -> bool:
        return False

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        series = mackey_glass(self.steps, delay=self.delay, seed=seed)
        return Recordings({"mackey-glass": [Recording(series)]}, About(("x",)))


@dataclass(frozen=True, kw_only=True)
class Narma:
    """The NARMA task: the output of a nonlinear system with memory, from its random input.

    Parameters
    ----------
    steps
        Length of the series.
    order
        10 or 30.
    """

    steps: int = 3000
    order: int = 10

    @property
    def has_targets(self) -> bool:
        return True

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        task = narma(self.steps, order=self.order, seed=seed)
        return Recordings({"narma": [task]}, About(("u",), per_step=True))


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """A public data set of the catalogue, by its name; `catchment data list` shows them.

    Parameters
    ----------
    window
        Steps per recording; "usual" is the set's own habit, "whole" keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.
    """

    name: str
    window: int | Literal["usual", "whole"] = "usual"
    step: int | None = None

    @property
    def has_targets(self) -> bool:
        return True

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        # Slow to import, and a node starts anew for every message.
        from catchment.data.loaders import load

        found = load(self.name, directory=data, window=self.window, step=self.step)
        held_out = bool(found.test_clients or found.test_positions)
        clients: Clients = dict(found.train if held_out else found.clients)
        first = next(iter(data_of(next(iter(clients.values())))()))
        about = About(found.channels, found.classes or None, bool(first.per_step))
        return Recordings(clients, about, dict(found.test) if held_out else {})


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
        paths = self.paths(base)
        if self.client is None and self.is_settled:
            if self.client_by == "folder":
                return Recordings(self._folders(paths), self.about())
            clients: Clients = {client_of(path): Cached(OneFile(path, self)) for path in paths}
            if len(clients) < len(paths):
                raise ValueError(f"two files of {self.files} have one name; rename one of them")
            return Recordings(clients, self.about())
        bad: list[Path] = []
        try:
            found = self.read(paths)
        except ValueError:
            apart = self.client is None and self.client_by == "file"
            bad = self._unreadable(paths) if apart else []
            if not 0 < len(bad) < len(paths):
                raise
            found = self.read([path for path in paths if path not in bad])
        first = next(one for held in found.values() for one in held)
        classes = None if found.classes is None else tuple(map(str, found.classes))
        about = self.about(found.channels or (), classes, bool(first.per_step))
        settled = replace(self, inputs=about.channels, per_step=about.per_step)
        if found.classes is not None:
            settled = replace(settled, classes=tuple(found.classes))
        # Each of them is a client, which the run asks, names and leaves out.
        unread = {client_of(path): OneFile(path, settled) for path in bad}
        return Recordings({**found, **unread}, about)

    def _folders(self, paths: list[Path]) -> Clients:
        """Return a client for each folder, read when it is asked."""
        held: dict[str, list[Path]] = {}
        for path in paths:
            held.setdefault(path.resolve().parent.name, []).append(path)
        return {name: Cached(SomeFiles(tuple(own), self)) for name, own in held.items()}

    def _unreadable(self, paths: list[Path]) -> list[Path]:
        """Return the files that cannot be read even by themselves."""
        bad = []
        for path in paths:
            try:
                self.read([path])
            except ValueError:
                bad.append(path)
        return bad

    def read(self, paths: list[Path]) -> ReadClients:
        """Return the recordings of some files, with the channels and classes they share."""
        # An extra: only those who read files need it.
        from catchment.data.files import read

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


def client_of(path: Path) -> str:
    """Return the client that a file is: its name without the suffix.

    >>> client_of(Path("logs/ann.csv.gz")), client_of(Path("ann.2.parquet"))
    ('ann', 'ann.2')
    """
    name = path.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


SOURCES: dict[str, type] = {
    "wearables": Wearables,
    "mackey_glass": MackeyGlass,
    "narma": Narma,
}
PUBLIC = tuple(CATALOGUE)


def origin_of(source: str) -> tuple[type, Mapping[str, object]]:
    """Return the settings of a source by its name, and those that the name already gives.

    >>> origin_of("uci_har")
    (<class 'catchment.plans.sources.PublicSet'>, {'name': 'uci_har'})
    """
    if source in PUBLIC:
        return PublicSet, {"name": source}
    return SOURCES[source], {}


def _listed(names: tuple[str, ...] | str | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)

"""Where the data of a plan come from: invented, public, or one's own files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from catchment.data.catalogue import CATALOGUE
from catchment.data.generators import mackey_glass, narma, one_step
from catchment.data.recording import Recording
from catchment.data.wearables import ACTIVITIES, CHANNELS, wearable_user
from catchment.engine.local import Source

Clients = dict[str, Source]


@dataclass(frozen=True, eq=False)
class Recordings:
    """Clients as a source has them, and the publisher's test part if there is one."""

    clients: Clients
    channels: tuple[str, ...]
    classes: tuple[str, ...] | None = None
    test: Clients = field(default_factory=dict)
    horizon: int | None = None


class Origin(Protocol):
    """Where data come from."""

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings: ...


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

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        if self.users < 1:
            raise ValueError(f"users is {self.users}; pass at least 1")
        sizes = {"windows_per_user": self.windows_per_user, "steps": self.steps}
        clients: Clients = {
            f"user-{user:03d}": partial(wearable_user, seed, user, **sizes)
            for user in range(self.users)
        }
        return Recordings(clients, CHANNELS, ACTIVITIES)


@dataclass(frozen=True, kw_only=True)
class MackeyGlass:
    """A Mackey-Glass series, to be forecast.

    Parameters
    ----------
    steps
        Length of the series.
    delay
        Its tau; mildly chaotic from about 17.
    horizon
        Steps from input to target.
    """

    steps: int = 3000
    delay: float = 17.0
    horizon: int = 1

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        series = mackey_glass(self.steps + self.horizon, delay=self.delay, seed=seed)
        task = one_step(series, self.horizon)
        return Recordings({"mackey-glass": [task]}, ("x",), horizon=self.horizon)


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

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        task = narma(self.steps, order=self.order, seed=seed)
        return Recordings({"narma": [task]}, ("u",), horizon=1)


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """A public data set of the catalogue, by its name; `catchment data list` shows them.

    Parameters
    ----------
    window
        Steps per sequence; "usual" is the set's own habit, "whole" keeps recordings uncut.
    step
        Steps from one window to the next; the window's length if not given.
    """

    name: str
    window: int | Literal["usual", "whole"] = "usual"
    step: int | None = None

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        # Slow to import, and a node starts anew for every message.
        from catchment.data.loaders import load

        found = load(self.name, directory=data, window=self.window, step=self.step)
        classes = found.classes or None
        held_out = bool(found.test_clients or found.test_positions)
        return Recordings(
            dict(found.train if held_out else found.clients),
            found.channels,
            classes,
            dict(found.test) if held_out else {},
            horizon=None if classes else 1,
        )


@dataclass(frozen=True, kw_only=True)
class Table:
    """Your own CSV, Parquet or npz files.

    Parameters
    ----------
    path
        A file, or a pattern such as "logs/*.csv", relative to the plan's folder. Without a client
        column every file is a client, named after it, and is read only when its turn comes.
    inputs
        Columns of the inputs.
    target
        Columns of numbers; or, with classes, one column of labels.
    horizon
        Without a target: forecast the inputs this many steps ahead.
    client, sequence, time
        Columns that name a row's client and sequence, and by which rows are sorted.
    classes
        The labels that may occur, in the order of the outputs.
    per_step
        Whether every step has a target of its own; by default numbers do and labels do not.
    """

    path: str
    inputs: tuple[str, ...]
    target: tuple[str, ...] | str | None = None
    horizon: int | None = None
    client: str | None = None
    sequence: str | None = None
    time: str | None = None
    classes: tuple[str, ...] | None = None
    per_step: bool | None = None

    def __post_init__(self) -> None:
        if (self.target is None) == (self.horizon is None):
            raise ValueError("name either a target or a horizon, not both and not neither")
        if self.horizon is not None and self.horizon < 1:
            raise ValueError(f"horizon is {self.horizon}; pass at least 1 step")

    def files(self, base: Path) -> list[Path]:
        """Return the files in the order of their names; FileNotFoundError if there are none."""
        pattern = Path(self.path)
        root = Path(pattern.anchor) if pattern.is_absolute() else base
        files = sorted(root.glob(str(pattern.relative_to(pattern.anchor))))
        if not files:
            raise FileNotFoundError(f"no file matches {base / self.path}; check the path")
        return files

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        files = self.files(base)
        clients: Clients = {}
        if self.client is None:
            clients = {file.stem: partial(self._one, file) for file in files}
            if len(clients) < len(files):
                raise ValueError(f"two files of {self.path} have one name; rename one of them")
        else:
            held: dict[str, list[Recording]] = {}
            for file in files:
                for name, sequences in self._read(file).items():
                    held.setdefault(name, []).extend(sequences)
            clients = dict(held)
        return Recordings(clients, self.inputs, self.classes, horizon=self.horizon or 1)

    def _read(self, file: Path) -> dict[str, list[Recording]]:
        # An extra: only those who read files need it.
        from catchment.data.tables import read_table

        clients = read_table(
            file,
            inputs=self.inputs,
            target=self.target,
            recording=self.sequence,
            client=self.client,
            time=self.time,
            classes=self.classes,
            per_step=self.per_step,
        )
        if self.horizon is None:
            return clients
        return {name: [one_step(s.u, self.horizon) for s in held] for name, held in clients.items()}

    def _one(self, file: Path) -> list[Recording]:
        return [s for held in self._read(file).values() for s in held]


SOURCES: dict[str, type] = {
    "wearables": Wearables,
    "mackey_glass": MackeyGlass,
    "narma": Narma,
    "table": Table,
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

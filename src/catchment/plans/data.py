"""The data of a plan: where they come from, who holds them, and what is kept for the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

from catchment.data.catalogue import CATALOGUE
from catchment.data.clients import cohorts, contiguous, iid, label_skew, quantity_skew
from catchment.data.generators import mackey_glass, narma, one_step
from catchment.data.loaders import load
from catchment.data.scaling import Scaler
from catchment.data.sequence import Sequence as Recorded
from catchment.data.wearables import ACTIVITIES, CHANNELS, wearable_user
from catchment.engine.local import Source, data_of
from catchment.federation.local import stretch

Clients = dict[str, Source]
Change = Callable[[Iterable[Recorded]], Iterable[Recorded]]


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
    """Your own CSV or Parquet files.

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
        Without a target: forecast the inputs so many steps ahead.
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

    def load(self, seed: int, data: Path | None, base: Path) -> Recordings:
        pattern = Path(self.path)
        root = Path(pattern.anchor) if pattern.is_absolute() else base
        files = sorted(root.glob(str(pattern.relative_to(pattern.anchor))))
        if not files:
            raise FileNotFoundError(f"no file matches {base / self.path}; check the path")
        clients: Clients = {}
        if self.client is None:
            clients = {file.stem: partial(self._one, file) for file in files}
            if len(clients) < len(files):
                raise ValueError(f"two files of {self.path} have one name; rename one of them")
        else:
            held: dict[str, list[Recorded]] = {}
            for file in files:
                for name, sequences in self._read(file).items():
                    held.setdefault(name, []).extend(sequences)
            clients = dict(held)
        return Recordings(clients, self.inputs, self.classes, horizon=self.horizon or 1)

    def _read(self, file: Path) -> dict[str, list[Recorded]]:
        # An extra: only those who read files need it.
        from catchment.data.tables import read_table

        clients = read_table(
            file,
            inputs=self.inputs,
            target=self.target,
            sequence=self.sequence,
            client=self.client,
            time=self.time,
            classes=self.classes,
            per_step=self.per_step,
        )
        if self.horizon is None:
            return clients
        return {name: [one_step(s.u, self.horizon) for s in held] for name, held in clients.items()}

    def _one(self, file: Path) -> list[Recorded]:
        return [s for held in self._read(file).values() for s in held]


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How data are shared out: among clients, and between training and test.

    Parameters
    ----------
    scaling
        "client": every client standardises its channels by its own training data; "federated": by
        the mean and deviation of all of them, from one more round; "none".
    split
        How sequences are dealt to clients: "natural" keeps them where they are, "contiguous" cuts
        one long sequence; "iid", "label_skew" and "quantity_skew" deal all sequences anew.
    clients
        How many clients a split makes.
    alpha
        Concentration of a skewed split: the smaller, the more uneven.
    test
        Share kept for the test, or "official" for the publisher's own test part.
    test_of
        What is kept: whole "clients", the last "sequences" of each client, or the last "steps" of
        each sequence.
    seed
        Names every random draw of the data.
    """

    scaling: Literal["none", "client", "federated"] = "none"
    split: Literal["natural", "contiguous", "iid", "label_skew", "quantity_skew"] | None = None
    clients: int = 5
    alpha: float = 0.5
    test: float | Literal["official"] | None = None
    test_of: Literal["clients", "sequences", "steps"] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.test, float) and not 0 < self.test < 1:
            raise ValueError(f"test is {self.test}; pass a share above 0 and below 1")
        if self.test == "official" and (self.test_of or self.split):
            raise ValueError("an official test part goes with no split and no test_of of one's own")


@dataclass(frozen=True, eq=False)
class PlanData:
    """Training and test clients, each with sequences or a function that makes them."""

    train: Clients
    test: Clients
    channels: tuple[str, ...]
    classes: tuple[str, ...] | None
    horizon: int | None

    def scaled(self, scaling: str, scaler: Scaler | None = None) -> PlanData:
        """Return the data standardised by the scaler, or by each client for itself."""
        if scaling == "none":
            return self
        if scaler is not None:
            change = scaler.apply
            train = {name: _changed(source, change) for name, source in self.train.items()}
            test = {name: _changed(source, change) for name, source in self.test.items()}
        else:
            train = {name: _own_scale(source, source) for name, source in self.train.items()}
            # A client that also trains is scaled by what it trained on, a new one by its inputs.
            test = {
                name: _own_scale(source, self.train.get(name, source))
                for name, source in self.test.items()
            }
        return replace(self, train=train, test=test)


SOURCES: dict[str, type] = {
    "wearables": Wearables,
    "mackey_glass": MackeyGlass,
    "narma": Narma,
    "table": Table,
}
PUBLIC = tuple(name for name, entry in CATALOGUE.items() if entry.kind == "sequences")


def arrange(found: Recordings, sharing: Sharing, *, washout: int = 0) -> PlanData:
    """Return who trains on what and who tests on what.

    >>> found = Wearables(users=8, windows_per_user=2).load(0, None, Path())
    >>> data = arrange(found, Sharing(test=0.25))
    >>> len(data.train), len(data.test)
    (6, 2)
    """
    official = sharing.test in (None, "official") and not sharing.split and not sharing.test_of
    if found.test and official:
        return PlanData(found.clients, found.test, found.channels, found.classes, found.horizon)
    if sharing.test == "official":
        raise ValueError("the data have no official test part; give a share, such as test = 0.25")
    clients = _dealt({**found.clients, **_apart(found)}, sharing)
    share = sharing.test if isinstance(sharing.test, float) else 0.25
    of = sharing.test_of or ("clients" if found.classes else "steps")
    if of == "clients":
        parts = cohorts(clients, validation=0, test=share, seed=sharing.seed)
        train = {name: clients[name] for name in sorted(parts.train)}
        test = {name: clients[name] for name in sorted(parts.test)}
    else:
        cut = partial(_stretch, washout=washout) if of == "steps" else _sequences
        train = {n: _changed(s, partial(cut, begin=0.0, end=1 - share)) for n, s in clients.items()}
        test = {n: _changed(s, partial(cut, begin=1 - share, end=1.0)) for n, s in clients.items()}
    return PlanData(train, test, found.channels, found.classes, found.horizon)


def _apart(found: Recordings) -> Clients:
    """Return the publisher's test clients, joined to a client of their name where there is one."""
    return {
        name: _joined(found.clients[name], source) if name in found.clients else source
        for name, source in found.test.items()
    }


def _joined(first: Source, second: Source) -> Source:
    return lambda: [*data_of(first)(), *data_of(second)()]


def _dealt(clients: Clients, sharing: Sharing) -> Clients:
    split = sharing.split
    if split is None and len(clients) == 1:
        split = "contiguous"
    if split in (None, "natural"):
        return clients
    every = [s for name in sorted(clients) for s in data_of(clients[name])()]
    n, seed = sharing.clients, sharing.seed
    if split == "contiguous":
        if len(every) != 1:
            raise ValueError(
                f"a contiguous split cuts one long sequence, there are {len(every)}; "
                "use another split"
            )
        return dict(contiguous(every[0], n))
    if split == "iid":
        return dict(iid(every, n, seed=seed))
    skewed = label_skew if split == "label_skew" else quantity_skew
    return dict(skewed(every, n, alpha=sharing.alpha, seed=seed))


def _changed(source: Source, change: Change) -> Source:
    """Return a client whose data are changed when it is asked for them."""
    return lambda: change(data_of(source)())


def _own_scale(source: Source, fitted_on: Source) -> Source:
    return lambda: Scaler.fit(data_of(fitted_on)()).apply(data_of(source)())


def _stretch(
    sequences: Iterable[Recorded], *, begin: float, end: float, washout: int
) -> list[Recorded]:
    return list(stretch(sequences, begin, end, washout=washout))


def _sequences(sequences: Iterable[Recorded], *, begin: float, end: float) -> Sequence[Recorded]:
    every = list(sequences)
    return every[round(begin * len(every)) : round(end * len(every))]


def origin_of(source: str) -> tuple[type, Mapping[str, object]]:
    """Return the settings of a source by its name, and those that the name already gives.

    >>> origin_of("uci_har")
    (<class 'catchment.plans.data.PublicSet'>, {'name': 'uci_har'})
    """
    if source in PUBLIC:
        return PublicSet, {"name": source}
    return SOURCES[source], {}

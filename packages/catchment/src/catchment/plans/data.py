"""The data of a plan, all of them raw: one's own files, synthetic or public; who holds them, and
what is kept for the test.

Every client is a source that is read when it is asked, once per process (`Cached`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Lt, MinLen

from catchment.data.clients import Cached, Changed, cohorts, contiguous, iid, label_skew, part_of
from catchment.data.clients import Clients as ReadClients
from catchment.data.files import client_of, find_files, is_uri, kept_columns, read
from catchment.data.frames import listed
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.synthetic import ACTIVITIES, CHANNELS, mackey_glass, narma, wearable_user
from catchment.data.tables import kind_of
from catchment.engine.local import Source, data_of
from catchment.errors import SettingError
from catchment.federation.learn.sums import MANY
from catchment.federation.workflow import DELIVERY, EVALUATION
from catchment.plugins import Named, plugin

Clients = Mapping[str, Source]
FOLDS = 5


@dataclass(frozen=True)
class About:
    """What everyone must know of the data before anything is built."""

    channels: tuple[str, ...]  # names of the inputs
    classes: tuple[str, ...] | None = None  # names of the outputs, if they are classes
    per_step: bool = False  # whether raw recordings have a target for every step
    columns: tuple[tuple[str, str], ...] = ()  # how files name what is no channel; models keep it


@dataclass(frozen=True, eq=False)
class PlanData:
    """Training and test clients, each with raw recordings or a function that reads them.

    As a source has them the test clients are the publisher's, if any. `notices` are sentences on
    what is odd about the data and was passed over.
    """

    train: Clients
    test: Clients
    about: About
    notices: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Everyone, by name."""
        return list(dict.fromkeys(sorted([*self.train, *self.test])))  # both are in order

    def at(self, stage: str) -> Clients:
        """Return who takes part in a stage, and with which data.

        All of them are given the model. Of very many, which are no more than simulated here, it is
        given to those that are tested.
        """
        if stage == DELIVERY:
            many = len(self.train) > MANY and len(self.test) > 0
            return dict.fromkeys(sorted(self.test) if many else self.names, ())
        return self.test if stage == EVALUATION else self.train

    def without(self, devices: Mapping[str, object]) -> PlanData:
        """Return the data without those of clients that are devices, which have their own."""
        if not devices:
            return self
        train, test = (
            {name: one for name, one in part.items() if name not in devices}
            for part in (self.train, self.test)
        )
        return replace(self, train=train, test=test)

    def prepared(self, preprocessing: Preprocessing) -> PlanData:
        """Return the data as a map sees them, for what is measured beside the plan."""
        ready = partial(partial, _prepared, preprocessing)
        return PlanData(Changed(self.train, ready), Changed(self.test, ready), self.about)


class Origin(ABC):
    """Where data come from."""

    is_files: ClassVar[bool] = False  # whether they are files of one's own, which may grow
    goes_on: bool = False  # whether recordings get more steps
    label: str | None = None  # the column of classes
    labels: str = "all"  # "some" if some recordings have none, and are to be named

    @property
    def has_targets(self) -> bool:
        """Whether recordings have targets; else a horizon must say what is predicted."""
        return True

    def some_classes(self, unnamed: tuple[str, ...] = ("a", "b")) -> tuple[str, ...] | None:
        """Return the classes, or `unnamed` ones; None if numbers are predicted."""
        return unnamed

    @abstractmethod
    def load(self, seed: int, data: Path | None, base: Path) -> PlanData:
        """Return the clients and what they share."""


@dataclass(frozen=True, kw_only=True)
class Files(Origin):
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
        Columns of numbers to predict, in the place of a label. With neither, a horizon in
        [preprocessing] says how far ahead the inputs are predicted.
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
    labels
        "some" if files may lack the label, or have it in some rows only: these rows are then named
        by a model of the others, in one more round of the training.
    """

    files: str | Annotated[tuple[str, ...], MinLen(1)]
    inputs: Annotated[tuple[str, ...], MinLen(1)] | str | None = None
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
    labels: Literal["all", "some"] = "all"

    is_files = True

    def __post_init__(self) -> None:
        if self.label is not None and self.target is not None:
            raise ValueError(
                f"label is {self.label!r} and target is {self.target!r}; name a column of classes "
                "or columns of numbers, not both"
            )
        if self.label is None and self.labels == "some":
            raise ValueError('labels = "some" is of a label; add the column, label = "..."')
        if self.label is None and self.classes != "auto":
            raise ValueError('classes are of a label; add the column of labels, label = "..."')

    @property
    def has_targets(self) -> bool:
        return self.label is not None or self.target is not None

    def some_classes(self, unnamed: tuple[str, ...] = ("a", "b")) -> tuple[str, ...] | None:
        if self.label is None:
            return None
        return unnamed if self.classes == "auto" else tuple(map(str, self.classes))

    @property
    def is_settled(self) -> bool:
        """Whether the plan says everything that clients share, so that no file need be read."""
        labels = self.label is None or self.classes != "auto"
        steps = self.per_step is not None or not self.has_targets
        return self.inputs is not None and labels and steps

    def paths(self, base: Path) -> list[Path]:
        """Return the files in the order of their names; FileNotFoundError if there are none."""
        found = find_files([base / pattern for pattern in listed(self.files)])
        for name in self.leave_out:
            kept = [path for path in found if not f"/{path.as_posix()}".endswith(f"/{name}")]
            if len(kept) == len(found):
                raise ValueError(f"leave_out names {name!r}, which is none of the files; delete it")
            found = kept
        if not found:
            raise FileNotFoundError("leave_out leaves no file to read; shorten it")
        return found

    @property
    def columns(self) -> dict[str, Any]:
        """The settings that say how files are read."""
        names = ("inputs", "label", "target", "client", "recording", "time", "classes", "per_step")
        return {name: getattr(self, name) for name in names}

    def load(self, seed: int, data: Path | None, base: Path) -> PlanData:
        if self.is_lake(base):
            return self._lake(base)
        paths = self.paths(base)
        if self.client is None and self.is_settled:
            held: dict[str, list[Path]] = {}
            for path in paths:
                held.setdefault(client_of(path, self.client_by == "folder"), []).append(path)
            if self.client_by == "file" and len(held) < len(paths):
                raise ValueError(f"two files of {self.files} have one name; rename one of them")
            clients = {name: Cached(SomeFiles(tuple(own), self)) for name, own in held.items()}
            return PlanData(clients, {}, self.about())
        found, how, bad, notices = self._readable(paths)
        first = next(one for held in found.values() for one in held)
        classes = None if found.classes is None else tuple(map(str, found.classes))
        about = how.about(found.channels or (), classes, bool(first.per_step))
        settled = replace(self, inputs=about.channels, per_step=about.per_step)
        if found.classes is not None:
            settled = replace(settled, classes=tuple(found.classes))
        every: Clients = dict(found)
        if bad:
            # Each of them is a client, which the run asks, names and leaves out. Clients are dealt
            # in their order, which a bad file must not change.
            unread = {client_of(path): SomeFiles((path,), settled) for path in bad}
            names = map(client_of, paths)
            every = {name: found[name] if name in found else unread[name] for name in names}
        return PlanData(every, {}, about, tuple(notices))

    def is_lake(self, base: Path) -> bool:
        """Return whether the clients of these files are read one by one, by row groups."""
        if any(map(is_uri, listed(self.files))):
            return True
        if self.client is None or not self.is_settled:
            return False
        kinds, folders = set[str](), True
        for place in self._places(base):
            try:
                found = set(map(kind_of, find_files(place)))
            except FileNotFoundError:
                found = set()
            folders = folders and not found and Path(place).is_dir()
            kinds |= found
        return folders or kinds == {".parquet"}  # folders of folders, then

    def lake_lines(self, base: Path) -> list[str]:
        """Return what the footers of a lake's files say, in lines."""
        parquet = plugin("readers", "parquet", needed_for="folders of Parquet files")
        storage, paths = parquet.find_parquet(self._places(base))
        found = parquet.schemas_of(storage, paths)
        files = "1 Parquet file" if len(paths) == 1 else f"{len(paths):,} Parquet files"
        columns = ", ".join(next(iter(found.files.values())))
        return [f"{files} with {found.n_rows:,} rows, read client by client; columns: {columns}"]

    def _places(self, base: Path) -> list[str | Path]:
        return [one if is_uri(one) else base / one for one in listed(self.files)]

    def _lake(self, base: Path) -> PlanData:
        """Return the clients of Parquet files, of which only the names are read now."""
        if self.client is None or not self.is_settled:
            raise ValueError(
                f"{listed(self.files)[0]} is a bucket, whose clients are read one by one; write "
                "client, inputs, per_step and, for a label, classes into [data]"
            )
        parquet = plugin("readers", "parquet", needed_for="folders of Parquet files")
        places, left = self._places(base), self.leave_out
        lake = parquet.read_parquet(places, leave_out=left, warn=False, **self.columns)
        return PlanData(lake, {}, self.about(), tuple(parquet.slow_parts(lake, self.client)))

    def _readable(self, paths: list[Path]) -> tuple[ReadClients, Files, list[Path], list[str]]:
        """Return what can be read, how, which files cannot, and sentences on what is passed over.

        The error if that is nothing, or no file is a client.
        """
        try:
            return self.read(paths), self, [], []
        except (ValueError, OSError):
            if self.client is not None or self.client_by != "file":
                raise
            seen = {path: channels for path in paths if (channels := self.channels_of(path))}
            how, bad, notices = self, [path for path in paths if path not in seen], list[str]()
            usual, n_alike = Counter(seen.values()).most_common(1)[0] if seen else ((), 0)
            if self.inputs is None and 2 * n_alike > len(paths):
                how = replace(self, inputs=usual)
                bad = [path for path in paths if path not in seen or how.channels_of(path) is None]
                for path in paths:
                    own = [name for name in seen.get(path, ()) if name not in usual]
                    if own and path not in bad:
                        notices.append(
                            f"{path.name} has {', '.join(own)} besides {', '.join(usual)}, which "
                            "most files have: it is not used"
                        )
            if len(bad) == len(paths) or (how, bad) == (self, []):
                raise
            return how.read([path for path in paths if path not in bad]), how, bad, notices

    def channels_of(self, path: Path) -> tuple[str, ...] | None:
        """Return the inputs of a file by itself, or None if it cannot be read."""
        try:
            return self.read([path]).channels
        except (ValueError, OSError):
            return None

    def read(self, paths: list[Path]) -> ReadClients:
        """Return the recordings of some files, with the channels and classes they share."""
        try:
            return read(paths, client_by=self.client_by, labels=self.labels, **self.columns)
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
        known = tuple(listed(self.inputs)) if self.inputs is not None else channels
        named = classes if self.classes == "auto" else tuple(map(str, self.classes))
        steps = self.per_step if self.per_step is not None else per_step
        if steps is None:
            steps = self.target is not None
        predicted = listed(self.target if self.label is None else self.label)
        own = (self.time, self.recording, self.client, predicted)
        kept = kept_columns(*own, steps, client_by=self.client_by)
        return About(known, named if self.label is not None else None, steps, tuple(kept.items()))


@dataclass(frozen=True)
class SomeFiles:
    """The recordings of some files, all of one client."""

    paths: tuple[Path, ...]
    how: Files

    def __call__(self) -> list[Recording]:
        return [one for held in self.how.read(list(self.paths)).values() for one in held]


@dataclass(frozen=True, kw_only=True)
class Wearables(Origin):
    """Synthetic activity recordings of people who differ, made on the spot.

    Parameters
    ----------
    users
        How many people.
    windows_per_user
        Recordings of each.
    steps
        Length of a recording, at 50 steps per second.
    """

    users: Annotated[int, Ge(1)] = 12
    windows_per_user: int = 40
    steps: int = 128

    def load(self, seed: int, data: Path | None, base: Path) -> PlanData:
        clients: Clients = {
            f"user-{user:03d}": Cached(Wearer(seed, user, self.windows_per_user, self.steps))
            for user in range(self.users)
        }
        return PlanData(clients, {}, About(CHANNELS, ACTIVITIES))


@dataclass(frozen=True)
class Wearer:
    """One synthetic person's recordings; equal ones are read once (`Cached`)."""

    seed: int
    user: int
    windows: int
    steps: int

    def __call__(self) -> list[Recording]:
        return wearable_user(self.seed, self.user, windows_per_user=self.windows, steps=self.steps)


@dataclass(frozen=True, kw_only=True)
class MackeyGlass(Origin):
    """A Mackey-Glass series, to be forecast: say how far with a horizon in [preprocessing].

    Parameters
    ----------
    steps
        Length of the series.
    delay
        Its tau; mildly chaotic from about 17.
    """

    steps: int = 3000
    delay: float = 17.0

    has_targets = False

    def load(self, seed: int, data: Path | None, base: Path) -> PlanData:
        series = mackey_glass(self.steps, delay=self.delay, seed=seed)
        return PlanData({"mackey-glass": [Recording(series)]}, {}, About(("x",)))


@dataclass(frozen=True, kw_only=True)
class Narma(Origin):
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

    def some_classes(self, unnamed: tuple[str, ...] = ("a", "b")) -> None:
        return None

    def load(self, seed: int, data: Path | None, base: Path) -> PlanData:
        task = narma(self.steps, order=self.order, seed=seed)
        return PlanData({"narma": [task]}, {}, About(("u",), per_step=True))


SOURCES = Named("sources", {"wearables": Wearables, "mackey_glass": MackeyGlass, "narma": Narma})


def origin_of(source: str) -> tuple[type, Mapping[str, object]]:
    """Return the settings of a source by its name, and those that the name already gives.

    >>> origin_of("narma")
    (<class 'catchment.plans.data.Narma'>, {})
    """
    return SOURCES[source], {} if source in SOURCES.own else {"name": source}


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How data are shared out: among clients, and between training and test.

    Parameters
    ----------
    split
        How recordings are dealt to clients: "natural" keeps them where they are, "contiguous" cuts
        one long recording; "iid" and "label_skew" deal all recordings anew.
    clients
        How many clients a split makes.
    alpha
        Concentration of a skewed split: the smaller, the more uneven. Nobody is refused for having
        most, unless `over_median` in [run] says so.
    test
        Share kept for the test, or "official" for the publisher's own test part; or "folds": all
        clients train, and each is tested by a model of the other folds; or "new": what is new is
        predicted by the model of the time before, and then learned from.
    folds
        How many folds; no more than there are clients, and all of those where there are fewer.
    test_of
        What is kept: whole "clients", the last "recordings" of each client, or the last "steps" of
        each recording, which the map may enter by its washout. If not given: clients where there
        are classes, else steps.
    seed
        Names every random draw of the data.
    """

    split: Literal["natural", "contiguous", "iid", "label_skew"] | None = None
    clients: int = 5
    alpha: float = 0.5
    test: Annotated[float, Gt(0), Lt(1)] | Literal["official", "folds", "new"] | None = None
    test_of: Literal["clients", "recordings", "steps"] | None = None
    seed: int = 0
    folds: Annotated[int, Ge(2)] | None = None

    def __post_init__(self) -> None:
        if self.test == "official" and (self.test_of or self.split):
            raise ValueError("an official test part goes with no split and no test_of of one's own")
        if self.test in ("new", "folds") and self.test_of:
            raise ValueError(f'test = "{self.test}" says what is tested; leave out test_of')
        if self.folds is not None and self.test != "folds":
            raise ValueError(f'folds is {self.folds}; write test = "folds" too, or leave it out')

    def tests_of(self, about: About) -> str:
        """Return what is kept for the test: clients, recordings or steps."""
        return self.test_of or ("clients" if about.classes else "steps")


# What a client holds is a function of none: `partial(partial, f, ...)` makes it of its source.


def _prepared(preprocessing: Preprocessing, source: Source) -> Iterable[Recording]:
    return preprocessing.stream(data_of(source)())


def _steps(source: Source, *, begin: float, end: float, washout: int) -> list[Recording]:
    """Return some steps of each recording, with some before them for the map to enter."""
    found = []
    for one in data_of(source)():
        rows = max(one.n_steps - washout, 0)
        first, last = washout + int(rows * begin), washout + int(rows * end)
        if not 0 < last - first <= one.n_steps:
            raise ValueError(
                f"a recording has {one.n_steps} steps, too few for a washout of {washout} "
                f"and a part for the test; leave it out, or say test_of"
            )
        found.append(one.part(first - washout, last))
    return found


def _some(source: Source, *, begin: float, end: float) -> list[Recording]:
    """Return the first or the last recordings of a client."""
    every = list(data_of(source)())
    return every[round(begin * len(every)) : round(end * len(every))]


def _joined(*sources: Source) -> list[Recording]:
    return [one for source in sources for one in data_of(source)()]


def arrange(found: PlanData, sharing: Sharing, *, washout: int = 0) -> PlanData:
    """Return who trains on what and who tests on what.

    The map needs `washout` steps to enter a recording; the last steps of one come with as many
    before them, which give no rows.

    >>> from pathlib import Path
    >>> from catchment.plans.data import Wearables
    >>> found = Wearables(users=8, windows_per_user=2).load(0, None, Path())
    >>> data = arrange(found, Sharing(test=0.25))
    >>> len(data.train), len(data.test)
    (6, 2)
    """
    official = sharing.test in (None, "official") and not sharing.split and not sharing.test_of
    if found.test and official:
        return found
    if sharing.test == "official":
        raise ValueError("the data have no official test part; give a share, such as test = 0.25")
    every: Clients = found.train
    if found.test:  # the publisher's, joined to a client of their name
        every = joined = dict(every)
        for name, source in found.test.items():
            joined[name] = partial(_joined, joined[name], source) if name in joined else source
    clients = _dealt(every, sharing)
    if sharing.test == "folds" and len(clients) < 3:
        raise ValueError(f"there are {len(clients)} clients, folds need 3 or more; add files")
    if sharing.test in ("folds", "new"):
        return replace(found, train=clients, test={})
    share = sharing.test if isinstance(sharing.test, float) else 0.25
    of = sharing.tests_of(found.about)
    if of == "clients":
        if len(clients) < 2:
            raise ValueError(
                f"there is {len(clients)} client, and whole clients are kept for the test; write "
                'test_of = "recordings" or "steps" into [data], or add files'
            )
        train, _, test = cohorts(clients, validation=0, test=share, seed=sharing.seed)
        some, others = (part_of(clients, sorted(one)) for one in (train, test))
        return replace(found, train=some, test=others)
    part: Any = partial(_steps, washout=washout) if of == "steps" else _some
    first, last = (
        Changed(clients, partial(partial, part, begin=begin, end=end))
        for begin, end in ((0.0, 1 - share), (1 - share, 1.0))
    )
    return replace(found, train=first, test=last)


def _dealt(clients: Clients, sharing: Sharing) -> Clients:
    split = sharing.split
    if split is None and len(clients) == 1:
        only = list(data_of(next(iter(clients.values())))())
        if len(only) == 1 and (only[0].y is None or only[0].per_step):
            split = "contiguous"
    if split in (None, "natural"):
        return clients
    every = [s for name in sorted(clients) for s in data_of(clients[name])()]
    n, seed = sharing.clients, sharing.seed
    if split == "contiguous":
        if len(every) != 1:
            raise ValueError(
                f"a contiguous split cuts one long recording, there are {len(every)}; "
                "use another split"
            )
        return dict(contiguous(every[0], n))
    if split == "iid":
        return dict(iid(every, n, seed=seed))
    return dict(label_skew(every, n, alpha=sharing.alpha, seed=seed))

"""The data of a plan: who holds them, and what is kept for the test. All of them are raw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from catchment.data.clients import (
    Changed,
    Chosen,
    cohorts,
    contiguous,
    iid,
    label_skew,
    quantity_skew,
)
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.engine.local import Source, data_of
from catchment.federation.course import DELIVERY, EVALUATION
from catchment.federation.learn.groups import MANY
from catchment.federation.rows import first_part
from catchment.plans.sources import About, Clients, Recordings


@dataclass(frozen=True, kw_only=True)
class Sharing:
    """How data are shared out: among clients, and between training and test.

    Parameters
    ----------
    split
        How recordings are dealt to clients: "natural" keeps them where they are, "contiguous" cuts
        one long recording; "iid", "label_skew" and "quantity_skew" deal all recordings anew.
    clients
        How many clients a split makes.
    alpha
        Concentration of a skewed split: the smaller, the more uneven. Clients above ten times the
        median are refused unless `over_median` in [run] is more.
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
    test_after
        Test clients are tested on their data after this share of it. What comes before is theirs to
        learn from, for a readout of their own; the shared model never sees it.
    seed
        Names every random draw of the data.
    """

    split: Literal["natural", "contiguous", "iid", "label_skew", "quantity_skew"] | None = None
    clients: int = 5
    alpha: float = 0.5
    test: float | Literal["official", "folds", "new"] | None = None
    test_of: Literal["clients", "recordings", "steps"] | None = None
    test_after: float = 0.0
    seed: int = 0
    folds: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.test_after < 1:
            raise ValueError(f"test_after is {self.test_after}; pass a share below 1")
        if isinstance(self.test, float) and not 0 < self.test < 1:
            raise ValueError(f"test is {self.test}; pass a share above 0 and below 1")
        if self.test == "official" and (self.test_of or self.split):
            raise ValueError("an official test part goes with no split and no test_of of one's own")
        if self.test == "new" and (self.test_of or self.test_after):
            raise ValueError("what is new is tested whole; leave out test_of and test_after")
        if self.test == "folds" and (self.test_of or self.test_after):
            raise ValueError("folds are of clients; leave out test_of and test_after")
        if self.folds is not None and self.test != "folds":
            raise ValueError(f'folds is {self.folds}; write test = "folds" too, or leave it out')
        if self.folds is not None and self.folds < 2:
            raise ValueError(f"folds is {self.folds}; pass 2 or more, such as folds = 5")

    def tests_of(self, about: About) -> str:
        """Return what is kept for the test: clients, recordings or steps."""
        return self.test_of or ("clients" if about.classes else "steps")


@dataclass(frozen=True, eq=False)
class PlanData:
    """Training and test clients, each with raw recordings or a function that reads them.

    `whole` has all data of the test clients; they are tested on what comes after `test_after`.
    """

    train: Clients
    whole: Clients
    about: About
    test_after: float = 0.0
    washout: int = 0
    notices: tuple[str, ...] = ()

    @property
    def test(self) -> Clients:
        """What the test clients are tested on."""
        if self.test_after == 0:
            return self.whole
        later = partial(Later, share=self.test_after, washout=self.washout)
        return Changed(self.whole, later)

    @property
    def names(self) -> list[str]:
        """Everyone, by name."""
        return sorted({*self.train, *self.whole})

    def at(self, stage: str) -> Clients:
        """Return who takes part in a stage, and with which data.

        All of them are given the model. Of very many, which are no more than simulated here, it is
        given to those that are tested.
        """
        if stage == DELIVERY:
            many = len(self.train) > MANY and len(self.whole) > 0
            return dict.fromkeys(sorted(self.whole) if many else self.names, ())
        return self.test if stage == EVALUATION else self.train

    def prepared(self, prepare: Prepare) -> PlanData:
        """Return the data as a map sees them, for what is measured beside the plan."""
        ready = partial(Prepared, prepare=prepare)
        return PlanData(Changed(self.train, ready), Changed(self.test, ready), self.about)


@dataclass(frozen=True)
class Prepared:
    """A client's recordings as a map sees them."""

    source: Source
    prepare: Prepare

    def __call__(self) -> Iterable[Recording]:
        return self.prepare.stream(data_of(self.source)())


@dataclass(frozen=True)
class Steps:
    """The first or the last steps of each recording, with some before them for the map to enter."""

    source: Source
    begin: float
    end: float
    washout: int

    def __call__(self) -> list[Recording]:
        return [self._part(one) for one in data_of(self.source)()]

    def _part(self, one: Recording) -> Recording:
        rows = max(one.n_steps - self.washout, 0)
        first, last = (self.washout + int(rows * share) for share in (self.begin, self.end))
        if not 0 < last - first <= one.n_steps:
            raise ValueError(
                f"a recording has {one.n_steps} steps, too few for a washout of {self.washout} "
                f"and a part for the test; leave it out, or say test_of"
            )
        return one.part(first - self.washout, last)


@dataclass(frozen=True)
class Some:
    """The first or the last recordings of a client."""

    source: Source
    begin: float
    end: float

    def __call__(self) -> list[Recording]:
        every = list(data_of(self.source)())
        return every[round(self.begin * len(every)) : round(self.end * len(every))]


@dataclass(frozen=True)
class Later:
    """What a client has after a share of its data."""

    source: Source
    share: float
    washout: int

    def __call__(self) -> list[Recording]:
        every = list(data_of(self.source)())
        if all(one.y is not None and not one.per_step for one in every):
            return first_part(every, self.share)[1]
        return Steps(every, self.share, 1.0, self.washout)()


@dataclass(frozen=True)
class Joined:
    """The recordings of several sources, one after the other."""

    sources: tuple[Source, ...]

    def __call__(self) -> list[Recording]:
        return [one for source in self.sources for one in data_of(source)()]


def arrange(found: Recordings, sharing: Sharing, *, washout: int = 0) -> PlanData:
    """Return who trains on what and who tests on what.

    Parameters
    ----------
    washout
        Steps that the map needs to enter a recording; the last steps of one come with as many
        before them, which give no rows.

    >>> from pathlib import Path
    >>> from catchment.plans.sources import Wearables
    >>> found = Wearables(users=8, windows_per_user=2).load(0, None, Path())
    >>> data = arrange(found, Sharing(test=0.25))
    >>> len(data.train), len(data.test)
    (6, 2)
    """
    train, test = _divided(found, sharing, washout)
    return PlanData(train, test, found.about, sharing.test_after, washout, found.notices)


def _divided(found: Recordings, sharing: Sharing, washout: int) -> tuple[Clients, Clients]:
    """Return training and test clients."""
    official = sharing.test in (None, "official") and not sharing.split and not sharing.test_of
    if found.test and official:
        return found.clients, found.test
    if sharing.test == "official":
        raise ValueError("the data have no official test part; give a share, such as test = 0.25")
    every = {**found.clients, **_apart(found)} if found.test else found.clients
    clients = _dealt(every, sharing)
    if sharing.test == "folds":
        if len(clients) < 3:
            raise ValueError(f"there are {len(clients)} clients, folds need 3 or more; add files")
        return clients, {}
    if sharing.test == "new":
        return clients, {}
    share = sharing.test if isinstance(sharing.test, float) else 0.25
    of = sharing.tests_of(found.about)
    if of == "clients":
        if len(clients) < 2:
            raise ValueError(
                f"there is {len(clients)} client, and whole clients are kept for the test; write "
                'test_of = "recordings" or "steps" into [data], or add files'
            )
        parts = cohorts(clients, validation=0, test=share, seed=sharing.seed)
        return Chosen(clients, parts.train), Chosen(clients, parts.test)
    part: Callable[..., Source] = partial(Steps, washout=washout) if of == "steps" else Some
    return (
        Changed(clients, partial(part, begin=0.0, end=1 - share)),
        Changed(clients, partial(part, begin=1 - share, end=1.0)),
    )


def _apart(found: Recordings) -> Clients:
    """Return the publisher's test clients, joined to a client of their name where there is one."""
    return {
        name: Joined((found.clients[name], source)) if name in found.clients else source
        for name, source in found.test.items()
    }


def _dealt(clients: Clients, sharing: Sharing) -> Clients:
    split = sharing.split
    if split is None and len(clients) == 1 and _is_one_long(clients):
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
    skewed: Callable[..., dict[str, list[Recording]]]
    skewed = label_skew if split == "label_skew" else quantity_skew
    return dict(skewed(every, n, alpha=sharing.alpha, seed=seed))


def _is_one_long(clients: Clients) -> bool:
    (source,) = clients.values()
    every = list(data_of(source)())
    return len(every) == 1 and (every[0].y is None or bool(every[0].per_step))

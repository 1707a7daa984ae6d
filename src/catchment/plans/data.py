"""The data of a plan: who holds them, how they are scaled, and what is kept for the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from catchment.data.clients import cohorts, contiguous, iid, label_skew, quantity_skew
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.engine.local import Source, data_of
from catchment.federation.rows import first_part, stretch
from catchment.plans.sources import Clients, Recordings

Change = Callable[[Iterable[Recording]], Iterable[Recording]]


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
    test_after
        Test clients are tested on their data after this share of it. What comes before is theirs to
        learn from, for a readout of their own; the shared model never sees it.
    seed
        Names every random draw of the data.
    """

    scaling: Literal["none", "client", "federated"] = "none"
    split: Literal["natural", "contiguous", "iid", "label_skew", "quantity_skew"] | None = None
    clients: int = 5
    alpha: float = 0.5
    test: float | Literal["official"] | None = None
    test_of: Literal["clients", "sequences", "steps"] | None = None
    test_after: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.test_after < 1:
            raise ValueError(f"test_after is {self.test_after}; pass a share below 1")
        if isinstance(self.test, float) and not 0 < self.test < 1:
            raise ValueError(f"test is {self.test}; pass a share above 0 and below 1")
        if self.test == "official" and (self.test_of or self.split):
            raise ValueError("an official test part goes with no split and no test_of of one's own")


@dataclass(frozen=True, eq=False)
class PlanData:
    """Training and test clients, each with sequences or a function that makes them.

    `whole` has all data of the test clients; they are tested on what comes after `test_after`.
    """

    train: Clients
    whole: Clients
    channels: tuple[str, ...]
    classes: tuple[str, ...] | None
    horizon: int | None
    test_after: float = 0.0
    washout: int = 0

    @property
    def test(self) -> Clients:
        """What the test clients are tested on."""
        if self.test_after == 0:
            return self.whole
        later = partial(_later, share=self.test_after, washout=self.washout)
        return {name: _changed(source, later) for name, source in self.whole.items()}

    def scaled(self, scaling: str, scaler: Scaler | None = None) -> PlanData:
        """Return the data standardised by the scaler, or by each client for itself."""
        if scaling == "none":
            return self
        if scaler is not None:
            change = scaler.apply
            train = {name: _changed(source, change) for name, source in self.train.items()}
            whole = {name: _changed(source, change) for name, source in self.whole.items()}
        else:
            train = {name: _own_scale(source, source) for name, source in self.train.items()}
            # A client that also trains is scaled by what it trained on, a new one by its inputs.
            whole = {
                name: _own_scale(source, self.train.get(name, source))
                for name, source in self.whole.items()
            }
        return replace(self, train=train, whole=whole)


def arrange(found: Recordings, sharing: Sharing, *, washout: int = 0) -> PlanData:
    """Return who trains on what and who tests on what.

    >>> from pathlib import Path
    >>> from catchment.plans.sources import Wearables
    >>> found = Wearables(users=8, windows_per_user=2).load(0, None, Path())
    >>> data = arrange(found, Sharing(test=0.25))
    >>> len(data.train), len(data.test)
    (6, 2)
    """
    train, test = _divided(found, sharing, washout)
    about = (found.channels, found.classes, found.horizon)
    return PlanData(train, test, *about, sharing.test_after, washout)


def _divided(found: Recordings, sharing: Sharing, washout: int) -> tuple[Clients, Clients]:
    """Return training and test clients."""
    official = sharing.test in (None, "official") and not sharing.split and not sharing.test_of
    if found.test and official:
        return found.clients, found.test
    if sharing.test == "official":
        raise ValueError("the data have no official test part; give a share, such as test = 0.25")
    clients = _dealt({**found.clients, **_apart(found)}, sharing)
    share = sharing.test if isinstance(sharing.test, float) else 0.25
    of = sharing.test_of or ("clients" if found.classes else "steps")
    if of == "clients":
        parts = cohorts(clients, validation=0, test=share, seed=sharing.seed)
        both = (sorted(parts.train), sorted(parts.test))
        train, test = ({name: clients[name] for name in names} for names in both)
        return train, test
    cut = partial(_stretch, washout=washout) if of == "steps" else _sequences
    early, late = partial(cut, begin=0.0, end=1 - share), partial(cut, begin=1 - share, end=1.0)
    return (
        {name: _changed(source, early) for name, source in clients.items()},
        {name: _changed(source, late) for name, source in clients.items()},
    )


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
    sequences: Iterable[Recording], *, begin: float, end: float, washout: int
) -> list[Recording]:
    return list(stretch(sequences, begin, end, washout=washout))


def _later(sequences: Iterable[Recording], *, share: float, washout: int) -> list[Recording]:
    return first_part(sequences, share, washout=washout)[1]


def _sequences(sequences: Iterable[Recording], *, begin: float, end: float) -> Sequence[Recording]:
    every = list(sequences)
    return every[round(begin * len(every)) : round(end * len(every))]

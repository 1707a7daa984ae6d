"""Where the data of a plan come from: one's own files, invented, or public.

Every client is a source that is read when it is asked, once per process (`Cached`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from catchment.data.clients import Cached
from catchment.data.recording import Recording
from catchment.data.synthetic import ACTIVITIES, CHANNELS, mackey_glass, narma, wearable_user
from catchment.plans.about import About as About
from catchment.plans.about import Clients as Clients
from catchment.plans.about import Recordings as Recordings
from catchment.plans.own_files import Files as Files
from catchment.plans.own_files import client_of as client_of
from catchment.plugins import Named


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


SOURCES = Named("sources", {"wearables": Wearables, "mackey_glass": MackeyGlass, "narma": Narma})


def origin_of(source: str) -> tuple[type, Mapping[str, object]]:
    """Return the settings of a source by its name, and those that the name already gives.

    >>> origin_of("narma")
    (<class 'catchment.plans.sources.Narma'>, {})
    """
    return SOURCES[source], {} if source in SOURCES.own else {"name": source}

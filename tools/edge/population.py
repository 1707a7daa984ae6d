"""Who trains and who is tested: the subjects of UCI HAR, or synthetic people."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from catchment.data import ACTIVITIES, Recording, synthetic_wearables
from catchment_lab.datasets import load
from tools.edge.federation import Outcome, People, Recipe, federated


@dataclass(frozen=True)
class Population:
    """People who train, with a device each, and others."""

    name: str
    people: People
    unseen: People
    classes: Sequence[str]

    @classmethod
    def of(cls, devices: int, data: Path | None = None) -> Population:
        """Return as many people as there are devices; of UCI HAR, if its folder is given.

        >>> synthetic = Population.of(2)
        >>> len(synthetic.people), len(synthetic.unseen)
        (2, 3)
        """
        if data is not None:
            har = load("uci_har", directory=data)
            people = {name: _measured(har.train[name]) for name in sorted(har.train)[:devices]}
            unseen = {name: _measured(held) for name, held in har.test.items()}
            return cls("UCI HAR", people, unseen, har.classes)
        made = synthetic_wearables(devices + max(3, devices // 3), windows_per_user=30)
        names = sorted(made)
        return cls(
            "synthetic wearables",
            {name: made[name] for name in names[:devices]},
            {name: made[name] for name in names[devices:]},
            ACTIVITIES,
        )


def _measured(windows: Sequence[Recording]) -> list[Recording]:
    """Return windows with what a phone's sensors measure: acceleration and turning, three each.

    The set's first three channels are computed from these, with gravity taken off.
    """
    return [replace(window, u=window.u[:, [6, 7, 8, 3, 4, 5]]) for window in windows]


def trained(recipe: Recipe, population: Population) -> Outcome:
    """Return what the population's devices learn, in a folder for the time it takes."""
    with tempfile.TemporaryDirectory(prefix="edge-") as folder:
        return federated(
            recipe,
            population.people,
            population.unseen,
            Path(folder),
            classes=population.classes,
        )

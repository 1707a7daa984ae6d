"""The sets of `python -m reproductions maps`: whose windows they are, and who tests in each fold.

UCI HAR has its publisher's nine test subjects. The people of MotionSense, HHAR and WISDM watch are
dealt to five folds by seed 0, and everybody is tested by the fold in which they do not train. The
problems of the UCR archive have their official split; its training cases are dealt to four clients
as FROCKS has them (Casella et al., 2024).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from catchment.data import ACTIVITIES, Recording, iid, synthetic_wearables
from reproductions.data import ucr
from reproductions.people import SYNTHETIC, scale_each, thin
from reproductions.places import find, load

PEOPLE = ("uci_har", "motionsense", "hhar", "wisdm_watch")
FOLDS = 5
UCR_CLIENTS = 4
TEST = "test cases"


@dataclass(frozen=True, kw_only=True)
class FoldedSet:
    """A set's recordings by client, raw, and the clients that test in each fold.

    Whoever does not test in a fold trains in it. `scale` is how channels are scaled: people by
    themselves, dealt cases by all training clients together.
    """

    name: str
    clients: Mapping[str, Sequence[Recording]]
    folds: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    scale: Literal["own", "federated"] = "own"
    notes: tuple[str, ...] = ()

    def training(self, fold: int) -> tuple[str, ...]:
        """Return who trains in a fold."""
        return tuple(sorted(set(self.clients) - set(self.folds[fold])))

    @property
    def tested(self) -> tuple[str, ...]:
        """Everybody who is tested, in the order of the folds."""
        return tuple(name for fold in self.folds for name in fold)

    @property
    def n_inputs(self) -> int:
        """Channels."""
        return int(next(iter(self.clients.values()))[0].u.shape[1])

    def within(self, windows: int) -> FoldedSet:
        """Return the set with at most this many windows of every client, evenly taken."""
        few = {name: thin(list(own), windows) for name, own in self.clients.items()}
        return replace(self, clients=few)


def folded(name: str, *, directory: Path | None = None) -> FoldedSet:
    """Return a set by its name: of people, a problem of the UCR archive, or synthetic.

    >>> folded("synthetic").folds[0]
    ('user-001', 'user-003')
    """
    if name == SYNTHETIC:
        users = synthetic_wearables(6, 0, windows_per_user=30)
        note = "synthetic signals: the figures say nothing about people"
        return _by_folds(name, users, ACTIVITIES, (note,))
    if name in ucr.SETS:
        return dealt(ucr.load_problem(name, directory=directory))
    if name not in PEOPLE:
        raise ValueError(
            f"no set is called {name!r}; use {', '.join((*PEOPLE, *ucr.SETS, SYNTHETIC))}"
        )
    data = load(name, directory=directory)
    steps = next(iter(data.clients.values()))[0].n_steps
    rate = f" at {data.rate_hz:g} Hz" if data.rate_hz else ""
    notes = (f"windows of {steps} steps{rate}", *data.notes)
    if data.test_clients:
        return FoldedSet(
            name=name,
            clients=data.clients,
            folds=(tuple(sorted(data.test_clients)),),
            classes=data.classes,
            notes=("the publisher's test subjects", *notes),
        )
    return _by_folds(name, data.clients, data.classes, notes)


def dealt(problem: ucr.Problem, n_clients: int = UCR_CLIENTS) -> FoldedSet:
    """Return a problem with its training cases dealt out evenly by seed 0, tested on its test."""
    clients = iid(problem.train, n_clients, seed=0)
    return FoldedSet(
        name=problem.name,
        clients={**clients, TEST: list(problem.test)},
        folds=((TEST,),),
        classes=problem.classes,
        scale="federated",
        notes=(f"official split; {len(problem.train)} training cases on {n_clients} clients",),
    )


def people_folds(names: Sequence[str], n_folds: int = FOLDS) -> tuple[tuple[str, ...], ...]:
    """Return the people of each fold, dealt by seed 0.

    >>> people_folds(["ann", "bob", "cy"], 2)
    (('bob', 'cy'), ('ann',))
    """
    known = sorted(names)
    order = np.random.default_rng(0).permutation(len(known))
    return tuple(tuple(sorted(known[k] for k in order[fold::n_folds])) for fold in range(n_folds))


def label_of(recording: Recording) -> int:
    """Return the number of a recording's class.

    >>> label_of(Recording([0.0, 1.0], [0.0, 1.0, 0.0]))
    1
    """
    if recording.y is None:
        raise ValueError("a recording has no class; pass recordings with one-hot targets")
    return int(np.argmax(recording.y))


def available(directory: Path | None = None) -> tuple[str, ...]:
    """Return the sets that are on this machine."""
    here = tuple(name for name in PEOPLE if find(name, directory=directory) is not None)
    return (*here, *ucr.available(directory))


def write_windows(path: Path, sets: Sequence[FoldedSet]) -> None:
    """Write sets as arrays, for programs that have numpy alone.

    People are scaled alone and kept as float16, which is finer than the arithmetic that networks
    are trained in; dealt cases are as their publisher has them. `fold` is -1 of those who are never
    tested.
    """
    arrays: dict[str, NDArray[Any]] = {"sets": np.array([one.name for one in sets])}
    for one in sets:
        own = one.scale == "own"
        clients = scale_each(one.clients) if own else one.clients
        names = sorted(clients)
        recordings = [recording for name in names for recording in clients[name]]
        fold = np.full(len(names), -1)
        for k, tested in enumerate(one.folds):
            fold[[names.index(name) for name in tested]] = k
        kind = np.float16 if own else np.float32
        labels = [label_of(r) for r in recordings]
        counts = [len(clients[name]) for name in names]
        arrays |= {
            f"{one.name}.u": np.stack([r.u for r in recordings]).astype(kind),
            f"{one.name}.label": np.array(labels, dtype=np.int16),
            f"{one.name}.person": np.repeat(np.arange(len(names)), counts).astype(np.int16),
            f"{one.name}.names": np.array(names),
            f"{one.name}.fold": fold,
            f"{one.name}.classes": np.array(len(one.classes)),
        }
    np.savez_compressed(path, allow_pickle=False, **arrays)


def _by_folds(
    name: str,
    clients: Mapping[str, Sequence[Recording]],
    classes: tuple[str, ...],
    notes: tuple[str, ...],
) -> FoldedSet:
    folds = people_folds(list(clients))
    note = f"{len(folds)} folds over {len(clients)} people"
    return FoldedSet(name=name, clients=clients, folds=folds, classes=classes, notes=(note, *notes))


def main() -> None:
    """Write the sets that are on this machine, or those that are named, into a file of arrays."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--sets", default="", help="Separated by commas; all if left out.")
    given = parser.parse_args()
    names = given.sets.split(",") if given.sets else available()
    write_windows(given.path, [folded(name) for name in names])


if __name__ == "__main__":
    main()

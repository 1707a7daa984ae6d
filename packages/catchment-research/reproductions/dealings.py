"""One set of windows dealt to clients in several ways, and what may not depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from catchment import Array
from catchment.data import Recording, iid, label_skew
from catchment.readout import RidgeStatistics
from reproductions.cells import Chosen, Subject, Subjects, summed
from reproductions.people import Clients, People

PEOPLE, IID, ONE = "people", "iid", "one client"
TOLERANCE = 1e-9


def dealt(people: People, alphas: Sequence[float], seed: int = 0) -> dict[str, Clients]:
    """Return the training windows as clients, for each dealing, in the order of the alphas.

    Parameters
    ----------
    alphas
        Concentrations of the Dirichlet distributions.
    seed
        Names the draw, together with the split's fold.
    """
    windows = list(chain.from_iterable(people.train[name] for name in sorted(people.train)))
    n, drawn = len(people.train), 100 * seed + people.fold
    uneven = {
        f"alpha {alpha:g}": label_skew(windows, n, alpha=alpha, seed=drawn) for alpha in alphas
    }
    others = {IID: iid(windows, n, seed=drawn), ONE: {"all": windows}, PEOPLE: people.train}
    return {**uneven, **others}


def label_distance(clients: Mapping[str, Sequence[Recording]]) -> float:
    """Return how far clients' classes are from all together: total variation, by windows.

    0 where every client has the same shares of classes, near 1 where none has one of another's.

    >>> windows = [Recording.labeled([0.0], label=k % 2, classes=2) for k in range(4)]
    >>> label_distance({"a": windows[::2], "b": windows[1::2]})
    0.5
    """
    counts = np.array([sum(np.asarray(s.y) for s in part) for part in clients.values()])
    sizes = counts.sum(axis=1)
    overall = counts.sum(axis=0) / sizes.sum()
    apart = np.abs(counts / sizes[:, None] - overall).sum(axis=1) / 2
    return float(apart @ sizes / sizes.sum())


def regrouped(read: Subjects, people: People, clients: Clients) -> dict[str, Subject]:
    """Return the rows of people, once they are read, as those of other clients."""
    rows: dict[int, tuple[Array, Array]] = {}
    for name, sequences in people.train.items():
        for k, sequence in enumerate(sequences):
            rows[id(sequence)] = read[name].z[k], read[name].y[k]
    made = {}
    fingerprint = next(iter(read.values())).statistics.fingerprint
    for name, sequences in clients.items():
        pairs = [rows[id(sequence)] for sequence in sequences]
        z, y = (np.array(part) for part in zip(*pairs, strict=True))
        made[name] = Subject(z, y, RidgeStatistics.from_states(z, y, fingerprint=fingerprint))
    return made


def largest_gap(chosen: Chosen, dealings: Iterable[Subjects], test: Subjects) -> float:
    """Return how far exact scores are apart between dealings; ArithmeticError above 1e-9."""
    gap = 0.0
    for clients in dealings:
        readout = summed(clients).solve(chosen.ridge)
        for s in test.values():
            gap = max(gap, float(np.abs(readout(s.z) - chosen.readout(s.z)).max()))
    refuse_dependence("the exact sum", gap)
    return gap


def refuse_dependence(what: str, distance: float) -> None:
    """Raise ArithmeticError if something that cannot depend on the dealing does."""
    if not distance <= TOLERANCE:
        raise ArithmeticError(
            f"{what} differs by {distance:g} between two dealings of the same windows, which it "
            "must not; one of the sums is wrong"
        )

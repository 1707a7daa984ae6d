"""One recipe on many people: every subject's rows and statistics once, then any cell of a table.

Statistics add, so the sum over any share of the subjects is what the federation's server would hold
after a round with them, and the readouts solved from it are `FederatedRidge`'s. The same holds for
the averages of readouts that subjects solve alone (`ReadoutAveraging`). A centralized solution is
computed from the pooled rows by another route, and the distance of its scores is kept in the cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import numpy as np

from catchment import Array, ordered_map, single_blas_thread
from catchment.data import Recording
from catchment.features import FeatureMap
from catchment.federation import Rows, WeightedSum, Weighting, client_weight
from catchment.readout import ClassCounts, Readout, RidgeStatistics, solve_path
from catchment_lab.search import ridges_of

WEIGHTINGS: tuple[Weighting, ...] = ("samples", "uniform", "printed")


@dataclass(frozen=True, eq=False)
class Subject:
    """Feature rows (n, F) and targets (n, K) of one person, and their statistics."""

    z: Array
    y: Array
    statistics: RidgeStatistics


Subjects = Mapping[str, Subject]


def read_subjects(
    features: FeatureMap, clients: Mapping[str, list[Recording]], *, threads: int | None = None
) -> dict[str, Subject]:
    """Return every client's rows and statistics."""

    def read(name: str) -> Subject:
        z, y = Rows.of(features, clients[name]).pair
        return Subject(z, y, RidgeStatistics.from_states(z, y, fingerprint=features.fingerprint))

    return dict(zip(clients, ordered_map(read, clients, threads=threads), strict=True))


def summed(subjects: Subjects) -> RidgeStatistics:
    """Return the sum of statistics, in the order of the names."""
    return reduce(add, (subjects[name].statistics for name in sorted(subjects)))


def scores(readout: Readout, subjects: Subjects) -> dict[str, ClassCounts]:
    """Return each subject's confusions."""
    with single_blas_thread():
        return {name: ClassCounts.of_scores(s.y, readout(s.z)) for name, s in subjects.items()}


def accuracy(readout: Readout, subjects: Subjects) -> float:
    """Return the share of all subjects' rows whose class is found."""
    return reduce(add, scores(readout, subjects).values()).accuracy


def averaged_path(
    subjects: Subjects, ridges: Array, weighting: Weighting = "samples"
) -> list[Readout]:
    """Return the averages of readouts that subjects solve alone, one for each ridge."""
    return averaged_paths(subjects, ridges, (weighting,))[weighting]


def averaged_paths(
    subjects: Subjects, ridges: Array, weightings: Sequence[Weighting] = WEIGHTINGS
) -> dict[Weighting, list[Readout]]:
    """Return the averages of readouts for several weightings, each subject solved once."""
    ordered = [subjects[name].statistics for name in sorted(subjects)]
    paths = list(ordered_map(lambda s: solve_path(s, ridges), ordered))
    averages: dict[Weighting, list[Readout]] = {}
    for weighting in weightings:
        weights = [client_weight(weighting, s.weight) for s in ordered]
        averages[weighting] = [
            _average([path[k] for path in paths], weights) for k in range(len(ridges))
        ]
    return averages


def _average(readouts: Sequence[Readout], weights: Sequence[float]) -> Readout:
    sums = (
        WeightedSum.of((readout.weights, readout.intercept), weight)
        for readout, weight in zip(readouts, weights, strict=True)
    )
    mean, intercept = reduce(add, sums).mean()
    return Readout(mean, intercept)


@dataclass(frozen=True, eq=False)
class Chosen:
    """The readout of a path that does best on validation subjects, its ridge and accuracy."""

    readout: Readout
    ridge: float
    accuracy: float


def best_of(path: Sequence[Readout], ridges: Array, validation: Subjects) -> Chosen:
    """Return the readout that does best on the validation subjects; of equals, the stiffer."""
    values = [accuracy(readout, validation) for readout in path]
    k = max(range(len(values)), key=lambda k: (values[k], k))
    return Chosen(path[k], float(ridges[k]), values[k])


def exact(train: Subjects, validation: Subjects) -> Chosen:
    """Return the federation's exact readout, its ridge chosen on the validation subjects."""
    total = summed(train)
    ridges = ridges_of(total)
    with single_blas_thread():
        return best_of(solve_path(total, ridges), ridges, validation)


def pooled_readout(train: Subjects, ridge: float) -> Readout:
    """Return the ridge readout of all rows in one place, by least squares on the rows themselves.

    No statistics are formed: the rows, centered, stand above the root of the ridge times identity.
    """
    z = np.concatenate([train[name].z for name in sorted(train)])
    y = np.concatenate([train[name].y for name in sorted(train)])
    z_mean, y_mean = z.mean(axis=0), y.mean(axis=0)
    F = z.shape[1]
    stacked = np.vstack([z - z_mean, np.sqrt(ridge) * np.eye(F)])
    targets = np.vstack([y - y_mean, np.zeros((F, y.shape[1]))])
    # The shapes are small: threads of the linear algebra library would wait more than they work.
    with single_blas_thread():
        Q, R = np.linalg.qr(stacked)
        weights = np.linalg.solve(R, Q.T @ targets)
    return Readout(weights, y_mean - z_mean @ weights)


@dataclass(frozen=True)
class Cell:
    """One method on one share of the training subjects: accuracies, and how it was had.

    `gap` is the largest difference between the scores of the exact federated readout and of the
    pooled rows' on the test subjects; it is NaN for methods that claim no equality. `confusions`
    has each test subject's counts, true classes by rows, and `fold` says who the subjects are.
    """

    method: str
    share: float
    repetition: int
    test: float
    train: float
    validation: float
    by_subject: Mapping[str, float]
    ridge: float
    gap: float = float("nan")
    confusions: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    fold: int = 0

    @property
    def spread(self) -> float:
        """Standard deviation of the test subjects' accuracies, NaN of one subject."""
        values = list(self.by_subject.values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    @property
    def confusion(self) -> ClassCounts:
        """All test subjects' counts together."""
        if not self.confusions:
            raise ValueError("this cell was made without confusions; run it again")
        return reduce(add, (ClassCounts(np.array(c)) for c in self.confusions.values()))


def cell(
    method: str,
    chosen: Chosen,
    *,
    train: Subjects,
    test: Subjects,
    share: float,
    repetition: int,
    pooled: Readout | None = None,
    fold: int = 0,
) -> Cell:
    """Return what a readout does on its training and on the test subjects."""
    counts = scores(chosen.readout, test)
    gap = float("nan")
    if pooled is not None:
        gap = max(float(np.abs(chosen.readout(s.z) - pooled(s.z)).max()) for s in test.values())
    return Cell(
        method,
        share,
        repetition,
        reduce(add, counts.values()).accuracy,
        accuracy(chosen.readout, train),
        chosen.accuracy,
        {name: count.accuracy for name, count in counts.items()},
        chosen.ridge,
        gap,
        {name: count.confusion.tolist() for name, count in counts.items()},
        fold,
    )

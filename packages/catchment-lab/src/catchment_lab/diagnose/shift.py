"""How far one person's data lie from the others': channels, features and classes.

What counts as far is taken from people, not from steps, which are far from independent: every
measure is also taken of each other person against the rest, and distances are in units of how much
people differ. That unit is 1.4826 times the median absolute deviation between people, which a few
odd ones do not widen, and at least a twentieth of what is usual within a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array
from catchment_lab.diagnose.person import Person

NORMAL = 1.4826  # median absolute deviation of a normal distribution to its standard deviation
LEAST = 0.05
MOST_OTHERS = 8  # people who are held against the rest too, to know what is usual


@dataclass(frozen=True)
class ChannelShift:
    """One channel of one person beside the others'.

    Parameters
    ----------
    mean, others_mean
        The person's mean, and the median of the others' means.
    mean_shift
        Their difference in between-person standard deviations of the others' means.
    spread, spread_ratio
        The person's standard deviation, and how many times the others' median that is.
    spread_shift
        Its logarithm in between-person standard deviations.
    distance
        Two-sample Kolmogorov-Smirnov statistic of the person's values and the others'.
    usual, most
        Median and largest such statistic of another person and the rest.
    missing, others_missing
        Shares of missing values.
    pace_ratio
        How many times as often as the others' it crosses its mean, per step.
    """

    name: str
    mean: float
    others_mean: float
    mean_shift: float
    spread: float
    spread_ratio: float
    spread_shift: float
    distance: float
    usual: float
    most: float
    missing: float
    others_missing: float
    pace_ratio: float

    @property
    def stands_out(self) -> bool:
        """Whether it lies further off than others do; one other odd person does not hide that."""
        far = max(abs(self.mean_shift), abs(self.spread_shift)) > 3.0
        return far and self.distance > max(0.1, min(self.most, 3 * self.usual))


@dataclass(frozen=True)
class FeatureShift:
    """How far a person's features lie from the others', and which lie furthest.

    `distance` is the root mean square over features of the difference of means, in standard
    deviations of the others' rows: Mahalanobis's with the diagonal alone. `usual` and `most` are
    the median and the largest such distance of another person. `furthest` has the differences.
    """

    distance: float
    usual: float
    most: float
    furthest: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class ClassShift:
    """Shares of each class among a person's rows and among the others'."""

    name: str
    share: float
    others: float
    rows: int


@dataclass(frozen=True, eq=False)
class RowMoments:
    """Mean (F,) and variance (F,) of one person's feature rows."""

    n: int
    mean: Array
    variance: Array

    @classmethod
    def of(cls, z: Array) -> RowMoments:
        """Return those of rows (n, F)."""
        return cls(len(z), z.mean(axis=0), z.var(axis=0))


def between(values: Array, within: Array | float = 0.0) -> Array:
    """Return how much people differ: robust deviations (I,) of values (n, I), one row a person.

    Parameters
    ----------
    within
        What is usual within a person; the deviation is at least a twentieth of it.

    >>> between(np.array([[1.0], [2.0], [3.0], [90.0]])).round(3)
    array([1.483])
    """
    middle = np.median(values, axis=0)
    deviation = NORMAL * np.median(np.abs(values - middle), axis=0)
    tiny = 1e-9 * np.abs(middle) + np.finfo(float).tiny
    return np.asarray(np.maximum(np.maximum(deviation, LEAST * np.asarray(within)), tiny))


def channel_shifts(
    person: Person, others: Sequence[Person], names: Sequence[str]
) -> tuple[ChannelShift, ...]:
    """Return every channel of a person beside at least two others'.

    >>> from catchment import Recording
    >>> rng = np.random.default_rng(0)
    >>> people = [Person.of([Recording(rng.normal(size=(99, 1)))]) for _ in range(4)]
    >>> odd = Person.of([Recording(5 * rng.normal(size=(99, 1)))])
    >>> shift = channel_shifts(odd, people, ["load"])[0]
    >>> shift.stands_out, round(shift.spread_ratio, 1)
    (True, 5.6)
    """
    if len(others) < 2:
        raise ValueError(f"there are {len(others)} other people, comparing needs at least 2")
    means = np.array([one.mean for one in others])
    spreads = np.array([one.spread for one in others])
    paces = np.median([one.pace for one in others], axis=0)
    typical = np.median(spreads, axis=0)
    mean_shift = (person.mean - np.median(means, axis=0)) / between(means, typical)
    logs = np.log(np.maximum(spreads, 1e-12 + 1e-6 * typical))
    own = np.log(np.maximum(person.spread, 1e-12 + 1e-6 * typical))
    spread_shift = (own - np.median(logs, axis=0)) / between(logs, 1.0)
    missing = np.mean([one.missing for one in others], axis=0)
    found = []
    for k, name in enumerate(names):
        distance, usual, most = _distances(person, others, k)
        found.append(
            ChannelShift(
                name,
                float(person.mean[k]),
                float(np.median(means[:, k])),
                float(mean_shift[k]),
                float(person.spread[k]),
                _ratio(person.spread[k], typical[k]),
                float(spread_shift[k]),
                distance,
                usual,
                most,
                float(person.missing[k]),
                float(missing[k]),
                _ratio(person.pace[k], paces[k]),
            )
        )
    return tuple(found)


def _ratio(own: float, others: float) -> float:
    return float(own / others) if others > 0 else float("nan")


def _distances(
    person: Person, others: Sequence[Person], channel: int
) -> tuple[float, float, float]:
    """Return the distance of a person, and the median and largest of others, to the rest each."""
    values = [_known(one, channel) for one in others]
    own = distance(_known(person, channel), np.concatenate(values))
    places = np.linspace(0, len(others) - 1, min(MOST_OTHERS, len(others))).round().astype(int)
    usual = []
    for k in np.unique(places):
        rest = [part for number, part in enumerate(values) if number != k]
        usual.append(distance(values[k], np.concatenate(rest)))
    return own, float(np.median(usual)), float(np.max(usual))


def distance(own: Array, others: Array) -> float:
    """Return the two-sample Kolmogorov-Smirnov statistic, from 0 to 1; NaN without values.

    >>> distance(np.arange(9.0), np.arange(9.0) + 100)
    1.0
    """
    from scipy.stats import ks_2samp

    if not len(own) or not len(others):
        return float("nan")
    return float(ks_2samp(own, others, method="asymp").statistic)


def _known(person: Person, channel: int) -> Array:
    values = person.values[:, channel]
    return values[~np.isnan(values)]


def feature_shift(
    person: RowMoments, others: Sequence[RowMoments], names: Sequence[str], n_named: int = 5
) -> FeatureShift:
    """Return how far a person's features lie from those of at least two others.

    >>> rng = np.random.default_rng(0)
    >>> people = [RowMoments.of(rng.normal(size=(50, 3))) for _ in range(5)]
    >>> odd = RowMoments.of(rng.normal(size=(50, 3)) + [0.0, 0.0, 9.0])
    >>> feature_shift(odd, people, ["a", "b", "c"], 1).furthest[0][0]
    'c'
    """
    if len(others) < 2:
        raise ValueError(f"there are {len(others)} other people, comparing needs at least 2")
    own = _standardised(person, others)
    usual = [
        _length(_standardised(one, [*others[:k], *others[k + 1 :]])) for k, one in enumerate(others)
    ]
    order = np.argsort(-np.abs(own), kind="stable")[:n_named]
    furthest = tuple((names[k], float(own[k])) for k in order)
    return FeatureShift(_length(own), float(np.median(usual)), float(np.max(usual)), furthest)


def _standardised(person: RowMoments, others: Sequence[RowMoments]) -> Array:
    """Return the differences (F,) of means, in standard deviations of the others' rows."""
    means = np.array([one.mean for one in others])
    middle = means.mean(axis=0)
    variance = np.mean([one.variance for one in others], axis=0) + means.var(axis=0)
    scale = np.sqrt(variance)
    known = scale > 1e-9 * np.abs(middle) + np.finfo(float).tiny
    return np.where(known, (person.mean - middle) / np.where(known, scale, 1.0), 0.0)


def _length(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def class_shifts(
    own: Sequence[int], others: Sequence[int], names: Sequence[str]
) -> tuple[ClassShift, ...]:
    """Return the shares of classes from counts of rows.

    >>> class_shifts([1, 3], [5, 5], ["a", "b"])[1]
    ClassShift(name='b', share=0.75, others=0.5, rows=3)
    """
    mine, theirs = max(sum(own), 1), max(sum(others), 1)
    return tuple(
        ClassShift(name, a / mine, b / theirs, int(a))
        for name, a, b in zip(names, own, others, strict=True)
    )

"""How far one person's raw recordings lie from the others': channels, classes, length and rate.

What counts as far is taken from people, not from steps, which are far from independent: every
measure is also taken of each other person against the rest, and distances are in units of how much
people differ. That unit is 1.4826 times the median absolute deviation between people, which a few
odd ones do not widen, and at least a twentieth of what is usual within a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording

MOST_RECORDINGS = 400  # of one person that are looked at, evenly spread
MOST_STEPS = 60_000
MOST_VALUES = 2_000  # of one channel, to compare distributions by
NORMAL = 1.4826  # median absolute deviation of a normal distribution to its standard deviation
LEAST = 0.05
MOST_OTHERS = 8  # people who are held against the rest too, to know what is usual


@dataclass(frozen=True)
class Quantity:
    """One number of a person's recordings and the others' median."""

    name: str
    own: float
    others: float


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

    @property
    def stands_out(self) -> bool:
        """Whether it lies further off than others do; one other odd person does not hide that."""
        far = max(abs(self.mean_shift), abs(self.spread_shift)) > 3.0
        return far and self.distance > max(0.1, min(self.most, 3 * self.usual))


@dataclass(frozen=True)
class ClassShift:
    """Shares of each class among a person's rows and among the others'."""

    name: str
    share: float
    others: float
    rows: int


@dataclass(frozen=True, eq=False)
class Person:
    """One person's recordings in numbers; arrays are (I,) unless said.

    `about` has how many there are, how long and how fast, by name, where it is known. `values`
    (n, I) are some of the values, evenly spread.
    """

    mean: Array
    spread: Array
    missing: Array
    values: Array
    about: dict[str, float]

    @classmethod
    def of(cls, recordings: Sequence[Recording]) -> Person:
        """Return what at least one raw recording is like.

        >>> one = Person.of([Recording([[0.0], [2.0], [np.nan]], times=[0.0, 0.5, 1.0])])
        >>> one.mean, one.spread, one.missing.round(2), one.about["steps per second"]
        (array([1.]), array([1.]), array([0.33]), 2.0)
        """
        some = [recordings[k] for k in evenly(len(recordings), MOST_RECORDINGS)]
        u = np.concatenate([one.u for one in some])
        u = u[:: max(1, -(-len(u) // MOST_STEPS))]
        known = ~np.isnan(u)
        n = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, u, 0.0).sum(axis=0) / n
        spread = np.sqrt(np.where(known, (u - mean) ** 2, 0.0).sum(axis=0) / n)
        about = {
            "recordings": float(len(recordings)),
            "steps in a recording": float(np.median([one.n_steps for one in recordings])),
            "missing values, %": 100 * float(1.0 - known.mean()),
        }
        steps = [np.diff(one.times) for one in some if one.times is not None and one.n_steps > 1]
        if steps:
            about["steps per second"] = float(np.median([1 / np.median(one) for one in steps]))
            seconds = [one.sum() + np.median(one) for one in steps]
            about["seconds in a recording"] = float(np.median(seconds))
        return cls(mean, spread, 1.0 - known.mean(axis=0), u[evenly(len(u), MOST_VALUES)], about)


def evenly(n: int, most: int) -> Integers:
    """Return at most so many of the numbers below n, evenly spread.

    >>> evenly(10, 3), evenly(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def quantities(own: Person, others: Sequence[Person]) -> tuple[Quantity, ...]:
    """Return what recordings are like but for their values."""
    found = []
    for name, value in own.about.items():
        known = [one.about[name] for one in others if name in one.about]
        found.append(Quantity(name, value, float(np.median(known)) if known else float("nan")))
    return tuple(found)


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

    >>> rng = np.random.default_rng(0)
    >>> people = [Person.of([Recording(rng.normal(size=(99, 1)))]) for _ in range(4)]
    >>> odd = Person.of([Recording(5 * rng.normal(size=(99, 1)))])
    >>> shift = channel_shifts(odd, people, ["load"])[0]
    >>> shift.stands_out, round(shift.spread_ratio, 1)
    (True, 5.6)
    """
    means = np.array([one.mean for one in others])
    spreads = np.array([one.spread for one in others])
    typical = np.median(spreads, axis=0)
    middle = np.median(means, axis=0)
    mean_shift = (person.mean - middle) / between(means, typical)
    logs = np.log(np.maximum(spreads, 1e-12 + 1e-6 * typical))
    own = np.log(np.maximum(person.spread, 1e-12 + 1e-6 * typical))
    spread_shift = (own - np.median(logs, axis=0)) / between(logs, 1.0)
    ratio = np.where(typical > 0, person.spread / np.where(typical > 0, typical, 1.0), np.nan)
    missing = np.mean([one.missing for one in others], axis=0)
    found = []
    for k, name in enumerate(names):
        moments = (person.mean, middle, mean_shift, person.spread, ratio, spread_shift)
        means_and_spreads = [float(one[k]) for one in moments]
        lost = (float(person.missing[k]), float(missing[k]))
        numbers = (*means_and_spreads, *_distances(person, others, k), *lost)
        found.append(ChannelShift(name, *numbers))
    return tuple(found)


def _distances(
    person: Person, others: Sequence[Person], channel: int
) -> tuple[float, float, float]:
    """Return the two-sample Kolmogorov-Smirnov statistic of a person and the others.

    After it are the median and the largest of another person and the rest.
    """
    from scipy.stats import ks_2samp

    columns = [one.values[:, channel] for one in (person, *others)]
    own, *values = (one[~np.isnan(one)] for one in columns)

    def distance(one: Array, rest: Sequence[Array]) -> float:
        every = np.concatenate(rest)
        if not len(one) or not len(every):
            return float("nan")
        return float(ks_2samp(one, every, method="asymp").statistic)

    usual = [
        distance(values[k], [*values[:k], *values[k + 1 :]])
        for k in evenly(len(values), MOST_OTHERS)
    ]
    return distance(own, values), float(np.median(usual)), float(np.max(usual))


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

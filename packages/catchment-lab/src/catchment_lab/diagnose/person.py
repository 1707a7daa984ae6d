"""What one person's raw recordings are like, in a few numbers, to be held against the others'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from catchment import Array, Integers
from catchment.data import Recording

MOST_RECORDINGS = 400  # of one person that are looked at, evenly spread
MOST_STEPS = 60_000
MOST_VALUES = 2_000  # of one channel, to compare distributions by
FEWEST = 20  # steps of a class of which moments say something


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Mean (I,) and covariance (I, I) of the steps of one class."""

    n: int
    mean: Array
    cov: Array


@dataclass(frozen=True, eq=False)
class Person:
    """One person's recordings in numbers; arrays are (I,) unless said.

    `rate` is in steps per second and `seconds` the median length, where times are known. `pace` is
    how often a channel crosses its mean, per step. `values` (n, I) are some of the values, evenly
    spread. `by_class` is by the number of the class, -1 for all of them.
    """

    n_recordings: int
    n_steps: int
    length: float
    mean: Array
    spread: Array
    missing: Array
    pace: Array
    values: Array
    by_class: Mapping[int, ClassMoments]
    rate: float | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, recordings: Sequence[Recording]) -> Person:
        """Return what at least one raw recording is like.

        >>> one = Person.of([Recording([[0.0], [2.0], [np.nan]], times=[0.0, 0.5, 1.0])])
        >>> one.mean, one.spread, one.missing.round(2), one.rate
        (array([1.]), array([1.]), array([0.33]), 2.0)
        """
        if not recordings:
            raise ValueError("there are no recordings to look at; pass at least one")
        some = _some(recordings, MOST_RECORDINGS)
        u = np.concatenate([one.u for one in some])
        labels = np.concatenate([_labels(one) for one in some])
        step = max(1, -(-len(u) // MOST_STEPS))
        u, labels = u[::step], labels[::step]
        known = ~np.isnan(u)
        n = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, u, 0.0).sum(axis=0) / n
        spread = np.sqrt(np.where(known, (u - mean) ** 2, 0.0).sum(axis=0) / n)
        timed = [one for one in some if one.times is not None and one.n_steps > 1]
        return cls(
            len(recordings),
            sum(one.n_steps for one in recordings),
            float(np.median([one.n_steps for one in recordings])),
            mean,
            spread,
            1.0 - known.mean(axis=0),
            np.mean([_pace(one.u) for one in some], axis=0),
            _some_rows(u),
            _by_class(u[known.all(axis=1)], labels[known.all(axis=1)]),
            float(np.median([_rate(one) for one in timed])) if timed else None,
            float(np.median([_seconds(one) for one in timed])) if timed else None,
        )


def _some(recordings: Sequence[Recording], most: int) -> list[Recording]:
    if len(recordings) <= most:
        return list(recordings)
    places = np.linspace(0, len(recordings) - 1, most).round().astype(int)
    return [recordings[k] for k in np.unique(places)]


def _some_rows(u: Array) -> Array:
    if len(u) <= MOST_VALUES:
        return u
    some: Array = u[np.linspace(0, len(u) - 1, MOST_VALUES).round().astype(int)]
    return some


def _labels(one: Recording) -> Integers:
    """Return the class (T,) of every step, -1 where there is none."""
    if one.y is None or one.y.shape[-1] < 2:
        return np.full(one.n_steps, -1)
    y = np.broadcast_to(one.y, (one.n_steps, one.y.shape[-1]))
    unknown = np.isnan(y).any(axis=1)
    return np.where(unknown, -1, np.nan_to_num(y).argmax(axis=1))


def _by_class(u: Array, labels: Integers) -> dict[int, ClassMoments]:
    found = {int(k): u[labels == k] for k in np.unique(labels) if k >= 0}
    enough = {k: part for k, part in found.items() if len(part) >= FEWEST}
    if len(u) >= FEWEST:
        enough[-1] = u
    return {
        k: ClassMoments(
            len(part), part.mean(axis=0), np.cov(part.T, ddof=0).reshape(2 * (u.shape[1],))
        )
        for k, part in enough.items()
    }


def _pace(u: Array) -> Array:
    """Return how often each channel (I,) of (T, I) crosses its mean, per step."""
    if len(u) < 2:
        return np.zeros(u.shape[1])
    known = np.isfinite(u)
    mean = np.where(known, u, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    above = np.where(known, u, mean) > mean
    return np.asarray((above[1:] != above[:-1]).mean(axis=0), dtype=np.float64)


def _rate(one: Recording) -> float:
    assert one.times is not None
    return float(1.0 / np.median(np.diff(one.times)))


def _seconds(one: Recording) -> float:
    assert one.times is not None
    return float(one.times[-1] - one.times[0]) + 1.0 / _rate(one)

"""How far a figure could be elsewhere: deviations over seeds, intervals over people.

A deviation over seeds says what another draw of the reservoir would do to the same people. Whether
*other people* would get the same figure, only people can say: they are drawn with replacement, and
so are the seeds. Two methods are compared on the same draws of both, so that what makes a person
hard for either is no part of the difference. With fewer than about ten people such intervals are
too narrow; the number of people therefore stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from catchment import Array

DRAWS = 2000
FEWEST = 6
Counts = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Interval:
    """A figure, 95 % of what it is over draws of people and seeds, and how many people there are.

    `runs` says that there are no people in it, and `n_people` counts runs.

    >>> Interval(0.912, 0.88, 0.94, 24).shown()
    '91.2 (88.0 to 94.0)'
    """

    value: float
    low: float
    high: float
    n_people: int
    runs: bool = False

    @property
    def too_few(self) -> bool:
        """Whether people are so few that not even the range of all of them holds 95 %."""
        return not self.runs and self.n_people < FEWEST

    @property
    def settled(self) -> bool:
        """Whether zero lies outside: for a difference, whether its sign is clear."""
        return self.low > 0 or self.high < 0

    def shown(self, *, sign: bool = False) -> str:
        """Return the figure in per cent, with the interval in brackets."""
        value, low, high = (100 * number for number in (self.value, self.low, self.high))
        if sign:
            return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"
        return f"{value:.1f} ({low:.1f} to {high:.1f})"


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation with n - 1, NaN of fewer than two.

    >>> deviation([1.0, 3.0])
    1.4142135623730951
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def over_people(seeds: Sequence[Counts]) -> Interval:
    """Return the accuracy over all rows, with an interval over people and seeds.

    Parameters
    ----------
    seeds
        For every seed the people, each with the rows that were right and all rows.

    >>> over_people([{"ann": (9, 10), "bob": (5, 10)}]).value
    0.7
    """
    right, n = _tables(seeds)
    drawn_right, drawn_n = _drawn(right), _drawn(n)
    low, high = np.quantile(drawn_right / drawn_n, [0.025, 0.975])
    return Interval(float(right.sum() / n.sum()), float(low), float(high), right.shape[1])


def paired(ours: Sequence[Counts], theirs: Sequence[Counts]) -> Interval:
    """Return how much more accurate ours are, with an interval over the same people and seeds.

    >>> better = [{"ann": (9, 10), "bob": (6, 10)}]
    >>> paired(better, [{"ann": (8, 10), "bob": (5, 10)}]).shown(sign=True)
    '+10.0 (+10.0 to +10.0)'
    """
    (a, n), (b, m) = _tables(ours), _tables(theirs)
    if a.shape != b.shape or sorted(ours[0]) != sorted(theirs[0]):
        raise ValueError(
            f"{a.shape[0]} seeds and {a.shape[1]} people cannot be paired with {b.shape[0]} and "
            f"{b.shape[1]}; compare runs on the same people and seeds"
        )
    difference = _drawn(a) / _drawn(n) - _drawn(b) / _drawn(m)
    low, high = np.quantile(difference, [0.025, 0.975])
    value = a.sum() / n.sum() - b.sum() / m.sum()
    return Interval(float(value), float(low), float(high), a.shape[1])


def _tables(seeds: Sequence[Counts]) -> tuple[Array, Array]:
    """Return rows that were right (S, P) and all rows (S, P), people in the order of names."""
    if not seeds or not seeds[0]:
        raise ValueError("there is nobody to draw; pass at least one seed with one person")
    names = sorted(seeds[0])
    if any(sorted(one) != names for one in seeds):
        raise ValueError("seeds have different people; pass the same people for every seed")
    table = np.array([[one[name] for name in names] for one in seeds], dtype=np.float64)
    return table[:, :, 0], table[:, :, 1]


def _drawn(table: Array) -> Array:
    """Return the sums (DRAWS,) of a table (S, P) over seeds and people drawn with replacement."""
    n_seeds, n_people = table.shape
    rng = np.random.default_rng(0)
    people = rng.integers(n_people, size=(DRAWS, 1, n_people))
    seeds = rng.integers(n_seeds, size=(DRAWS, n_seeds, 1))
    return np.asarray(table[seeds, people].sum(axis=(1, 2)))


def over_runs(values: Sequence[float]) -> Interval:
    """Return the mean of runs that differ by their seed, with Student's 95 % interval.

    There are no people in it: `n_people` is the number of runs. One run alone leaves it open.

    >>> over_runs([0.01, 0.02, 0.03]).shown(sign=True)
    '+2.0 (-0.5 to +4.5)'
    """
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return Interval(mean, float("-inf"), float("inf"), n, runs=True)
    half = float(stdtrit(n - 1, 0.975)) * deviation(values) / n**0.5
    return Interval(mean, mean - half, mean + half, n, runs=True)

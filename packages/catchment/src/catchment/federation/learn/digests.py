"""Digests of sums: in fixed point statistics are integers, so that equal data have equal hashes.

The digest of integers is that of their value, whatever machine, order or form they came in:
whoever has the recordings can compute it again, and that of a sum without a client is the digest of
the difference. Of float64 statistics it is that of the bytes, which another processor, or another
order, may change in their last digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.federation.algorithm import Tally
from catchment.readout.statistics import SUMS, RidgeStatistics, StatisticsSet

Sum = RidgeStatistics | StatisticsSet


@dataclass(frozen=True)
class Digest:
    """The SHA-256 of a client's statistics, or of the sum of all; then there is no client."""

    client: str
    sha256: str
    is_exact: bool


def digests_of(sums: Tally[Any] | None) -> list[Digest]:
    """Return the digest of a sum, and of each client's part where it is kept; none of no sum.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> [one.client for one in digests_of(Tally(s + s, {"ann": s, "bob": s}))]
    ['', 'ann', 'bob']
    """
    if sums is None:
        return []
    named = {"": sums.total, **sums.by_client}
    return [Digest(name, named[name].digest(), named[name].is_exact) for name in sorted(named)]


def apart(one: Sum, other: Sum) -> float:
    """Return how far two sums are apart: the largest difference, as a share of its array's largest.

    Infinite if they are sums of other features or of other numbers of rows.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> apart(s, s), apart(s, s + s)
    (0.0, inf)
    """
    if one.members.keys() != other.members.keys():
        return np.inf
    found = 0.0
    for k, a in one.members.items():
        b = other.members[k]
        if (a.n_rows, a.fingerprint, a.cross.shape) != (b.n_rows, b.fingerprint, b.cross.shape):
            return np.inf
        for name in SUMS:
            x, y = getattr(a.floats, name), getattr(b.floats, name)
            size = float(np.abs(y).max(initial=0.0))
            difference = float(np.abs(x - y).max(initial=0.0))
            found = max(found, difference / size if size else np.inf if difference else 0.0)
    return found

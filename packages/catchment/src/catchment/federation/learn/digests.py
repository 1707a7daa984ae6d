"""Digests of sums: on a grid statistics are whole numbers, so that equal data have equal hashes.

The digest of whole numbers is that of their value, whatever machine, order or form they came in:
whoever has the recordings can compute it again, and that of a sum without a client is the digest of
the difference. Of float64 statistics it is that of the bytes, which another processor, or another
order, may change in their last digits.

Clients that come after a run, and bring classes that nobody had: class-incremental learning.

What an earlier run summed is the state that a later one begins with. A class that is new is a
column of zeros in the earlier sums, so that the sums of both, and on a grid their digests, are
those of one run with everybody from the start. Nobody of the earlier run is asked again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from catchment.errors import FederationError
from catchment.federation.learn.balanced import ByClass
from catchment.federation.learn.candidates import StatisticsSet
from catchment.federation.learn.ridge import RidgeState
from catchment.federation.sums import Tally
from catchment.readout.heads import spread_targets
from catchment.readout.statistics import RidgeStatistics

SUMS = ("feature_sum", "target_sum", "gram", "cross", "target_gram")
Sum = RidgeStatistics | StatisticsSet
V = TypeVar("V", RidgeStatistics, StatisticsSet)
Classes = tuple[str, ...] | None


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
    return [Digest(name, digest_of(named[name]), is_exact(named[name])) for name in sorted(named)]


def digest_of(value: Sum) -> str:
    """Return the SHA-256 of a sum's value, in hexadecimal.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> digest_of(s) == s.digest(), digest_of(StatisticsSet({0: s})) == s.digest()
    (True, False)
    """
    if isinstance(value, RidgeStatistics):
        return value.digest()
    told = {str(k): one.digest() for k, one in value.members.items()}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def is_exact(value: Sum) -> bool:
    """Return whether the numbers are whole, so that sums and differences are equalities."""
    return all(one.grid is not None for one in members_of(value).values())


def without(whole: V, part: V) -> V:
    """Return a sum without a part that was added to it."""
    kept, gone = members_of(whole), members_of(part)
    rest = {k: one - gone[k] for k, one in kept.items()}
    return rest[0] if isinstance(whole, RidgeStatistics) else StatisticsSet(rest)


def apart(one: Sum, other: Sum) -> float:
    """Return how far two sums are apart: the largest difference, as a share of its array's largest.

    Infinite if they are sums of other features or of other numbers of rows.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> apart(s, s), apart(s, s + s)
    (0.0, inf)
    """
    a, b = members_of(one), members_of(other)
    if a.keys() != b.keys():
        return np.inf
    return max((d for k in a for d in _differences(a[k], b[k])), default=0.0)


def _differences(a: RidgeStatistics, b: RidgeStatistics) -> Iterator[float]:
    alike = (a.n_rows, a.fingerprint, a.cross.shape) == (b.n_rows, b.fingerprint, b.cross.shape)
    if not alike:
        yield np.inf
        return
    for name in SUMS:
        x, y = (getattr(one.floats, name) for one in (a, b))
        size = float(np.abs(y).max(initial=0.0))
        difference = float(np.abs(x - y).max(initial=0.0))
        yield difference / size if size else (np.inf if difference else 0.0)


def members_of(value: Sum) -> dict[int, RidgeStatistics]:
    """Return the statistics that a sum is made of, by their number; of one alone it is 0."""
    return {0: value} if isinstance(value, RidgeStatistics) else dict(value.members)


def among(state: object, before: Classes, after: Classes) -> RidgeState:
    """Return the sums of an earlier run with its classes among those of a later one, not solved.

    Parameters
    ----------
    state
        Of the server after the earlier run.
    before, after
        Names of the classes then and now, None where targets are numbers.
    """
    if not isinstance(state, RidgeState) or state.total is None:
        raise FederationError(
            f"the earlier run left a {type(state).__name__}, which is no sum of statistics; only a "
            "ridge's can be added to"
        )
    if state.recent:
        raise FederationError("the earlier run has a window of rounds; run it again with everybody")
    about: dict[str, Any] = {"begun": state.begun, "missed": state.missed}
    if before == after:
        return RidgeState(state.total, state.by_client, by_group=state.by_group, **about)
    places, n = _places(before, after)

    def spread(one: RidgeStatistics) -> RidgeStatistics:
        return spread_targets(one, places, n)

    by_client = {name: spread(one) for name, one in state.by_client.items()}
    by_group = {group: spread(one) for group, one in state.by_group.items()}
    return RidgeState(spread(state.total), by_client, by_group=by_group, **about)


def among_by_class(state: ByClass, before: Classes, after: Classes) -> ByClass:
    """Return sums by class with their classes among those of a later run, not solved.

    A class that is new has sums of no rows.
    """
    if state.total is None or before == after:
        return ByClass(state.total, state.by_client)
    places, n = _places(before, after)

    def spread(sums: StatisticsSet) -> StatisticsSet:
        known = {places[k]: spread_targets(one, places, n) for k, one in sums.members.items()}
        first = next(iter(known.values()))
        none = RidgeStatistics.zero(first.n_features, n, first.fingerprint, first.grid)
        return StatisticsSet({k: known.get(k, none) for k in range(n)})

    return ByClass(spread(state.total), {name: spread(s) for name, s in state.by_client.items()})


def _places(before: Classes, after: Classes) -> tuple[list[int], int]:
    """Return where each earlier class is among the later ones, and how many these are."""
    missing = [name for name in before or () if name not in (after or ())]
    if before is None or after is None or missing:
        raise ValueError(
            f"the earlier run has the classes {before}, this one {after}; name all of the earlier "
            "ones among them"
        )
    return [after.index(name) for name in before], len(after)


def refuse_twice(earlier: RidgeState | ByClass, clients: object) -> None:
    """Raise FederationError if a client of the earlier run is to be counted again."""
    again = sorted(set(earlier.by_client) & set(clients))  # type: ignore[call-overload]
    if again:
        raise FederationError(
            f"{again[0]} is already in the sum; a client counts once, so name new recordings of "
            "it otherwise"
        )

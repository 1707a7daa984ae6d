"""What a server keeps of clients' statistics, and which of it is left out to choose a ridge.

To choose by clients the server must keep every client's statistics. Of a million clients it keeps
the sums of 32 groups instead. A client's group follows from the SHA-256 of its name, so that it is
the same in every run, on every engine, whoever else takes part.

The digest of statistics in fixed point is that of their integers, whatever machine, order or form
they came in: whoever has the recordings can compute it again, and that of a sum without a client is
the digest of the difference. Of float64 statistics it is that of the bytes, which another
processor, or another order, may change in their last digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, TypeVar

import numpy as np

from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation.algorithm import Tally
from catchment.federation.measure import outliers
from catchment.readout.heads import Head
from catchment.readout.intervals import Counts
from catchment.readout.ridge_choice import RidgeChoice
from catchment.readout.statistics import SUMS, Readout, RidgeStatistics, StatisticsSet
from catchment.wire import LATER, Message, join, split

N_GROUPS = 32
MANY = 1_000  # clients above which "auto" leaves out groups, not clients
KEPT_APART = "it keeps clients apart; pass store_per_client=False"
# Why the server must see every client's message by itself, by what it keeps.
APART: Mapping[bool | str, str] = {
    False: "",
    True: f"{KEPT_APART} and, for ridge, 'gcv' or a number",
    "groups": "it sums clients by groups of their names; pass store_per_client=False and, for "
    "ridge, 'gcv' or a number, or choose it by clients in a second round (Candidates)",
}
V = TypeVar("V")
Sum = RidgeStatistics | StatisticsSet


@dataclass(frozen=True, eq=False)
class RidgeState:
    """The sum of all statistics so far, each client's own where they are kept, and the readout.

    `by_group` are the sums of groups of clients, where those are kept and no single clients.
    `recent` is of runs of 0.3 or before. `standardized` says whether the ridge acted on features
    divided by their spread. Where clients carry their state, `begun` is the plan under which the
    sum was begun, and `missed` are clients whose last answer did not come into it, as far as the
    server knows; `history` is how unlike their earlier data the clients' new data were, round by
    round (`catchment.federation.measure.outliers`).
    """

    total: RidgeStatistics | None = None
    by_client: Mapping[str, RidgeStatistics] = field(default_factory=dict)
    readout: Readout | None = None
    choice: RidgeChoice | None = None
    recent: tuple[Tally[RidgeStatistics], ...] = ()
    standardized: bool = False
    begun: Annotated[str, LATER] = ""
    missed: Annotated[tuple[str, ...], LATER] = ()
    by_group: Annotated[Mapping[int, RidgeStatistics], LATER] = field(default_factory=dict)
    history: Annotated[tuple[outliers.RoundScores, ...], LATER] = ()

    @cached_property
    def flags(self) -> tuple[outliers.AnyFlag, ...]:
        """Clients that stand out, all of them in the sum.

        The readout of the others predicts their data badly, or they claim far more rows.
        """
        if self.readout is None:
            return ()
        rows = {name: s.n_rows for name, s in self.by_client.items()}
        ridge, divided = self.readout.ridge, self.standardized
        losses = outliers.left_out_losses(self.by_client, ridge, standardize=divided)
        return (*outliers.loss_flags(losses), *outliers.rows_flags(rows))


def left_out(
    ridge: float | str, by_client: Mapping[str, V], by_group: Mapping[int, V], *, classes: bool
) -> tuple[Any, list[V]]:
    """Return the ridge, or the word for its choice, and what is left out in turn to choose it.

    "auto" becomes another word: "gcv" if fewer than two are kept apart or one of them has a class
    alone, else "leave-one-client-out", or "leave-one-group-out" if there are many.
    """
    if ridge == "auto":
        every: Any = by_client or by_group
        ridge = "leave-one-client-out"
        if len(every) < 2 or (classes and has_a_class_alone(every)):
            ridge = "gcv"
        elif by_group or len(every) > MANY:
            ridge = "leave-one-group-out"
    if ridge not in ("leave-one-client-out", "leave-one-group-out"):
        return ridge, []
    by_name = ridge == "leave-one-client-out"
    apart: Mapping[Any, V] = by_client if by_name else by_group or group_sums(by_client)
    if len(apart) < 2:
        raise FederationError(
            f"ridge={ridge!r} needs 2 or more, {len(apart)} gave statistics that are "
            "kept apart; pass ridge='gcv' or a number"
        )
    return ridge, list(map(apart.__getitem__, sorted(apart)))


def has_a_class_alone(by_client: Mapping[Any, Any]) -> bool:
    """Whether one client, or group of them, has all rows of a class.

    Target sums of one-hot rows, which statistics of any kind know, count them.

    >>> here = RidgeStatistics.from_states(np.ones((2, 1)), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> has_a_class_alone({"a": here}), has_a_class_alone({"a": here, "b": here})
    (True, False)
    """
    sums = np.array(list(map(attrgetter("target_sum"), by_client.values())))
    return bool(np.any(np.count_nonzero(sums > 0, axis=0) == 1))


def group_of(client: str) -> int:
    """Return a client's group, from 0 to 31.

    >>> [group_of(name) for name in ("ann", "bob", "cid")]
    [14, 26, 25]
    """
    return int.from_bytes(hashlib.sha256(client.encode()).digest()[:8], "big") % N_GROUPS


def group_sums(by_client: Mapping[str, Any]) -> dict[int, Any]:
    """Return the sums of the groups that clients are in, from what each client gave.

    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> {k: one.n_rows for k, one in group_sums({"ann": s, "bob": s, "cid": s}).items()}
    {14: 3, 25: 3, 26: 3}
    """
    sums: dict[int, Any] = {}
    for name in sorted(by_client):
        group, new = group_of(name), by_client[name]
        sums[group] = sums[group] + new if group in sums else new
    return {group: sums[group] for group in sorted(sums)}


def chosen_ridge(ridge: float | str, head: Head | None = None) -> str:
    """Return why a ridge or a head cannot be chosen under noise, nothing if it can."""
    if head is not None and not head.uses_ridge:
        return (
            f"a {type(head).__name__} head needs counts and covariances that data can have, and "
            "under noise they need not be; leave the head out"
        )
    if not isinstance(ridge, str):
        return ""
    return (
        f"the ridge cannot be chosen by {ridge!r} under noise; pass a number such as 0: what the "
        "noise needs is added to it"
    )


def read_counts(parts: Message, agreed: Counts) -> Counts:
    """Return counts that came; UploadError if they are between other edges than agreed."""
    counts = Counts.from_message(parts)
    if counts.edges != agreed.edges or counts.counts.shape != agreed.counts.shape:
        came, wanted = counts.counts.shape, agreed.counts.shape
        raise UploadError(
            "shape", f"counts of {came} came, not of {wanted}, or between other edges than agreed"
        )
    return counts


def learned(readout: Readout | None) -> Readout:
    """Return a readout; FederationError if there is none yet."""
    if readout is None:
        raise FederationError("nothing has been learned yet; run all the rounds of the plan")
    return readout


def readout_figures(readout: Readout | None, choice: RidgeChoice | None = None) -> dict[str, float]:
    """Return the norm of a readout's weights, its ridge, and the error the ridge was chosen by.

    >>> readout_figures(Readout(np.array([[3.0], [4.0]]), np.zeros(1), 0.1))
    {'weight norm': 5.0, 'ridge': 0.1}
    """
    if readout is None:
        return {}
    named = {"weight norm": float(np.linalg.norm(readout.weights))}
    if choice is None:
        return named | {"ridge": float(np.mean(readout.ridge))}
    error = float(np.nanmin(choice.errors.sum(axis=1)))
    return named | {"ridge": float(np.mean(choice.best)), "held-out error": error}


def shared_message(readout: Readout, total: RidgeStatistics | None = None) -> Message:
    """Return what clients are told to make readouts, or names for rows, of their own from."""
    named = {"readout": readout.parts()}
    return join("shared", named if total is None else {**named, "total": total.parts()})


def read_shared(
    received: Message, *, summed: bool = False
) -> tuple[Readout, RidgeStatistics | None]:
    """Return the shared readout and, if it is to come too, everybody's statistics."""
    named = split(received, "shared")
    if named.keys() != {"readout", *(["total"] if summed else [])}:
        raise IntegrityError("the server did not send what the plan needs")
    shared = Readout.from_message(named["readout"])
    return shared, RidgeStatistics.from_message(named["total"]) if summed else None


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

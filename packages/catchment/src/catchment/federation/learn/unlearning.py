"""Joining late, and being forgotten: `+` and `-` on the server's state, with a certificate.

The statistics without a client are the statistics as if it had never been there. In fixed point
they are integers: taking a client off is an equality, whatever the server keeps, and the
certificate states three hashes that anybody who holds the statistics can compute again.

In float64 it depends on what is kept. Where the server keeps every client's statistics, they are
summed anew from those that stay, which leaves no trace of the other; where it keeps only the sum,
what is to be forgotten is sent again and taken off, exact but for rounding (about 1e-16 of the sum,
in which a trace of what was there may remain).

What was stored or given away before, models and records of earlier rounds, is not touched.

What is normal, without a client: its sums and its counts are taken off.

The sum without a client is the sum as if it had never been there, and so is what is normal. The
threshold is not quite: the others counted their scores by a model that the client was part of. One
more round, of counts alone, makes it so, too, and nobody has to send its sums again:

    run_locally(Plan(algorithm=algorithm), others, onto=without.state)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation.algorithm import Additive, Algorithm
from catchment.federation.checks import check_statistics
from catchment.federation.learn.anomaly import DetectorState
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import RidgeState, group_of
from catchment.federation.learn.yule_walker import YuleWalkerState
from catchment.federation.loop import Sums
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Structure, digest

How = Literal["equality", "summed-anew", "subtracted"]
CHECK = (
    "before, removed and after are SHA-256 digests of integers, the same on every machine; "
    "after = before - removed is an equality; `catchment verify RUN` computes all three again from "
    "the run's folder"
)
ALL = "all of its data"
S = TypeVar("S")
T = TypeVar("T")
NAMES_REMAIN = (
    "if it had labels, the names that others gave to their rows by a model that it was part of"
)
V = TypeVar("V", bound=Additive)
REMAINS = (
    "the threshold: the others counted their scores by the model that the client was part of; "
    "another round of counts would set it anew"
)


@dataclass(frozen=True)
class Certificate:
    """What was taken out of a sum, and the hashes of the sum before and after.

    `how` is "equality" for statistics in fixed point: after = before - removed, number by number,
    and the hashes are digests of their values. In float64 the hashes are of the statistics as they
    travel, and it is "summed-anew" if the rest was added up without what was removed, "subtracted"
    if that was taken off the sum. `remains` says in words what of the client is still in the model,
    `check` how anybody can check the certificate.
    """

    __pydantic_config__: ClassVar[Any] = {"strict": True, "extra": "forbid"}

    client: str
    what: str
    n_rows: int
    before: str
    after: str
    removed: str
    fingerprint: str
    how: How
    remains: str = ""
    check: str = ""

    def confirms(self, before: Any, after: Any, removed: Any = None) -> bool:
        """Return whether these are the very statistics, to the bit, that the certificate names.

        Parameters
        ----------
        removed
            Those that were taken out, to be compared too; in fixed point that after = before -
            removed is then computed, and not only believed.
        """
        named = [(before, self.before), (after, self.after)]
        named += [] if removed is None else [(removed, self.removed)]
        if any(self.hash_of(value) != said for value, said in named):
            return False
        if self.how != "equality" or removed is None:
            return True
        return bool((before - removed).digest() == self.after)

    def hash_of(self, value: Any) -> str:
        """Return the hash of statistics as this certificate states hashes."""
        return str(value.digest()) if self.how == "equality" else statistics_hash(value)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Return the certificate that was written; IntegrityError if it is malformed.

        Those of versions without fixed point lack `check`.
        """
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            (wrong, *_) = error.errors(include_url=False)
            said = f"{' '.join(map(str, wrong['loc'])) or 'JSON'}: {wrong['msg']}"
            raise IntegrityError(f"the certificate is malformed at {said}") from error


@dataclass(frozen=True, eq=False)
class Unlearned(Generic[S]):
    """The state without what was to be forgotten, solved again, and the certificate of it."""

    state: S
    certificate: Certificate


def unlearn(algorithm: Algorithm[S, Any, Any], state: S, client: str) -> Unlearned[S]:
    """Return the state as if a client had never been there.

    Of a detector what is normal is as if; its threshold is once another round of counts is run.

    Parameters
    ----------
    algorithm
        The one that made the state, with `store_per_client=True`; it solves again: a ridge, also
        one of sums by class, a forecast from autocovariances, or a detector.
    state
        Of the server.
    client
        Whose statistics are to go, all of them.

    >>> import numpy as np
    >>> from catchment import Plan, Reservoir, Recording, federate
    >>> from catchment.features import EchoState
    >>> features = EchoState.of(Reservoir(units=9, inputs=1))
    >>> waves = {name: np.sin(np.arange(80.0) / k) for k, name in enumerate("abc", start=3)}
    >>> clients = {name: [Recording(u[:-1], u[1:])] for name, u in waves.items()}
    >>> algorithm = FederatedRidge(features=features, ridge=1e-3)
    >>> state = federate(Plan(algorithm=algorithm), clients).state
    >>> without = unlearn(algorithm, state, "b")
    >>> without.certificate.n_rows, sorted(without.state.by_client)
    (79, ['a', 'c'])
    """
    known, learner = cast(Any, state), cast(Any, algorithm)
    groups = isinstance(known, RidgeState) and known.by_group
    if known.total is not None and not known.by_client:
        only = "only the sums of groups of clients" if groups else "no client apart"
        raise FederationError(
            f"the server keeps {only}; ask {client} to send its statistics again and use "
            "unlearn_rows"
        )
    after, kept, certificate = _taken_off(known, client)
    left, remains = type(known)(after, kept), ""
    if isinstance(known, RidgeState):
        remains = NAMES_REMAIN if learner.labels == "some" else ""
    elif isinstance(known, DetectorState) and known.counts is not None:
        counts = {name: own for name, own in known.counts_by_client.items() if name != client}
        if not counts:
            raise FederationError(f"only {client} has set the threshold; run the plan without it")
        left, remains = replace(left, counts=summed(counts), counts_by_client=counts), REMAINS
    return Unlearned(learner.solved(left), replace(certificate, remains=remains))


def _taken_off(state: Any, client: str) -> tuple[Any, Any, Certificate]:
    """Return the sum without a client's part, what is kept of the others, and the certificate."""
    by_client: Mapping[str, Any] = state.by_client
    before: Any = _learned(state.total)
    kept, removed = kept_and_removed(by_client, client)
    how: How = "subtracted"
    if before.is_exact and removed.is_exact:
        how = "equality"
    elif sum(value.n_rows for value in by_client.values()) == before.n_rows:
        how = "summed-anew"
    if isinstance(state, YuleWalkerState):
        first, after = before, before - removed
    else:
        first = next(iter(before.members.values()))
        after = summed(kept) if how == "summed-anew" else _checked_difference(before, removed)
    about = (first.fingerprint, removed.n_rows)
    return after, kept, certified(client, ALL, before, after, removed, how, *about)


def summed(by_client: Mapping[str, V]) -> V:
    """Return the sum of clients' values, in the order in which a round adds them.

    >>> summed({"b": 2, "a": 1})
    3
    """
    sums = Sums(sorted(by_client))
    for name in sorted(by_client):
        sums.add(name, by_client[name])
    total = sums.total(1)
    for one in sums.left_out:
        raise UploadError(one.code, f"{one.client}: {one.reason}")
    return cast(V, total)


def unlearn_rows(
    algorithm: FederatedRidge,
    state: RidgeState,
    client: str,
    rows: RidgeStatistics,
    *,
    what: str = "a part of its data",
) -> Unlearned[RidgeState]:
    """Return the state without some rows of a client, of a period or all of them.

    For a server that keeps no clients apart, or for a part of a client's data: the client computes
    the statistics of what is to be forgotten, just as it did when they were added, and sends them.

    Parameters
    ----------
    client
        Whose rows they are; if the server keeps clients apart, they must be among this one's.
    rows
        Their statistics.
    what
        Which rows they are, for the certificate.
    """
    before = _learned(state.total)
    by_client = dict(state.by_client)
    if by_client:
        _refuse_unknown(client, by_client)
        by_client[client] = _checked_difference(by_client[client], rows)
        if by_client[client].n_rows == 0:
            del by_client[client]
    by_group, group = dict(state.by_group), group_of(client)
    if by_group:
        if group not in by_group:
            raise FederationError(f"{client} is in no group of the sum; nothing of it is there")
        by_group[group] = _checked_difference(by_group[group], rows)
    after = _checked_difference(before, rows)
    about = (before.fingerprint, rows.n_rows)
    how: How = "equality" if before.is_exact and rows.is_exact else "subtracted"
    certificate = certified(client, what, before, after, rows, how, *about)
    rest = RidgeState(after, by_client, by_group=by_group)
    return Unlearned(algorithm.solved(rest), certificate)


def statistics_hash(statistics: Structure) -> str:
    """Return the SHA-256 of statistics as they travel, in hexadecimal.

    >>> import numpy as np
    >>> s = RidgeStatistics.from_states(np.ones((2, 1)), np.ones((2, 1)))
    >>> statistics_hash(s) == statistics_hash(s + s - s)
    True
    """
    return digest(statistics.parts().to_bytes()).hex()


def _learned(total: T | None) -> T:
    if total is None:
        raise FederationError("nothing has been learned yet; there is nothing to forget")
    return total


def kept_and_removed(by_client: Mapping[str, S], client: str) -> tuple[dict[str, S], S]:
    """Return what stays, by client, and what goes."""
    _refuse_unknown(client, by_client)
    kept = {name: value for name, value in by_client.items() if name != client}
    if not kept:
        raise FederationError(f"{client} is the only client; without it there is no model")
    return kept, by_client[client]


def _refuse_unknown(client: str, known: Mapping[str, object]) -> None:
    if not known:
        raise FederationError(f"the server keeps no client apart; {client} cannot be told in it")
    if client not in known:
        names = ", ".join(sorted(known)[:8])
        raise FederationError(f"there is no client {client!r} in the sum; there are {names}")


def _checked_difference(whole: Any, part: Any) -> Any:
    rest = whole - part
    for one in rest.members.values():
        check_statistics(one, fingerprint=one.fingerprint)
    return rest


def certified(
    client: str,
    what: str,
    before: Structure,
    after: Structure,
    removed: Structure,
    how: How,
    fingerprint: str,
    n_rows: int,
) -> Certificate:
    check = CHECK if how == "equality" else ""
    named = Certificate(client, what, n_rows, "", "", "", fingerprint, how, check=check)
    return replace(
        named,
        before=named.hash_of(before),
        after=named.hash_of(after),
        removed=named.hash_of(removed),
    )

"""What changes after a run: clients and rows that are forgotten, classes that come and go, and the
unknown.

All of it is `+` and `-` on the server's state. The statistics without a client are the statistics
as if it had never been there. In fixed point they are integers: taking a client off is an equality,
whatever the server keeps, and the certificate states three hashes that anybody who holds the
statistics can compute again. In float64 it depends on what is kept. Where the server keeps every
client's statistics, they are summed anew from those that stay, which leaves no trace of the other;
where it keeps only the sum, what is to be forgotten is sent again and taken off, exact but for
rounding (about 1e-16 of the sum, in which a trace of what was there may remain). What was stored or
given away before, models and records of earlier rounds, is not touched.

Of a detector, what is normal is as if the client had never been there. The threshold is not quite:
the others counted their scores by a model that the client was part of. One more round, of counts
alone, makes it so, too, and nobody has to send its sums again:

    run_locally(Plan(algorithm=algorithm), others, onto=without.state)

A class that is new in a later run is a column of zeros in the earlier sums, so that the sums of
both, and in fixed point their digests, are those of one run with everybody from the start.

A model without a class is solved from sums without its rows. Column k of C and the count n_k are
the class's alone, but its rows are in G with everybody's; to drop only the column would leave rows
that teach the others what they are not. So whoever has rows of it sends the sums of just these once
more, and they are taken off. That all came is seen in the sum: n_k is then 0, and so is the whole
column. A client that has no other class need not send anything: all of its sums go.

How far from all classes is too far, `UnknownThreshold` learns from everybody's distances. Clients
are sent the sum of all statistics. Each takes its own off it, so that it measures how far its rows
are from classes that others know, as a stranger would; a row of a class that nobody else has is
left out. What it sends is how many of its distances lie in each of some agreed bins, and the sum of
these has the quantile that is to be the threshold (`catchment.readout.intervals`). Every client
sees the sum over all clients (of two, each sees the other's), and the server each client's counts,
or only their sum under secure aggregation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np

from catchment.arrays import Array, Booleans, Probability
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.features.base import handed
from catchment.federation.algorithm import Additive, Algorithm, Data, RoundContext, Tally
from catchment.federation.checks import check_statistics
from catchment.federation.learn.anomaly import DetectorState
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import RidgeState, group_of, read_counts
from catchment.federation.learn.yule_walker import YuleWalkerState
from catchment.federation.loop import Sums
from catchment.federation.rows import Rows
from catchment.readout.heads import KnownClasses, Shrinkage, only_targets, spread_targets
from catchment.readout.intervals import Counts, log_edges
from catchment.readout.model import Model, OpenSetModel
from catchment.readout.statistics import RidgeStatistics, StatisticsSet
from catchment.wire import Message, Structure, digest

How = Literal["equality", "summed-anew", "subtracted"]
CHECK = (
    "before, removed and after are SHA-256 digests of integers, the same on every machine; "
    "after = before - removed is an equality; `catchment verify RUN` computes all three again from "
    "the run's folder"
)
ALL = "all of its data"
NAMES_REMAIN = (
    "if it had labels, the names that others gave to their rows by a model that it was part of"
)
REMAINS = (
    "the threshold: the others counted their scores by the model that the client was part of; "
    "another round of counts would set it anew"
)
LEFT = 1e-9  # of a float64 column that was taken off: what rounding may leave, as a share
LOW, HIGH, PER_DECADE = 1e-2, 1e6, 64  # of the bins that distances are counted in
Classes = tuple[str, ...] | None
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V", bound=Additive)


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
        if self.how == "equality":
            return str(value.digest())
        return digest(value.parts().to_bytes()).hex()

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
    before: Any = _learned(known.total)
    kept, removed = kept_and_removed(known.by_client, client)
    how: How = "subtracted"
    if before.is_exact and removed.is_exact:
        how = "equality"
    elif sum(value.n_rows for value in known.by_client.values()) == before.n_rows:
        how = "summed-anew"
    if isinstance(known, YuleWalkerState):
        first, after = before, before - removed
    else:
        first = next(iter(before.members.values()))
        after = summed(kept) if how == "summed-anew" else _checked_difference(before, removed)
    about = (first.fingerprint, removed.n_rows)
    certificate = certified(client, ALL, before, after, removed, how, *about)
    left, remains = type(known)(after, kept), ""
    if isinstance(known, RidgeState):
        remains = NAMES_REMAIN if learner.labels == "some" else ""
    elif isinstance(known, DetectorState) and known.counts is not None:
        counts = {name: own for name, own in known.counts_by_client.items() if name != client}
        if not counts:
            raise FederationError(f"only {client} has set the threshold; run the plan without it")
        left, remains = replace(left, counts=summed(counts), counts_by_client=counts), REMAINS
    return Unlearned(learner.solved(left), replace(certificate, remains=remains))


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
    return Unlearned(algorithm.solved(RidgeState(after, by_client, by_group=by_group)), certificate)


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
        names = ", ".join(sorted(known)[:8]) + ", ..." * (len(known) > 8)
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


def among(state: object, before: Classes, after: Classes) -> RidgeState:
    """Return the sums of an earlier run with its classes among those of a later one, not solved.

    `before` and `after` name the classes then and now, None where targets are numbers.
    """
    if not isinstance(state, RidgeState) or state.total is None:
        raise FederationError(
            f"the earlier run left a {type(state).__name__}, which is no sum of statistics; only a "
            "ridge's can be added to"
        )
    about: dict[str, Any] = {"begun": state.begun, "missed": state.missed}
    if before == after:
        return RidgeState(state.total, state.by_client, by_group=state.by_group, **about)
    missing = [name for name in before or () if name not in (after or ())]
    if before is None or after is None or missing:
        raise ValueError(
            f"the earlier run has the classes {before}, this one {after}; name all of the earlier "
            "ones among them"
        )
    places, n = [after.index(name) for name in before], len(after)
    by_client = {name: spread_targets(one, places, n) for name, one in state.by_client.items()}
    by_group = {group: spread_targets(one, places, n) for group, one in state.by_group.items()}
    return RidgeState(spread_targets(state.total, places, n), by_client, by_group=by_group, **about)


def refuse_twice(earlier: RidgeState, clients: Iterable[str]) -> None:
    """Raise FederationError if a client of the earlier run is to be counted again."""
    again = sorted(set(earlier.by_client).intersection(clients))
    if again:
        raise FederationError(
            f"{again[0]} is already in the sum; a client counts once, so name new recordings of "
            "it otherwise"
        )


@dataclass(frozen=True, kw_only=True)
class RowsOfClass(Algorithm[RidgeState, Tally[RidgeStatistics], Any]):
    """Clients send the sums of their rows of one class; the server's state has them no more.

    Parameters
    ----------
    ridge
        The algorithm that made the state, with the classes of then.
    name
        Of the class that is given up.
    """

    ridge: FederatedRidge
    name: str

    requirements = handed("ridge.requirements")

    def start(self) -> RidgeState:
        return RidgeState()

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        rows = Rows.of(self.ridge.features, data(), classes=True)
        return rows.only(rows.y[:, _place(self.ridge.classes, self.name)] == 1).statistics()

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeStatistics]:
        return self.ridge.read_update(parts, context)

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        # Without names, what came is one part of the sum, whoever sent it.
        sent = total.by_client or {"": total.total}
        return state_without_class(self.ridge, state, self.name, sent)[1]

    def result(self, state: RidgeState) -> Any:
        return without_class(self.ridge, self.name).result(state)


def state_without_class(
    algorithm: FederatedRidge,
    state: RidgeState,
    name: str,
    rows: Mapping[str, RidgeStatistics] | None = None,
) -> tuple[FederatedRidge, RidgeState]:
    """Return algorithm and state as if a class had never been there, solved.

    Parameters
    ----------
    algorithm
        The one that made the state.
    name
        Of the class.
    rows
        By client: the sums of its rows of the class, which it sends once more. Not needed if the
        server keeps clients apart and those with the class have no other.

    >>> from catchment import EchoState, Plan, Recording, federate
    >>> def wave(pace, name): return Recording.labeled(np.sin(np.arange(40.0) * pace), name, "xyz")
    >>> clients = {"ann": [wave(0.2, "x"), wave(0.5, "y")], "bob": [wave(0.9, "z")]}
    >>> features = EchoState(9).build(1, per_step=False, classes=True)
    >>> ridge = FederatedRidge(features=features, ridge=0.1, classes=("x", "y", "z"))
    >>> state = federate(Plan(algorithm=ridge), clients).state
    >>> without, rest = state_without_class(ridge, state, "z")
    >>> without.classes, sorted(rest.by_client), rest.total.n_rows
    (('x', 'y'), ['ann'], 2)
    """
    k = _place(algorithm.classes, name)
    if state.total is None:
        raise FederationError("nothing has been learned yet; there is no class to remove")
    if rows is None:
        rows = {client: state.by_client[client] for client in _holders_alone(state, k, name)}
    by_client, by_group, total = dict(state.by_client), dict(state.by_group), state.total
    for client, sent in rows.items():
        if by_client:
            if client not in by_client:
                raise FederationError(f"{client} is not in the sum; nothing of it can be taken off")
            by_client[client] = _without(by_client[client], sent, client)
        if by_group:
            by_group[group_of(client)] = _without(by_group[group_of(client)], sent, client)
        total = _without(total, sent, client)
    n_left = float(total.floats.target_sum[k])
    if n_left > 0.5 or (total.fixed is not None and n_left):
        some = holders(by_client, k)
        who = f", of {_listed(some)}" if some else ""
        raise FederationError(
            f"{n_left:g} rows of {name} are still in the sum{who}; everybody who has the class has "
            "to send its sums"
        )
    largest = float(np.abs(state.total.floats.cross[:, k]).max(initial=0.0))
    if float(np.abs(total.floats.cross[:, k]).max(initial=0.0)) > LEFT * largest:
        raise FederationError(
            f"as many rows came as there were of {name}, and not the same: what is left of its "
            "column is not zero; send the sums of the very recordings that were sent before"
        )
    if not total.n_rows:
        raise FederationError(f"{name} is the only class with rows; without it there is no model")
    after = without_class(algorithm, name)
    kept = {client: _dropped(one, k) for client, one in by_client.items() if one.n_rows}
    groups = {group: _dropped(one, k) for group, one in by_group.items() if one.n_rows}
    rest = RidgeState(_dropped(total, k), kept, by_group=groups, begun=state.begun)
    return after, after.solved(rest)


def without_class(algorithm: FederatedRidge, name: str) -> FederatedRidge:
    """Return the algorithm for all classes but one."""
    k, classes = _place(algorithm.classes, name), algorithm.classes or ()
    return replace(algorithm, classes=classes[:k] + classes[k + 1 :])


def holders(by_client: Mapping[str, RidgeStatistics], place: int) -> dict[str, bool]:
    """Return the clients that have rows of a class, and whether of no other.

    >>> y = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> one, both = (RidgeStatistics.from_states(np.ones((n, 1)), y[:n]) for n in (1, 2))
    >>> holders({"ann": one, "bob": both}, 0), holders({"ann": one, "bob": both}, 1)
    ({'ann': True, 'bob': False}, {'bob': False})
    """
    counts = {client: one.floats.target_sum for client, one in sorted(by_client.items())}
    return {client: bool(n[place] == n.sum()) for client, n in counts.items() if n[place] > 0}


def _holders_alone(state: RidgeState, k: int, name: str) -> list[str]:
    """Return the clients that have this class and no other; refuse if some have others."""
    if not state.by_client:
        raise FederationError(
            f"the server keeps only sums, in which rows of {name} are not apart; let those who "
            "have the class send its sums once more (pass their recordings)"
        )
    found = holders(state.by_client, k)
    if not all(found.values()):
        raise FederationError(
            f"{_listed(client for client, alone in found.items() if not alone)} sent {name} in one "
            "sum with other classes; let them send the sums of its rows once more (pass their "
            "recordings)"
        )
    return list(found)


def _without(whole: RidgeStatistics, part: RidgeStatistics, client: str) -> RidgeStatistics:
    try:
        return cast(RidgeStatistics, _checked_difference(whole, part))
    except (UploadError, ValueError) as error:
        raise FederationError(
            f"{client or 'somebody'} did not send these rows before: without them the sum is none "
            f"of data ({error}); send the sums of the very recordings that were sent then"
        ) from error


def _dropped(statistics: RidgeStatistics, k: int) -> RidgeStatistics:
    return only_targets(statistics, [j for j in range(statistics.n_targets) if j != k])


def _place(classes: tuple[str, ...] | None, name: str) -> int:
    if classes is None or name not in classes:
        known = ", ".join(classes or ()) or "numbers, not classes"
        raise ValueError(f"there is no class {name!r}; there are {known}")
    if len(classes) < 3:
        raise ValueError(f"without {name!r} one class is left, and nothing to tell apart")
    return classes.index(name)


def _listed(names: Iterable[str], most: int = 8) -> str:
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


@dataclass(frozen=True, kw_only=True)
class UnknownThreshold(Algorithm[Counts, Counts, OpenSetModel]):
    """One round that makes a classifier answer "unknown".

    Parameters
    ----------
    model
        The classifier whose sums they are.
    sums
        Of all clients: plain statistics, and every class has the covariance within classes; or by
        class, and every class has its own.
    rate
        Share of recordings of known classes that may be taken for unknown.
    shrinkage
        As `LDA` has it.
    summed
        Clients whose rows are in the sums, each of which takes its own off; all if None.
    """

    model: Model
    sums: RidgeStatistics | StatisticsSet
    rate: Probability = 0.05
    shrinkage: Shrinkage = "oas"
    summed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.classes is None:
            raise ValueError("the model predicts numbers; only classes can be unknown")

    features = handed("model.features")

    def start(self) -> Counts:
        return Counts.zero(log_edges(LOW, HIGH, PER_DECADE))

    def broadcast(self, state: Counts, context: RoundContext) -> Message:
        return self.sums.parts()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Counts:
        rows = Rows.of(self.features, data(), classes=True)
        total = type(self.sums).from_message(received)
        if self.summed is None or context.client in self.summed:
            own: Any = rows.statistics()
            if total.members.keys() != {0}:
                labels = rows.y.argmax(axis=1)
                parts = {k: rows.only(labels == k).statistics() for k in total.members}
                own = StatisticsSet(parts)
            total = total - own
            for one in total.members.values():  # UploadError if its own cannot be in it
                check_statistics(one, fingerprint=one.fingerprint)
        sums = (one.floats.target_sum for one in total.members.values())
        n: Array = sum(sums, np.zeros(1))
        told: Booleans = (rows.y @ (n > 0)) > 0
        if not told.any():
            return self.start()
        return Counts.of(self.known(total).nearest(rows.z[told]), self.start().edges)

    def known(self, sums: RidgeStatistics | StatisticsSet) -> KnownClasses:
        """Return the normal model of every class that has rows in these sums."""
        divided = self.features.standardize
        return KnownClasses.of(sums, shrinkage=self.shrinkage, standardize=divided)

    def read_update(self, parts: Message, context: RoundContext) -> Counts:
        return read_counts(parts, self.start())

    def server_update(self, state: Counts, total: Counts, context: RoundContext) -> Counts:
        return total

    def result(self, state: Counts) -> OpenSetModel:
        threshold = float(state.conformal(1 - self.rate)[0])
        n = int(state.n_values[0])
        if not np.isfinite(threshold):
            raise FederationError(
                f"{n} rows are too few for a rate of {self.rate:g}, or lie beyond all bins; pass "
                "more recordings or a higher rate"
            )
        return OpenSetModel(self.model, self.known(self.sums), threshold)

    def figures(self, state: Counts) -> dict[str, float]:
        return {"rows": float(state.n_values[0])}

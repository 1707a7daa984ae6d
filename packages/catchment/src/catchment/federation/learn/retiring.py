"""Classes that are given up: `-` once more, by class and not by client.

A model without a class is solved from sums without its rows. Which sums these are depends on what
the server has:

* sums by class (`BalancedRidge`): the class's own are left out, and nobody is asked;
* plain sums: column k of C and the count n_k are the class's alone, but its rows are in G with
  everybody's. So whoever has rows of it sends the sums of just these once more, and they are taken
  off, as if they had never been sent. That all came is seen in the sum: n_k is then 0, and so is
  the whole column. A client that has no other class need not send anything: all of its sums go.

To drop the column alone would be something else: the class would not be answered any more, and its
rows would still teach the others what they are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from catchment.errors import FederationError, UploadError
from catchment.federation.algorithm import Algorithm, Data, Needs, Turn
from catchment.federation.learn.balanced import BalancedRidge, ByClass
from catchment.federation.learn.candidates import StatisticsSet
from catchment.federation.learn.groups import group_of
from catchment.federation.learn.ridge import FederatedRidge, RidgeState
from catchment.federation.rows import Rows
from catchment.federation.sums import Tally
from catchment.federation.upload_checks import check_statistics
from catchment.readout.heads import only_targets
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import Parts

LEFT = 1e-9  # of a float64 column that was taken off: what rounding may leave, as a share


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

    @property
    def needs(self) -> Needs:
        return self.ridge.needs

    def start(self) -> RidgeState:
        return RidgeState()

    def client_update(self, received: Parts, data: Data, turn: Turn) -> RidgeStatistics:
        rows = Rows.of(self.ridge.features, data(), classes=True)
        return rows.only(rows.y[:, _place(self.ridge.classes, self.name)] == 1).statistics()

    def read_update(self, parts: Parts, turn: Turn) -> Tally[RidgeStatistics]:
        return self.ridge.read_update(parts, turn)

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], turn: Turn
    ) -> RidgeState:
        # Without names, what came is one part of the sum, whoever sent it.
        sent = total.by_client or {"": total.total}
        return retired(self.ridge, state, self.name, sent)[1]

    def result(self, state: RidgeState) -> Any:
        return without_class(self.ridge, self.name).result(state)


def retired(
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
    >>> def wave(pace, name): return Recording.labelled(np.sin(np.arange(40.0) * pace), name, "xyz")
    >>> clients = {"ann": [wave(0.2, "x"), wave(0.5, "y")], "bob": [wave(0.9, "z")]}
    >>> features = EchoState(9).build(1, per_step=False, classes=True)
    >>> ridge = FederatedRidge(features=features, ridge=0.1, classes=("x", "y", "z"))
    >>> state = federate(Plan(algorithm=ridge), clients).state
    >>> without, rest = retired(ridge, state, "z")
    >>> without.classes, sorted(rest.by_client), rest.total.n_rows
    (('x', 'y'), ['ann'], 2)
    """
    k = _place(algorithm.classes, name)
    if state.total is None:
        raise FederationError("nothing has been learned yet; there is no class to retire")
    if state.recent or algorithm.forgetting < 1:
        raise FederationError(
            "with a window or with forgetting rows no longer weigh what they did; run the plan "
            f"again without {name}"
        )
    if rows is None:
        rows = _known_alone(state, k, name)
    by_client, by_group, total = dict(state.by_client), dict(state.by_group), state.total
    for client, sent in rows.items():
        if by_client:
            if client not in by_client:
                raise FederationError(f"{client} is not in the sum; nothing of it can be taken off")
            by_client[client] = _without(by_client[client], sent, client)
        if by_group:
            by_group[group_of(client)] = _without(by_group[group_of(client)], sent, client)
        total = _without(total, sent, client)
    _refuse_rest(total, state, k, name, by_client)
    after = without_class(algorithm, name)
    kept = {client: _dropped(one, k) for client, one in by_client.items() if one.n_rows}
    groups = {group: _dropped(one, k) for group, one in by_group.items() if one.n_rows}
    rest = RidgeState(_dropped(total, k), kept, by_group=groups, begun=state.begun)
    return after, after.solved(rest)


def retired_by_class(
    algorithm: BalancedRidge, state: ByClass, name: str
) -> tuple[BalancedRidge, ByClass]:
    """Return algorithm and state without the sums of a class, solved; nobody is asked."""
    k = _place(algorithm.classes, name)
    if state.total is None:
        raise FederationError("nothing has been learned yet; there is no class to retire")
    weights = algorithm.weights
    if not isinstance(weights, str):
        weights = tuple(weight for place, weight in enumerate(weights) if place != k)
    rest = tuple(one for one in algorithm.classes if one != name)
    after = replace(algorithm, classes=rest, weights=weights)

    def left(sums: StatisticsSet) -> StatisticsSet:
        kept = [_dropped(sums.members[place], k) for place in sorted(sums.members) if place != k]
        return StatisticsSet(dict(enumerate(kept)))

    by_client = {client: left(sums) for client, sums in state.by_client.items()}
    by_client = {
        client: sums
        for client, sums in by_client.items()
        if any(one.n_rows for one in sums.members.values())
    }
    return after, after.solved(ByClass(left(state.total), by_client))


def without_class(algorithm: FederatedRidge, name: str) -> FederatedRidge:
    """Return the algorithm for all classes but one."""
    _place(algorithm.classes, name)
    rest = tuple(one for one in algorithm.classes or () if one != name)
    return replace(algorithm, classes=rest)


def holders(by_client: Mapping[str, RidgeStatistics], place: int) -> dict[str, bool]:
    """Return the clients that have rows of a class, and whether of no other.

    >>> y = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> one, both = (RidgeStatistics.from_states(np.ones((n, 1)), y[:n]) for n in (1, 2))
    >>> holders({"ann": one, "bob": both}, 0), holders({"ann": one, "bob": both}, 1)
    ({'ann': True, 'bob': False}, {'bob': False})
    """
    counts = {client: one.floats.target_sum for client, one in sorted(by_client.items())}
    return {client: bool(n[place] == n.sum()) for client, n in counts.items() if n[place] > 0}


def _known_alone(state: RidgeState, k: int, name: str) -> dict[str, RidgeStatistics]:
    """Return the sums of clients that have this class and no other; refuse if some have others."""
    if not state.by_client:
        raise FederationError(
            f"the server keeps only sums, in which rows of {name} are not apart; let those who "
            "have the class send its sums once more (pass their recordings), or learn with sums by "
            "class (BalancedRidge)"
        )
    found = holders(state.by_client, k)
    mixed = [client for client, alone in found.items() if not alone]
    if mixed:
        raise FederationError(
            f"{_listed(mixed)} sent {name} in one sum with other classes; let them send the sums "
            "of its rows once more (pass their recordings), or learn with sums by class "
            "(BalancedRidge)"
        )
    return {client: state.by_client[client] for client in found}


def _refuse_rest(
    total: RidgeStatistics,
    before: RidgeState,
    k: int,
    name: str,
    by_client: Mapping[str, RidgeStatistics],
) -> None:
    """Raise FederationError unless nothing of a class is left in a sum."""
    assert before.total is not None
    n_left = float(total.floats.target_sum[k])
    if n_left > 0.5 or (total.grid is not None and n_left):
        some = holders(by_client, k)
        who = f", of {_listed(some)}" if some else ""
        raise FederationError(
            f"{n_left:g} rows of {name} are still in the sum{who}; everybody who has the class has "
            "to send its sums"
        )
    largest = float(np.abs(before.total.floats.cross[:, k]).max(initial=0.0))
    if float(np.abs(total.floats.cross[:, k]).max(initial=0.0)) > LEFT * largest:
        raise FederationError(
            f"as many rows came as there were of {name}, and not the same: what is left of its "
            "column is not zero; send the sums of the very recordings that were sent before"
        )
    if not total.n_rows:
        raise FederationError(f"{name} is the only class with rows; without it there is no model")


def _without(whole: RidgeStatistics, part: RidgeStatistics, client: str) -> RidgeStatistics:
    try:
        rest = whole - part
        check_statistics(rest, fingerprint=whole.fingerprint)
    except (UploadError, ValueError) as error:
        raise FederationError(
            f"{client or 'somebody'} did not send these rows before: without them the sum is none "
            f"of data ({error}); send the sums of the very recordings that were sent then"
        ) from error
    return rest


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

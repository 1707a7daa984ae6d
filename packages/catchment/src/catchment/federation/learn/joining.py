"""Clients that come after a run, and bring classes that nobody had: class-incremental learning.

What an earlier run summed is the state that a later one begins with. A class that is new is a
column of zeros in the earlier sums, so that the sums of both, and on a grid their digests, are
those of one run with everybody from the start. Nobody of the earlier run is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catchment.errors import FederationError
from catchment.federation.learn.balanced import ByClass
from catchment.federation.learn.candidates import StatisticsSet
from catchment.federation.learn.ridge import RidgeState
from catchment.federation.loop import Keeper, Record
from catchment.federation.runs.ledger import Entry
from catchment.readout.heads import spread_targets
from catchment.readout.statistics import RidgeStatistics

Classes = tuple[str, ...] | None


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


@dataclass(frozen=True, eq=False)
class Beginning:
    """A keeper of a run that begins with the sums of an earlier one."""

    keeper: Keeper[Any]
    state: RidgeState

    def resume(self) -> tuple[Any, tuple[Record, ...]] | None:
        return self.keeper.resume() or (self.state, ())

    def note(self, entry: Entry) -> None:
        self.keeper.note(entry)

    def close_round(self, state: Any, record: Record) -> None:
        self.keeper.close_round(state, record)

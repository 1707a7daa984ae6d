"""What the server of a ridge has summed, of all, of clients, or of groups of them, and chooses by.

To choose a ridge by clients left out the server must keep every client's statistics. Of a million
clients it keeps the sums of 32 groups instead. A client's group follows from the SHA-256 of its
name, so that it is the same in every run, on every engine, whoever else takes part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add, attrgetter
from typing import Annotated, Any, TypeVar

import numpy as np

from catchment.errors import FederationError
from catchment.federation.algorithm import RoundContext, Tally, added_by_key
from catchment.federation.measure.outliers import (
    AnyFlag,
    RoundScores,
    drifts,
    left_out_losses,
    loss_flags,
    round_scores,
    rows_flags,
)
from catchment.readout.heads import Head
from catchment.readout.ridge_choice import RidgeChoice, choose_by_blocks, chosen_readout
from catchment.readout.solve import for_raw_features, rescaled, scale_of
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire import LATER

N_GROUPS = 32
MANY = 1_000  # clients above which "auto" leaves out groups, not clients
# Why the server must see every client's message by itself, by what it keeps.
APART: Mapping[bool | str, str] = {
    False: "",
    True: "it keeps clients apart; pass store_per_client=False and, for ridge, 'gcv' or a number",
    "groups": "it sums clients by groups of their names; pass store_per_client=False and, for "
    "ridge, "
    "'gcv' or a number, or choose it by clients in a second round (SelectedRidge)",
}
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class RidgeState:
    """The sum of all statistics so far, each client's own where they are kept, and the readout.

    `by_group` are the sums of groups of clients, where those are kept and no single clients.
    `recent` holds the last rounds one by one if the algorithm has a window. `standardized` says
    whether the ridge acted on features divided by their spread. Where clients carry their state,
    `begun` is the plan under which the sum was begun, and `missed` are clients whose last answer
    did not come into it, as far as the server knows; `history` is how unlike their earlier data the
    clients' new data were, round by round (`catchment.federation.measure.outliers`).
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
    history: Annotated[tuple[RoundScores, ...], LATER] = ()

    @cached_property
    def flags(self) -> tuple[AnyFlag, ...]:
        """Clients that stand out, all of them in the sum.

        The readout of the others predicts their data badly, or they claim far more rows.
        """
        if self.readout is None:
            return ()
        rows = {name: s.n_rows for name, s in self.by_client.items()}
        ridge, divided = self.readout.ridge, self.standardized
        losses = left_out_losses(self.by_client, ridge, standardize=divided)
        return (*loss_flags(losses), *rows_flags(rows))

    def plus(
        self, new: Tally[RidgeStatistics], forgetting: float, window: int | None, grouped: bool
    ) -> RidgeState:
        """Return the sums with those of a round, what came before forgotten in part."""
        if window is not None:
            recent = (*self.recent, new)[-window:]
            by_client = reduce(added_by_key, (tally.by_client for tally in recent))
            return RidgeState(reduce(add, (one.total for one in recent)), by_client, recent=recent)
        apart: Any = (self.by_client, new.by_client)
        if grouped:  # clients that were kept before join their groups
            apart = (group_sums(self.by_client) or self.by_group, new.by_group)
        pairs = [({} if self.total is None else {0: self.total}, {0: new.total}), apart]
        if forgetting < 1 and (grouped or self.total is not None):
            for k, (old, more) in enumerate(pairs):
                faded = {key: one.floats.scaled(forgetting) for key, one in old.items()}
                pairs[k] = (faded, {key: one.floats for key, one in more.items()})
        total, sums = (added_by_key(*pair) for pair in pairs)
        by_client, by_group = ({}, sums) if grouped else (sums, {})
        return RidgeState(total[0], by_client, by_group=by_group)

    def solved(
        self, ridge: float | str, head: Head | None, *, classes: bool, standardize: bool, **how: Any
    ) -> RidgeState:
        """Return the state with the ridge chosen and the readout solved from its sum."""
        total: Any = self.total
        needed = ridge if head is None or head.uses_ridge else 0.0
        found, blocks = left_out(needed, self.by_client, self.by_group, classes=classes)
        choice, how["standardize"] = None, standardize
        if blocks:
            choice = choose_by_blocks(blocks, **how)
            found = choice.best
        if head is None or isinstance(found, str):
            made, readout = chosen_readout(total, found, classes=classes, **how)
            choice, found = choice or made, readout.ridge
        if head is not None:
            scale = scale_of(total, standardize)
            acted_on = total if scale is None else rescaled(total, scale)
            readout = head.solve(acted_on, found, intercept=how["intercept"])
            readout = readout if scale is None else for_raw_features(readout, scale)
        return replace(self, readout=readout, choice=choice, standardized=standardize)

    def judged(
        self, before: RidgeState, new: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        """Return the state after a round of increments: who was missed, and how unlike they were.

        Parameters
        ----------
        before
            The state before the round.
        new
            What came in it.
        """
        history, asked = before.history, {*before.missed, *context.cohort}
        if before.total is not None and before.readout is not None:
            # Rounds are counted on where a run begins with the sums of an earlier one.
            at = max(context.round, history[-1].round + 1 if history else 1)
            came = {name: own for name, own in new.by_client.items() if own.n_rows}
            parts = came or {"": new.total}, before.by_client or {"": before.total}
            scores = round_scores(*parts, before.total, before.readout, at)
            history += (scores,) if scores.clients else ()
        return replace(self, missed=tuple(sorted(asked.difference(new.by_client))), history=history)

    def drift_figures(self, false_positive_rate: float) -> dict[str, float]:
        """Return the rows, and how many clients drifted last, if somebody can stand out."""
        told = {} if self.total is None else {"rows": float(self.total.n_rows)}
        *earlier, last = self.history or (None,)
        if (
            last is not None
            and 1 / (1 + sum(len(one.clients) for one in earlier)) <= false_positive_rate
        ):
            found = drifts(self.history, false_positive_rate)
            drifted = {one.client for one in found if one.round == last.round}
            told["drifted clients"] = float(len(drifted))
        return told


def check_choice(ridge: float | str, store_per_client: bool | str) -> None:
    """Raise ValueError if a ridge cannot be chosen so by what the server keeps."""
    if ridge == "clients" and store_per_client is not True:
        raise ValueError(
            "choosing the ridge by clients needs store_per_client=True; "
            "or choose by 'groups' or 'gcv', or pass a number"
        )
    if ridge == "groups" and not store_per_client:
        raise ValueError(
            "choosing the ridge by groups needs store_per_client='groups', or True; "
            "or choose by 'gcv', or pass a number"
        )


def kept_apart(sent: V, client: str, store_per_client: bool | str) -> Tally[V]:
    """Return what one client sent, kept by its name, in its group, or not."""
    if store_per_client == "groups":
        return Tally.in_group(sent, group_of(client))
    return Tally.of(sent, client if store_per_client else "")


def left_out(
    ridge: float | str, by_client: Mapping[str, V], by_group: Mapping[int, V], *, classes: bool
) -> tuple[Any, list[V]]:
    """Return the ridge, or the word for its choice, and what is left out in turn to choose it.

    "auto" becomes another word: "gcv" if fewer than two are kept apart or one of them has a class
    alone, else "clients", or "groups" of them if there are many.
    """
    apart: Any = by_client or by_group
    if ridge == "auto":
        if len(apart) < 2 or (classes and has_a_class_alone(apart)):
            ridge = "gcv"
        else:
            ridge = "groups" if by_group or len(apart) > MANY else "clients"
    if ridge not in ("clients", "groups"):
        return ridge, []
    apart = by_client
    if ridge == "groups":
        apart = by_group or group_sums(by_client)
    if len(apart) < 2:
        raise FederationError(
            f"choosing the ridge by {ridge} needs 2 or more, {len(apart)} gave statistics that are "
            "kept apart; pass ridge='gcv' or a number"
        )
    return ridge, [apart[name] for name in sorted(apart)]


def group_of(client: str) -> int:
    """Return a client's group, from 0 to 31.

    >>> [group_of(name) for name in ("ann", "bob", "cid")]
    [14, 26, 25]
    """
    digest = hashlib.sha256(client.encode()).digest()
    return int.from_bytes(digest[:8], "big") % N_GROUPS


def group_sums(by_client: Mapping[str, Any]) -> dict[int, Any]:
    """Return the sums of the groups that clients are in, from what each client gave.

    >>> import numpy as np
    >>> from catchment.readout.statistics import RidgeStatistics
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


def learned(readout: Readout | None) -> Readout:
    """Return a readout; FederationError if there is none yet."""
    if readout is None:
        raise FederationError("nothing has been learned yet; run all the rounds of the plan")
    return readout


def readout_figures(readout: Readout | None, choice: RidgeChoice | None = None) -> dict[str, float]:
    """Return the norm of a readout's weights, its ridge, and the error the ridge was chosen by.

    >>> import numpy as np
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


def has_a_class_alone(by_client: Mapping[Any, Any]) -> bool:
    """Whether one client, or group of them, has all rows of a class.

    Target sums of one-hot rows, which statistics of any kind know, count them.

    >>> here = RidgeStatistics.from_states(np.ones((2, 1)), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> has_a_class_alone({"a": here}), has_a_class_alone({"a": here, "b": here})
    (True, False)
    """
    sums = np.array(list(map(attrgetter("target_sum"), by_client.values())))
    return bool(np.any(np.count_nonzero(sums > 0, axis=0) == 1))

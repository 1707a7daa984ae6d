"""What the server of a ridge has summed: of all, of clients, or of groups of them.

To choose a ridge by clients left out the server must keep every client's statistics. Of a million
clients it keeps the sums of 32 groups instead. A client's group follows from the SHA-256 of its
name, so that it is the same in every run, on every engine, whoever else takes part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, TypeVar

import numpy as np

from catchment.errors import FederationError
from catchment.federation.algorithm import Additive, Tally
from catchment.federation.measure.outliers import (
    AnyFlag,
    RoundScores,
    left_out_losses,
    loss_flags,
    rows_flags,
)
from catchment.readout.ridge_choice import RidgeChoice
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire import LATER

N_GROUPS = 32
MANY = 1_000  # clients above which "auto" leaves out groups, not clients
V = TypeVar("V", bound=Additive)


@dataclass(frozen=True, eq=False)
class RidgeState:
    """The sum of all statistics so far, each client's own where they are kept, and the readout.

    `by_group` are the sums of groups of clients, where those are kept and no single clients.
    `recent` holds the last rounds one by one if the algorithm has a window. `standardised` says
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
    standardised: bool = False
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
        ridge, divided = self.readout.ridge, self.standardised
        losses = left_out_losses(self.by_client, ridge, standardise=divided)
        return (*loss_flags(losses), *rows_flags(rows))

    def apart(self, how: float | str) -> list[RidgeStatistics]:
        """Return the statistics of clients, or of groups of them, that are left out in turn."""
        by: Mapping[Any, RidgeStatistics] = self.by_client
        if how == "groups":
            by = self.by_group or group_sums(self.by_client)
        if len(by) < 2:
            raise FederationError(
                f"choosing the ridge by {how} needs 2 or more, {len(by)} gave statistics that are "
                "kept apart; pass ridge='gcv' or a number"
            )
        return list(map(by.__getitem__, sorted(by)))


def group_of(client: str) -> int:
    """Return a client's group, from 0 to 31.

    >>> [group_of(name) for name in ("ann", "bob", "cid")]
    [14, 26, 25]
    """
    digest = hashlib.sha256(client.encode()).digest()
    return int.from_bytes(digest[:8], "big") % N_GROUPS


def group_sums(by_client: Mapping[str, V]) -> dict[int, V]:
    """Return the sums of the groups that clients are in, from what each client gave.

    >>> import numpy as np
    >>> from catchment.readout.statistics import RidgeStatistics
    >>> s = RidgeStatistics.from_states(np.ones((3, 2)), np.ones((3, 1)))
    >>> {k: one.n_rows for k, one in group_sums({"ann": s, "bob": s, "cid": s}).items()}
    {14: 3, 25: 3, 26: 3}
    """
    sums: dict[int, V] = {}
    for name in sorted(by_client):
        group, new = group_of(name), by_client[name]
        sums[group] = sums[group] + new if group in sums else new
    return {group: sums[group] for group in sorted(sums)}


def chosen_ridge(ridge: float | str) -> str:
    """Return why a ridge cannot be chosen under noise, nothing if it is a number."""
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

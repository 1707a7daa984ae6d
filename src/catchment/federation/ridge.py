"""Exact federated ridge regression (IncFed): one round gives the readout of pooled data.

Every client sends its ridge statistics; the server adds them up, adds the ridge once, and solves
(Bacciu et al., IJCNN 2021, eqs. 6-10; the ridge inside eqs. 7, 9 and 12 is left out on the client,
see `catchment.readout.statistics`). Further rounds add further statistics (eqs. 11-12).

The server sees each client's statistics unless a protection hides them; they are not anonymous.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from catchment.errors import FederationError
from catchment.federation.local import stretch
from catchment.federation.plan import Data, Turn
from catchment.federation.trust import check_statistics
from catchment.federation.values import Tally
from catchment.readout.accumulate import accumulate
from catchment.readout.linear import Readout
from catchment.readout.model import Model
from catchment.readout.selection import RidgeChoice, choose_by_blocks, choose_by_gcv
from catchment.readout.statistics import RidgeStatistics
from catchment.reservoir.features import Features
from catchment.wire import NOTHING, Parts, join, split


@dataclass(frozen=True, eq=False)
class RidgeState:
    """The sum of all statistics so far, each client's own where they are kept, and the readout."""

    total: RidgeStatistics | None = None
    by_client: Mapping[str, RidgeStatistics] = field(default_factory=dict)
    readout: Readout | None = None
    choice: RidgeChoice | None = None


@dataclass(frozen=True, kw_only=True)
class FederatedRidge:
    """One round of sums, solved at the server.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    ridge
        A number; or "clients": the ridge with the least error on clients left out of the solution,
        exact and from the same statistics; or "gcv", which needs only the sum.
    per_output
        Whether each output chooses its own ridge.
    classes
        Names of the outputs if they are classes.
    keep_clients
        Whether the server keeps each client's statistics, as "clients" needs, and unlearning and
        flagging do. Memory then grows with the clients.
    increments
        Rounds over which a client hands in its data, each time the next stretch of it.
    forgetting
        Factor on the sum before a round's statistics are added.
    """

    features: Features
    ridge: float | Literal["clients", "gcv"] = "clients"
    per_output: bool = False
    classes: tuple[str, ...] | None = None
    keep_clients: bool = True
    increments: int = 1
    forgetting: float = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.ridge, str):
            if self.ridge not in ("clients", "gcv"):
                raise ValueError(f"ridge is {self.ridge!r}; pass a number, 'clients' or 'gcv'")
            if self.ridge == "clients" and not self.keep_clients:
                raise ValueError(
                    "choosing the ridge by clients needs keep_clients=True; "
                    "or choose by 'gcv', or pass a number"
                )
        if not 0 < self.forgetting <= 1:
            raise ValueError(f"forgetting is {self.forgetting}; pass a factor above 0, at most 1")
        if self.increments < 1:
            raise ValueError(f"increments is {self.increments}; pass at least 1")

    def start(self) -> RidgeState:
        return RidgeState()

    def broadcast(self, state: RidgeState, turn: Turn) -> Parts:
        """Return nothing: the recipe, which the plan holds, is all a client needs."""
        return NOTHING

    def client_update(self, received: Parts, data: Data, turn: Turn) -> RidgeStatistics:
        if self.increments == 1:
            return accumulate(self.features, data(), threads=1)
        place = turn.round % self.increments
        share = place / self.increments, (place + 1) / self.increments
        new = stretch(data(), *share, washout=self.features.washout)
        return accumulate(self.features, new, threads=1)

    def read_update(self, parts: Parts, turn: Turn) -> Tally[RidgeStatistics]:
        statistics = RidgeStatistics.from_parts(parts)
        check_statistics(
            statistics,
            fingerprint=self.features.fingerprint,
            n_targets=len(self.classes) if self.classes else None,
        )
        kept = self.keep_clients and turn.client
        return Tally(statistics, {turn.client: statistics} if kept else {})

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], turn: Turn
    ) -> RidgeState:
        if state.total is None:
            return self.solved(RidgeState(total.total, total.by_client))
        by_client = {name: old.scaled(self.forgetting) for name, old in state.by_client.items()}
        for name, new in total.by_client.items():
            by_client[name] = by_client[name] + new if name in by_client else new
        return self.solved(RidgeState(state.total.scaled(self.forgetting) + total.total, by_client))

    def solved(self, state: RidgeState) -> RidgeState:
        """Return the state with the ridge chosen and the readout solved from its sum."""
        if state.total is None:
            return state
        choice = self._choice(state)
        ridge = choice.best if choice else self.ridge
        assert not isinstance(ridge, str)
        return replace(state, readout=state.total.solve(ridge), choice=choice)

    def _choice(self, state: RidgeState) -> RidgeChoice | None:
        if not isinstance(self.ridge, str) or state.total is None:
            return None
        if self.ridge == "gcv":
            return choose_by_gcv(state.total, per_output=self.per_output)
        if len(state.by_client) < 2:
            raise FederationError(
                f"choosing the ridge by clients needs 2 or more, {len(state.by_client)} gave "
                "statistics that are kept apart; pass ridge='gcv' or a number"
            )
        clients = [state.by_client[name] for name in sorted(state.by_client)]
        return choose_by_blocks(clients, per_output=self.per_output)

    def model(self, state: RidgeState) -> Model | None:
        if state.readout is None:
            return None
        return Model(self.features, state.readout, self.classes)

    def save_state(self, state: RidgeState) -> Parts:
        if state.total is None:
            return NOTHING
        clients = {f"client/{name}": value for name, value in sorted(state.by_client.items())}
        named = {"total": state.total, **clients}
        return join("ridge-state", {name: value.parts() for name, value in named.items()})

    def load_state(self, parts: Parts) -> RidgeState:
        if parts.kind == NOTHING.kind:
            return RidgeState()
        named = {
            name: RidgeStatistics.from_parts(part)
            for name, part in split(parts, "ridge-state").items()
        }
        total = named.pop("total")
        by_client = {name.removeprefix("client/"): value for name, value in named.items()}
        return self.solved(RidgeState(total, by_client))

"""Readouts of one's own while data keep coming, made from the sums that clients send anyway.

Each round brings what is new of every client. Before it is added, it judges: the readouts of each
step from the shared one to the client's own, solved from the sums of the rounds before, have on the
new rows the squared errors

    tr(Y'Y - 2 W'C + W'GW),

for which no rows are needed. A client takes the smallest step that would have been as good as the
best over its last rounds, within a standard error (`smallest_good_step`), and the readout of that
step is solved with the new rows in the sums. Nothing more is sent than for the shared readout, and
nothing is chosen on data that the readout has seen. Who has been judged fewer than two times keeps
the shared readout. Classes are judged by squared errors too: sums do not tell who was right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.federation.algorithm import Algorithm, Data, Kept, Memory, Needs, Turn
from catchment.federation.learn.personal import (
    SHARES,
    STRENGTHS,
    OwnReadout,
    mixed,
    smallest_good_step,
    towards,
)
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.ridge_state import RidgeState
from catchment.federation.measure.outliers import Drift
from catchment.federation.sums import Tally
from catchment.readout.personal_models import PersonalModels
from catchment.readout.solve import path_errors, scale_of
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire import Parts

LAST = 8  # rounds by which a client's step is chosen


@dataclass(frozen=True, eq=False)
class Judged:
    """Squared errors (B, S) of every step in a client's last rounds, and each one's weight (B,)."""

    errors: Array
    weights: Array

    def joined(self, errors: Array, weight: float) -> Judged:
        """Return it with one more round, the oldest left out if there are too many."""
        return Judged(
            np.vstack([self.errors, errors])[-LAST:], np.append(self.weights, weight)[-LAST:]
        )

    def step(self) -> int:
        """Return the step to take: 0, the shared readout, until there were two rounds."""
        if len(self.weights) < 2:
            return 0
        return smallest_good_step(self.errors / self.weights[:, None], self.weights)


@dataclass(frozen=True, eq=False)
class PersonalSums:
    """The shared sums, every client's own readout, and what the steps to it are judged by."""

    shared: RidgeState = field(default_factory=RidgeState)
    own: Mapping[str, OwnReadout] = field(default_factory=dict)
    judged: Mapping[str, Judged] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PersonalIncrements(Algorithm[PersonalSums, Tally[RidgeStatistics], PersonalModels]):
    """A shared readout of data that keep coming, and beside it one of every client's own.

    Parameters
    ----------
    ridge
        The shared readout, with increments="new" and clients kept apart.
    method
        "towards": ridge towards the shared readout; "mixed": everybody's statistics and one's own.

    >>> from catchment import EchoState, Recording
    >>> from catchment.engine.local import run_locally
    >>> from catchment.federation.increments import ByRound
    >>> from catchment.federation.plan import Plan
    >>> z = EchoState(10, washout=5).build(1, per_step=True)
    >>> wave = np.sin(np.arange(601) / 5)
    >>> weeks = [(0, 200), (200, 400), (400, 600)]
    >>> whole = {f"x{k}": Recording(wave[:-1], k * wave[1:], name="w") for k in (1, 2, 3)}
    >>> clients = {n: ByRound(*([one.part(*w)] for w in weeks)) for n, one in whole.items()}
    >>> ridge = FederatedRidge(features=z, ridge=1e-6, increments="new")
    >>> plan = Plan(algorithm=PersonalIncrements(ridge=ridge), rounds=3)
    >>> models = run_locally(plan, clients).result
    >>> [round(float(models.predict(wave, client=n)[-2, 0] / wave[-1])) for n in clients]
    [1, 2, 3]
    """

    ridge: FederatedRidge
    method: Literal["towards", "mixed"] = "towards"

    def __post_init__(self) -> None:
        if self.method not in ("towards", "mixed"):
            raise ValueError(f"method is {self.method!r}; use 'towards' or 'mixed'")
        if self.method == "mixed" and self.ridge.per_output:
            raise ValueError("mixing needs one ridge for all outputs; leave out per_output")
        if not self.ridge.carries or self.ridge.keep_clients is not True:
            raise ValueError(
                f"increments is {self.ridge.increments!r} and keep_clients "
                f"{self.ridge.keep_clients}; pass increments='new' and keep_clients=True"
            )

    @property
    def needs(self) -> Needs:
        apart = "every client's own readout is made of its own sums; use ridge, which shares one"
        return Needs(each_client=apart) | self.ridge.needs

    @property
    def carries(self) -> bool:
        """Whether clients carry their state from round to round: they do."""
        return True

    def start(self) -> PersonalSums:
        return PersonalSums()

    def broadcast(self, state: PersonalSums, turn: Turn) -> Parts:
        return self.ridge.broadcast(state.shared, turn)

    def client_update(self, received: Parts, data: Data, turn: Turn) -> RidgeStatistics:
        return self.ridge.client_update(received, data, turn)

    def client_increment(
        self, received: Parts, data: Data, turn: Turn, prepare: Prepare, memory: Memory
    ) -> RidgeStatistics:
        return self.ridge.client_increment(received, data, turn, prepare, memory)

    def read_update(self, parts: Parts, turn: Turn) -> Tally[RidgeStatistics]:
        return self.ridge.read_update(parts, turn)

    def server_update(
        self, state: PersonalSums, total: Tally[RidgeStatistics], turn: Turn
    ) -> PersonalSums:
        judged = dict(state.judged)
        for name, new in total.by_client.items():
            if new.n_rows == 0 or name not in state.shared.by_client:
                continue
            errors = path_errors(new, self._path(state.shared, name)).sum(axis=1)
            known = judged.get(name, Judged(np.empty((0, len(errors))), np.empty(0)))
            judged[name] = known.joined(errors, new.weight)
        shared = self.ridge.server_update(state.shared, total, turn)
        own = {}
        for name, seen in judged.items():
            # In a window a client that was silent may have nothing left.
            if (step := seen.step()) and name in shared.by_client:
                own[name] = OwnReadout(self._path(shared, name, step)[1], step)
        return PersonalSums(shared, own, judged)

    def _path(self, shared: RidgeState, client: str, step: int | None = None) -> list[Readout]:
        """Return the shared readout and those of every step, or of one, by the sums so far."""
        own, total, readout = shared.by_client[client], shared.total, shared.readout
        if total is None or readout is None:
            return []
        standardise = self.ridge.standardised
        steps = STRENGTHS if self.method == "towards" else SHARES
        taken = steps if step is None else steps[step - 1 : step]
        if self.method == "towards":
            return [readout, *towards(own, readout, taken, scale=scale_of(own, standardise))]
        scale = scale_of(total, standardise)
        return [readout, *mixed(total, own, taken, readout.ridge, scale=scale)]

    def result(self, state: PersonalSums) -> PersonalModels:
        readouts = {name: own.readout for name, own in state.own.items()}
        return PersonalModels(self.ridge.result(state.shared), readouts)

    def figures(self, state: PersonalSums) -> dict[str, float]:
        """Return the figures of the shared readout, and how many clients left it."""
        return self.ridge.figures(state.shared) | {"moved clients": float(len(state.own))}

    def drifts(self, state: PersonalSums) -> tuple[Drift, ...]:
        """Return whose new data stood out from their earlier ones in which round."""
        return self.ridge.drifts(state.shared)

    def kept(self, state: PersonalSums) -> Kept:
        return self.ridge.kept(state.shared)

    def tally(self, state: PersonalSums) -> Tally[RidgeStatistics] | None:
        return self.ridge.tally(state.shared)

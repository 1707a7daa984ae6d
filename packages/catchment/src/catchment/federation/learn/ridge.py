"""Exact federated ridge regression (IncFed): one round gives the readout of pooled data.

Every client sends its ridge statistics; the server adds them up, adds the ridge once, and solves
(Bacciu et al., IJCNN 2021, eqs. 6-10; the ridge inside eqs. 7, 9 and 12 is left out on the client,
see `catchment.readout.statistics`). Further rounds add further statistics (eqs. 11-12).

The server sees each client's statistics unless a protection hides them; they are not anonymous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Annotated, Any, Literal, Protocol

import numpy as np

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.errors import FederationError
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import Algorithm, Data, Kept, Memory, Needs, Turn
from catchment.federation.increments import Asked, Increments
from catchment.federation.learn.groups import MANY, group_of, group_sums, pool
from catchment.federation.measure.outliers import (
    FALSE_ALARMS,
    AnyFlag,
    Drift,
    RoundScores,
    drifts,
    flags,
    is_judged,
    round_scores,
    rows_flags,
)
from catchment.federation.rows import stretch
from catchment.federation.sums import Tally
from catchment.federation.upload_checks import check_statistics
from catchment.readout.accumulation import accumulate, accumulate_each
from catchment.readout.device import DEVICES, Devices, device_for, is_marked, statistics_name
from catchment.readout.grid import Grid
from catchment.readout.heads import Head
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import RidgeChoice, choose_by_blocks, chosen_readout
from catchment.readout.solve import for_raw_features, rescaled, scale_of, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.wire import LATER, NOTHING, Parts

GROUP = 32  # clients served together
DEVICE_GROUP = 256  # likewise on a GPU, which wants many...
GROUP_BYTES = 1 << 28  # ...unless what they send is large


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
        by_loss = flags(self.by_client, self.readout.ridge, standardise=self.standardised)
        return (*by_loss, *rows_flags(rows))


@dataclass(frozen=True, kw_only=True)
class FederatedRidge(Algorithm[RidgeState, Tally[RidgeStatistics], Model]):
    """One round of sums, solved at the server.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    ridge
        A number; or "clients": the ridge with the least error on clients left out of the solution,
        exact and from the same statistics; or "groups": likewise with 32 groups of clients, each
        left out as a whole; or "gcv", which needs only the sum; or "auto": by clients, by groups
        above 1000 clients or where only groups are kept, and by "gcv" if fewer than two are kept
        apart or one of them alone has a class, which nobody can learn who has to do without it.
    per_output
        Whether each output chooses its own ridge.
    standardise
        Whether the ridge acts on features divided by their standard deviation over all clients,
        which the same sums tell; "auto" is what the map says.
    classes
        Names of the outputs if they are classes.
    keep_clients
        Whether the server keeps each client's statistics, as "clients" needs, and unlearning and
        flagging do. Memory then grows with the clients. Or "groups": the sums of 32 groups of
        them (`catchment.federation.learn.groups`), from which no single client can be taken out.
    increments
        Rounds over which a client hands in its data, each time the next stretch of it. Or "new":
        clients hand in what is new since the last round, however many there are, and carry their
        state in their memory (`catchment.federation.increments`).
    forgetting
        Factor on the sum before a round's statistics are added.
    window
        Keep the last rounds, this many, one by one, and leave out what came before them.
    intercept
        Whether outputs have an intercept, which no ridge shrinks. AFL, FED3R and RanPAC have none.
    head
        Another way from the same sums to class scores, such as `Gaussian()`; a regression on
        one-hot targets if not given.
    devices
        "any" lets clients compute features without a grid on any device, a GPU or not: their
        statistics then agree to about 1e-9 and say so in their fingerprint. On a grid every device
        gives the same integers, and nothing needs to be said.
    false_alarms
        With increments="new": the chance that a client which did not change is said to have, for
        each client, round and kind of change.
    row_stride
        Of a recording's rows, counted after the washout, every so manieth is learnt from: one in
        eight of a reservoir's tells nearly what all do, and costs an eighth.
    """

    features: FeatureMap
    ridge: float | Literal["auto", "clients", "groups", "gcv"] = "clients"
    per_output: bool = False
    standardise: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None
    keep_clients: bool | Literal["groups"] = True
    increments: int | Literal["new"] = 1
    forgetting: float = 1.0
    window: int | None = None
    intercept: bool = True
    head: Head | None = None
    devices: Devices = field(default="same", metadata={"later": True})
    false_alarms: float = field(default=FALSE_ALARMS, metadata={"later": True})
    row_stride: int = field(default=1, metadata={"later": True})

    def __post_init__(self) -> None:
        if isinstance(self.ridge, str):
            if self.ridge not in ("auto", "clients", "groups", "gcv"):
                raise ValueError(
                    f"ridge is {self.ridge!r}; pass a number, 'auto', 'clients', 'groups' or 'gcv'"
                )
            if self.ridge == "clients" and self.keep_clients is not True:
                raise ValueError(
                    "choosing the ridge by clients needs keep_clients=True; "
                    "or choose by 'groups' or 'gcv', or pass a number"
                )
            if self.ridge == "groups" and not self.keep_clients:
                raise ValueError(
                    "choosing the ridge by groups needs keep_clients='groups', or True; "
                    "or choose by 'gcv', or pass a number"
                )
        if self.keep_clients not in (True, False, "groups"):
            raise ValueError(f"keep_clients is {self.keep_clients!r}; pass True, False or 'groups'")
        if self.keep_clients == "groups" and self.window is not None:
            raise ValueError(
                "a window of rounds is kept client by client or as a sum; pass keep_clients=True "
                "or False with it"
            )
        if not 0 < self.forgetting <= 1:
            raise ValueError(f"forgetting is {self.forgetting}; pass a factor above 0, at most 1")
        if not self.carries and (isinstance(self.increments, str) or self.increments < 1):
            raise ValueError(f"increments is {self.increments!r}; pass at least 1, or 'new'")
        if self.window is not None and (self.window < 1 or self.forgetting < 1):
            raise ValueError(
                f"window is {self.window} with forgetting {self.forgetting}; "
                "pass 1 round or more, and no forgetting beside it"
            )
        if self.devices not in DEVICES or (self.devices == "any" and self.carries):
            raise ValueError(
                f"devices is {self.devices!r} with increments {self.increments!r}; pass 'same', or "
                "'any' with a number of increments: clients that carry their state use one device"
            )
        if type(self.row_stride) is not int or self.row_stride < 1:
            raise ValueError(f"row_stride is {self.row_stride!r}; give a whole number from 1 on")
        if self.row_stride > 1 and (self.carries or not self.features.per_step):
            raise ValueError(
                f"row_stride is {self.row_stride}; leave it out where a recording has one row, or "
                "goes on in a later round"
            )
        if not 0 < self.false_alarms < 1:
            raise ValueError(f"false_alarms is {self.false_alarms}; pass a chance between 0 and 1")
        if self.head is not None and self.classes is None:
            raise ValueError(
                f"{type(self.head).__name__} is a head for classes, and there are none; pass "
                "classes, or no head"
            )

    @property
    def standardised(self) -> bool:
        """Whether the ridge acts on features divided by their spread."""
        return self.features.standardise if self.standardise == "auto" else self.standardise

    @property
    def statistics_name(self) -> str:
        """The fingerprint that clients' statistics carry."""
        marked = is_marked(self.features, None, self.devices)
        name, stride = self.features.fingerprint, self.row_stride
        return statistics_name(name, any_device=marked, row_stride=stride)

    @property
    def needs(self) -> Needs:
        return Needs(
            each_client=self._seen_apart,
            data_choice=self._undecidable,
            rounds=1 if isinstance(self.increments, str) else self.increments,
        )

    @property
    def _seen_apart(self) -> str:
        """Why the server must see clients one by one, and what to do instead."""
        if self.keep_clients == "groups":
            return GROUPED_APART
        return KEPT_APART if self.keep_clients else ""

    @property
    def carries(self) -> bool:
        """Whether clients carry their state from round to round."""
        return self.increments == "new"

    @property
    def _undecidable(self) -> str:
        """What cannot be found under noise, and what to do instead."""
        if self.head is None or self.head.uses_ridge:
            return chosen_ridge(self.ridge)
        return (
            f"a {type(self.head).__name__} head needs counts and covariances that data can have, "
            "and under noise they need not be; leave the head out"
        )

    def start(self) -> RidgeState:
        return RidgeState()

    def group_size(self, n_clients: int, n_threads: int) -> int:
        """Return how many clients to serve side by side; it does not show in what they send."""
        if self.increments != 1:
            return 1
        if device_for(self.features, None, self.devices) is not None:
            fit = GROUP_BYTES // (4 * self.features.n_features**2)
            return max(1, min(DEVICE_GROUP, fit, n_clients))
        if not self.features.per_step:
            return 1
        # Several groups per thread, or one group of large clients would keep the others waiting.
        return max(1, min(GROUP, n_clients // (2 * n_threads)))

    def client_updates(
        self, received: Parts, clients: Sequence[tuple[Data, Turn]]
    ) -> list[RidgeStatistics]:
        groups = (data() for data, _ in clients)
        return accumulate_each(self.features, groups, **self._how)

    def client_update(self, received: Parts, data: Data, turn: Turn) -> RidgeStatistics:
        if self.increments == 1:
            return self._accumulated(data())
        if isinstance(self.increments, str):
            raise ValueError(
                "increments is 'new', and nothing here remembers what came before; use the ridge "
                "by itself, not inside another algorithm"
            )
        place = turn.round % self.increments
        share = place / self.increments, (place + 1) / self.increments
        return self._accumulated(stretch(data(), *share, washout=self.features.washout))

    def _accumulated(self, data: Iterable[Recording]) -> RidgeStatistics:
        return accumulate(self.features, data, threads=1, **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        classes = self.classes is not None
        return {"classes": classes, "devices": self.devices, "row_stride": self.row_stride}

    def broadcast(self, state: RidgeState, turn: Turn) -> Parts:
        """Return which sum increments are added to, where clients carry their state."""
        if not self.carries:
            return NOTHING
        after = "" if state.total is None else state.total.digest()
        return Asked(state.begun or turn.plan, after, state.missed).parts()

    def client_increment(
        self, received: Parts, data: Data, turn: Turn, prepare: Prepare, memory: Memory
    ) -> RidgeStatistics:
        """Return the statistics of what is new; see `Carrying`."""
        made = Increments(self.features, prepare, self.classes)
        return made.answer(Asked.from_parts(received), data, turn, memory)

    def read_update(self, parts: Parts, turn: Turn) -> Tally[RidgeStatistics]:
        statistics = RidgeStatistics.from_parts(parts)
        # Of a sum with privacy noise only the moments hold; no client can claim to be one.
        noisy = not turn.client and parts.facts.get("noisy") is True
        check_statistics(
            statistics,
            fingerprint=self.statistics_name,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            state_bound=None if noisy else self.features.bounds,
            constant=self.features.constant and not noisy,
            one_hot=self.classes is not None and not noisy,
            grid="any" if noisy else self.planned_grid(turn),
        )
        if self.keep_clients == "groups":
            return Tally.in_group(statistics, group_of(turn.client))
        return Tally.of(statistics, turn.client if self.keep_clients else "")

    def planned_grid(self, turn: Turn) -> Grid | None:
        """Return on which grid statistics come; none once a protection has changed them."""
        if turn.changed:
            return None
        return Grid.of(self.features, classes=self.classes is not None)

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], turn: Turn
    ) -> RidgeState:
        if self.keep_clients == "groups":
            after = self._in_groups(state, total)
            return replace(after, begun=state.begun or turn.plan) if self.carries else after
        if not self.carries:
            return self._summed(state, total)
        # A client may have nothing new, or nothing but its washout: that is no answer to judge by.
        with_rows = {name: own for name, own in total.by_client.items() if own.n_rows}
        after = self._summed(state, replace(total, by_client=with_rows))
        history = (*state.history, *self._judged(state, with_rows or {"": total.total}, turn))
        # Without names nobody can be missed: answers are then taken to be in the sum.
        asked = {*state.missed, *turn.cohort} if self.keep_clients is True else set()
        missed = tuple(sorted(asked.difference(total.by_client)))
        begun = state.begun or turn.plan
        return replace(after, begun=begun, missed=missed, history=history)

    @staticmethod
    def _judged(
        state: RidgeState, new: Mapping[str, RidgeStatistics], turn: Turn
    ) -> tuple[RoundScores, ...]:
        """Return how unlike earlier data new ones are, of everybody if only that is seen."""
        if state.total is None or state.readout is None:
            return ()
        before = state.by_client or {"": state.total}
        # Rounds are counted on where a run begins with the sums of an earlier one.
        round_ = max(turn.round, state.history[-1].round + 1 if state.history else 1)
        scores = round_scores(new, before, state.total, state.readout, round_)
        return (scores,) if scores.clients else ()

    def _summed(self, state: RidgeState, total: Tally[RidgeStatistics]) -> RidgeState:
        if self.window is not None:
            recent = (*state.recent, total)[-self.window :]
            return self.solved(_of_rounds(recent))
        if state.total is None:
            return self.solved(RidgeState(total.total, total.by_client))
        by_client = {name: self._faded(old) for name, old in state.by_client.items()}
        for name, new in total.by_client.items():
            new = self._unfaded(new)
            by_client[name] = by_client[name] + new if name in by_client else new
        summed = self._faded(state.total) + self._unfaded(total.total)
        return self.solved(RidgeState(summed, by_client))

    def _in_groups(self, state: RidgeState, new: Tally[RidgeStatistics]) -> RidgeState:
        """Return the state with a round's sums of groups; clients kept before join theirs."""
        before = group_sums(state.by_client) if state.by_client else state.by_group
        by_group = {group: self._faded(old) for group, old in before.items()}
        for group, came in new.by_group.items():
            pool(by_group, group, self._unfaded(came))
        total = self._unfaded(new.total)
        if state.total is not None:
            total = self._faded(state.total) + total
        ordered = {group: by_group[group] for group in sorted(by_group)}
        return self.solved(RidgeState(total, by_group=ordered))

    def _faded(self, old: RidgeStatistics) -> RidgeStatistics:
        return old if self.forgetting == 1 else old.floats.scaled(self.forgetting)

    def _unfaded(self, new: RidgeStatistics) -> RidgeStatistics:
        """Return new statistics in the form of those that were forgotten in part."""
        return new if self.forgetting == 1 else new.floats

    def solved(self, state: RidgeState) -> RidgeState:
        """Return the state with the ridge chosen and the readout solved from its sum."""
        if state.total is None or (self.carries and state.total.n_rows == 0):
            return state
        choice, readout = self._solution(state.total, state)
        return replace(state, readout=readout, choice=choice, standardised=self.standardised)

    def _solution(
        self, total: RidgeStatistics, state: RidgeState
    ) -> tuple[RidgeChoice | None, Readout]:
        head, ridge = self.head, self._decided(state)
        if head is not None and not head.uses_ridge:
            return None, self._headed(total, 0.0)
        if ridge not in ("clients", "groups"):
            choice, readout = chosen_readout(
                total,
                ridge,  # type: ignore[arg-type]
                classes=self.classes is not None,
                per_output=self.per_output,
                intercept=self.intercept,
                standardise=self.standardised,
            )
            return choice, readout if head is None else self._headed(total, readout.ridge)
        best = choose_by_blocks(
            self._blocks(ridge, state),
            per_output=self.per_output,
            intercept=self.intercept,
            standardise=self.standardised,
        )
        return best, self._headed(total, best.best)

    def _decided(self, state: RidgeState) -> float | str:
        """Return how the ridge is chosen, where "auto" left it open."""
        if self.ridge != "auto":
            return self.ridge
        by_client, apart = state.by_client, state.by_client or state.by_group
        if len(apart) < 2 or (self.classes is not None and has_a_class_alone(apart)):
            return "gcv"
        return "groups" if state.by_group or len(by_client) > MANY else "clients"

    def _blocks(self, ridge: float | str, state: RidgeState) -> list[RidgeStatistics]:
        """Return the statistics of clients, or of groups of them, that are left out in turn."""
        by_client: Mapping[Any, RidgeStatistics] = state.by_client
        if ridge == "groups":
            by_client = state.by_group or group_sums(state.by_client)
        if len(by_client) < 2:
            raise FederationError(
                f"choosing the ridge by {ridge} needs 2 or more, {len(by_client)} gave "
                "statistics that are kept apart; pass ridge='gcv' or a number"
            )
        return [by_client[name] for name in sorted(by_client)]

    def _headed(self, total: RidgeStatistics, ridge: float | Array) -> Readout:
        scale = scale_of(total, self.standardised)
        if self.head is None:
            return solve_readout(total, ridge, intercept=self.intercept, scale=scale)
        if scale is None:
            return self.head.solve(total, ridge, intercept=self.intercept)
        divided = self.head.solve(rescaled(total, scale), ridge, intercept=self.intercept)
        return for_raw_features(divided, scale)

    def result(self, state: RidgeState) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        made = solved_model(self.features, state.total, readout, state.choice, classes=self.classes)
        return made if self.head is None else replace(made, temperature=self.head.temperature)

    def figures(self, state: RidgeState) -> dict[str, float]:
        """Return the rows, the ridge, the error it was chosen by, and the norm of the weights."""
        rows = {} if state.total is None else {"rows": float(state.total.n_rows)}
        if is_judged(state.history, self.false_alarms):
            last = state.history[-1].round
            drifted = {one.client for one in self.drifts(state) if one.round == last}
            rows["drifted clients"] = float(len(drifted))
        return rows | readout_figures(state.readout, state.choice)

    def drifts(self, state: RidgeState) -> tuple[Drift, ...]:
        """Return whose new data stood out from their earlier ones in which round."""
        return drifts(state.history, self.false_alarms)

    def kept(self, state: RidgeState) -> Kept:
        rows = {name: s.n_rows for name, s in state.by_client.items()}
        return Kept(rows, state.flags, state.choice, drifts=self.drifts(state))

    def tally(self, state: RidgeState) -> Tally[RidgeStatistics] | None:
        """Return the sum of all statistics so far, and each client's own where they are kept."""
        return None if state.total is None else Tally(state.total, state.by_client)

    def alone(self, state: RidgeState) -> FederatedRidge:
        """Return the algorithm with the ridge that was chosen: alone, nobody can be left out."""
        if state.choice is None:
            return self
        return replace(self, ridge=state.choice.best)  # type: ignore[arg-type]


GROUPED_APART = (
    "it sums clients by groups of their names; pass keep_clients=False and, for ridge, 'gcv' or a "
    "number, or choose it by clients in a second round (SelectedRidge)"
)
KEPT_APART = "it keeps clients apart; pass keep_clients=False and, for ridge, 'gcv' or a number"


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


class HasTargetSum(Protocol):
    """Statistics of any kind that know the sum of each target."""

    @property
    def target_sum(self) -> Array: ...


def has_a_class_alone(by_client: Mapping[Any, HasTargetSum]) -> bool:
    """Whether one client, or group of them, has all rows of a class.

    Target sums of one-hot rows count them.

    >>> here = RidgeStatistics.from_states(np.ones((2, 1)), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> has_a_class_alone({"a": here}), has_a_class_alone({"a": here, "b": here})
    (True, False)
    """
    holders = sum((s.target_sum > 0).astype(np.int64) for s in by_client.values())
    return bool(np.any(holders == 1))


def _of_rounds(recent: tuple[Tally[RidgeStatistics], ...]) -> RidgeState:
    """Return the state whose sums are those of a few rounds."""
    by_client: dict[str, RidgeStatistics] = {}
    for tally in recent:
        for name, value in tally.by_client.items():
            by_client[name] = by_client[name] + value if name in by_client else value
    total = reduce(add, (tally.total for tally in recent))
    return RidgeState(total, by_client, recent=recent)

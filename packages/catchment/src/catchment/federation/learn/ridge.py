"""Exact federated ridge regression (IncFed): one round gives the readout of pooled data.

Every client sends its ridge statistics; the server adds them up, adds the ridge once, and solves
(Bacciu et al., IJCNN 2021, eqs. 6-10; the ridge inside eqs. 7, 9 and 12 is left out on the client,
see `catchment.readout.statistics`). Further rounds add further statistics (eqs. 11-12).

The server sees each client's statistics unless a protection hides them; they are not anonymous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from catchment.arrays import Factor, PositiveInt, Probability
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import Algorithm, Data, Kept, Requirements, RoundContext, Tally
from catchment.federation.checks import check_statistics
from catchment.federation.learn.ridge_state import (
    APART,
    RidgeState,
    check_choice,
    chosen_ridge,
    kept_apart,
    learned,
    readout_figures,
)
from catchment.federation.measure.outliers import FALSE_ALARMS, Drift, drifts
from catchment.federation.protection import LowRankUpload, Masking
from catchment.federation.rows import stretch
from catchment.readout.accumulation import accumulate, accumulate_each
from catchment.readout.device import Devices, device_for, is_marked, statistics_name
from catchment.readout.grid import Grid
from catchment.readout.heads import Head
from catchment.readout.model import Model, solved_model
from catchment.readout.statistics import RidgeStatistics, packed_length
from catchment.wire import NOTHING, Message

GROUP = 32  # clients served together
DEVICE_GROUP = 256  # likewise on a GPU, which wants many...
GROUP_BYTES = 1 << 28  # ...unless what they send is large


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
    standardize
        Whether the ridge acts on features divided by their standard deviation over all clients,
        which the same sums tell; "auto" is what the map says.
    classes
        Names of the outputs if they are classes.
    store_per_client
        Whether the server keeps each client's statistics, as "clients" needs, and unlearning and
        flagging do. Memory then grows with the clients. Or "groups": the sums of 32 groups of
        them (`group_of` says which), from which no single client can be taken out.
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
        Another way from the same sums to class scores, such as `LDA()`; a regression on
        one-hot targets if not given.
    devices
        "any" lets clients compute features in float64 on any device, a GPU or not: their
        statistics then agree to about 1e-9 and say so in their fingerprint. In fixed point every
        device gives the same integers, and nothing needs to be said.
    false_positive_rate
        With increments="new": the chance that a client which did not change is said to have, for
        each client, round and kind of change.
    row_stride
        Only every `row_stride`-th row of a recording, counted after the washout, is learned from:
        one in eight of a reservoir's tells nearly what all do, and costs an eighth.
    """

    features: FeatureMap
    ridge: float | Literal["auto", "clients", "groups", "gcv"] = "clients"
    per_output: bool = False
    standardize: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None
    store_per_client: bool | Literal["groups"] = True
    increments: PositiveInt | Literal["new"] = 1
    forgetting: Factor = 1.0
    window: PositiveInt | None = None
    intercept: bool = True
    head: Head | None = None
    devices: Devices = field(default="same", metadata={"later": True})
    false_positive_rate: Probability = field(default=FALSE_ALARMS, metadata={"later": True})
    row_stride: PositiveInt = field(default=1, metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.ridge, self.store_per_client)
        if self.store_per_client == "groups" and self.window is not None:
            raise ValueError(
                "a window of rounds is kept client by client or as a sum; pass "
                "store_per_client=True or False with it"
            )
        if self.window is not None and self.forgetting < 1:
            raise ValueError(
                f"window is {self.window} with forgetting {self.forgetting}; leave one out"
            )
        if self.devices == "any" and self.carries:
            raise ValueError(
                f"devices is {self.devices!r} with increments {self.increments!r}; pass 'same', or "
                "a number of increments: clients that carry their state use one device"
            )
        if self.row_stride > 1 and (self.carries or not self.features.per_step):
            raise ValueError(
                f"row_stride is {self.row_stride}; leave it out where a recording has one row, or "
                "goes on in a later round"
            )
        if self.head is not None and self.classes is None:
            raise ValueError(
                f"{type(self.head).__name__} is a head for classes, and there are none; pass "
                "classes, or no head"
            )

    @property
    def standardized(self) -> bool:
        """Whether the ridge acts on features divided by their spread."""
        return self.features.standardize if self.standardize == "auto" else self.standardize

    @property
    def statistics_name(self) -> str:
        """The fingerprint that clients' statistics carry."""
        marked = is_marked(self.features, None, self.devices)
        name, stride = self.features.fingerprint, self.row_stride
        return statistics_name(name, any_device=marked, row_stride=stride)

    @property
    def requirements(self) -> Requirements:
        rounds = 1 if isinstance(self.increments, str) else self.increments
        apart, undecidable = APART[self.store_per_client], chosen_ridge(self.ridge, self.head)
        return Requirements(each_client=apart, data_choice=undecidable, rounds=rounds)

    @property
    def carries(self) -> bool:
        """Whether clients carry their state from round to round."""
        return self.increments == "new"

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
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> list[RidgeStatistics]:
        groups = (data() for data, _ in clients)
        return accumulate_each(self.features, groups, **self._how)

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        if isinstance(self.increments, str):
            if context.memory is None or context.preprocessing is None:
                raise ValueError(
                    "increments is 'new', and nothing here remembers what came before; use the "
                    "ridge by itself, not inside another algorithm"
                )
            from catchment.federation.increments import Asked, Increments

            made = Increments(self.features, context.preprocessing, self.classes)
            return made.answer(Asked.from_message(received), data, context, context.memory)
        held, n = data(), self.increments
        if n > 1:
            place = context.round % n
            held = stretch(held, place / n, (place + 1) / n, washout=self.features.washout)
        return accumulate(self.features, held, threads=1, **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        classes = self.classes is not None
        return {"classes": classes, "devices": self.devices, "row_stride": self.row_stride}

    def broadcast(self, state: RidgeState, context: RoundContext) -> Message:
        """Return which sum increments are added to, where clients carry their state."""
        if not self.carries:
            return NOTHING
        from catchment.federation.increments import Asked

        after = "" if state.total is None else state.total.digest()
        return Asked(state.begun or context.plan, after, state.missed).parts()

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeStatistics]:
        statistics = RidgeStatistics.from_message(parts)
        # Of a sum with privacy noise only the moments hold; no client can claim to be one.
        noisy = not context.client and parts.facts.get("noisy") is True
        check_statistics(
            statistics,
            fingerprint=self.statistics_name,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            state_bound=None if noisy else self.features.bounds,
            constant=self.features.constant and not noisy,
            one_hot=self.classes is not None and not noisy,
            grid="any" if noisy else self.planned_grid(context),
        )
        return kept_apart(statistics, context.client, self.store_per_client)

    def planned_grid(self, context: RoundContext) -> Grid | None:
        """Return on which grid statistics come; none once a protection has changed them."""
        if context.changed:
            return None
        return Grid.of(self.features, classes=self.classes is not None)

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        grouped, came = self.store_per_client == "groups", total
        if self.carries:
            # One may have nothing new, or nothing but its washout: that is no answer to judge by.
            rows = {name: own for name, own in total.by_client.items() if own.n_rows}
            came = replace(total, by_client=rows)
        after = self.solved(state.plus(came, self.forgetting, self.window, grouped))
        if not self.carries:
            return after
        after = replace(after, begun=state.begun or context.plan)
        # Without names nobody can be missed: answers are then taken to be in the sum.
        known = context if self.store_per_client else replace(context, cohort=())
        return after if grouped else after.judged(state, total, known)

    def solved(self, state: RidgeState) -> RidgeState:
        """Return the state with the ridge chosen and the readout solved from its sum."""
        if state.total is None or (self.carries and state.total.n_rows == 0):
            return state
        how = {"per_output": self.per_output, "intercept": self.intercept}
        classes, divided = self.classes is not None, self.standardized
        return state.solved(self.ridge, self.head, classes=classes, standardize=divided, **how)

    def result(self, state: RidgeState) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        made = solved_model(self.features, state.total, readout, state.choice, classes=self.classes)
        return made if self.head is None else replace(made, temperature=self.head.temperature)

    def sends(self, protections: Sequence[object] = ()) -> str:
        """Return in one sentence what clients send under these protections, and why.

        >>> from catchment import EchoState
        >>> FederatedRidge(features=EchoState(10).build(1, per_step=True)).sends()
        'clients send statistics, as asked for'
        """
        if not protections:
            return "clients send statistics, as asked for"
        F, why = self.features.n_features, "protections change what they send"
        if isinstance(protections[-1], LowRankUpload):
            if Grid.of(self.features, classes=self.classes is not None) is not None:
                return (
                    f"each client sends the smaller of its statistics ({packed_length(F):,} sums "
                    f"of products for {F} features) and as many rows of {F} of them as it has "
                    "rows, which say exactly the same"
                )
            why = "features are float64, and only integers have a smaller form that is exact"
        elif isinstance(protections[-1], Masking):
            why = "the server sees only sums"
        return f"clients send statistics: {why}"

    def figures(self, state: RidgeState) -> dict[str, float]:
        """Return the rows, the ridge, its error, the norm of the weights, and how many drifted."""
        return state.drift_figures(self.false_positive_rate) | readout_figures(
            state.readout, state.choice
        )

    def drifts(self, state: RidgeState) -> tuple[Drift, ...]:
        """Return whose new data stood out from their earlier ones in which round."""
        return drifts(state.history, self.false_positive_rate)

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

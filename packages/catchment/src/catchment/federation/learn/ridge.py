"""Exact federated ridge regression (IncFed): one round gives the readout of pooled data.

Every client sends its ridge statistics; the server adds them up, adds the ridge once, and solves
(Bacciu et al., IJCNN 2021, eqs. 6-10; the ridge inside eqs. 7, 9 and 12 is left out on the client,
see `catchment.readout.statistics`). Further rounds add further statistics (eqs. 11-12).

The server sees each client's statistics unless a protection hides them; they are not anonymous.

Where some clients have labels, the others' rows are named by a model. Those with labels are summed
as ever. In one further round everybody is sent the readout and the sum that it was solved from;
whoever has rows without a label adapts the readout to them (`catchment.readout.adapt`), names them,
and sends their sums as if the names were labels. These are sums as any: they are hidden by secure
aggregation, checked, kept by client where the server keeps clients apart, and taken off again when
a client is to be forgotten. Under secure aggregation each round is of those who have rows for it,
so that its floors hold for them; who takes part in which tells who has labels.

What a client learns by it is the sum over those with labels. Where one of these is forgotten later,
the names that others gave by a model it was part of stay.

`automatic_ridge` settles what was left open by who takes part, the same for every way in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from catchment.arrays import PositiveInt, Probability
from catchment.errors import UploadError
from catchment.features.base import FeatureMap
from catchment.features.recipes import AutoMap
from catchment.federation.algorithm import (
    Algorithm,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Tally,
    added_by_key,
)
from catchment.federation.checks import check_classes, check_statistics
from catchment.federation.learn.sums import (
    APART,
    MANY,
    RidgeState,
    chosen_ridge,
    group_of,
    group_sums,
    learned,
    left_out,
    read_shared,
    readout_figures,
    shared_message,
)
from catchment.federation.measure.outliers import FALSE_ALARMS, Drift, drift_figures, drifts
from catchment.federation.messages import TURN
from catchment.federation.rows import segment, targets_of
from catchment.readout.accumulation import accumulate, accumulate_each, group_size, statistics_name
from catchment.readout.fixed_point import FixedPoint
from catchment.readout.heads import Head
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import NOTHING, Message

if TYPE_CHECKING:
    from catchment.federation.learn.candidates import Candidates

Ridge = float | Literal["auto", "leave-one-client-out", "leave-one-group-out", "gcv"]
Upload = Literal["auto", "statistics", "autocovariances"] | Callable[..., Algorithm[Any, Any, Any]]
UNGROUPED = (
    "ridge is 'leave-one-group-out', for which the server must see whose statistics it adds to "
    "which group, and secure aggregation shows it one sum; pass ridge='leave-one-client-out', "
    "which takes a second round, 'gcv' or a number"
)


@dataclass(frozen=True, kw_only=True)
class FederatedRidge(Algorithm[RidgeState, Tally[RidgeStatistics], Model]):
    """One round of sums, solved at the server.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    ridge
        A number, or how it is chosen, from the same statistics: "leave-one-client-out", by the
        exact error on clients left out of the solution; "leave-one-group-out", likewise with 32
        groups of clients; "gcv", which needs only the sum; or "auto": by clients, by groups above
        1000 clients or where only groups are kept, and by "gcv" where fewer than two are kept apart
        or one of them alone has a class, which no solution without it can learn.
    standardize
        Whether the ridge acts on features divided by their standard deviation over all clients,
        which the same sums tell; "auto" is what the map says.
    classes
        Names of the outputs if they are classes.
    store_per_client
        Whether the server keeps each client's statistics, as "leave-one-client-out" needs, and
        unlearning and flagging do. Memory then grows with the clients. Or "groups": the sums of 32
        groups of them (`group_of` says which), from which no single client can be taken out.
    increments
        Rounds over which a client hands in its data, each time the next segment of it. Or "new":
        clients hand in what is new since the last round, however many there are, and carry their
        state in their memory (`catchment.federation.increments`).
    intercept
        Whether outputs have an intercept, which no ridge shrinks. AFL, FED3R and RanPAC have none.
    head
        Another way from the same sums to class scores, such as `LDA()`; a regression on
        one-hot targets if not given.
    deterministic
        False lets clients compute features in float64 on any device, a GPU or not: their
        statistics then agree to about 1e-9 and say so in their fingerprint. In fixed point every
        device gives the same integers, and nothing needs to be said.
    false_positive_rate
        With increments="new": the chance that a client which did not change is said to have, for
        each client, round and kind of change.
    row_stride
        Only every `row_stride`-th row of a recording, counted after the washout, is learned from:
        one in eight of a reservoir's tells nearly what all do, and costs an eighth.
    labels
        "some" if clients, or some of their recordings, may have none: these are named by a model of
        the others and summed in one more round.
    """

    sent: ClassVar[str] = "statistics"
    features: FeatureMap
    ridge: Ridge = "leave-one-client-out"
    standardize: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None
    store_per_client: bool | Literal["groups"] = True
    increments: PositiveInt | Literal["new"] = 1
    intercept: bool = True
    head: Head | None = None
    deterministic: bool = field(default=True, metadata={"later": True})
    false_positive_rate: Probability = field(default=FALSE_ALARMS, metadata={"later": True})
    row_stride: PositiveInt = field(default=1, metadata={"later": True})
    labels: Literal["all", "some"] = field(default="all", metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        needs: Any = {"leave-one-client-out": [True], "leave-one-group-out": ["groups", True]}
        if self.store_per_client not in needs.get(self.ridge, APART):
            kept = ", or ".join(map(repr, needs[self.ridge]))
            raise ValueError(
                f"ridge={self.ridge!r} needs store_per_client={kept}; or pass 'gcv' or a number"
            )
        classes = self.classes is not None and self.head is None and self.increments == 1
        if self.labels == "some" and not classes:
            raise ValueError(
                'labels is "some", which takes classes, no other head, and one round of sums; '
                "leave out head and increments"
            )
        if self.carries and not self.deterministic:
            raise ValueError(
                f"deterministic is False with increments {self.increments!r}; pass True, or a "
                "number of increments: clients that carry their state use one device"
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
        return statistics_name(self.features, None, self.deterministic, self.row_stride)

    @property
    def requirements(self) -> Requirements:
        rounds: Any = 1 if self.carries else self.increments
        rounds += self.labels == "some"
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
        if self.increments != 1 or self.labels == "some":
            return 1
        return group_size(self.features, n_clients, n_threads, deterministic=self.deterministic)

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> list[RidgeStatistics]:
        if self.increments != 1 or self.labels == "some":
            return list(starmap(partial(self.client_update, received), clients))
        how: Any = {"deterministic": self.deterministic, "row_stride": self.row_stride}
        every = (data() for data, _ in clients)
        return accumulate_each(self.features, every, classes=self.classes is not None, **how)

    def check_turn(self, data: Data, context: RoundContext) -> None:
        """Raise UploadError unless there are rows with labels, and after the first round without.

        Who has none sits out: a sum of zeros would count among the clients that a sum must be of.
        """
        if self.labels != "some":
            return
        targets = (np.array([[np.nan]]) if one.y is None else one.y for one in data())
        found = {bool(k) for y in targets for k in np.isnan(np.atleast_2d(y)).any(axis=1)}
        if (context.round > 0) not in found:
            which = "without" if context.round else "with"
            said = f"the client has no row {which} a label; it sits this round out"
            raise UploadError(TURN, said)

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        if self.labels == "some" and context.round > 0:
            return _named_sums(self, received, data, context)
        if self.increments == "new":
            from catchment.federation.increments import Increments

            carried = Increments(self.features, context.preprocessing, self.classes)
            return carried.answer(received, data, context)
        recordings, n = data(), self.increments
        if n != 1:
            k, washout = context.round % n, self.features.washout
            recordings = segment(recordings, k / n, (k + 1) / n, washout=washout)
        how: Any = {"deterministic": self.deterministic, "row_stride": self.row_stride}
        classes = self.classes is not None
        return accumulate(self.features, recordings, threads=1, classes=classes, **how)

    def broadcast(self, state: RidgeState, context: RoundContext) -> Message:
        """Return which sum increments are added to, where clients carry their state.

        Where some have labels, nothing at first, and then the readout and its sum.
        """
        if self.labels == "some" and context.round > 0 and state.readout and state.total:
            return shared_message(state.readout, state.total)
        if not self.carries:
            return NOTHING
        from catchment.federation.increments import asked_after

        return asked_after(state, context)

    def read_update(self, parts: Message, context: RoundContext) -> Tally[RidgeStatistics]:
        statistics = RidgeStatistics.from_message(parts)
        # Of a sum with privacy noise only the moments hold; no client can claim to be one.
        self.check(statistics, context, not context.client and parts.facts.get("noisy") is True)
        if self.store_per_client == "groups":
            return Tally.in_group(statistics, group_of(context.client))
        return Tally.of(statistics, context.client if self.store_per_client else "")

    def check(
        self, statistics: RidgeStatistics, context: RoundContext, noisy: bool = False
    ) -> None:
        """Raise UploadError for statistics that no data of this plan can have."""
        classes = self.classes is not None
        if context.own and context.client:  # made here: only targets can be wrong, a user's
            if self.classes is not None:
                check_classes(statistics, len(self.classes))
            return
        check_statistics(
            statistics,
            fingerprint=self.statistics_name,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            state_bound=None if noisy else self.features.bounds,
            constant=self.features.constant and not noisy,
            one_hot=classes and not noisy,
            fixed="any" if noisy else FixedPoint.of(self.features, classes=classes),
        )

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        came = total.by_client
        if self.carries:  # who has nothing new, or nothing but a washout, is no answer to judge by
            came = {name: own for name, own in came.items() if own.n_rows}
        whole = total.total if state.total is None else state.total + total.total
        sums = RidgeState(whole, added_by_key(state.by_client, came))
        if self.store_per_client == "groups":  # clients kept before join their groups
            before = group_sums(state.by_client) or state.by_group
            sums = RidgeState(whole, by_group=added_by_key(before, total.by_group))
        after = self.solved(sums)
        if not self.carries:
            return after
        from catchment.federation.increments import with_increments

        return with_increments(state, after, total, came, context, self.store_per_client)

    def solved(self, state: RidgeState) -> RidgeState:
        """Return the state with the ridge chosen and the readout solved from its sum."""
        total, classes, divided = state.total, self.classes is not None, self.standardized
        if total is None or (self.carries and total.n_rows == 0):
            return state
        needed = self.ridge if self.head is None or self.head.uses_ridge else 0.0
        ridge, blocks = left_out(needed, state.by_client, state.by_group, classes=classes)
        how: Any = {"classes": classes, "standardize": divided, "intercept": self.intercept}
        choice, readout = chosen_readout(total, ridge, blocks, head=self.head, **how)
        return replace(state, readout=readout, choice=choice, standardized=divided)

    def result(self, state: RidgeState) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        made = solved_model(self.features, state.total, readout, state.choice, classes=self.classes)
        return made if self.head is None else replace(made, temperature=self.head.temperature)

    def figures(self, state: RidgeState) -> dict[str, float]:
        """Return the rows, the ridge, its error, the norm of the weights, and how many drifted."""
        told = {} if state.total is None else {"rows": float(state.total.n_rows)}
        if state.history:
            told |= drift_figures(state.history, self.false_positive_rate)
        return told | readout_figures(state.readout, state.choice)

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
        return self if state.choice is None else replace(self, ridge=state.choice.best)


def _named_sums(
    ridge: FederatedRidge, received: Message, data: Data, context: RoundContext
) -> RidgeStatistics:
    """Return the sums of a client's rows without labels, with the classes that the model names."""
    from catchment.readout.adapt import self_train

    features, K = ridge.features, len(ridge.classes or ())
    shared, total = read_shared(received, summed=True)
    assert total is not None
    prepared = list(data())
    rows = features.rows([one.u for one in prepared], threads=1)
    washout = features.washout if features.per_step else None
    z = [np.zeros((0, features.n_features))]
    for k, (recording, own) in enumerate(zip(prepared, rows, strict=True)):
        z.append(own[np.isnan(targets_of(recording, len(own), washout, k)).any(axis=1)])
    unlabeled = np.concatenate(z)
    found = self_train(total, shared, unlabeled, standardize=ridge.standardized)
    return RidgeStatistics.from_states(
        unlabeled,
        np.eye(K)[found.after],
        fingerprint=ridge.statistics_name,
        fixed=FixedPoint.of(features, classes=True),
    )


def automatic_ridge(
    features: FeatureMap,
    *,
    ridge: Ridge = "auto",
    classes: tuple[str, ...] | None = None,
    hidden: bool = False,
    n_clients: int | None = None,
    store_per_client: bool | Literal["groups"] | None = None,
    **settings: Any,
) -> FederatedRidge | Candidates:
    """Return exact ridge regression for clients that are seen one by one, or only as a sum.

    The settings are those of `FederatedRidge`. If not given, each client's statistics are stored
    wherever the server sees them, and sums of groups where the ridge is chosen by these. A head
    that has no use for a ridge takes part in no choice of one.

    Parameters
    ----------
    hidden
        Whether the server sees nothing but sums: then the choice by clients left out takes a second
        round, and "auto" is "gcv".
    n_clients
        How many train; None for many.

    >>> from catchment import EchoState
    >>> features = EchoState(10).build(1, per_step=True)
    >>> automatic_ridge(features).ridge, automatic_ridge(features, hidden=True).ridge
    ('auto', 'gcv')
    >>> automatic_ridge(features, n_clients=1_000_000).store_per_client
    'groups'
    """
    alone = n_clients is not None and n_clients < 2
    chosen, head = ridge, settings.get("head")
    if head is not None and not head.uses_ridge:
        chosen = 0.0
    if chosen == "auto" and (hidden or alone or store_per_client is False):
        chosen = "gcv"
    if hidden and chosen == "leave-one-group-out":
        raise ValueError(UNGROUPED)
    if hidden and chosen == "leave-one-client-out" and not store_per_client:
        needed = {"head": None, "intercept": True, "deterministic": True, "row_stride": 1}
        for name, plain in needed.items():
            if settings.get(name, plain) != plain:
                raise ValueError(
                    f"{name} is {settings[name]!r}; behind secure aggregation a ridge is chosen by "
                    f"clients only with {name}={plain!r}, so pass ridge='gcv' or a number with it"
                )
        left = {name: settings[name] for name in settings if name == "standardize"}
        from catchment.federation.learn.candidates import Candidates

        return Candidates(features=(features,), classes=classes, store_per_client=False, **left)
    kept: bool | Literal["groups"] = not hidden and not alone
    if chosen == "leave-one-group-out" or (
        chosen == "auto" and n_clients is not None and n_clients > MANY
    ):
        kept = "groups"
    if store_per_client is not None:
        kept = store_per_client
    return FederatedRidge(
        features=features, ridge=chosen, classes=classes, store_per_client=kept, **settings
    )


@dataclass(frozen=True)
class Offered:
    """The maps of a workflow, and why the choice among several was not made if it was asked for."""

    maps: tuple[FeatureMap, ...]
    note: str = ""
    several: bool = False  # whether clients choose among them


def offered_maps(
    described: FeatureMap,
    n_inputs: int,
    *,
    per_step: bool,
    ahead: bool = False,
    hidden: bool = False,
    noisy: bool = False,
    n_clients: int | None = None,
) -> Offered:
    """Return the map that is described, or the candidates of an `AutoMap` where one can be chosen.

    Parameters
    ----------
    ahead
        Whether what is ahead in time is predicted.
    hidden, noisy
        Whether the server sees nothing but sums, and whether noise bounds what the training tells.
    n_clients
        How many clients train; None for many.

    >>> len(offered_maps(AutoMap(), 3, per_step=False).maps)
    4
    >>> offered_maps(AutoMap(), 3, per_step=False, hidden=True).note
    "the default map is used: the server sees only a sum, and 'auto' leaves clients out"
    """
    if not isinstance(described, AutoMap):
        return Offered((described,))
    if noisy:
        why = "under noise no map may be chosen by the data"
    elif hidden:
        why = "the server sees only a sum, and 'auto' leaves clients out"
    elif n_clients is not None and n_clients < 2:
        why = "'auto' leaves clients out, and there is one"
    else:
        maps = described.candidates(n_inputs, per_step=per_step, ahead=ahead)
        return Offered(maps, several=len(maps) > 1)
    return Offered((described.fallback,), f"the default map is used: {why}")


def auto_choice(classes: object, n_clients: int | None = None) -> dict[str, Any]:
    """Return how `Candidates` choose a map for "auto": by what will be reported, with a margin.

    Classes are counted by the clients, who see the sum of all for that; two would see each other's.

    >>> auto_choice(("sit", "walk")), auto_choice(None)["by"], auto_choice(("sit", "walk"), 2)["by"]
    ({'margin': 1.0, 'by': 'accuracy'}, 'error', 'error')
    """
    counted = classes is not None and (n_clients is None or n_clients > 2)
    return {"margin": 1.0, "by": "accuracy" if counted else "error"}


def refuse_settings(given: Collection[str]) -> None:
    """Raise ValueError if settings were given that a choice among maps settles by itself.

    >>> refuse_settings(["ridge"])
    Traceback (most recent call last):
    ValueError: map 'auto' is chosen together with its ridge, ... leave out ridge, or name a map
    """
    if given:
        raise ValueError(
            "map 'auto' is chosen together with its ridge, by the error on clients left out; leave "
            f"out {', '.join(given)}, or name a map"
        )

"""Exact federated ridge regression (IncFed): one round gives the readout of pooled data.

Every client sends its ridge statistics; the server adds them up, adds the ridge once, and solves
(Bacciu et al., IJCNN 2021, eqs. 6-10; the ridge inside eqs. 7, 9 and 12 is left out on the client,
see `catchment.readout.statistics`). Further rounds add further statistics (eqs. 11-12).

To choose a ridge by clients left out the server must keep every client's statistics. Of a million
clients it keeps the sums of 32 groups instead. A client's group follows from the SHA-256 of its
name, so that it is the same in every run, on every engine, whoever else takes part.

The server sees each client's statistics unless a protection hides them; they are not anonymous.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add, attrgetter
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from catchment.arrays import Factor, PositiveInt, Probability
from catchment.errors import FederationError
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import (
    Algorithm,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Tally,
    added_by_key,
)
from catchment.federation.checks import check_statistics
from catchment.federation.measure.outliers import (
    FALSE_ALARMS,
    AnyFlag,
    Drift,
    RoundScores,
    drifts,
    left_out_losses,
    loss_flags,
    round_scores,
    rows_flags,
)
from catchment.federation.protection import LowRankUpload
from catchment.federation.rows import segment
from catchment.readout.accumulation import accumulate, accumulate_each
from catchment.readout.device import device_for, statistics_name
from catchment.readout.grid import Grid
from catchment.readout.heads import Head
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import RidgeChoice, choose_by_blocks, chosen_readout
from catchment.readout.solve import for_raw_features, rescaled, scale_of
from catchment.readout.statistics import Readout, RidgeStatistics, packed_length
from catchment.wire import LATER, NOTHING, Message

GROUP = 32  # clients served together
DEVICE_GROUP = 256  # likewise on a GPU, which wants many...
GROUP_BYTES = 1 << 28  # ...unless what they send is large
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


@dataclass(frozen=True, kw_only=True)
class FederatedRidge(Algorithm[RidgeState, Tally[RidgeStatistics], Model]):
    """One round of sums, solved at the server.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    ridge
        A number; or "leave-one-client-out": the ridge with the least error on clients left out of
        the solution, exact and from the same statistics; or "leave-one-group-out": likewise with 32
        groups of clients, each left out as a whole; or "gcv", which needs only the sum; or "auto":
        by clients, by groups above 1000 clients or where only groups are kept, and by "gcv" if
        fewer than two are kept apart or one of them alone has a class, which nobody can learn who
        has to do without it.
    per_output
        Whether each output chooses its own ridge.
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
    forgetting
        Factor on the sum before a round's statistics are added.
    window
        Keep the last rounds, this many, one by one, and leave out what came before them.
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
        the others and summed in one more round (`catchment.federation.learn.some_labels`).
    """

    features: FeatureMap
    ridge: float | Literal["auto", "leave-one-client-out", "leave-one-group-out", "gcv"] = (
        "leave-one-client-out"
    )
    per_output: bool = False
    standardize: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None
    store_per_client: bool | Literal["groups"] = True
    increments: PositiveInt | Literal["new"] = 1
    forgetting: Factor = 1.0
    window: PositiveInt | None = None
    intercept: bool = True
    head: Head | None = None
    deterministic: bool = field(default=True, metadata={"later": True})
    false_positive_rate: Probability = field(default=FALSE_ALARMS, metadata={"later": True})
    row_stride: PositiveInt = field(default=1, metadata={"later": True})
    labels: Literal["all", "some"] = field(default="all", metadata={"later": True})

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
        if not self.deterministic and self.carries:
            raise ValueError(
                f"deterministic is False with increments {self.increments!r}; pass True, or a "
                "number of increments: clients that carry their state use one device"
            )
        if self.row_stride > 1 and (self.carries or not self.features.per_step):
            raise ValueError(
                f"row_stride is {self.row_stride}; leave it out where a recording has one row, or "
                "goes on in a later round"
            )
        if self.labels == "some":
            from catchment.federation.learn.some_labels import check_some_labels

            check_some_labels(self)
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
        rounds = 1 if isinstance(self.increments, str) else self.increments
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
        if device_for(self.features, None, self.deterministic) is not None:
            fit = GROUP_BYTES // (4 * self.features.n_features**2)
            return max(1, min(DEVICE_GROUP, fit, n_clients))
        if not self.features.per_step:
            return 1
        # Several groups per thread, or one group of large clients would keep the others waiting.
        return max(1, min(GROUP, n_clients // (2 * n_threads)))

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> list[RidgeStatistics]:
        return accumulate_each(self.features, (data() for data, _ in clients), **self._how)

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
        if self.labels == "some" and context.round > 0:
            from catchment.federation.learn.some_labels import named_sums

            return named_sums(self, received, data, context)
        held, n = data(), self.increments
        if n > 1:
            place = context.round % n
            held = segment(held, place / n, (place + 1) / n, washout=self.features.washout)
        return accumulate(self.features, held, threads=1, **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        classes = self.classes is not None
        return {
            "classes": classes,
            "deterministic": self.deterministic,
            "row_stride": self.row_stride,
        }

    def broadcast(self, state: RidgeState, context: RoundContext) -> Message:
        """Return which sum increments are added to, where clients carry their state."""
        if self.labels == "some":
            from catchment.federation.learn.some_labels import letter

            return letter(state, context)
        if not self.carries:
            return NOTHING
        from catchment.federation.increments import Asked

        after = "" if state.total is None else state.total.digest()
        return Asked(state.begun or context.plan, after, state.missed).parts()

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
        planned = None if context.changed else Grid.of(self.features, classes=classes)
        check_statistics(
            statistics,
            fingerprint=self.statistics_name,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            state_bound=None if noisy else self.features.bounds,
            constant=self.features.constant and not noisy,
            one_hot=classes and not noisy,
            grid="any" if noisy else planned,
        )

    def server_update(
        self, state: RidgeState, total: Tally[RidgeStatistics], context: RoundContext
    ) -> RidgeState:
        if not self.carries:
            return self.solved(self._plus(state, total))
        # One may have nothing new, or nothing but its washout: that is no answer to judge by.
        came = {name: own for name, own in total.by_client.items() if own.n_rows}
        after = self.solved(self._plus(state, replace(total, by_client=came)))
        after, history = replace(after, begun=state.begun or context.plan), state.history
        if self.store_per_client == "groups":
            return after
        if state.total is not None and state.readout is not None:
            # Rounds are counted on where a run begins with the sums of an earlier one.
            at = max(context.round, history[-1].round + 1 if history else 1)
            parts = came or {"": total.total}, state.by_client or {"": state.total}
            scores = round_scores(*parts, state.total, state.readout, at)
            history += (scores,) if scores.clients else ()
        # Without names nobody can be missed: answers are then taken to be in the sum.
        asked = {*state.missed, *(context.cohort if self.store_per_client else ())}
        missed = tuple(sorted(asked.difference(total.by_client)))
        return replace(after, missed=missed, history=history)

    def _plus(self, state: RidgeState, new: Tally[RidgeStatistics]) -> RidgeState:
        """Return the sums with those of a round, what came before forgotten in part."""
        grouped = self.store_per_client == "groups"
        if self.window is not None:
            recent = (*state.recent, new)[-self.window :]
            by_client = reduce(added_by_key, (tally.by_client for tally in recent))
            return RidgeState(reduce(add, (one.total for one in recent)), by_client, recent=recent)
        apart: Any = (state.by_client, new.by_client)
        if grouped:  # clients that were kept before join their groups
            apart = (group_sums(state.by_client) or state.by_group, new.by_group)
        pairs = [({} if state.total is None else {0: state.total}, {0: new.total}), apart]
        if self.forgetting < 1 and (grouped or state.total is not None):
            for k, (old, more) in enumerate(pairs):
                faded = {key: one.floats.scaled(self.forgetting) for key, one in old.items()}
                pairs[k] = (faded, {key: one.floats for key, one in more.items()})
        total, sums = added_by_key(*pairs[0]), added_by_key(*pairs[1])
        by_client, by_group = ({}, sums) if grouped else (sums, {})
        return RidgeState(total[0], by_client, by_group=by_group)

    def solved(self, state: RidgeState) -> RidgeState:
        """Return the state with the ridge chosen and the readout solved from its sum."""
        total, head, choice, divided = state.total, self.head, None, self.standardized
        if total is None or (self.carries and total.n_rows == 0):
            return state
        how: Any = {"per_output": self.per_output, "intercept": self.intercept}
        how["standardize"], classes = divided, self.classes is not None
        needed = self.ridge if head is None or head.uses_ridge else 0.0
        found, blocks = left_out(needed, state.by_client, state.by_group, classes=classes)
        if blocks:
            choice = choose_by_blocks(blocks, **how)
            found = choice.best
        if head is None or isinstance(found, str):
            made, readout = chosen_readout(total, found, classes=classes, **how)
            choice, found = choice or made, readout.ridge
        if head is not None:
            scale = scale_of(total, divided)
            readout = head.solve(rescaled(total, scale), found, intercept=self.intercept)
            readout = for_raw_features(readout, scale)
        return replace(state, readout=readout, choice=choice, standardized=divided)

    def result(self, state: RidgeState) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        made = solved_model(self.features, state.total, readout, state.choice, classes=self.classes)
        return made if self.head is None else replace(made, temperature=self.head.temperature)

    def sends(self, protections: Sequence[Any] = ()) -> str:
        """Return in one sentence what clients send under these protections, and why.

        >>> from catchment import EchoState
        >>> FederatedRidge(features=EchoState(10).build(1, per_step=True)).sends()
        'clients send statistics'
        """
        if not protections:
            return "clients send statistics"
        F, why = self.features.n_features, "protections change them"
        if isinstance(protections[-1], LowRankUpload):
            if Grid.of(self.features, classes=self.classes is not None) is not None:
                return (
                    f"each client sends the smaller of its statistics ({packed_length(F):,} sums "
                    f"of products for {F} features) and as many rows of {F} of them as it has "
                    "rows, which say exactly the same"
                )
            why = "features are float64, whose smaller form is not exact"
        elif any(one.hides for one in protections):
            why = "the server sees only sums"
        return f"clients send statistics: {why}"

    def figures(self, state: RidgeState) -> dict[str, float]:
        """Return the rows, the ridge, its error, the norm of the weights, and how many drifted."""
        told = {} if state.total is None else {"rows": float(state.total.n_rows)}
        *earlier, last = state.history or (None,)
        # Where too few were judged before nobody can stand out.
        judged = 1
        for one in earlier:
            judged += len(one.clients)
        if last is not None and 1 / judged <= self.false_positive_rate:
            drifted = {one.client for one in self.drifts(state) if one.round == last.round}
            told["drifted clients"] = float(len(drifted))
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
        if state.choice is None:
            return self
        return replace(self, ridge=state.choice.best)  # type: ignore[arg-type]


def check_choice(ridge: float | str, store_per_client: bool | str) -> None:
    """Raise ValueError if a ridge cannot be chosen so by what the server keeps."""
    if ridge == "leave-one-client-out" and store_per_client is not True:
        raise ValueError(
            "choosing the ridge by clients needs store_per_client=True; "
            "or pass 'leave-one-group-out' or 'gcv', or pass a number"
        )
    if ridge == "leave-one-group-out" and not store_per_client:
        raise ValueError(
            "choosing the ridge by groups needs store_per_client='groups', or True; "
            "or choose by 'gcv', or pass a number"
        )


def left_out(
    ridge: float | str, by_client: Mapping[str, V], by_group: Mapping[int, V], *, classes: bool
) -> tuple[Any, list[V]]:
    """Return the ridge, or the word for its choice, and what is left out in turn to choose it.

    "auto" becomes another word: "gcv" if fewer than two are kept apart or one of them has a class
    alone, else "leave-one-client-out", or "leave-one-group-out" if there are many.
    """
    apart: Any = by_client or by_group
    if ridge == "auto":
        if len(apart) < 2 or (classes and has_a_class_alone(apart)):
            ridge = "gcv"
        else:
            ridge = (
                "leave-one-group-out" if by_group or len(apart) > MANY else "leave-one-client-out"
            )
    if ridge not in ("leave-one-client-out", "leave-one-group-out"):
        return ridge, []
    apart = by_client
    if ridge == "leave-one-group-out":
        apart = by_group or group_sums(by_client)
    if len(apart) < 2:
        raise FederationError(
            f"ridge={ridge!r} needs 2 or more, {len(apart)} gave statistics that are "
            "kept apart; pass ridge='gcv' or a number"
        )
    return ridge, list(map(apart.__getitem__, sorted(apart)))


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

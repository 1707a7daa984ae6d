"""Federated forecasts from autocovariances: one upload of L + H sums, and all settings from it.

Every client sends the autocovariances of its series up to the longest lookback and the largest
horizon (`catchment.readout.yule_walker`): 1 056 integers where 336 values back and 720 ahead are
looked at, and as many counts of pairs, against 298 000 numbers of a Gram matrix and its products
with the targets. They add as any sum does, under secure aggregation and noise, are taken off again
by `-`, and go on where a recording does. Coefficients are shared by all predicted channels.

Clients left out of the sum choose the lookback, the trailing mean and the ridge; where the server
sees only a sum, generalized cross-validation does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Annotated, Any, Literal, cast

import numpy as np
from annotated_types import Ge

from catchment.arrays import NonNegativeInt, PositiveInt
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.data.steps import (
    COLUMNS,
    calendar_columns,
    channel_numbers,
    fill_recording,
    resample,
)
from catchment.errors import FederationError
from catchment.features.base import FeatureMap
from catchment.features.nvar import NVAR
from catchment.features.pipeline import Pipeline
from catchment.federation.algorithm import (
    Algorithm,
    Data,
    Kept,
    Requirements,
    RoundContext,
    Tally,
    added_by_key,
)
from catchment.federation.increments import Increments, OpenRecording, asked_after
from catchment.federation.learn.sums import KEPT_APART, group_of
from catchment.readout.model import Model, fitted_pipeline
from catchment.readout.ridge_choice import RidgeChoice
from catchment.readout.statistics import Readout
from catchment.readout.yule_walker import (
    DIGITS,
    RIDGES,
    Autocovariances,
    Equations,
    LagChoice,
    autocovariances,
    candidates,
    choose,
)
from catchment.wire import NOTHING, Message

FOLDS = 8  # groups of clients that are left out in turn, where there are more clients
LOOKBACK = 336  # values back, where nothing else is said
LOOKBACKS = (336, 168, 96, 48, 24, 12)  # that are proposed
NAMED = "{L} lags, less the mean of {mean}"
LONG = 10  # times as many steps as lags, from which on edges of a series do not matter


@dataclass(frozen=True, eq=False)
class YuleWalkerState:
    """The sum of all autocovariances, each client's own where they are kept, and the settings."""

    total: Autocovariances | None = None
    by_client: Mapping[str, Autocovariances] = field(default_factory=dict)
    choice: LagChoice | None = None
    begun: str = ""
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FederatedYuleWalker(Algorithm[YuleWalkerState, Tally[Autocovariances], Any]):
    """Forecasts by the Yule-Walker equations, from one sum of autocovariances.

    Parameters
    ----------
    features
        `NVAR(336, order=1)`: how far back a forecast may look.
    preprocessing
        The plan's: its horizons are predicted, of its predicted channels, with its known ones and
        its calendar beside them.
    lookback
        How many of the last values are looked at; "auto" chooses from those that `features` has.
    trailing_mean
        Over how many of the last values the mean is taken that inputs and targets are differences
        from; 0 for none. "auto" chooses one value or the whole lookback, or none where values far
        back tell nothing of the level.
    ridge
        In units of the series' variance, or "auto".
    store_per_client
        Whether the server keeps each client's sums, to choose by clients left out and to unlearn.
        Without, settings are chosen by generalized cross-validation.
    increments
        "new": clients hand in what is new since the last round, and remember the last values.

    >>> from catchment import Plan, Preprocessing, Recording, federate
    >>> rng = np.random.default_rng(0)
    >>> def series():
    ...     x = rng.normal(size=600)
    ...     for t in range(2, 600):
    ...         x[t] += 1.6 * x[t - 1] - 0.9 * x[t - 2]
    ...     return [Recording(x / 4)]
    >>> clients = {name: series() for name in ("ann", "bob", "cid")}
    >>> prepare = Preprocessing(horizon=(1, 3), scale="none")
    >>> lags = NVAR(32, order=1).build(1, per_step=True)
    >>> learn = FederatedYuleWalker(features=lags, preprocessing=prepare)
    >>> run = federate(Plan(algorithm=learn, preprocessing=prepare), clients)
    >>> (run.model.deviation * 4).round(1).tolist()  # noise of 1 and 2.5; the edges add to it
    [1.1, 2.6]
    """

    features: FeatureMap
    preprocessing: Preprocessing
    lookback: PositiveInt | Literal["auto"] = "auto"
    trailing_mean: NonNegativeInt | Literal["auto"] = "auto"
    ridge: Annotated[float, Ge(0)] | Literal["auto"] = "auto"
    store_per_client: bool = True
    increments: Literal["new"] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        prepare, lags = self.preprocessing, self.features
        # Plans are described by tiny stand-ins before their maps are built.
        if isinstance(lags, NVAR) and (lags.order != 1 or lags.stride != 1):
            raise ValueError(
                f"the map has order {lags.order} and stride {lags.stride}; autocovariances are of "
                "plain lags, NVAR(336, order=1)"
            )
        whole = prepare.window is None and prepare.scale not in ("own", "recording")
        if prepare.horizon is None or not whole:
            raise ValueError(
                f"horizon is {prepare.horizon}, window {prepare.window} and scale "
                f"{prepare.scale!r}; autocovariances are of whole series on one scale: pass a "
                'horizon, no window, and scale="federated" or "none"'
            )
        if self.lookback != "auto" and self.lookback > self.longest:
            raise ValueError(
                f"lookback is {self.lookback}, and the map has {self.longest} lags; raise its "
                "delays"
            )

    @property
    def longest(self) -> int:
        """The longest lookback, of which sums are made."""
        return self.features.delays if isinstance(self.features, NVAR) else 1

    @property
    def horizon(self) -> int:
        """The largest step ahead."""
        return max(self.preprocessing.horizons)

    @property
    def ahead(self) -> tuple[bool, ...]:
        """Whether each covariate is known ahead: channels that are, and then the calendar."""
        prepare = self.preprocessing
        return (True,) * len(prepare.known) + (False,) * (COLUMNS * len(prepare.calendar))

    @property
    def n_lags(self) -> int:
        return self.longest + self.horizon

    @cached_property
    def statistics_name(self) -> str:
        """The fingerprint that clients' sums carry."""
        told = f"{self.longest} {self.horizon} {self.ahead} {DIGITS}"
        told += f" {self.preprocessing.predicted} {self.preprocessing.known}"
        return hashlib.sha256(told.encode()).hexdigest()

    @property
    def sent(self) -> str:  # type: ignore[override]  # it depends on the settings
        about = f"{self.longest} for the lookback and {self.horizon} for the horizon"
        return f"{self.n_lags:,} autocovariances and their counts of pairs, {about}"

    @property
    def requirements(self) -> Requirements:
        apart = KEPT_APART if self.store_per_client else ""
        return Requirements(each_client=apart, other_targets=True)

    @property
    def carries(self) -> bool:
        """True: clients see their recordings as they are, with what is missing in them."""
        return True

    def start(self) -> YuleWalkerState:
        return YuleWalkerState()

    def broadcast(self, state: YuleWalkerState, context: RoundContext) -> Message:
        """Return which sum increments are added to, where clients hand in what is new."""
        return NOTHING if self.increments is None else asked_after(state, context)

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> Autocovariances:
        prepare = context.preprocessing or self.preprocessing
        if prepare.horizons != self.preprocessing.horizons or not prepare.is_fitted:
            raise ValueError(
                "autocovariances are of raw recordings, and the plan around them prepares these "
                "otherwise; pass the plan the algorithm's own preprocessing"
            )
        if self.increments is not None:
            new = LagIncrements(self.features, prepare, learn=self)
            return cast(Autocovariances, new.answer(received, data, context))
        return self.whole(data if context.ledger is None else context.ledger.reading(data), prepare)

    def whole(self, data: Data, prepare: Preprocessing) -> Autocovariances:
        """Return the sums of all of a client's raw recordings."""
        own = self.zero()
        for number, raw in enumerate(data()):
            own += self.sums(raw, prepare, number)
        if not own.n_rows:
            raise ValueError("the client has no value of what is predicted; leave it out")
        return own

    def zero(self) -> Autocovariances:
        """Return the sums of a client without a value."""
        known, others = (np.empty((0, self.ahead.count(one))) for one in (True, False))
        told: dict[str, Any] = {"steps": self.preprocessing.horizons, "known": known}
        told |= {"present": others, "fingerprint": self.statistics_name}
        return autocovariances(np.empty((0, 1)), self.n_lags, **told)

    def sums(
        self, raw: Recording, prepare: Preprocessing, number: int = 0, *, first: int = 0
    ) -> Autocovariances:
        """Return the sums of a raw recording, the products of its first steps left out."""
        steady = raw if prepare.rate is None else resample(replace(raw, y=None), prepare.rate)
        steady = steady.part(0, prepare.n_present(steady))
        channels, kinds = steady.channels or steady.n_inputs, prepare.calendar
        if prepare.gaps == "error":
            fill_recording(steady, "error", number)
        u = prepare.scale(steady.u) if isinstance(prepare.scale, Scaler) else steady.u
        return autocovariances(
            u[:, prepare.predicted_of(channels)],
            self.n_lags,
            known=u[:, channel_numbers("known", prepare.known, channels)],
            present=calendar_columns(steady, kinds, number) if kinds else None,
            steps=prepare.horizons,
            first=first,
            fingerprint=self.statistics_name,
        )

    def read_update(self, parts: Message, context: RoundContext) -> Tally[Autocovariances]:
        value = Autocovariances.from_message(parts)
        noisy = not context.client and value.products.dtype == np.float64
        value.check(self.zero(), noisy=noisy, goes_on=self.increments is not None)
        return Tally.of(value, context.client if self.store_per_client else "")

    def server_update(
        self, state: YuleWalkerState, total: Tally[Autocovariances], context: RoundContext
    ) -> YuleWalkerState:
        whole = total.total if state.total is None else state.total + total.total
        after = YuleWalkerState(whole, added_by_key(state.by_client, total.by_client))
        if self.increments is not None:
            asked = {*state.missed, *(context.cohort if self.store_per_client else ())}
            missed = tuple(sorted(asked.difference(total.by_client)))
            after = replace(after, begun=state.begun or context.plan, missed=missed)
        return self.solved(after)

    def solved(self, state: YuleWalkerState) -> YuleWalkerState:
        """Return the state with its settings chosen."""
        total = state.total
        if total is None or not total.weight > 0:
            return state
        whole = self.longest if self.lookback == "auto" else self.lookback
        tried = [
            (L, mean if self.trailing_mean == "auto" else min(self.trailing_mean, L))
            for L, mean in candidates(whole, forgets=total.forgets)
            if self.lookback in ("auto", L)
        ]
        groups: Mapping[Any, Autocovariances] = state.by_client
        if len(groups) > FOLDS:
            one_by_one = ({group_of(name) % FOLDS: groups[name]} for name in sorted(groups))
            groups = reduce(added_by_key, one_by_one)
        choice = choose(
            total,
            [groups[key] for key in sorted(groups)],
            list(dict.fromkeys(tried)),
            RIDGES if self.ridge == "auto" else (float(self.ridge),),
            steps=self.preprocessing.horizons,
            ahead=self.ahead,
            by="clients" if len(groups) == len(state.by_client) else "groups",
        )
        return replace(state, choice=choice)

    def result(self, state: YuleWalkerState) -> YuleWalkerSolution:
        total, choice = state.total, state.choice
        if total is None or choice is None:
            raise FederationError(
                "no client has a value to learn from; run all rounds, with longer recordings"
            )
        return YuleWalkerSolution(self, total, choice)

    def figures(self, state: YuleWalkerState) -> dict[str, float]:
        """Return the values, the settings and their error on clients left out."""
        told = {} if state.total is None else {"rows": float(state.total.n_rows)}
        if state.choice is not None:
            best = state.choice.best
            told |= {"lookback": best.lookback, "trailing mean": best.mean, "ridge": best.ridge}
            told["held-out error"] = float(state.choice.errors.min())
        return told

    def kept(self, state: YuleWalkerState) -> Kept:
        """Return the rows of clients, lookbacks and means that were tried, ridges at the best."""
        rows = {name: one.n_rows for name, one in state.by_client.items()}
        if state.choice is None or state.total is None:
            return Kept(rows)
        made, best, tried = state.choice, state.choice.best, dict[str, float]()
        nrmse = np.sqrt(made.errors / max(float(state.total.moments[0, 0]), 1e-300))
        for L, mean, error in zip(made.lookbacks, made.means, nrmse, strict=True):
            name = NAMED.format(L=int(L), mean=int(mean))
            tried[name] = min(tried.get(name, np.inf), float(error))
        here = (made.lookbacks == best.lookback) & (made.means == best.mean)
        path = RidgeChoice(made.ridges[here], made.errors[here][:, None], best.ridge)
        by = "by generalized cross-validation" if made.by == "gcv" else f"on {made.by} left out"
        chosen = NAMED.format(L=best.lookback, mean=best.mean)
        return Kept(rows, choice=path, maps=tried, chosen=chosen, by=f"{by}, all from one upload")

    def tally(self, state: YuleWalkerState) -> Tally[Autocovariances] | None:
        """Return the sum of all autocovariances, and each client's own where they are kept."""
        return None if state.total is None else Tally(state.total, state.by_client)

    def clip(self, length: float) -> float:
        """Return the bound of a `Clip` for autocovariances of this length, in units of variance.

        A series of variance 1 whose correlation decays as a^k has a length of about
        sqrt(1 / (1 - a^2)).

        >>> from catchment import Preprocessing
        >>> lags = NVAR(8, order=1).build(1, per_step=True)
        >>> FederatedYuleWalker(features=lags, preprocessing=Preprocessing(horizon=1)).clip(2.0)
        33554432.0
        """
        return length * 4.0**DIGITS

    def alone(self, state: YuleWalkerState) -> FederatedYuleWalker:
        """Return the algorithm with the settings that were chosen: alone, nobody is left out."""
        if state.choice is None:
            return self
        best = state.choice.best
        return replace(self, lookback=best.lookback, trailing_mean=best.mean, ridge=best.ridge)


@dataclass(frozen=True, eq=False)
class YuleWalkerSolution:
    """What a sum comes to at the settings that were chosen; with a preparation it is a model."""

    learn: FederatedYuleWalker
    total: Autocovariances
    choice: LagChoice

    @property
    def model(self) -> Model:
        """The model, of recordings prepared as the algorithm says."""
        return self.prepared_by(self.learn.preprocessing)

    def prepared_by(
        self, preprocessing: Preprocessing, channels: Sequence[str] | None = None
    ) -> Model:
        """Return the model: a readout of the lags, the same for every predicted channel."""
        features, best, steps = self.learn.features, self.choice.best, preprocessing.horizons
        solved = Equations(self.total, *best[:2], steps, steps, self.learn.ahead)
        W, V = solved.solve(best.ridge)
        W = solved.weights(W)
        assert isinstance(features, NVAR)
        n = features.known_inputs
        n_channels = n - preprocessing.n_inputs(0)
        predicted = preprocessing.predicted_of(channels or n_channels)
        (L, H), K, known = W.shape, len(predicted), len(preprocessing.known)
        mean, scale = np.zeros(K), np.ones(K)
        if isinstance(preprocessing.scale, Scaler):
            mean, scale = preprocessing.scale.mean[predicted], preprocessing.scale.scale[predicted]
        weights = np.zeros((L, n, H, K))  # of channels, what is known at each step ahead, calendar
        weights[:, predicted, :, np.arange(K)] = W
        around = weights[0, n_channels:]
        for h in range(H):
            around[h * known : (h + 1) * known, h] = V[h, :known, None]
        around[H * known :] = V[:, known:].T[..., None]
        rows = [np.zeros((1, H * K)), (weights * scale).reshape(-1, H * K)]
        lags = replace(features, delays=L, washout=L - 1)
        return Model(
            Pipeline(preprocessing, lags),
            Readout(np.concatenate(rows), np.tile(mean, H), best.ridge),
            channels=None if channels is None else tuple(channels),
            deviation=np.outer(self.choice.deviations, scale).ravel(),
        )


def fit_lags(pipeline: Pipeline, recordings: Sequence[Recording], **settings: Any) -> Model:
    """Return what one owner learns from autocovariances, as a federation of one client does."""
    ready = fitted_pipeline(pipeline, recordings)
    prepare = ready.preprocessing
    learn = FederatedYuleWalker(features=ready.features, preprocessing=prepare, **settings)
    solved = learn.solved(YuleWalkerState(learn.whole(lambda: recordings, prepare)))
    return learn.result(solved).prepared_by(prepare, recordings[0].channels)


@dataclass(frozen=True, eq=False)
class LagIncrements(Increments):
    """What is new of a client's recordings, of which the last values are remembered."""

    learn: Any = None  # a `FederatedYuleWalker`

    def _zero(self, n_targets: int) -> Any:
        return self.learn.zero()

    def _prepared(
        self, segment: Recording, opened: OpenRecording
    ) -> tuple[list[Recording], OpenRecording]:
        read, stop = opened.steps - segment.first_step, segment.first_step + segment.n_steps
        if read >= segment.n_steps:
            return [], opened
        return [segment.part(max(read, 0), segment.n_steps)], replace(opened, steps=stop)

    def _rows(
        self, segment: Recording, pieces: Sequence[Recording], opened: OpenRecording
    ) -> tuple[list[Any], OpenRecording]:
        made = []
        for new in pieces:
            past = opened.waiting.u
            u = np.concatenate([past, new.u])
            raw = Recording(u, channels=new.channels)  # past values are kept without their times
            made.append(self.learn.sums(raw, self.preprocessing, first=len(past)))
            opened = replace(opened, waiting=replace(opened.waiting, u=u[1 - self.learn.n_lags :]))
        return made, opened

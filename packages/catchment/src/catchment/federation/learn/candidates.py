"""Choosing the ridge and the recipe by the error on clients left out of the solution.

With W_-k = (G - G_k + ridge I)^-1 (C - C_k), client k's held-out error is

    SSE_k = q_k - 2 tr(W_-k'C_k) + tr(W_-k'G_k W_-k)

exactly, for every ridge of a path from one eigendecomposition.
`FederatedRidge(ridge="leave-one-client-out")` computes it at the server, which must then keep every
client's statistics. `SelectedRidge` needs only sums: after a first round the total goes out, every
client takes its own part off it and sends its held-out errors, which add. It therefore works under
secure aggregation, and can count classes, which no statistics tell. `Candidates` sends the
statistics of several feature maps at once.

Several feature maps tried at once: each client sends the statistics of every candidate.

The error on left-out clients, along each candidate's own path of ridges, decides: one round, no
validation set. With halvings the candidates race (Jamieson and Talwalkar, AISTATS 2016): first on a
small share of every client's data, then the better half on twice that share, and so on. Statistics
add, so a round sends only what is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from catchment.arrays import Array, NonNegativeFloat, NonNegativeInt
from catchment.errors import FederationError, FingerprintError, IntegrityError, UploadError
from catchment.features.recipes import FeatureMap, label_of
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
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import (
    RidgeState,
    has_a_class_alone,
    learned,
    readout_figures,
)
from catchment.federation.rows import Rows, segment
from catchment.readout.accumulation import accumulate
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import (
    RidgeChoice,
    best_ridge,
    ridge_grid,
)
from catchment.readout.solve import path_errors, rescaled, scale_of, solve_path, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics, StatisticsSet
from catchment.wire import (
    COUNTED,
    GATHERED,
    NOT_NEGATIVE,
    NOTHING,
    WEIGHT,
    Kind,
    Message,
    Shape,
    Summable,
    join,
    split,
)


@dataclass(frozen=True, eq=False)
class PathErrors(Summable):
    """Held-out errors along a path of ridges, summed over rows and clients.

    >>> a = PathErrors(2, 2.0, np.array([[1.0]]), np.array([2.0]))
    >>> (a + a).mean_squared(), (a + a).accuracy()
    (array([[0.5]]), array([1.]))
    """

    KIND: ClassVar[Kind] = Kind(
        "path-errors",
        "sums of the errors of readouts that were solved without the client, for each ridge",
        ("how unlike the others this client is, and how many rows it has",),
    )

    n_rows: Annotated[int, COUNTED]
    weight: Annotated[float, WEIGHT]
    squared: Annotated[Array, Shape("ridges", "targets"), NOT_NEGATIVE]
    # Rows whose class was found; zeros if outputs are numbers.
    correct: Annotated[Array, Shape("ridges"), NOT_NEGATIVE]

    def mean_squared(self) -> Array:
        """Return the mean squared error (R, K) at each ridge."""
        return self.squared / self.weight

    def accuracy(self) -> Array:
        """Return the share (R,) of rows whose class was found at each ridge."""
        return self.correct / self.n_rows

    def checked(self) -> PathErrors:
        """Return self; UploadError if no data can have such errors."""
        if (self.correct > self.n_rows).any():
            raise UploadError(
                "count", f"{self.correct.max():g} of {self.n_rows} rows cannot be right"
            )
        return self


@dataclass(frozen=True, eq=False)
class Evidence(Summable):
    """What a round of `SelectedRidge` sums: statistics in the first, path errors after it."""

    statistics: RidgeStatistics | None = None
    errors: PathErrors | None = None
    by_client: Annotated[Mapping[str, PathErrors | None], GATHERED] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Selection:
    """The sum of statistics, who is in it as far as known, and what was chosen."""

    total: RidgeStatistics | None = None
    clients: tuple[str, ...] = ()
    errors: PathErrors | None = None
    by_client: Mapping[str, PathErrors] = field(default_factory=dict)
    choice: RidgeChoice | None = None
    readout: Readout | None = None


@dataclass(frozen=True, kw_only=True)
class SelectedRidge(Algorithm[Selection, Evidence, Model]):
    """Exact ridge regression with the ridge chosen on left-out clients, from sums alone.

    Two rounds, with all clients in both: `Plan(algorithm=..., rounds=2)`. In the first clients
    send statistics; in the second they are sent the total and give their held-out errors. So every
    client sees the summed statistics. The server sees each client's errors unless a protection
    hides them; if it does see them, those of a client that is not in the sum are left out.

    Parameters
    ----------
    features
        Map from inputs to feature rows, the same on every client.
    by
        "error": the least squared error; "accuracy": most rows classified rightly, and among equals
        the least squared error.
    ridges
        To try; `ridge_grid` of the total if not given.
    per_output
        Whether each output chooses its own ridge, by error.
    standardize
        Whether the ridge acts on features divided by their standard deviation over all clients,
        which the total tells; "auto" is what the map says.
    """

    features: FeatureMap
    by: Literal["error", "accuracy"] = "error"
    ridges: tuple[float, ...] | None = None
    per_output: bool = False
    standardize: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by == "accuracy" and (self.classes is None or self.per_output):
            raise ValueError("choosing by accuracy needs classes, and one ridge for all outputs")

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            data_choice="the ridge cannot be chosen on left-out clients under noise; use "
            "FederatedRidge with a number such as 0: what the noise needs is added to it",
            rounds=2,
        )

    def start(self) -> Selection:
        return Selection()

    def broadcast(self, state: Selection, context: RoundContext) -> Message:
        if state.total is None:
            return NOTHING
        tried = self._tried(state.total)
        return join(
            "path", {"total": state.total.parts(), "ridges": Message("ridges", {}, (tried,))}
        )

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics | PathErrors:
        mine = accumulate(self.features, data(), threads=1, classes=self.classes is not None)
        if received.kind == NOTHING.kind:
            return mine
        named = split(received, "path")
        if named.keys() != {"total", "ridges"}:
            raise IntegrityError("the server sent no total, or no ridges")
        total = RidgeStatistics.from_message(named["total"])
        (ridges,) = named["ridges"].expect("ridges", 1).arrays
        if ridges.ndim != 1:
            raise IntegrityError(f"the ridges came with shape {ridges.shape}")
        readouts = solve_path(_rest(total, mine), ridges, scale=self._scale(total))
        correct = np.zeros(len(ridges))
        if self.classes is not None:
            z, y = Rows.of(self.features, data()).pair
            labels = y.argmax(axis=1)
            correct = np.array([(r(z).argmax(axis=1) == labels).sum() for r in readouts], float)
        return PathErrors(mine.n_rows, mine.weight, path_errors(mine, readouts), correct)

    def read_update(self, parts: Message, context: RoundContext) -> Evidence:
        if context.round > 0:
            errors = PathErrors.from_message(parts).checked()
            return Evidence(None, errors, {context.client: errors} if context.client else {})
        ridge = FederatedRidge(features=self.features, classes=self.classes)
        statistics = ridge.read_update(parts, context).total
        return Evidence(statistics, None, {context.client: None} if context.client else {})

    def server_update(self, state: Selection, total: Evidence, context: RoundContext) -> Selection:
        if total.statistics is not None:
            return Selection(total.statistics, tuple(sorted(total.by_client)))
        given = {name: e for name, e in sorted(total.by_client.items()) if e is not None}
        if state.total is None or total.errors is None:
            raise FederationError("errors came before there was a total; start with a first round")
        counted = {name: e for name, e in given.items() if name in state.clients}
        if state.clients and not counted:
            raise FederationError("no client in the sum gave errors; run both rounds with all")
        summed = reduce(add, counted.values()) if state.clients else total.errors
        return self._solved(replace(state, errors=summed, by_client=counted))

    def _solved(self, state: Selection) -> Selection:
        if state.total is None or state.errors is None:
            return state
        choice = chosen(
            self._tried(state.total), state.errors, by=self.by, per_output=self.per_output
        )
        scale = self._scale(state.total)
        readout = solve_readout(state.total, choice.best, scale=scale)
        return replace(state, choice=choice, readout=readout)

    def _scale(self, total: RidgeStatistics) -> Array | None:
        auto = self.standardize == "auto"
        return scale_of(total, self.features.standardize if auto else bool(self.standardize))

    def _tried(self, total: RidgeStatistics) -> Array:
        if self.ridges is not None:
            return np.asarray(self.ridges, float)
        return ridge_grid(rescaled(total, self._scale(total)))

    def result(self, state: Selection) -> Model:
        readout = learned(state.readout)
        if state.total is None:
            return Model(self.features, readout, self.classes)
        return solved_model(self.features, state.total, readout, state.choice, classes=self.classes)

    def figures(self, state: Selection) -> dict[str, float]:
        return readout_figures(state.readout, state.choice)

    def kept(self, state: Selection) -> Kept:
        return Kept(choice=state.choice)


def chosen(
    ridges: Array,
    errors: PathErrors,
    *,
    by: Literal["error", "accuracy"] = "error",
    per_output: bool = False,
) -> RidgeChoice:
    """Return the best of the ridges (R,) by their held-out errors.

    >>> e = PathErrors(9, 9.0, np.array([[3.0], [2.0], [1.0]]), np.array([8.0, 8.0, 7.0]))
    >>> tried = np.array([0.1, 1.0, 10.0])
    >>> chosen(tried, e).best, chosen(tried, e, by="accuracy").best
    (10.0, 1.0)
    """
    mean = errors.mean_squared()
    score = mean
    if by == "accuracy" and not per_output:
        best = errors.correct == errors.correct.max()
        score = np.where(best[:, None], mean, np.inf)
    return RidgeChoice(ridges, mean, best_ridge(ridges, score, per_output))


def _rest(total: RidgeStatistics, mine: RidgeStatistics) -> RidgeStatistics:
    """Return the total without a client's own part; UploadError if that cannot be in it."""
    try:
        rest = total - mine
        if rest.n_rows:
            check_statistics(rest, fingerprint=mine.fingerprint)
            return rest
    except FingerprintError:
        raise
    except (ValueError, UploadError) as error:
        raise UploadError(
            "not-summed", "this client's statistics are not in the total that was sent"
        ) from error
    raise UploadError("alone", "no other client is in the sum; there is nothing to leave out")


@dataclass(frozen=True, eq=False)
class Race:
    """Which candidates are left, the sums of their statistics, and what all of them scored.

    `scores` is NRMSE on left-out clients, (rounds, candidates), NaN once a candidate is out.
    """

    alive: tuple[int, ...]
    scores: Array
    total: StatisticsSet | None = None
    by_client: Mapping[str, StatisticsSet] = field(default_factory=dict)
    best: int | None = None
    choice: RidgeChoice | None = None
    readout: Readout | None = None


@dataclass(frozen=True, kw_only=True)
class Candidates(Algorithm[Race, Tally[StatisticsSet], Model]):
    """The best of several feature maps, and its readout, by the error on left-out clients.

    The server sees and keeps every client's statistics of every candidate that is still in. Where
    one client alone has a class, which nobody can learn who has to do without that client, the
    score is that of generalized cross-validation. A ridge acts on features divided by their spread
    where the map asks for it.

    Parameters
    ----------
    features
        The candidates.
    halvings
        How often the worse half is dropped before all data are used: the first round has a share
        of 2^-halvings of every client's data, and `requirements.rounds` says how many the plan has.
    per_output
        Whether each output chooses its own ridge.
    classes
        Names of the outputs if they are classes.
    margin
        By how many standard errors over clients another candidate must be better than the first,
        which stays otherwise; with 0 the least error decides.

    >>> from catchment import Reservoir
    >>> from catchment.features import EchoState
    >>> recipes = [Reservoir(units=20, inputs=1, leak_rate=a) for a in (0.1, 0.3, 0.5, 1.0)]
    >>> maps = tuple(EchoState.of(r, washout=10) for r in recipes)
    >>> Candidates(features=maps, halvings=2).requirements.rounds
    3
    """

    features: tuple[FeatureMap, ...]
    halvings: NonNegativeInt = 0
    per_output: bool = False
    classes: tuple[str, ...] | None = None
    margin: NonNegativeFloat = field(default=0.0, metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.features:
            raise ValueError("there are no candidates; pass at least one feature map")
        if len({f.fingerprint for f in self.features}) < len(self.features):
            raise ValueError("two candidates are the same feature map; pass each once")
        if 2**self.halvings > len(self.features):
            raise ValueError(
                f"halvings is {self.halvings} for {len(self.features)} candidates; "
                "pass no more than leave one candidate"
            )

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            each_client="candidates are judged by clients left out; choose one of them, and use "
            "FederatedRidge",
            data_choice="the best candidate cannot be found under noise; choose one of them",
            rounds=self.halvings + 1,
        )

    def start(self) -> Race:
        return Race(tuple(range(len(self.features))), np.empty((0, len(self.features))))

    def broadcast(self, state: Race, context: RoundContext) -> Message:
        return Message("alive", {}, (np.array(state.alive, dtype=np.int64),))

    def client_update(self, received: Message, data: Data, context: RoundContext) -> StatisticsSet:
        (alive,) = received.expect("alive", 1).arrays
        numbers = sorted({int(k) for k in alive.reshape(-1)})
        if not numbers or not 0 <= numbers[0] <= numbers[-1] < len(self.features):
            raise IntegrityError(
                f"the server asks for candidates {numbers[:8]}; some are not there"
            )
        return StatisticsSet({k: self._statistics(k, data, context.round) for k in numbers})

    def _statistics(self, number: int, data: Data, round_: int) -> RidgeStatistics:
        features = self.features[number]
        begin, end = self.share(round_)
        classes = self.classes is not None
        held = data()
        if self.halvings:
            held = segment(held, begin, end, washout=features.washout)
        return accumulate(features, held, threads=1, classes=classes)

    def share(self, round_: int) -> tuple[float, float]:
        """Return the fractions of a client's data between which a round's share lies."""
        if round_ > self.halvings:
            raise ValueError(
                f"round {round_ + 1} has no new data; plan {self.requirements.rounds} rounds"
            )
        end = 2.0 ** (round_ - self.halvings)
        return (0.0 if round_ == 0 else end / 2), end

    def read_update(self, parts: Message, context: RoundContext) -> Tally[StatisticsSet]:
        update = StatisticsSet.from_message(parts)
        for k, statistics in update.members.items():
            if k >= len(self.features):
                raise UploadError("candidates", f"there is no candidate {k}")
            self._ridge(k).check(statistics, context)
        return Tally.of(update, context.client)

    def server_update(
        self, state: Race, total: Tally[StatisticsSet], context: RoundContext
    ) -> Race:
        before = {name: old.only(state.alive) for name, old in state.by_client.items()}
        by_client = added_by_key(before, total.by_client)
        summed = state.total.only(state.alive) + total.total if state.total else total.total
        return self._judged(replace(state, total=summed, by_client=by_client))

    def _judged(self, state: Race) -> Race:
        """Return the state with every candidate scored, and the worse half out if more is due."""
        if state.total is None:
            return state
        if len(state.by_client) < 2:
            raise FederationError(
                f"leaving clients out needs 2 or more, {len(state.by_client)} gave statistics "
                "that are kept apart"
            )
        row, found = np.full(len(self.features), np.nan), {}
        for k in state.alive:
            own = {name: sent.members[k] for name, sent in state.by_client.items()}
            alone = self.classes is not None and has_a_class_alone(own)
            sums = RidgeState(state.total.members[k], own)
            found[k] = self._ridge(k, "gcv" if alone else "leave-one-client-out").solved(sums)
            choice: Any = found[k].choice
            row[k] = nrmse_of(choice, state.total.members[k])
        order = sorted(state.alive, key=lambda k: (row[k], k))
        best, more = order[0], len(state.scores) < self.halvings
        if self.margin and 0 in found and best != 0:
            squares = [squares_of(found[k].choice, state.total.members[k]) for k in (0, best)]
            best = best if clearly_less(squares[1], squares[0], self.margin) else 0
        alive = sorted(order[: (len(order) + 1) // 2]) if more else state.alive
        return replace(
            state,
            alive=tuple(alive),
            scores=np.vstack([state.scores, row]),
            best=best,
            choice=found[best].choice,
            readout=found[best].readout,
        )

    def _ridge(self, number: int, ridge: Any = "gcv") -> FederatedRidge:
        """Return ridge regression with one of the maps."""
        return FederatedRidge(
            features=self.features[number],
            ridge=ridge,
            per_output=self.per_output,
            classes=self.classes,
        )

    def result(self, state: Race) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        assert state.best is not None
        features, total = self.features[state.best], state.total.members[state.best]
        return solved_model(features, total, readout, state.choice, classes=self.classes)

    def figures(self, state: Race) -> dict[str, float]:
        """Return how many candidates are left, and what the best of them scores."""
        if state.best is None:
            return {}
        named = {
            "candidates": float(len(state.alive)),
            "NRMSE": float(state.scores[-1, state.best]),
        }
        return named | readout_figures(state.readout, state.choice)

    def kept(self, state: Race) -> Kept:
        rows = {name: next(iter(s.members.values())).n_rows for name, s in state.by_client.items()}
        names, best, scores = self.names(), state.best, {}
        for name, row in zip(names, state.scores.T, strict=True):
            known = row[~np.isnan(row)]  # it has none once it is out
            scores[name] = float(known[-1]) if len(known) else float("inf")
        chosen = "" if best is None else names[best]
        return Kept(rows, choice=state.choice, maps=scores, chosen=chosen)

    def alone(self, state: Race) -> FederatedRidge:
        """Return ridge regression with the map and the ridge that were chosen, for one client."""
        if state.best is None or state.choice is None:
            return FederatedRidge(features=self.features[0], ridge="gcv", classes=self.classes)
        ridge: Any = state.choice.best
        return FederatedRidge(features=self.features[state.best], ridge=ridge, classes=self.classes)

    def names(self) -> list[str]:
        """Return what the candidates are called, each in a way of its own."""
        labels = [label_of(one) for one in self.features]
        if len(set(labels)) == len(labels):
            return labels
        return [f"{k}: {label}" for k, label in enumerate(labels, start=1)]


def squares_of(choice: Any, total: RidgeStatistics) -> Array | None:
    """Return each block's squared errors (B,) at the chosen ridge, in variances of the outputs."""
    if choice.block_errors is None:
        return None
    K = choice.errors.shape[1]
    at = np.argmin(np.abs(choice.ridges[:, None] - np.broadcast_to(choice.best, (K,))), axis=0)
    variance = total.target_moments() / total.weight
    varied = variance > 0
    found: Array = choice.block_errors[:, at, np.arange(K)][:, varied] / variance[varied]
    return np.asarray(found.sum(axis=1))


def clearly_less(squares: Array | None, others: Array | None, margin: float) -> bool:
    """Return whether blocks' squared errors (B,) are less by more than so many standard errors.

    >>> clearly_less(np.array([1.0, 1.1]), np.array([2.0, 2.2]), 1.0)
    True
    >>> clearly_less(np.array([1.0, 3.0]), np.array([3.0, 1.1]), 1.0)
    False
    """
    if squares is None or others is None:
        return True
    gain = others - squares
    return bool(gain.mean() > margin * gain.std(ddof=1) / np.sqrt(len(gain)))


def nrmse_of(choice: RidgeChoice, total: RidgeStatistics) -> float:
    """Return the NRMSE on left-out blocks at the chosen ridge, averaged over the outputs.

    >>> from catchment.readout import choose_by_blocks
    >>> z = np.arange(6.0)[:, None]
    >>> blocks = [RidgeStatistics.from_states(z[k::2], z[k::2]) for k in range(2)]
    >>> round(nrmse_of(choose_by_blocks(blocks, [1.0]), blocks[0] + blocks[1]), 3)
    0.125
    """
    at = np.argmin(np.abs(choice.ridges[:, None] - np.atleast_1d(choice.best)), axis=0)
    K = choice.errors.shape[1]
    mean = choice.errors[np.broadcast_to(at, (K,)), np.arange(K)]
    variance = total.target_moments() / total.weight
    varied = variance > 0
    if not varied.any():
        return float("inf")
    return float(np.mean(np.sqrt(mean[varied] / variance[varied])))

"""Choosing the feature map and the ridge by the error on clients left out of the solution.

With W_-k = (G - G_k + ridge I)^-1 (C - C_k), client k's held-out error is

    SSE_k = q_k - 2 tr(W_-k'C_k) + tr(W_-k'G_k W_-k)

exactly, for every ridge of a path from one eigendecomposition. A server that has every client's
statistics computes it by itself, for every map of which clients send them. In one round more the
clients can do it: the totals go out, every client takes its own part off them and sends its
held-out errors, which add. That needs only sums, and therefore works under secure aggregation, and
it can count classes, which no statistics tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from catchment.arrays import Array, NonNegativeFloat
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
from catchment.federation.learn.sums import RidgeState, has_a_class_alone, learned, readout_figures
from catchment.federation.rows import Rows
from catchment.readout.accumulation import accumulate
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import RidgeChoice, best_ridge, ridge_grid
from catchment.readout.solve import path_errors, rescaled, scale_of, solve_path, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics, StatisticsSet
from catchment.wire import (
    COUNTED,
    LATER,
    NOT_NEGATIVE,
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
class Race:
    """The sums of every candidate's statistics, and what all of them scored.

    `alive` are the candidates, and `scores` their NRMSE on left-out clients (1, candidates); states
    of 0.3 may have more rows, with NaN for who is out. `clients` are those in the sums, as far as
    the server knows. `choices` are the ridges that the server chose before clients judge the maps;
    `errors` is what the clients found, and `judged` what each of them did, where the server sees
    them one by one.
    """

    alive: tuple[int, ...]
    scores: Array
    total: StatisticsSet | None = None
    by_client: Mapping[str, StatisticsSet] = field(default_factory=dict)
    best: int | None = None
    choice: RidgeChoice | None = None
    readout: Readout | None = None
    clients: Annotated[tuple[str, ...], LATER] = ()
    choices: Annotated[Mapping[int, RidgeChoice], LATER] = field(default_factory=dict)
    errors: Annotated[PathErrors | None, LATER] = None
    judged: Annotated[Mapping[str, PathErrors], LATER] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Candidates(Algorithm[Race, Tally[Any], Model]):
    """The best of several feature maps, or one map, with its ridge, chosen on left-out clients.

    Parameters
    ----------
    features
        The candidates, the same on every client; put what costs less before what costs more, and
        first what is to stay unless another is clearly better.
    classes
        Names of the outputs if they are classes.
    margin
        Of the candidates that the best is not better than by this many standard errors over
        clients, the one that stands first is taken; with 0 the best.
    by
        How maps are compared: "error", the least squared error, or "accuracy", most rows classified
        right, for which clients judge in one round more. The ridge of a map is always the one with
        the least squared error.
    store_per_client
        Whether the server keeps every client's statistics of every candidate that is still in, and
        computes the errors of clients left out. If not, sums are enough, and the clients judge in
        one round more. Where clients judge, every client sees the summed statistics, and the server
        sees each client's errors unless a protection hides them.
    standardize
        Whether the ridge acts on features divided by their standard deviation over all clients,
        which the total tells; "auto" is what the map says.

    >>> from catchment import Reservoir
    >>> from catchment.features import EchoState
    >>> recipes = [Reservoir(units=20, inputs=1, leak_rate=a) for a in (0.1, 0.3, 0.5, 1.0)]
    >>> maps = tuple(EchoState.of(r, washout=10) for r in recipes)
    >>> Candidates(features=maps).requirements.rounds
    1
    >>> Candidates(features=maps[:1], store_per_client=False).requirements.rounds
    2
    """

    features: tuple[FeatureMap, ...]
    classes: tuple[str, ...] | None = None
    margin: NonNegativeFloat = field(default=0.0, metadata={"later": True})
    by: Literal["error", "accuracy"] = field(default="error", metadata={"later": True})
    store_per_client: bool = field(default=True, metadata={"later": True})
    standardize: bool | Literal["auto"] = field(default="auto", metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.features:
            raise ValueError("there are no candidates; pass at least one feature map")
        if len({f.fingerprint for f in self.features}) < len(self.features):
            raise ValueError("two candidates are the same feature map; pass each once")
        if self.by == "accuracy" and self.classes is None:
            raise ValueError("choosing by accuracy needs classes; name them, or choose by error")

    @property
    def requirements(self) -> Requirements:
        apart = "candidates are judged by clients left out; choose one of them, and use "
        return Requirements(
            each_client=apart + "FederatedRidge" if self.store_per_client else "",
            data_choice="neither a map nor its ridge can be chosen on left-out clients under "
            "noise; choose one map, and use FederatedRidge with a number such as 0: what the "
            "noise needs is added to it",
            rounds=1 + self.clients_judge,
        )

    @property
    def clients_judge(self) -> bool:
        """Whether there is a last round in which clients say what they found."""
        return self.by == "accuracy" or not self.store_per_client

    def _judging(self, context: RoundContext) -> bool:
        return self.clients_judge and context.round > 0

    def start(self) -> Race:
        return Race(tuple(range(len(self.features))), np.empty((0, len(self.features))))

    def broadcast(self, state: Race, context: RoundContext) -> Message:
        if not self._judging(context):
            return Message("alive", {}, (np.array(state.alive, dtype=np.int64),))
        if state.total is None:
            raise FederationError("there is no total to judge by; start with a first round")
        ridges = tuple(self._paths(state).values())
        totals = state.total.only(state.alive)
        return join("path", {"totals": totals.parts(), "ridges": Message("ridges", {}, ridges)})

    def _paths(self, state: Race) -> dict[int, Array]:
        """Return the ridges (R,) of every candidate that clients judge."""
        assert state.total is not None
        found = {}
        for k in state.alive:
            total = state.total.members[k]
            if k in state.choices:
                found[k] = np.array([state.choices[k].best])
            else:
                found[k] = ridge_grid(rescaled(total, self._scale(k, total)))
        return found

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> StatisticsSet | PathErrors:
        if self._judging(context):
            return self._errors(split(received, "path"), data)
        (alive,) = received.expect("alive", 1).arrays
        numbers = self._known(alive.reshape(-1))
        if context.round > 0:
            raise ValueError(f"round {context.round + 1} has no new data; plan 1 round")
        return StatisticsSet({k: self._statistics(k, data) for k in numbers})

    def _known(self, asked: Iterable[Any]) -> list[int]:
        numbers = sorted({int(k) for k in asked})
        if not numbers or not 0 <= numbers[0] <= numbers[-1] < len(self.features):
            raise IntegrityError(
                f"the server asks for candidates {numbers[:8]}; some are not there"
            )
        return numbers

    def _statistics(self, number: int, data: Data) -> RidgeStatistics:
        classes = self.classes is not None
        return accumulate(self.features[number], data(), threads=1, classes=classes)

    def _errors(self, named: Mapping[str, Message], data: Data) -> PathErrors:
        """Return a client's errors by readouts of the others, of all candidates' ridges."""
        if named.keys() != {"totals", "ridges"}:
            raise IntegrityError("the server sent no totals, or no ridges")
        totals = StatisticsSet.from_message(named["totals"]).members
        numbers = self._known(totals)
        paths = named["ridges"].expect("ridges", len(numbers)).arrays
        if any(path.ndim != 1 for path in paths):
            raise IntegrityError(f"the ridges came with shapes {[path.shape for path in paths]}")
        squared, correct = [], []
        for k, ridges in zip(numbers, paths, strict=True):
            mine = self._statistics(k, data)
            readouts = solve_path(_rest(totals[k], mine), ridges, scale=self._scale(k, totals[k]))
            squared.append(path_errors(mine, readouts))
            correct.append(np.zeros(len(ridges)))
            if self.classes is not None:
                z, y = Rows.of(self.features[k], data()).pair
                labels = y.argmax(axis=1)
                right = [(one(z).argmax(axis=1) == labels).sum() for one in readouts]
                correct[-1] = np.array(right, float)
        return PathErrors(mine.n_rows, mine.weight, np.vstack(squared), np.concatenate(correct))

    def _scale(self, number: int, total: RidgeStatistics) -> Array | None:
        auto = self.standardize == "auto"
        asked = self.features[number].standardize if auto else bool(self.standardize)
        return scale_of(total, asked)

    def read_update(self, parts: Message, context: RoundContext) -> Tally[Any]:
        if self._judging(context):
            return Tally.of(PathErrors.from_message(parts).checked(), context.client)
        update = StatisticsSet.from_message(parts)
        for k, statistics in update.members.items():
            if k >= len(self.features):
                raise UploadError("candidates", f"there is no candidate {k}")
            self._ridge(k).check(statistics, context)
        if self.store_per_client or not context.client:
            return Tally.of(update, context.client)
        return Tally(update, {context.client: None})

    def server_update(self, state: Race, total: Tally[Any], context: RoundContext) -> Race:
        new, by_client = total.total, total.by_client
        if isinstance(new, PathErrors):
            known = {k: v for k, v in by_client.items() if k in state.clients}
            if state.clients and not known:
                raise FederationError("no client in the sum gave errors; run both rounds with all")
            errors = reduce(add, known.values()) if state.clients else new
            state = replace(state, errors=errors, judged=known)
            if state.total is None:
                raise FederationError(
                    "errors came before there was a total; start with a first round"
                )
            # The map and the ridge are chosen by what the clients found.
            choices, wrong, begin = dict(state.choices), {}, 0
            blocks = [known[name] for name in sorted(known)]
            for k, path in self._paths(state).items():
                here = slice(begin, begin := begin + len(path))
                if k not in choices:
                    choice = chosen(path, errors.mean_squared()[here])
                    own = np.array([one.squared[here] for one in blocks]) if blocks else None
                    choices[k] = replace(choice, block_errors=own)
                at = begin - len(path) + int(np.argmin(np.abs(path - choices[k].best)))
                wrong[k] = np.array([e.n_rows - e.correct[at] for e in blocks or [errors]])
            return self._solved(state, choices, wrong if self.by == "accuracy" else None)
        summed = state.total + new if state.total else new
        kept = added_by_key(state.by_client, by_client) if self.store_per_client else {}
        clients = tuple(sorted({*state.clients, *by_client}))
        return self._judged(replace(state, total=summed, by_client=kept, clients=clients))

    def _judged(self, state: Race) -> Race:
        """Return the state with every candidate scored."""
        if state.total is None or not self.store_per_client:
            return state
        if len(state.by_client) < 2:
            raise FederationError(
                f"leaving clients out needs 2 or more, {len(state.by_client)} gave statistics "
                "that are kept apart"
            )
        choices: dict[int, Any] = {}
        for k in state.alive:
            own = {name: sent.members[k] for name, sent in state.by_client.items()}
            alone = self.classes is not None and has_a_class_alone(own)
            sums = RidgeState(state.total.members[k], own)
            choices[k] = (
                self._ridge(k, "gcv" if alone else "leave-one-client-out").solved(sums).choice
            )
        if self.clients_judge:
            return replace(state, choices=choices)
        return self._solved(state, choices)

    def _solved(
        self,
        state: Race,
        choices: Mapping[int, RidgeChoice],
        wrong: Mapping[int, Array] | None = None,
    ) -> Race:
        """Return the state with the best candidate's readout, by rows in error or their squares."""
        assert state.total is not None
        totals, row = state.total.members, np.full(len(self.features), np.nan)
        for k, choice in choices.items():
            row[k] = nrmse_of(choice, totals[k])
        lost: Mapping[int, Array | None] = wrong or {
            k: squares_of(choice, totals[k]) for k, choice in choices.items()
        }
        best = min(choices, key=lambda k: (wrong[k].sum() if wrong else 0.0, row[k], k))
        if self.margin:
            best = next(
                k
                for k in sorted(choices)
                if k == best or not clearly_less(lost[best], lost[k], self.margin)
            )
        scale, ridge = self._scale(best, totals[best]), choices[best].best
        return replace(
            state,
            scores=np.vstack([state.scores, row]),
            best=best,
            choice=choices[best],
            readout=solve_readout(totals[best], ridge, scale=scale),
            choices={},
        )

    def _ridge(self, number: int, ridge: Any = "gcv") -> FederatedRidge:
        """Return ridge regression with one of the maps."""
        return FederatedRidge(
            features=self.features[number],
            ridge=ridge,
            standardize=self.standardize,
            classes=self.classes,
        )

    def result(self, state: Race) -> Model:
        readout = learned(state.readout)
        assert state.total is not None
        assert state.best is not None
        features, total = self.features[state.best], state.total.members[state.best]
        return solved_model(features, total, readout, state.choice, classes=self.classes)

    def figures(self, state: Race) -> dict[str, float]:
        """Return how many candidates there are, and what the best of them scores."""
        if state.best is None:
            return {}
        named = {"candidates": float(len(state.alive))} if self.features[1:] else {}
        named["NRMSE"] = float(state.scores[-1, state.best])
        if self.by == "accuracy" and state.errors is not None:
            named["accuracy"] = float(state.errors.accuracy()[state.alive.index(state.best)])
        return named | readout_figures(state.readout, state.choice)

    def kept(self, state: Race) -> Kept:
        rows = {name: next(iter(s.members.values())).n_rows for name, s in state.by_client.items()}
        if not self.features[1:] or state.best is None:
            return Kept(rows, choice=state.choice)
        names = self.names()
        scores, chosen = dict(zip(names, state.scores[-1].tolist(), strict=True)), names[state.best]
        how = f"on clients left out, who sent the statistics of all {len(names)}"
        by = f"{how} and whose accuracy decided" if self.by == "accuracy" else how
        return Kept(rows, choice=state.choice, maps=scores, chosen=chosen, by=by)

    def alone(self, state: Race) -> FederatedRidge:
        """Return ridge regression with the map and the ridge that were chosen, for one client."""
        if state.best is None or state.choice is None:
            return self._ridge(0)
        return self._ridge(state.best, state.choice.best)

    def names(self) -> list[str]:
        """Return what the candidates are called, each in a way of its own."""
        labels = [label_of(one) for one in self.features]
        if len(set(labels)) == len(labels):
            return labels
        return [f"{k}: {label}" for k, label in enumerate(labels, start=1)]


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


def chosen(ridges: Array, errors: Array) -> RidgeChoice:
    """Return the best of the ridges (R,) by their held-out mean squared errors (R, K).

    >>> chosen(np.array([0.1, 1.0, 10.0]), np.array([[3.0], [2.0], [1.0]])).best
    10.0
    """
    return RidgeChoice(ridges, errors, best_ridge(ridges, errors))


def squares_of(choice: RidgeChoice, total: RidgeStatistics) -> Array | None:
    """Return each block's squared errors (B,) at the chosen ridge, in variances of the outputs."""
    if choice.block_errors is None:
        return None
    lost = choice.block_errors[:, np.argmin(np.abs(choice.ridges - choice.best))]
    variance = total.target_moments() / total.weight
    varied = variance > 0
    return np.asarray((lost[:, varied] / variance[varied]).sum(axis=1))


def clearly_less(losses: Array | None, others: Array | None, margin: float) -> bool:
    """Return whether blocks' losses (B,) are less by more than so many standard errors.

    >>> clearly_less(np.array([1.0, 1.1]), np.array([2.0, 2.2]), 1.0)
    True
    >>> clearly_less(np.array([1.0, 3.0]), np.array([3.0, 1.1]), 1.0)
    False
    """
    if losses is None or others is None or len(losses) < 2:
        return True
    gain = others - losses
    return bool(gain.mean() > margin * gain.std(ddof=1) / np.sqrt(len(gain)))


def nrmse_of(choice: RidgeChoice, total: RidgeStatistics) -> float:
    """Return the NRMSE on left-out blocks at the chosen ridge, averaged over the outputs.

    >>> from catchment.readout import choose_by_blocks
    >>> z = np.arange(6.0)[:, None]
    >>> blocks = [RidgeStatistics.from_states(z[k::2], z[k::2]) for k in range(2)]
    >>> round(nrmse_of(choose_by_blocks(blocks, [1.0]), blocks[0] + blocks[1]), 3)
    0.125
    """
    mean = choice.errors[np.argmin(np.abs(choice.ridges - choice.best))]
    variance = total.target_moments() / total.weight
    varied = variance > 0
    if not varied.any():
        return float("inf")
    return float(np.mean(np.sqrt(mean[varied] / variance[varied])))

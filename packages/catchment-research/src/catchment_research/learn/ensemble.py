"""Clients with reservoirs of their own: an ensemble of what each has learned alone.

A client trains a readout on its own reservoir and sends the recipe (a few hundred bytes) and the
readout; the server rebuilds every member. The prediction is the members' weighted mean: equal
weights, weights by the rows each member was trained on, or weights learned by stacking (Wolpert
1992; Breiman 1996) on predictions for data a member has not seen.

A weighted mean of linear readouts is one linear readout on all reservoirs side by side, so an
ensemble is an ordinary `Model`: it is evaluated, saved and explained like any other. For the same
reason the server can ask every client for joint statistics of all reservoirs: that is
`FederatedRidge` on `joint_features`.

The server sees each client's readout, which tells about that client's data.

To learn the weights on data each member has not seen, every client runs all members on its rows and
sends the Gram matrix (M, M) of their predictions, with their products with the targets; its own
member answers by cross-validation, so that no member is judged on rows it was trained on. From the
sum the server has E, the products of the members' errors, and takes the weights on the simplex with
the least w'Ew (Breiman 1996 shows why weights must not be negative).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from annotated_types import Ge

from catchment import Array, Integers
from catchment.data import RAW, Preprocessing
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.features import EchoState, Pipeline, Reservoir, name_of
from catchment.federation import Algorithm, Data, Requirements, RoundContext, Rows, check_statistics
from catchment.federation.learn import ALL, certified, kept_and_removed
from catchment.federation.runs import Described, WithoutClient
from catchment.readout import Model, Readout, RidgeStatistics, choose_by_blocks, unpack
from catchment.wire import (
    COUNTED,
    GATHERED,
    NOTHING,
    Kind,
    Message,
    Structure,
    Summable,
    join,
    split,
)
from catchment_research.learn.alignment import (
    aligned_reservoir,
    side_by_side,
    state_places,
    with_own_seed,
)


@dataclass(frozen=True, eq=False)
class Member(Structure):
    """One client's reservoir, by its recipe, and the readout it trained on its own rows."""

    KIND: ClassVar[Kind] = Kind(
        "member",
        "the recipe of the client's reservoir, the readout it fitted on its own data, and how many "
        "rows it has",
        (
            "how many rows the client has, and which classes",
            "a model of this one client's data, against which recordings can be tested",
        ),
    )

    recipe: Reservoir
    readout: Readout
    n_rows: Annotated[int, COUNTED]


@dataclass(frozen=True, eq=False)
class Members(Summable):
    """Members gathered from several clients; adding puts them together."""

    by_client: Annotated[Mapping[str, Member], GATHERED] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members and their features by client, and their weights (M,) in the order of the names."""

    members: Mapping[str, Member] = field(default_factory=dict)
    features: Mapping[str, EchoState] = field(default_factory=dict)
    weights: Array = field(default_factory=lambda: np.zeros(0))
    classes: tuple[str, ...] | None = None
    preprocessing: Preprocessing = RAW
    channels: tuple[str, ...] | None = None

    @cached_property
    def model(self) -> Model:
        """The ensemble as one model on the joint features of all members."""
        names = sorted(self.members)
        if not names:
            raise ValueError("the ensemble has no members; train at least one")
        apart = [self.features[name] for name in names]
        readouts = [self.members[name].readout for name in names]
        features = joint_features(apart)
        return self._model(features, _joint_readout(readouts, apart, self.weights, features))

    def predict(self, u: Array) -> Array:
        """Return the weighted mean (rows, K) of the members' outputs for inputs (T, I)."""
        return self.model.outputs(u)[0]

    def alone(self, client: str) -> Model:
        """Return the model that one client trained by itself."""
        return self._model(self.features[client], self.members[client].readout)

    def _model(self, features: EchoState, readout: Readout) -> Model:
        before = Pipeline(self.preprocessing, features)
        return Model(before, readout, self.classes, channels=self.channels)

    def prepared_by(
        self, preprocessing: Preprocessing, channels: Sequence[str] | None = None
    ) -> Ensemble:
        """Return the ensemble with the preparation that its training data had."""
        known = self.channels if channels is None else tuple(channels)
        return replace(self, preprocessing=preprocessing, channels=known)


@dataclass(frozen=True, eq=False)
class FoldedRows:
    """A client's rows and the fold (n,) of each, as `Rows.folds` cuts them.

    >>> from catchment import EchoState, Recording
    >>> features = EchoState(5, washout=2).build(1, per_step=True)
    >>> rows = Rows.of(features, [Recording(np.zeros(8), np.zeros(8))])
    >>> FoldedRows(rows, rows.folds(3)).fold
    array([0, 0, 1, 1, 2, 2])
    """

    rows: Rows
    fold: Integers

    @cached_property
    def blocks(self) -> dict[int, RidgeStatistics]:
        """Statistics of each fold that has rows."""
        return {int(k): self.rows.only(self.fold == k).statistics() for k in np.unique(self.fold)}

    def total(self) -> RidgeStatistics:
        if not self.blocks:
            raise ValueError("there are no rows with a target; pass recordings with targets")
        return reduce(add, self.blocks.values())

    def best_ridge(self) -> float:
        """Return the ridge with the least error on folds left out of the solution."""
        if len(self.blocks) < 2:
            raise ValueError(
                f"the rows fill {len(self.blocks)} fold, choosing a ridge needs 2; pass a number"
            )
        return choose_by_blocks(list(self.blocks.values())).best

    def out_of_fold(self, ridge: float) -> Array:
        """Return outputs (n, K) for each row by a readout solved without the row's fold."""
        outputs = np.empty_like(self.rows.y)
        total = self.total()
        for k, block in self.blocks.items():
            rest = total - block
            if rest.n_rows == 0:
                raise ValueError("all rows lie in one fold; predicting without it needs 2 folds")
            readout: Readout = rest.solve(ridge)
            outputs[self.fold == k] = readout(self.rows.z[self.fold == k])
        return outputs


@dataclass(frozen=True, kw_only=True)
class ReservoirEnsemble(Algorithm[Members, Members, Ensemble]):
    """Train a readout on every client's own reservoir; the model is the mean of their predictions.

    Parameters
    ----------
    features
        What is read of a reservoir. Its own reservoir's recipe, with a seed that depends on the
        client's name, is the recipe of every client that has none in `recipes`.
    recipes
        Recipes by client. One in float64 gets that of `features`: all lie on the same.
    alpha
        Not given: reservoirs are as their recipes say. A number between 0 and 1: each has the
        input weights of `features` and its recurrent weights are moved so far toward them, see
        `aligned_reservoir`.
    ridge
        A number, or "folds": each client takes the ridge with the least error on folds of its own
        rows.
    n_folds
        Folds of a client's rows.
    weighting
        "mean": all members count the same; "samples": by the rows they were trained on.
    classes
        Names of the outputs if they are classes.

    >>> from catchment.engine import run_locally
    >>> from catchment.federation import Plan
    >>> from catchment import Recording
    >>> features = EchoState.of(Reservoir(units=10, inputs=1), washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b", "c")}
    >>> result = run_locally(Plan(algorithm=ReservoirEnsemble(features=features)), clients)
    >>> result.model.features.reservoir.n_units, result.model.predict(wave[:25]).shape
    (30, (20, 1))
    """

    features: EchoState
    recipes: Mapping[str, Reservoir] = field(default_factory=dict)
    alpha: float | None = None
    ridge: float | Literal["folds"] = "folds"
    n_folds: Annotated[int, Ge(2)] = 5
    weighting: Literal["mean", "samples"] = "mean"
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.features, EchoState):
            raise TypeError(
                f"{name_of(self.features)} has no reservoir of every client's own; use an "
                "EchoState map, or FederatedRidge"
            )
        super().__post_init__()

    @property
    def requirements(self) -> Requirements:
        return Requirements(
            each_client="each client is a member of the ensemble; use FederatedRidge, or do without"
        )

    def start(self) -> Members:
        return Members()

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Member:
        recipe = self.recipe_of(context.client).prepared()
        read = Rows.of(member_features(recipe, self.features, self.alpha), data())
        rows = FoldedRows(read, read.folds(self.n_folds))
        ridge = rows.best_ridge() if self.ridge == "folds" else float(self.ridge)
        total = rows.total()
        return Member(recipe, total.solve(ridge), total.n_rows)

    def recipe_of(self, client: str) -> Reservoir:
        """Return the recipe of a client's reservoir: its own, or the common one with its seed."""
        reservoir = self.features.reservoir
        if client in self.recipes:
            own = self.recipes[client]
            if own.bits is not None or reservoir.bits is None:
                return own
            return replace(own.unprepared(), bits=reservoir.bits, range=reservoir.range)
        if not reservoir.is_drawn:
            raise ValueError(
                f"there is no recipe for {client}, and the features' reservoir has none; "
                "pass recipes, or build the reservoir from a recipe"
            )
        return with_own_seed(reservoir, client)

    def read_update(self, parts: Message, context: RoundContext) -> Members:
        return Members({context.client: read_member(parts, self.features, self.alpha)})

    def server_update(self, state: Members, total: Members, context: RoundContext) -> Members:
        return state + total

    def result(self, state: Members) -> Ensemble:
        members = state.by_client
        if not members:
            raise FederationError("no client has sent a member yet; run a round of the plan")
        rows = np.array([members[name].n_rows for name in sorted(members)], dtype=np.float64)
        if self.weighting == "mean":
            rows = np.ones(len(members))
        if not rows.sum() > 0:
            raise FederationError("no member was trained on any row; there is nothing to weigh by")
        features = {
            name: member_features(member.recipe, self.features, self.alpha)
            for name, member in members.items()
        }
        return Ensemble(members, features, rows / rows.sum(), self.classes)

    def figures(self, state: Members) -> dict[str, float]:
        return {"members": float(len(state.by_client))}

    @classmethod
    def without_client(
        cls, told: Described, model: Model, parts: Message, client: str
    ) -> WithoutClient | None:
        """Return the model of a run without a client's member, from which no other has learned.

        None where reservoirs were moved toward one another: the run's folder lacks their target.
        """
        settings = told.settings
        if settings["alpha"] is not None or not isinstance(model.features, EchoState):
            return None
        made = cls(features=model.features, weighting=settings["weighting"], classes=model.classes)
        members = made.load_state(parts)
        kept, removed = kept_and_removed(members.by_client, client)
        after, about = Members(kept), (removed.recipe.fingerprint or "", removed.n_rows)
        certificate = certified(client, ALL, members, after, removed, "summed-anew", *about)
        return WithoutClient(made.result(after).model, certificate)


def joint_features(features: Sequence[EchoState]) -> EchoState:
    """Return the features of all reservoirs side by side; settings are those of the first.

    >>> apart = [EchoState.of(Reservoir(units=n, inputs=1)) for n in (4, 5)]
    >>> joint_features(apart).n_features
    10
    """
    first = features[0]
    if any(f.settings() != first.settings() for f in features):
        raise ValueError("members read their reservoirs differently; use the same feature settings")
    return first.reading(side_by_side([f.reservoir for f in features]))


def _joint_readout(
    readouts: Sequence[Readout], apart: Sequence[EchoState], weights: Array, joint: EchoState
) -> Readout:
    """Return the readout on joint features that is the weighted sum of the members' readouts."""
    K = readouts[0].n_outputs
    n_parts = joint.n_features // joint.n_base  # segments times kinds of pooling
    n_shared = joint.n_base - joint.state * joint.reservoir.n_units
    W = np.zeros((n_parts, joint.n_base, K))
    b = np.zeros(K)
    places = state_places([features.reservoir for features in apart])
    for readout, weight, place in zip(readouts, weights, places, strict=True):
        own = weight * readout.weights.reshape(n_parts, -1, K)
        W[:, :n_shared] += own[:, :n_shared]
        if joint.state:
            W[:, n_shared + place] = own[:, n_shared:]
        b += weight * readout.intercept
    return Readout(W.reshape(-1, K), b)


def member_features(own: Reservoir, template: EchoState, alpha: float | None = None) -> EchoState:
    """Return what the template reads, of a reservoir that alpha moves toward the template's."""
    if alpha is not None:
        own = aligned_reservoir(own, template.reservoir, alpha)
    return template.reading(own)


def read_member(parts: Message, template: EchoState, alpha: float | None = None) -> Member:
    """Return the member that traveled, once its reservoir was built; UploadError if unfit."""
    member = Member.from_message(parts)
    recipe, weights = member.recipe, member.readout.weights
    # Counted before anything is built: a recipe of a few bytes can name a huge reservoir.
    n_units = recipe.n_units
    n_extra = template.n_base - template.state * template.reservoir.n_units
    n_parts = template.n_features // template.n_base
    expected = n_parts * (n_extra + template.state * n_units)
    if recipe.inputs != template.reservoir.n_inputs or weights.shape[:1] != (expected,):
        raise UploadError(
            "shape",
            f"a readout of {weights.shape} came for a recipe of {n_units} units and "
            f"{recipe.inputs} inputs; {expected} features and {template.reservoir.n_inputs} "
            "inputs are asked for",
        )
    member_features(recipe, template, alpha).fingerprint  # noqa: B018  # drawn, and compared
    return member


def simplex_weights(errors: Array) -> Array:
    """Return weights (M,), none negative, of sum 1, with the least w'Ew for errors E (M, M).

    With v = s w, minimizing v'Ev + (sum v - 1)^2 over s leaves w'Ew / (1 + w'Ew), which grows with
    w'Ew; so non-negative least squares on v finds the best w.

    >>> simplex_weights(np.diag([1.0, 3.0])).round(12)
    array([0.75, 0.25])
    """
    # Slow to import, and most who import this module never come here.
    from scipy.optimize import nnls

    scale = float(np.trace(errors)) / max(1, len(errors))
    if not scale > 0:
        return np.full(len(errors), 1.0 / len(errors))
    values, vectors = np.linalg.eigh(errors / scale)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    system = np.vstack([root, np.ones(len(errors))])
    v, _ = nnls(system, np.concatenate([np.zeros(len(errors)), [1.0]]))
    return np.asarray(v / v.sum())


@dataclass(frozen=True, eq=False)
class Stack:
    """The sum of the clients' statistics of predictions."""

    total: RidgeStatistics | None = None


@dataclass(frozen=True, kw_only=True)
class Stacking(Algorithm[Stack, RidgeStatistics, Ensemble]):
    """Learn the weights of a trained ensemble's members, in one round.

    The server sees M(M+1)/2 + M + 3 numbers of each client: how well every member does on its rows.

    Parameters
    ----------
    ensemble
        The result of a `ReservoirEnsemble` plan that was run before.
    n_folds
        Folds in which a client's own member predicts rows it has not seen.

    >>> from catchment import Reservoir, Recording
    >>> from catchment.features import EchoState
    >>> from catchment.engine import run_locally
    >>> from catchment_research.learn import ReservoirEnsemble
    >>> from catchment.federation import Plan
    >>> features = EchoState.of(Reservoir(units=10, inputs=1), washout=5)
    >>> wave = np.sin(np.arange(121) / 5)
    >>> clients = {name: [Recording(wave[:-1], wave[1:])] for name in ("a", "b", "c")}
    >>> first = run_locally(Plan(algorithm=ReservoirEnsemble(features=features)), clients).result
    >>> stacked = run_locally(Plan(algorithm=Stacking(ensemble=first)), clients).result
    >>> round(float(stacked.weights.sum()), 9), stacked.predict(wave[:25]).shape
    (1.0, (20, 1))
    """

    ensemble: Ensemble
    n_folds: Annotated[int, Ge(2)] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ensemble.members:
            raise ValueError("the ensemble has no members; train it first")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The members in the order of their weights."""
        return tuple(sorted(self.ensemble.members))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all members' features and readouts: what the predictions are of."""
        sha = hashlib.sha256()
        for name in self.names:
            member = self.ensemble.members[name]
            sha.update(self.ensemble.features[name].fingerprint.encode())
            sha.update(member.readout.weights.tobytes() + member.readout.intercept.tobytes())
        return sha.hexdigest()

    @property
    def requirements(self) -> Requirements:
        return Requirements(other_targets=True)

    def start(self) -> Stack:
        return Stack()

    def broadcast(self, state: Stack, context: RoundContext) -> Message:
        """Return all readouts; the recipes are part of the plan."""
        return join(
            "readouts", {name: self.ensemble.members[name].readout.parts() for name in self.names}
        )

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> RidgeStatistics:
        named = split(received, "readouts")
        if named.keys() != set(self.names):
            raise IntegrityError("the server did not send a readout for each member")
        readouts = {name: Readout.from_message(named[name]) for name in self.names}
        sequences = list(data())
        columns = []
        for name in self.names:
            member = self.ensemble.members[name]
            rows = Rows.of(self.ensemble.features[name], sequences)
            own = name == context.client
            columns.append(
                FoldedRows(rows, rows.folds(self.n_folds)).out_of_fold(member.readout.ridge)
                if own
                else readouts[name](rows.z)
            )
        # One weight per member for all outputs: every output of a row is a row of its own here.
        predictions = np.stack(columns, axis=-1).reshape(-1, len(columns))
        return RidgeStatistics.from_states(
            predictions,
            rows.y.reshape(-1, 1),
            weight=np.repeat(rows.weight, rows.y.shape[1]),
            fingerprint=self.fingerprint,
        )

    def read_update(self, parts: Message, context: RoundContext) -> RidgeStatistics:
        statistics = RidgeStatistics.from_message(parts)
        check_statistics(statistics, fingerprint=self.fingerprint, n_targets=1)
        return statistics

    def server_update(self, state: Stack, total: RidgeStatistics, context: RoundContext) -> Stack:
        return Stack(total if state.total is None else state.total + total)

    def result(self, state: Stack) -> Ensemble:
        """Return the ensemble with the weights that were learned."""
        if state.total is None:
            return self.ensemble
        return replace(self.ensemble, weights=simplex_weights(error_products(state.total)))

    def figures(self, state: Stack) -> dict[str, float]:
        """Return the mean squared error of the weighted members on rows they have not seen."""
        if state.total is None or state.total.weight <= 0:
            return {}
        E = error_products(state.total)
        w = simplex_weights(E)
        return {"held-out error": float(w @ E @ w / state.total.weight)}


@dataclass(frozen=True, eq=False)
class StackedState:
    """The members that were gathered in the first round, and the statistics of the second."""

    members: Members = field(default_factory=Members)
    total: RidgeStatistics | None = None


@dataclass(frozen=True, kw_only=True)
class StackedEnsemble(Algorithm[StackedState, Members | RidgeStatistics, Ensemble]):
    """An ensemble whose weights are learned: a round for the members, a round for the weights.

    In the second round every client is sent all members' recipes and readouts.

    Parameters
    ----------
    ensemble
        What every client trains in the first round; its weighting is not used.
    n_folds
        Folds in which a client's own member predicts rows it has not seen.
    """

    ensemble: ReservoirEnsemble
    n_folds: Annotated[int, Ge(2)] = 5

    @property
    def requirements(self) -> Requirements:
        return self.ensemble.requirements | Requirements(rounds=2, other_targets=True)

    def start(self) -> StackedState:
        return StackedState()

    def broadcast(self, state: StackedState, context: RoundContext) -> Message:
        return NOTHING if context.round == 0 else state.members.parts()

    def client_update(
        self, received: Message, data: Data, context: RoundContext
    ) -> Member | RidgeStatistics:
        if context.round == 0:
            return self.ensemble.client_update(received, data, context)
        stacking = self._stacking(Members.from_message(received))
        return stacking.client_update(stacking.broadcast(Stack(), context), data, context)

    def read_update(self, parts: Message, context: RoundContext) -> Any:
        if context.round == 0:
            return self.ensemble.read_update(parts, context)
        statistics = RidgeStatistics.from_message(parts)
        # Whose members they are of is compared when all are in: only the state knows.
        check_statistics(statistics, fingerprint=statistics.fingerprint, n_targets=1)
        return statistics

    def server_update(
        self, state: StackedState, total: Members | RidgeStatistics, context: RoundContext
    ) -> StackedState:
        if isinstance(total, Members):
            return StackedState(self.ensemble.server_update(state.members, total, context))
        expected = self._stacking(state.members).fingerprint
        if total.fingerprint != expected:
            raise IntegrityError("the statistics are of other members than were gathered")
        return replace(state, total=total if state.total is None else state.total + total)

    def result(self, state: StackedState) -> Ensemble:
        """Return the ensemble with the weights learned, or its first ones before they are."""
        if state.total is None:
            return self.ensemble.result(state.members)
        return self._stacking(state.members).result(Stack(state.total))

    def figures(self, state: StackedState) -> dict[str, float]:
        known = self.ensemble.figures(state.members)
        if state.total is None:
            return known
        return known | self._stacking(state.members).figures(Stack(state.total))

    def _stacking(self, members: Members) -> Stacking:
        return Stacking(ensemble=self.ensemble.result(members), n_folds=self.n_folds)


def error_products(statistics: RidgeStatistics) -> Array:
    """Return E (M, M), the summed products of the errors of M predictions of one target.

    >>> p, y = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([[1.0], [1.0]])
    >>> error_products(RidgeStatistics.from_states(p, y))
    array([[1., 0.],
           [0., 1.]])
    """
    statistics = statistics.floats
    C = statistics.cross
    E: Array = unpack(statistics.gram) - C - C.T + statistics.target_gram[0]
    return E

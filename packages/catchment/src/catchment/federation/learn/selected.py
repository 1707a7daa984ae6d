"""Choosing the ridge and the recipe by the error on clients left out of the solution.

With W_-k = (G - G_k + ridge I)^-1 (C - C_k), client k's held-out error is

    SSE_k = q_k - 2 tr(W_-k'C_k) + tr(W_-k'G_k W_-k)

exactly, for every ridge of a path from one eigendecomposition. `FederatedRidge(ridge="clients")`
computes it at the server, which must then keep every client's statistics. `SelectedRidge` needs
only sums: after a first round the total goes out, every client takes its own part off it and sends
its held-out errors, which add. It therefore works under a secure sum, and can count classes, which
no statistics tell. `Candidates` sends the statistics of several feature maps at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from catchment.arrays import Array
from catchment.errors import FederationError, FingerprintError, IntegrityError, UploadError
from catchment.features.base import FeatureMap
from catchment.federation.algorithm import Algorithm, Data, Kept, Needs, Turn
from catchment.federation.learn.ridge import learned, readout_figures
from catchment.federation.rows import Rows
from catchment.federation.upload_checks import check_statistics
from catchment.readout.accumulation import accumulate
from catchment.readout.grid import Grid
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import RidgeChoice, best_ridge, ridge_grid
from catchment.readout.solve import path_errors, rescaled, scale_of, solve_path, solve_readout
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.structure import COUNTED, GATHERED, NOT_NEGATIVE, WEIGHT, Kind, Shape, Summable
from catchment.wire import NOTHING, Parts, join, split


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
    standardise
        Whether the ridge acts on features divided by their standard deviation over all clients,
        which the total tells; "auto" is what the map says.
    """

    features: FeatureMap
    by: Literal["error", "accuracy"] = "error"
    ridges: tuple[float, ...] | None = None
    per_output: bool = False
    standardise: bool | Literal["auto"] = "auto"
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.by not in ("error", "accuracy"):
            raise ValueError(f"by is {self.by!r}; choose 'error' or 'accuracy'")
        if self.by == "accuracy" and (self.classes is None or self.per_output):
            raise ValueError("choosing by accuracy needs classes, and one ridge for all outputs")

    @property
    def needs(self) -> Needs:
        return Needs(
            data_choice="the ridge cannot be chosen on left-out clients under noise; use "
            "FederatedRidge with a number such as 0: what the noise needs is added to it",
            rounds=2,
        )

    def start(self) -> Selection:
        return Selection()

    def broadcast(self, state: Selection, turn: Turn) -> Parts:
        if state.total is None:
            return NOTHING
        tried = self._tried(state.total)
        return join("path", {"total": state.total.parts(), "ridges": Parts("ridges", {}, (tried,))})

    def client_update(
        self, received: Parts, data: Data, turn: Turn
    ) -> RidgeStatistics | PathErrors:
        mine = accumulate(self.features, data(), threads=1, classes=self.classes is not None)
        if received.kind == NOTHING.kind:
            return mine
        named = split(received, "path")
        if named.keys() != {"total", "ridges"}:
            raise IntegrityError("the server sent no total, or no ridges")
        total = RidgeStatistics.from_parts(named["total"])
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

    def read_update(self, parts: Parts, turn: Turn) -> Evidence:
        if turn.round > 0:
            errors = PathErrors.from_parts(parts).checked()
            return Evidence(None, errors, {turn.client: errors} if turn.client else {})
        statistics = RidgeStatistics.from_parts(parts)
        check_statistics(
            statistics,
            fingerprint=self.features.fingerprint,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
            grid=Grid.of(self.features, classes=self.classes is not None),
        )
        return Evidence(statistics, None, {turn.client: None} if turn.client else {})

    def server_update(self, state: Selection, total: Evidence, turn: Turn) -> Selection:
        if total.statistics is not None:
            return Selection(total.statistics, tuple(sorted(total.by_client)))
        given = {name: e for name, e in sorted(total.by_client.items()) if e is not None}
        if state.total is None or total.errors is None:
            raise FederationError("errors came before there was a total; start with a first round")
        counted = {name: e for name, e in given.items() if name in state.clients}
        summed = total.errors if not state.clients else _sum(counted)
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
        auto = self.standardise == "auto"
        return scale_of(total, self.features.standardise if auto else bool(self.standardise))

    def _tried(self, total: RidgeStatistics) -> Array:
        if self.ridges is not None:
            return np.asarray(self.ridges, float)
        scale = self._scale(total)
        return ridge_grid(total if scale is None else rescaled(total, scale))

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
    except FingerprintError:
        raise
    except ValueError as error:
        raise UploadError("not-summed", str(error)) from error
    if rest.n_rows == 0:
        raise UploadError("alone", "no other client is in the sum; there is nothing to leave out")
    try:
        check_statistics(rest, fingerprint=mine.fingerprint)
    except UploadError as error:
        raise UploadError(
            "not-summed", "this client's statistics are not in the total that was sent"
        ) from error
    return rest


def _sum(by_client: Mapping[str, PathErrors]) -> PathErrors:
    values = [by_client[name] for name in sorted(by_client)]
    if not values:
        raise FederationError("no client that is in the sum gave errors; run both rounds with all")
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total

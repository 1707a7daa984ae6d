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
from typing import Literal

import numpy as np

from catchment.arrays import Array
from catchment.errors import FederationError, FingerprintError, IntegrityError, UploadError
from catchment.features.feature_map import FeatureMap
from catchment.federation.plan import Data, Turn, Upload
from catchment.federation.rows import feature_rows
from catchment.federation.upload_checks import check_statistics
from catchment.readout.accumulate import accumulate
from catchment.readout.model import Model
from catchment.readout.readout import Readout
from catchment.readout.ridge_choice import RidgeChoice, ridge_grid
from catchment.readout.solve import path_errors, solve_path
from catchment.readout.statistics import RidgeStatistics
from catchment.wire import NOTHING, Parts, join, split


@dataclass(frozen=True, eq=False)
class PathErrors:
    """Held-out errors along a path of ridges, summed over rows and clients.

    >>> a = PathErrors(2, 2.0, np.array([[1.0]]), np.array([2.0]))
    >>> (a + a).mean_squared(), (a + a).accuracy()
    (array([[0.5]]), array([1.]))
    """

    n_rows: int
    weight: float
    squared: Array  # (R, K)
    correct: Array  # (R,) rows whose class was found; zeros if outputs are numbers

    def __add__(self, other: PathErrors) -> PathErrors:
        if self.squared.shape != other.squared.shape:
            raise UploadError(
                "shape", f"errors of {other.squared.shape} do not add to {self.squared.shape}"
            )
        return PathErrors(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.squared + other.squared,
            self.correct + other.correct,
        )

    def mean_squared(self) -> Array:
        """Return the mean squared error (R, K) at each ridge."""
        return self.squared / self.weight

    def accuracy(self) -> Array:
        """Return the share (R,) of rows whose class was found at each ridge."""
        return self.correct / self.n_rows

    def parts(self) -> Parts:
        counts = np.array([self.n_rows, self.weight])
        return Parts("path-errors", {}, (counts, self.squared, self.correct))

    @classmethod
    def from_parts(cls, parts: Parts) -> PathErrors:
        """Return the errors that travelled; UploadError if no data can have them."""
        counts, squared, correct = parts.expect("path-errors", 3).arrays
        if counts.shape != (2,) or squared.ndim != 2 or correct.shape != squared.shape[:1]:
            raise IntegrityError(
                f"counts {counts.shape}, errors {squared.shape}, hits {correct.shape} do not fit"
            )
        if not all(np.isfinite(array).all() for array in parts.arrays):
            raise UploadError("not-finite", "the errors hold NaN or infinite numbers")
        if (counts < 0).any() or (squared < 0).any() or (correct < 0).any():
            raise UploadError("count", "a count or a squared error is negative")
        if (correct > counts[0]).any():
            raise UploadError("count", f"{correct.max():g} of {counts[0]:g} rows cannot be right")
        return cls(int(counts[0]), float(counts[1]), squared, correct)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What a round of `SelectedRidge` sums: statistics in the first, path errors after it."""

    statistics: RidgeStatistics | None = None
    errors: PathErrors | None = None
    by_client: Mapping[str, PathErrors | None] = field(default_factory=dict)

    def __add__(self, other: Evidence) -> Evidence:
        both = {**self.by_client, **other.by_client}
        if self.statistics is not None and other.statistics is not None:
            return Evidence(self.statistics + other.statistics, None, both)
        if self.errors is not None and other.errors is not None:
            return Evidence(None, self.errors + other.errors, both)
        raise UploadError("kind", "statistics and errors do not add")


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
class SelectedRidge:
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
    """

    features: FeatureMap
    by: Literal["error", "accuracy"] = "error"
    ridges: tuple[float, ...] | None = None
    per_output: bool = False
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.by not in ("error", "accuracy"):
            raise ValueError(f"by is {self.by!r}; choose 'error' or 'accuracy'")
        if self.by == "accuracy" and (self.classes is None or self.per_output):
            raise ValueError("choosing by accuracy needs classes, and one ridge for all outputs")

    def start(self) -> Selection:
        return Selection()

    def broadcast(self, state: Selection, turn: Turn) -> Parts:
        if state.total is None:
            return NOTHING
        tried = self._tried(state.total)
        return join("path", {"total": state.total.parts(), "ridges": Parts("ridges", {}, (tried,))})

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Upload:
        mine = accumulate(self.features, data(), threads=1)
        if received.kind == NOTHING.kind:
            return mine
        named = split(received, "path")
        if named.keys() != {"total", "ridges"}:
            raise IntegrityError("the server sent no total, or no ridges")
        total = RidgeStatistics.from_parts(named["total"])
        (ridges,) = named["ridges"].expect("ridges", 1).arrays
        if ridges.ndim != 1:
            raise IntegrityError(f"the ridges came with shape {ridges.shape}")
        readouts = solve_path(_rest(total, mine), ridges)
        correct = np.zeros(len(ridges))
        if self.classes is not None:
            z, y, _ = feature_rows(self.features, data())
            labels = y.argmax(axis=1)
            correct = np.array([(r(z).argmax(axis=1) == labels).sum() for r in readouts], float)
        return PathErrors(mine.n_rows, mine.weight, path_errors(mine, readouts), correct)

    def read_update(self, parts: Parts, turn: Turn) -> Evidence:
        if turn.round > 0:
            errors = PathErrors.from_parts(parts)
            return Evidence(None, errors, {turn.client: errors} if turn.client else {})
        statistics = RidgeStatistics.from_parts(parts)
        check_statistics(
            statistics,
            fingerprint=self.features.fingerprint,
            n_features=self.features.n_features,
            n_targets=len(self.classes) if self.classes else None,
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
        return replace(state, choice=choice, readout=state.total.solve(choice.best))

    def _tried(self, total: RidgeStatistics) -> Array:
        return ridge_grid(total) if self.ridges is None else np.asarray(self.ridges, float)

    def model(self, state: Selection) -> Model | None:
        if state.readout is None:
            return None
        return Model(self.features, state.readout, self.classes)

    def save_state(self, state: Selection) -> Parts:
        if state.total is None:
            return NOTHING
        named = {
            "total": state.total.parts(),
            "clients": Parts("clients", {"names": list(state.clients)}),
        }
        if state.errors is not None:
            named["errors"] = state.errors.parts()
        for name, errors in sorted(state.by_client.items()):
            named[f"client/{name}"] = errors.parts()
        return join("selection", named)

    def load_state(self, parts: Parts) -> Selection:
        if parts.kind == NOTHING.kind:
            return Selection()
        named = split(parts, "selection")
        names = named["clients"].facts["names"]
        prefix = "client/"
        by_client = {
            name.removeprefix(prefix): PathErrors.from_parts(part)
            for name, part in named.items()
            if name.startswith(prefix)
        }
        errors = PathErrors.from_parts(named["errors"]) if "errors" in named else None
        total = RidgeStatistics.from_parts(named["total"])
        clients = tuple(str(name) for name in names) if isinstance(names, list) else ()
        return self._solved(Selection(total, clients, errors, by_client))


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
    if per_output:
        return RidgeChoice(ridges, mean, np.asarray(ridges[mean.argmin(axis=0)]))
    score = mean.sum(axis=1)
    if by == "accuracy":
        score = np.where(errors.correct == errors.correct.max(), score, np.inf)
    return RidgeChoice(ridges, mean, float(ridges[score.argmin()]))


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

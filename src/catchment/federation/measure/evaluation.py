"""Evaluation is an algorithm too: clients send error sums, the server adds, then divides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from catchment.errors import IntegrityError, UploadError
from catchment.federation.plan import Data, Turn
from catchment.federation.rows import feature_rows
from catchment.federation.sums import Tally
from catchment.readout.metrics import ClassCounts, ErrorSums
from catchment.readout.model import Model
from catchment.readout.readout import Readout
from catchment.wire import Parts, join, split


@dataclass(frozen=True, eq=False)
class Score:
    """Error sums of predictions and, where outputs are classes, counts of confusions."""

    errors: ErrorSums
    counts: ClassCounts | None = None

    def __add__(self, other: Score) -> Score:
        both = self.counts is not None and other.counts is not None
        counts = self.counts + other.counts if both else None  # type: ignore[operator]
        return Score(self.errors + other.errors, counts)

    @property
    def value(self) -> float:
        """Accuracy where outputs are classes, else NRMSE."""
        return self.counts.accuracy if self.counts is not None else self.errors.nrmse

    def parts(self) -> Parts:
        e = self.errors
        sums = (e.squared_error, e.absolute_error, e.target_sum, e.target_squares)
        named = {"errors": Parts("error-sums", {}, (np.array([float(e.n)]), *sums))}
        if self.counts is not None:
            named["counts"] = Parts("class-counts", {}, (self.counts.confusion,))
        return join("score", named)

    @classmethod
    def from_parts(cls, parts: Parts) -> Score:
        """Return the score that travelled; UploadError if no data can have it."""
        named = split(parts, "score")
        if "errors" not in named or named.keys() - {"errors", "counts"}:
            raise IntegrityError("a score lacks its errors, or has parts too many")
        n, *sums = named["errors"].expect("error-sums", 5).arrays
        if n.shape != (1,) or not (0 <= n[0] < 2**53):
            raise IntegrityError(f"error sums came with {n} rows")
        if sums[0].ndim != 1 or any(array.shape != sums[0].shape for array in sums):
            raise IntegrityError(f"error sums came with shapes {[a.shape for a in sums]}")
        if not all(np.isfinite(array).all() for array in sums):
            raise UploadError("not-finite", "the errors hold NaN or infinite numbers")
        if any((array < 0).any() for array in (sums[0], sums[1], sums[3])):
            raise UploadError("count", "a sum of squares or of absolute values is negative")
        errors = ErrorSums(int(n[0]), *(array.astype(np.float64) for array in sums))
        if "counts" not in named:
            return cls(errors)
        (confusion,) = named["counts"].expect("class-counts", 1).arrays
        if (confusion != np.rint(confusion)).any() or confusion.sum() != errors.n:
            raise UploadError("count", f"the confusions do not count {errors.n} rows")
        return cls(errors, ClassCounts(confusion.astype(np.int64)))


@dataclass(frozen=True, eq=False)
class Scores:
    """The score of all rows together, and of each client by itself."""

    total: Score | None = None
    by_client: Mapping[str, Score] = field(default_factory=dict)

    def worst(self) -> tuple[str, float]:
        """Return the client with the worst score, and the score."""
        values = {name: score.value for name, score in sorted(self.by_client.items())}
        classes = any(score.counts is not None for score in self.by_client.values())
        name = (min if classes else max)(values, key=values.__getitem__)
        return name, values[name]

    def parts(self) -> Parts:
        """Return the scores as they are kept."""
        named = {f"client/{name}": score for name, score in sorted(self.by_client.items())}
        if self.total is not None:
            named["total"] = self.total
        return join("scores", {name: score.parts() for name, score in named.items()})

    @classmethod
    def from_parts(cls, parts: Parts) -> Scores:
        named = {name: Score.from_parts(part) for name, part in split(parts, "scores").items()}
        total = named.pop("total", None)
        return cls(total, {name.removeprefix("client/"): s for name, s in named.items()})


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """How well a model does on each client's data, and on all together.

    The server learns each client's error sums and, for classes, its confusion counts (and so its
    class balance); with `keep_clients=False` it keeps only their sum.
    """

    model_under_test: Model
    keep_clients: bool = True

    def start(self) -> Scores:
        return Scores()

    def broadcast(self, state: Scores, turn: Turn) -> Parts:
        return self.model_under_test.readout.parts()

    def client_update(self, received: Parts, data: Data, turn: Turn) -> Score:
        tested = self.model_under_test
        model = Model(tested.features, Readout.from_parts(received), tested.classes)
        return evaluate(model, data)

    def read_update(self, parts: Parts, turn: Turn) -> Tally[Score]:
        score = Score.from_parts(parts)
        return Tally(score, {turn.client: score} if self.keep_clients and turn.client else {})

    def server_update(self, state: Scores, total: Tally[Score], turn: Turn) -> Scores:
        return Scores(total.total, total.by_client)

    def model(self, state: Scores) -> Model | None:
        return None

    def save_state(self, state: Scores) -> Parts:
        return state.parts()

    def load_state(self, parts: Parts) -> Scores:
        return Scores.from_parts(parts)


def evaluate(model: Model, data: Data) -> Score:
    """Return the score of a model on one client's sequences."""
    z, y, _ = feature_rows(model.features, data())
    guess = model.readout(z)
    counts = ClassCounts.of_scores(y, guess) if model.classes else None
    return Score(ErrorSums.of(y, guess), counts)

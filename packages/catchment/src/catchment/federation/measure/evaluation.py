"""Evaluation is an algorithm too: clients send error sums, the server adds, then divides."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, islice
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.errors import IntegrityError, UploadError
from catchment.federation.algorithm import Algorithm, Data, Requirements, RoundContext, Tally
from catchment.federation.rows import targets_of
from catchment.readout.device import device_for
from catchment.readout.metrics import ClassCounts, ErrorSums
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import Readout
from catchment.readout.storage import to_bytes
from catchment.wire import LATER, NOTHING, Fact, Kind, Message, Structure, Summable

if TYPE_CHECKING:
    from catchment.federation.delivery import Place

GROUP = 256  # clients whose recordings are on a device together...
STEPS = 4_000_000  # ...unless they are long
MOST_SHOWN = 30  # clients in a printed table
LOSS = 0.01  # of accuracy: who loses more by adapting is counted
KEPT_APART = "it keeps clients apart; pass store_per_client=False"


@dataclass(frozen=True, eq=False)
class AdaptedCounts(Summable):
    """Confusions of a model once it is adapted without labels, and how many clients lost by it."""

    counts: ClassCounts
    lost: int


@dataclass(frozen=True, eq=False)
class Score(Structure):
    """Error sums of predictions and, where outputs are classes, counts of confusions.

    `adapted` is there where the client has scored the model adapted to its recordings, too.
    """

    KIND: ClassVar[Kind] = Kind(
        "score",
        "sums of errors on the client's test data and, for classes, how often each was taken for "
        "each",
        (
            "how well the model does on this client",
            "how many test rows it has and, for classes, how many of each",
            "with adapt = true, whether the model does better once it is adapted to this client",
        ),
    )

    errors: ErrorSums
    counts: ClassCounts | None = None
    adapted: Annotated[AdaptedCounts | None, LATER] = None

    @classmethod
    def of(cls, y: Array, guess: Array, *, classes: bool) -> Score:
        """Return the score of outputs (n, K) for targets (n, K)."""
        return cls(ErrorSums.of(y, guess), ClassCounts.of_scores(y, guess) if classes else None)

    def __add__(self, other: Score) -> Score:
        both = self.counts is not None and other.counts is not None
        counts = self.counts + other.counts if both else None  # type: ignore[operator]
        pair = (self.adapted, other.adapted)
        after = None if None in pair else reduce(add, cast(Any, pair))
        return Score(self.errors + other.errors, counts, after)

    @property
    def value(self) -> float:
        """Accuracy where outputs are classes, else NRMSE."""
        return self.counts.accuracy if self.counts is not None else self.errors.nrmse

    @property
    def figures(self) -> dict[str, float]:
        """The leading metric by its name."""
        return {"accuracy" if self.counts is not None else "NRMSE": self.value}

    def checked(self) -> Score:
        """Return self; UploadError if no data can have such a score."""
        e = self.errors
        sums = (e.squared_error, e.absolute_error, e.target_sum, e.target_squares)
        if e.squared_error.ndim != 1 or any(a.shape != e.squared_error.shape for a in sums):
            raise IntegrityError(f"error sums came with shapes {[a.shape for a in sums]}")
        if any((array < 0).any() for array in (sums[0], sums[1], sums[3])):
            raise UploadError("count", "a sum of squares or of absolute values is negative")
        if self.counts is not None and self.counts.n != e.n:
            raise UploadError("count", f"the confusions do not count {e.n} rows")
        if self.adapted is not None and self.adapted.counts.n != e.n:
            raise UploadError("count", f"the adapted model was not scored on {e.n} rows")
        return self


def metrics(score: Score) -> list[tuple[str, float]]:
    """Return a score's metrics by name, the leading one first."""
    if score.counts is not None:
        c = score.counts
        named = {"balanced accuracy": c.balanced_accuracy, "macro F1": c.macro_f1}
        return [("accuracy", c.accuracy), *named.items()]
    e = score.errors
    return [("NRMSE", e.nrmse), ("RMSE", e.rmse), ("MAE", e.mae), ("R2", e.r2)]


@dataclass(frozen=True, eq=False)
class Scores(Structure):
    """The score of all rows together, and of each client by itself; `print` shows a table.

    >>> import numpy as np
    >>> a, b = (Score(ErrorSums.of(np.arange(4.0), np.arange(4.0) + e)) for e in (0.1, 0.5))
    >>> print(Scores(a + b, {"ann": a, "bob": b}))
    NRMSE 0.3225, 2 clients, 8 rows
    worst 0.4472, bob
      ann  0.0894  4 rows
      bob  0.4472  4 rows
    """

    total: Score | None = None
    by_client: Mapping[str, Score] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.total is None:
            return "no scores"
        ((metric, value),) = self.total.figures.items()
        n = len(self.by_client)
        clients = f", {n} client{'' if n == 1 else 's'}" if n else ""
        lines = [f"{metric} {value:.4f}{clients}, {self.total.errors.n} rows"]
        if n:
            name, worst = self.worst()
            lines.append(f"worst {worst:.4f}, {name}")
        width = max(map(len, self.by_client), default=0)
        shown = sorted(self.by_client.items())[:MOST_SHOWN]
        lines += [f"  {k:{width}}  {one.value:.4f}  {one.errors.n} rows" for k, one in shown]
        if n > MOST_SHOWN:
            lines.append(f"  ... and {n - MOST_SHOWN} more in by_client")
        return "\n".join(lines)

    def worst(self) -> tuple[str, float]:
        """Return the client with the worst score, and the score; NaN only if nobody has one."""
        values = {name: score.value for name, score in sorted(self.by_client.items())}
        sign = 1 if any(score.counts is not None for score in self.by_client.values()) else -1
        name = min(values, key=lambda one: np.nan_to_num(sign * values[one], nan=np.inf))
        return name, values[name]

    @property
    def figures(self) -> dict[str, float]:
        """The leading metric of all rows together, and of the worst client."""
        if self.total is None:
            return {}
        worst = {"worst client": self.worst()[1]} if self.by_client else {}
        return self.total.figures | worst


class Scoring(Algorithm[Scores, Tally[Score], Scores]):
    """What ends in scores: clients send theirs, the server adds them and keeps each by its name."""

    def start(self) -> Scores:
        return Scores()

    def server_update(self, state: Scores, total: Tally[Score], context: RoundContext) -> Scores:
        return Scores(total.total, total.by_client)

    def result(self, state: Scores) -> Scores:
        return state

    def figures(self, state: Scores) -> dict[str, float]:
        return state.figures


@dataclass(frozen=True, kw_only=True)
class Evaluation(Scoring):
    """How well a model, or whatever else predicts, does on each client's data and on all together.

    Clients prepare their raw recordings as the model says. A model's readout is sent with the
    request; of anything else clients are told which it is, and use what they were given.
    The server learns each client's error sums and, for classes, its confusion counts (and so its
    class balance); with `store_per_client=False` it keeps only their sum.

    Parameters
    ----------
    model_under_test
        What is tested; None for the one that clients were given before (`Delivery`).
    device
        Where this machine's clients predict, which is no part of the plan.
    sha256, place
        Of the file of the model that clients were given, and where they keep it.
    rule
        A client's own, told the model's SHA-256 and the score before the score leaves; it raises
        if it must not.
    adapted
        Whether each client adapts the model to its own recordings, whose targets that does not
        look at, and compares both models with the targets: two scores leave it.
    """

    model_under_test: Predictor | None = None
    store_per_client: bool = True
    device: str | None = field(default=None, metadata={"local": True})
    sha256: str = field(default="", metadata={"local": True})
    place: Place | None = field(default=None, metadata={"local": True})
    rule: Callable[[str, Score], None] | None = field(
        default=None, repr=False, metadata={"local": True}
    )
    adapted: bool = field(default=False, metadata={"later": True})

    def identity(self) -> dict[str, Fact] | None:
        """Return what a model that was given is known by in a plan; None if it is here."""
        if self.place is None:
            return None
        more = " adapted" if self.adapted else ""
        return {"DeliveredEvaluation": f"{self.sha256} {self.store_per_client}{more}"}

    @property
    def requirements(self) -> Requirements:
        return Requirements(each_client=KEPT_APART if self.store_per_client else "")

    def broadcast(self, state: Scores, context: RoundContext) -> Message:
        tested = self.model_under_test
        if isinstance(tested, Model):
            return tested.readout.parts()
        return NOTHING if tested is None else Message("tested", {"sha256": self._sha256})

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Score:
        tested = self.model_under_test
        if isinstance(tested, Model):
            sent = replace(tested, readout=Readout.from_message(received))
            return self._score(sent, data)
        if self.place is not None:
            score = self._score(self.place.model(self.sha256), data, context.client)
            if self.rule is not None:
                self.rule(self.sha256, score)
            return score
        assert tested is not None
        if received.facts.get("sha256") != self._sha256:
            raise IntegrityError("the server tests another model than this client was given")
        return self._score(tested, data, context.client)

    def _score(self, model: Predictor, data: Data, client: str = "") -> Score:
        score = evaluate(model, data, client, device=self.device)
        if not self.adapted:
            return score
        if not isinstance(model, Model) or score.counts is None:
            raise IntegrityError("this client was given no model that adapts")
        recordings = list(data())
        after = evaluate(model.adapt(recordings), lambda: recordings).counts
        assert after is not None
        lost = after.accuracy - score.counts.accuracy < -LOSS
        return replace(score, adapted=AdaptedCounts(after, int(lost)))

    def group_size(self, n_clients: int, n_threads: int) -> int:
        """Return how many clients to serve side by side: many on a device, which wants them."""
        tested = self.model_under_test
        if isinstance(tested, Model) and device_for(tested.features, self.device) is not None:
            return min(GROUP, n_clients)
        return 1

    def client_updates(
        self, received: Message, clients: Sequence[tuple[Data, RoundContext]]
    ) -> list[Score]:
        tested = self.model_under_test
        if not isinstance(tested, Model) or self.adapted:
            return list(super().client_updates(received, clients))
        sent = replace(tested, readout=Readout.from_message(received))
        return evaluate_each(sent, [data for data, _ in clients], device=self.device)

    @cached_property
    def _sha256(self) -> str:
        assert self.model_under_test is not None
        return hashlib.sha256(to_bytes(self.model_under_test)).hexdigest()

    def read_update(self, parts: Message, context: RoundContext) -> Tally[Score]:
        score = Score.from_message(parts).checked()
        return Tally.of(score, context.client if self.store_per_client else "")


def evaluate(model: Predictor, data: Data, client: str = "", *, device: str | None = None) -> Score:
    """Return the score of a model on one client's raw recordings."""
    prepared = _prepared(model, data)
    return _score(model, prepared, model.outputs_of(prepared, client, device=device))


def evaluate_each(
    model: Model, clients: Sequence[Data], *, device: str | None = None
) -> list[Score]:
    """Return each client's score; recordings of several clients are run side by side."""
    found, waiting, n_steps = list[Score](), list[list[Recording]](), 0
    for k, data in enumerate(clients, start=1):
        waiting.append(_prepared(model, data))
        n_steps += sum(recording.n_steps for recording in waiting[-1])
        if n_steps >= STEPS or k == len(clients):
            outputs = iter(model.outputs_of([*chain(*waiting)], device=device))
            found += [_score(model, each, [*islice(outputs, len(each))]) for each in waiting]
            waiting, n_steps = [], 0
    return found


def _prepared(model: Predictor, data: Data) -> list[Recording]:
    raw = list(data())
    if not raw:
        raise ValueError("no recordings were given; pass at least one with targets")
    for k, recording in enumerate(raw):
        model.check_channels(recording, k)
    return list(map(model.labeled, model.preprocessing.apply(raw)))


def targets_and_outputs(
    model: Predictor, data: Data, client: str = "", *, device: str | None = None
) -> tuple[Array, Array]:
    """Return targets (n, K), NaN where they are missing, and outputs (n, K) of a client's rows."""
    prepared = _prepared(model, data)
    return _compared(model, prepared, model.outputs_of(prepared, client, device=device))


def _compared(
    model: Predictor, prepared: Sequence[Recording], outputs: Sequence[Array]
) -> tuple[Array, Array]:
    targets = [
        targets_of(recording, len(y), model.washout if model.per_step else None, k)
        for k, (recording, y) in enumerate(zip(prepared, outputs, strict=True))
    ]
    return np.concatenate(targets), np.concatenate(outputs)


def _score(model: Predictor, prepared: Sequence[Recording], outputs: Sequence[Array]) -> Score:
    y, guess = _compared(model, prepared, outputs)
    known = ~np.isnan(y).any(axis=1)
    return Score.of(y[known], guess[known], classes=bool(model.classes))

"""Measuring a model is an algorithm too: clients send error sums, or counts of errors, which add.

An `Evaluation` ends in scores: the server adds first, then divides. A `Calibration` ends in the
intervals of a model: counts are integers, so their sum under secure aggregation is exact, and the
server needs no more. Clients that trained can be asked for it, too: the server solves a readout
without each group of clients from the sums that it has, sends all of these, and every client takes
the one that it has no part in. Coverage is then no theorem, as the readouts are not the model's own
(jackknife+ and CV+ promise 2 p - 1: Barber et al. 2021), and in practice about what is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, islice
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np

from catchment.arrays import Array, PositiveInt
from catchment.data.recording import Recording
from catchment.errors import FederationError, IntegrityError, UploadError
from catchment.federation.algorithm import Algorithm, Data, Requirements, RoundContext, Tally
from catchment.federation.learn.sums import (
    KEPT_APART,
    V,
    group_of,
    group_sums,
    learned,
    read_counts,
)
from catchment.federation.learn.yule_walker import YuleWalkerState
from catchment.federation.loop import Result
from catchment.federation.rows import targets_of
from catchment.readout.accumulation import device_for
from catchment.readout.intervals import Counts, Intervals, error_counts, increasing
from catchment.readout.metrics import ClassCounts, ErrorSums
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.ridge_choice import chosen_readout
from catchment.readout.statistics import Readout
from catchment.readout.storage import to_bytes
from catchment.wire import LATER, NOTHING, Fact, Kind, Message, Structure, Summable

if TYPE_CHECKING:
    from catchment.federation.workflow import Place


GROUP = 256  # clients whose recordings are on a device together...
STEPS = 4_000_000  # ...unless they are long
MOST_SHOWN = 30  # clients in a printed table
LOSS = 0.01  # of accuracy: who loses more by adapting is counted


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
        counts, more = self.counts, other.counts
        after, later = self.adapted, other.adapted
        return Score(
            self.errors + other.errors,
            None if counts is None or more is None else counts + more,
            None if after is None or later is None else after + later,
        )

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
            return self._score(replace(tested, readout=Readout.from_message(received)), data)
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
        sent, device = replace(tested, readout=Readout.from_message(received)), self.device
        found, waiting, n_steps = list[Score](), list[list[Recording]](), 0
        for k, (data, _) in enumerate(clients, start=1):
            waiting.append(_prepared(sent, data))
            n_steps += sum(recording.n_steps for recording in waiting[-1])
            if n_steps >= STEPS or k == len(clients):  # of several clients, side by side
                outputs = iter(sent.outputs_of([*chain(*waiting)], device=device))
                found += [_score(sent, each, [*islice(outputs, len(each))]) for each in waiting]
                waiting, n_steps = [], 0
        return found

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


def _prepared(model: Predictor, data: Data) -> list[Recording]:
    raw = list(data())
    if not raw:
        raise ValueError("no recordings were given; pass at least one with targets")
    for k, recording in enumerate(raw):
        model.check_channels(recording, k)
    return list(map(model.labeled, model.preprocessing.apply(raw)))


def _compared(
    model: Predictor, prepared: Sequence[Recording], outputs: Sequence[Array]
) -> tuple[Array, Array]:
    """Return targets (n, K), NaN where they are missing, and outputs (n, K) of all rows."""
    targets = [
        targets_of(recording, len(y), model.washout if model.per_step else None, k)
        for k, (recording, y) in enumerate(zip(prepared, outputs, strict=True))
    ]
    return np.concatenate(targets), np.concatenate(outputs)


def _score(model: Predictor, prepared: Sequence[Recording], outputs: Sequence[Array]) -> Score:
    y, guess = _compared(model, prepared, outputs)
    known = ~np.isnan(y).any(axis=1)
    return Score.of(y[known], guess[known], classes=bool(model.classes))


@dataclass(frozen=True, kw_only=True)
class Calibration(Algorithm[Counts, Counts, Intervals]):
    """How far a model's outputs lie from the targets of clients that it did not learn from.

    Clients prepare their raw recordings as the model says. A model's readout is sent with the
    request; of anything else clients are told which it is, and use what they were given. The server
    learns how each client's errors are distributed, or only their sum under secure aggregation.

    Parameters
    ----------
    model
        What predicts numbers.
    edges
        Of the bins in which errors are counted.
    cuts
        Outputs at which a band ends that has a width of its own.
    rows
        How many rows are drawn of each client, so that all count alike; all rows if None.
    left_out
        By group of clients, the readout of all others, for clients that trained the model.
    """

    model: Predictor
    edges: tuple[float, ...]
    cuts: tuple[float, ...] = ()
    rows: PositiveInt | None = None
    left_out: Mapping[int, Readout] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cuts", increasing(self.cuts))
        if self.model.classes is not None:
            raise ValueError(
                "the model predicts classes, which have probabilities and no intervals; use "
                "Model.calibrated"
            )

    def start(self) -> Counts:
        return Counts.zero(self.edges, self.model.n_outputs * (len(self.cuts) + 1))

    def broadcast(self, state: Counts, context: RoundContext) -> Message:
        if self.left_out:
            groups = sorted(self.left_out)
            W = np.stack([self.left_out[g].weights for g in groups])
            b = np.stack([self.left_out[g].intercept for g in groups])
            return Message("left-out-readouts", {"groups": groups}, (W, b))
        if isinstance(self.model, Model):
            return self.model.readout.parts()
        return Message("calibrated", {"sha256": self._sha256})

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Counts:
        model = self.model
        if isinstance(model, Model):
            sent = self._without(received, context.client) if self.left_out else None
            model = replace(model, readout=sent or Readout.from_message(received), statistics=None)
        elif received.facts.get("sha256") != self._sha256:
            raise IntegrityError("the server calibrates another model than this client was given")
        prepared = _prepared(model, data)
        said = model.outputs_of(prepared, context.client)
        targets, outputs = _compared(model, prepared, said)
        chosen = self._drawn(targets, context)
        return error_counts(outputs[chosen], targets[chosen], self.edges, self.cuts)

    @staticmethod
    def _without(received: Message, client: str) -> Readout:
        """Return the readout of a request that the client has no part in."""
        W, b = received.expect("left-out-readouts", 2).arrays
        groups, own = received.facts.get("groups"), group_of(client)
        if not isinstance(groups, list) or own not in groups or not len(groups) == len(W) == len(b):
            raise IntegrityError(f"no readout came without the group {own} of this client")
        return Readout(W[groups.index(own)], b[groups.index(own)])

    def _drawn(
        self, targets: Array, context: RoundContext
    ) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        known = np.flatnonzero(~np.isnan(targets).all(axis=1))
        if not len(known):
            raise ValueError("no row has a target; calibrate on clients with targets")
        if self.rows is None or len(known) <= self.rows:
            return known
        return context.rng().choice(known, self.rows, replace=False)

    def read_update(self, parts: Message, context: RoundContext) -> Counts:
        return read_counts(parts, self.start())

    def server_update(self, state: Counts, total: Counts, context: RoundContext) -> Counts:
        return state + total

    def result(self, state: Counts) -> Intervals:
        return Intervals(state, self.cuts)

    @cached_property
    def _sha256(self) -> str:
        return hashlib.sha256(to_bytes(self.model)).hexdigest()


def readouts_without_each(result: Result[Any, Any]) -> dict[int, Readout]:
    """Return, by group of clients, the readout of everybody else in a training.

    The ridge is the one that all clients chose together. The statistics of the others are their
    sum, so that nothing of a group is in its readout.
    """
    state, plan, found = result.state, result.plan, dict[int, Readout]()
    if not isinstance(state, YuleWalkerState):
        by_group, ridge = _apart(state.by_group or group_sums(state.by_client)), state.readout
        for group in by_group:
            others = reduce(add, (s for other, s in by_group.items() if other != group))
            how = {"standardize": state.standardized}
            found[group] = chosen_readout(others, learned(ridge).ridge, **how)[1]
        return found
    learn: Any = plan.algorithm
    total: Any = state.total
    for group, own in _apart(group_sums(state.by_client)).items():
        made = learn.result(replace(state, total=total - own))
        found[group] = made.prepared_by(plan.preprocessing, plan.channels).readout
    return found


def _apart(by_group: Mapping[int, V]) -> Mapping[int, V]:
    """Return sums of groups, of which one can be left out."""
    if len(by_group) < 2:
        raise FederationError(
            f"the server keeps the sums of {len(by_group)} groups of clients apart, and two are "
            "needed to leave one out; calibrate on clients that did not train"
        )
    return by_group

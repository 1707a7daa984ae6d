"""What every method is measured against, and the table of what each scores.

Guesses are evaluations without a model: the client compares them with its targets and sends error
sums. The mean target, which for classes is the most frequent one, is the ridge solution on a
constant. A delay line of identity units holds the last inputs as they came, so that ridge
regression on it is a linear autoregression, federated by the same code as everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from catchment.arrays import Array, NonNegativeInt, PositiveInt, refuse_nonfinite
from catchment.data.recording import Recording
from catchment.errors import FederationError, UploadError
from catchment.features.base import FeatureMap
from catchment.features.echo_state.reservoir import Reservoir
from catchment.federation.algorithm import Data, RoundContext, Tally
from catchment.federation.learn.candidates import Race
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.learn.sums import RidgeState
from catchment.federation.measure.evaluation import Score, Scores, Scoring
from catchment.federation.messages import Record
from catchment.federation.plan import Plan
from catchment.readout.adapt import adaptable
from catchment.readout.model import Model
from catchment.readout.predictor import Predictor
from catchment.readout.statistics import RidgeStatistics, StatisticsSet
from catchment.readout.yule_walker import autocovariances
from catchment.wire import Message

RidgePlan = Plan[RidgeState, Tally[RidgeStatistics], Model]
ADAPTED_ROW = "adapted, no labels"
LONGEST_SEASON = 400  # steps
SEASONAL = 0.1  # correlation of changes a season apart, from which on there is one


def autoregression(
    inputs: int,
    *,
    lags: int = 10,
    washout: int = 0,
    ridge: float | Literal["leave-one-client-out", "gcv"] = "gcv",
) -> RidgePlan:
    """Return the plan of a linear autoregression on the last inputs, by exact federated ridge.

    Its features are the states of a delay line: the inputs as they came, the newest first.

    Parameters
    ----------
    inputs
        Columns of the inputs.
    lags
        How many inputs back it sees, the present one included.
    washout
        Steps at the start of each sequence that are not predicted.

    >>> autoregression(1, lags=4).algorithm.features.n_features
    4
    """
    if inputs < 1 or lags < 1:
        raise ValueError(f"inputs is {inputs} and lags is {lags}; both must be positive")
    N = inputs * lags
    line = Reservoir.from_matrices(np.eye(N, k=-inputs), np.eye(N, inputs), activation="identity")
    features = line.features(input=False, washout=washout)
    return Plan(algorithm=FederatedRidge(features=features, ridge=ridge))


@dataclass(frozen=True)
class Constant(FeatureMap):
    """A feature map that sees nothing: one feature, always one."""

    per_step: bool = False
    washout: int = 0
    n_features = 1
    bounds = np.ones(1)

    def compute_rows(self, inputs: Sequence[Array], threads: int | None) -> list[Array]:
        lengths = (len(u) - self.washout if self.per_step else 1 for u in inputs)
        return [np.ones((n, 1)) for n in lengths]


def constant_baseline(features: FeatureMap, *, classes: tuple[str, ...] | None = None) -> RidgePlan:
    """Return the plan that predicts the mean target, and so, of classes, the most frequent.

    Parameters
    ----------
    features
        What the others learn from: its rows are the rows that are predicted.

    >>> from catchment.engine.local import run_locally
    >>> data = {"a": [Recording([0.0, 0.0], [1.0, 3.0])], "b": [Recording([0.0], [5.0])]}
    >>> plan = constant_baseline(Constant(per_step=True))
    >>> run_locally(plan, data).model.predict(np.array([7.0]))
    array([[3.]])
    """
    constant = Constant(features.per_step, features.washout)
    algorithm = FederatedRidge(
        features=constant, ridge=1.0, classes=classes, store_per_client=False
    )
    return Plan(algorithm=algorithm)


@dataclass(frozen=True, kw_only=True)
class Dummy(Scoring):
    """The score of predictions that no model makes; the server learns error sums, nothing else.

    Parameters
    ----------
    how
        "uniform": each class alike, drawn anew for each row. "persistence": the target of `horizon`
        steps before, which for a forecast of the inputs is the present input. "seasonal": the last
        one that is whole seasons before.
    classes
        Names of the outputs, if they are classes.
    horizon
        Steps from what is known to what is predicted; several if the targets are as many blocks
        of columns, one for each.
    washout
        Steps at the start of each sequence that are not predicted.
    season
        Steps of a season, for "seasonal".
    """

    how: Literal["uniform", "persistence", "seasonal"]
    classes: tuple[str, ...] | None = None
    horizon: PositiveInt | tuple[PositiveInt, ...] = 1
    washout: NonNegativeInt = 0
    season: PositiveInt = field(default=1, metadata={"later": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how == "uniform" and self.classes is None:
            raise ValueError("random guesses are of classes; pass their names")

    @property
    def horizons(self) -> tuple[int, ...]:
        return (self.horizon,) if isinstance(self.horizon, int) else self.horizon

    def client_update(self, received: Message, data: Data, context: RoundContext) -> Score:
        rng = context.rng()
        pairs = [self._pair(sequence, rng) for sequence in data()]
        if not pairs:
            raise UploadError("no-rows", "the client has no recordings")
        y, guess = (np.concatenate(part) for part in zip(*pairs, strict=True))
        return Score.of(y, guess, classes=bool(self.classes))

    def _pair(self, sequence: Recording, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return targets and guesses (n, K) of one sequence, rows without either left out."""
        if sequence.y is None:
            raise ValueError("a recording has no target; evaluation compares with targets")
        # No guess needs inputs, but all are to be scored on the rows that a model is scored on.
        refuse_nonfinite(sequence.u, "inputs")
        if self.how != "uniform":
            if not sequence.per_step:
                raise ValueError("persistence needs a target per step; recordings have one each")
            s = self.season if self.how == "seasonal" else 1
            y, before = sequence.y, [s * -(-h // s) for h in self.horizons]
            first = max(self.washout, *before)
            blocks = zip(before, np.hsplit(y, len(before)), strict=True)
            guess = np.hstack([block[first - n : max(len(y) - n, 0)] for n, block in blocks])
            y = y[first:]
        else:
            y = sequence.y[self.washout :] if sequence.per_step else sequence.y[None]
            guess = np.eye(y.shape[1])[rng.integers(y.shape[1], size=len(y))]
        known = ~(np.isnan(y).any(axis=1) | np.isnan(guess).any(axis=1))
        return y[known], guess[known]

    def read_update(self, parts: Message, context: RoundContext) -> Tally[Score]:
        return Tally.of(Score.from_message(parts).checked(), context.client)


def season_of(series: Iterable[Array]) -> int | None:
    """Return the season of some series (T, I) in steps, None if they have none.

    It is where changes from step to step are most like those before, whatever the level does.

    >>> rng = np.random.default_rng(0)
    >>> day = np.sin(np.arange(400) * np.pi / 12)[:, None] + 0.1 * rng.normal(size=(400, 1))
    >>> season_of([day]), season_of([rng.normal(size=(400, 1))])
    (24, None)
    """
    total, n = np.zeros(LONGEST_SEASON), 0
    for one in series:
        u = one[:, ~np.isnan(one).all(axis=0)]
        scale = np.maximum(np.nanstd(u, axis=0), 1e-300)
        changes = np.clip(np.diff(u, axis=0) / scale, -7.9, 7.9)
        if len(changes) > 4 and u.size:
            own = autocovariances(changes, LONGEST_SEASON)
            total, n = total + own.weight * own.moments[0], n + own.n_rows
    r = total / max(n, 1)
    if not r[0] > 0:
        return None
    inner = r[1:-1]
    peaks = 1 + np.flatnonzero((inner > r[:-2]) & (inner >= r[2:]))
    # A slow series is like itself for some steps: a season is found after that is over.
    unlike = np.flatnonzero(r[2:] < 0)
    peaks = peaks[peaks > 2 + unlike[0]] if len(unlike) else peaks[:0]
    # Of so many lags some are like this by chance.
    least = max(SEASONAL, 4 / np.sqrt(n)) * r[0]
    if not len(peaks) or r[peaks].max() < least:
        return None
    # Two seasons are as alike as one: the shortest that is nearly as good.
    return int(peaks[r[peaks] > 0.8 * r[peaks].max()][0])


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one contender came to: scores on the test data, rounds, and its model if it has one."""

    scores: Scores
    records: tuple[Record, ...] = ()
    model: Model | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """One contender in numbers; `spread` is the standard deviation of the clients' scores."""

    name: str
    metric: str
    score: float
    worst_client: str = ""
    worst: float = float("nan")
    spread: float = float("nan")
    bytes_up: int = 0
    bytes_down: int = 0
    rounds: int = 0
    seconds: float = 0.0
    note: str = ""

    @classmethod
    def of(cls, name: str, outcome: Outcome, seconds: float) -> Row:
        total = outcome.scores.total
        if total is None:
            raise ValueError(f"{name} was not scored on any client; pass test clients")
        values = [score.value for score in outcome.scores.by_client.values()]
        known = [value for value in values if not np.isnan(value)]
        client, worst = outcome.scores.worst() if known else ("", float("nan"))
        return cls(
            name,
            "NRMSE" if total.counts is None else "accuracy",
            total.value,
            client,
            worst,
            float(np.std(known)) if known else float("nan"),
            sum(record.bytes_up for record in outcome.records),
            sum(record.bytes_down for record in outcome.records),
            len(outcome.records),
            seconds,
            outcome.note,
        )


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rows by name, in the order in which the contenders were given.

    >>> table = Comparison((Row("mean", "NRMSE", 1.0), Row("ridge", "NRMSE", 0.2)))
    >>> table.best.name, table["mean"].score, len(table)
    ('ridge', 1.0, 2)
    """

    rows: tuple[Row, ...]
    outcomes: Sequence[Outcome] = field(default=(), repr=False)

    @property
    def best(self) -> Row:
        """The row with the highest accuracy, or the least NRMSE."""
        accuracy = self.rows[0].metric == "accuracy"
        return (max if accuracy else min)(self.rows, key=lambda row: row.score)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r} was not compared; the rows are {', '.join(r.name for r in self)}")

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def with_sums(model: Predictor, state: object) -> Model:
    """Return a trained model that carries the sums its readout was solved from."""
    total: RidgeStatistics | None = None
    match state:
        case RidgeState():
            total = state.total
        case Race(best=int(best), total=StatisticsSet(members=members)):
            total = members[best]
    if not isinstance(model, Model) or total is None:
        raise FederationError(
            f"{type(state).__name__} keeps no sum of statistics to adapt with; leave out adapt"
        )
    return adaptable(model, total)


def adapted_row(scores: Scores) -> Row | None:
    """Return the adapted models as a row of a comparison; None unless clients scored both."""
    total = scores.total
    if total is None or total.adapted is None:
        return None
    whole = replace(total, counts=total.adapted.counts)
    after, gains = dict[str, Score](), list[float]()
    for name, one in scores.by_client.items():
        if one.adapted is not None and one.errors.n:
            after[name] = replace(one, counts=one.adapted.counts)
            gains.append(100 * (after[name].value - one.value))
    of, worst = (f" of {len(gains)}", f", {min(gains):+.1f} at worst") if gains else ("", "")
    gain = 100 * (whole.value - total.value)
    note = f"{gain:+.1f} points; {total.adapted.lost}{of} lose more than one{worst}"
    return Row.of(ADAPTED_ROW, Outcome(Scores(whole, after), note=note), 0.0)

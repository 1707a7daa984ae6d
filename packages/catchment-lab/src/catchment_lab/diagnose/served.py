"""How one person is served: their score, their recordings beside the others', the worst of them.

The model is one that has not learned from what it is tested on. The run's own has not seen its test
clients. For somebody who trained it their statistics are taken off the sum, which is the model of a
run without them. That is so only if nothing else was fitted with them: a scale of the channels that
was is enough to hide a turned sensor or another unit. Then, and where nothing but a sum was kept or
the algorithm does not add, a model is trained again: of the other folds, which is the one that the
run's own score is of, or of all others.

What counts as far is taken from people, not from steps, which are far from independent: distances
are in units of how much people differ, 1.4826 times the median absolute deviation between them,
which a few odd ones do not widen, and at least a twentieth of what is usual within a person.

Computed where the data are. Where only a server is, it says what the server knows.
"""

from __future__ import annotations

import json
import logging
import math
import shlex
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, TypeAdapter

from catchment import Array, Integers, load
from catchment.data import Recording, Scaler, find_files
from catchment.engine import data_of
from catchment.errors import CatchmentError, FederationError
from catchment.federation import RunFolder, messages_of, read_run, targets_of
from catchment.federation.measure import Score, Scores, metrics
from catchment.federation.runs import DATABASE, MODEL, SETTLED, Run, unlearn_from_run
from catchment.plans import Beside, PlanData, PlanFile, plan_of
from catchment.readout import ClassCounts, ErrorSums, Predictor, read_for
from catchment_lab.diagnose.drawing import DrawnRecording, draw

log = logging.getLogger(__name__)
MOST_OTHERS = 40  # people whose recordings are looked at, evenly spread
MOST_RECORDINGS = 400  # of one person
MOST_STEPS = 60_000
N_DRAWN = 3
NORMAL = 1.4826  # median absolute deviation of a normal distribution to its standard deviation
LEAST = 0.05
FAR = 3.0  # deviations between people
RATE = "steps per second"
HOW = {
    "equality": "an equality in integers",
    "summed-anew": "the others' were summed anew",
    "subtracted": "exact but for rounding",
}

# JSON has null for what is no number.
Number = Annotated[float, BeforeValidator(lambda one: math.nan if one is None else one)]
Counts = Annotated[
    Integers,
    PlainValidator(lambda one: np.array(one, dtype=np.int64)),
    PlainSerializer(lambda one: one.tolist()),
]
Drawing = Annotated[
    DrawnRecording,
    PlainValidator(DrawnRecording.from_dict),
    PlainSerializer(DrawnRecording.to_dict),
]
Judge = tuple[Predictor, str]  # a model, and which one it is in words


@dataclass(frozen=True)
class Quantity:
    """One number of a person's recordings and the others' median."""

    name: str
    own: Number
    others: Number


@dataclass(frozen=True)
class ChannelShift:
    """One channel of one person beside the others'.

    Parameters
    ----------
    mean, others_mean
        The person's mean, and the median of the others' means.
    mean_shift
        Their difference in between-person standard deviations of the others' means.
    spread, spread_ratio
        The person's standard deviation, and how many times the others' median that is.
    spread_shift
        Its logarithm in between-person standard deviations.
    missing, others_missing
        Shares of missing values.
    usual
        The larger of both shifts of the furthest other person but one.
    """

    name: str
    mean: Number
    others_mean: Number
    mean_shift: Number
    spread: Number
    spread_ratio: Number
    spread_shift: Number
    missing: float
    others_missing: float
    usual: Number = 0.0

    @property
    def far(self) -> float:
        """The larger of both shifts."""
        return max(abs(self.mean_shift), abs(self.spread_shift))

    @property
    def stands_out(self) -> bool:
        """Whether it lies further off than others do; one other odd person does not hide that."""
        return self.far > max(FAR, 1.5 * self.usual)


@dataclass(frozen=True)
class ClassShift:
    """Shares of each class among a person's rows and among the others'."""

    name: str
    share: float
    others: float
    rows: int


@dataclass(frozen=True)
class WorstRecording:
    """One recording of a person by its number: what it was taken for how often, or its error."""

    number: int
    words: str
    score: float


@dataclass(frozen=True, eq=False)
class Served:
    """How one person is served, beside the others; `served_in_words` says it.

    Parameters
    ----------
    value, rows
        The person's score, by a model that has not learned from what it is tested on, and of how
        many rows it is.
    how
        Which model that is.
    others
        Everybody else's score, by name.
    confusion, others_confusion
        Counts (K, K), rows true classes; of the others together where they are known.
    notes
        What is not known, and why.
    """

    client: str
    metric: str
    value: Number
    rows: int
    how: str
    others: Mapping[str, Number] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    confusion: Counts | None = None
    others_confusion: Counts | None = None
    quantities: tuple[Quantity, ...] = ()
    channels: tuple[ChannelShift, ...] = ()
    classes: tuple[ClassShift, ...] = ()
    worst: tuple[WorstRecording, ...] = ()
    drawn: tuple[Drawing, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def more_is_better(self) -> bool:
        return self.metric == "accuracy"

    @property
    def median(self) -> float:
        """The others' median; NaN without others."""
        known = [value for value in self.others.values() if not math.isnan(value)]
        return float(np.median(known)) if known else math.nan

    @property
    def gap(self) -> float:
        """By how much the person is worse off than the others' median."""
        return self.gain(self.value, self.median)

    def gain(self, before: float, after: float) -> float:
        """Return by how much one score is better than another."""
        return after - before if self.more_is_better else before - after

    @property
    def is_badly_served(self) -> bool:
        """Whether the gap is larger than what is usual between the others."""
        known = np.array([value for value in self.others.values() if not math.isnan(value)])
        if not len(known):
            return False
        least = 0.03 if self.more_is_better else 0.1 * abs(self.median)
        return bool(self.gap > max(least, 1.5 * float(between(known[:, None])[0])))

    @property
    def place(self) -> int:
        """1 for the worst off of all, equal ones counted before."""
        return 1 + sum(self.gain(self.value, other) < 0 for other in self.others.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        plain: dict[str, Any] = json.loads(TypeAdapter(Served).dump_json(self))
        return plain

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Served:
        """Return what `to_dict` made a dictionary of."""
        return TypeAdapter(Served).validate_python(found)


@dataclass(frozen=True, eq=False)
class Person:
    """One person's recordings in numbers; arrays are (I,).

    `about` has how many there are, how long and how fast, by name, where it is known.
    """

    mean: Array
    spread: Array
    missing: Array
    about: dict[str, float]

    @classmethod
    def of(cls, recordings: Sequence[Recording]) -> Person:
        """Return what at least one raw recording is like.

        >>> one = Person.of([Recording([[0.0], [2.0], [np.nan]], times=[0.0, 0.5, 1.0])])
        >>> one.mean, one.spread, one.missing.round(2), one.about["steps per second"]
        (array([1.]), array([1.]), array([0.33]), 2.0)
        """
        some = [recordings[k] for k in evenly(len(recordings), MOST_RECORDINGS)]
        u = np.concatenate([one.u for one in some])
        u = u[:: max(1, -(-len(u) // MOST_STEPS))]
        known = ~np.isnan(u)
        n = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, u, 0.0).sum(axis=0) / n
        spread = np.sqrt(np.where(known, (u - mean) ** 2, 0.0).sum(axis=0) / n)
        about = {
            "recordings": float(len(recordings)),
            "steps in a recording": float(np.median([one.n_steps for one in recordings])),
            "missing values, %": 100 * float(1.0 - known.mean()),
        }
        steps = [np.diff(one.times) for one in some if one.times is not None and one.n_steps > 1]
        if steps:
            about[RATE] = float(np.median([1 / np.median(one) for one in steps]))
            seconds = [one.sum() + np.median(one) for one in steps]
            about["seconds in a recording"] = float(np.median(seconds))
        return cls(mean, spread, 1.0 - known.mean(axis=0), about)


def evenly(n: int, most: int) -> Integers:
    """Return at most so many of the numbers below n, evenly spread.

    >>> evenly(10, 3), evenly(2, 3)
    (array([0, 4, 9]), array([0, 1]))
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def between(values: Array, within: Array | float = 0.0) -> Array:
    """Return how much people differ: robust deviations (I,) of values (n, I), one row a person.

    Parameters
    ----------
    within
        What is usual within a person; the deviation is at least a twentieth of it.

    >>> between(np.array([[1.0], [2.0], [3.0], [90.0]])).round(3)
    array([1.483])
    """
    middle = np.median(values, axis=0)
    deviation = NORMAL * np.median(np.abs(values - middle), axis=0)
    tiny = 1e-9 * np.abs(middle) + np.finfo(float).tiny
    return np.asarray(np.maximum(np.maximum(deviation, LEAST * np.asarray(within)), tiny))


def channel_shifts(
    person: Person, others: Sequence[Person], names: Sequence[str]
) -> tuple[ChannelShift, ...]:
    """Return every channel of a person beside at least two others'.

    >>> rng = np.random.default_rng(0)
    >>> people = [Person.of([Recording(rng.normal(size=(99, 1)))]) for _ in range(4)]
    >>> odd = Person.of([Recording(5 * rng.normal(size=(99, 1)))])
    >>> shift = channel_shifts(odd, people, ["load"])[0]
    >>> shift.stands_out, round(shift.spread_ratio, 1)
    (True, 5.6)
    """
    every = (person, *others)
    means, spreads = (np.array([getattr(one, k) for one in every]) for k in ("mean", "spread"))
    middle, typical = np.median(means[1:], axis=0), np.median(spreads[1:], axis=0)
    logs = np.log(np.maximum(spreads, 1e-12 + 1e-6 * typical))
    mean_shifts = (means - middle) / between(means[1:], typical)
    spread_shifts = (logs - np.median(logs[1:], axis=0)) / between(logs[1:], 1.0)
    far = np.maximum(np.abs(mean_shifts), np.abs(spread_shifts))[1:]
    ratio = np.where(typical > 0, spreads[0] / np.where(typical > 0, typical, 1.0), np.nan)
    columns = (means[0], middle, mean_shifts[0], spreads[0], ratio, spread_shifts[0])
    lost = (person.missing, np.mean([one.missing for one in others], axis=0))
    numbers = np.array([*columns, *lost, np.sort(far, axis=0)[-2]])
    return tuple(ChannelShift(name, *numbers[:, k].tolist()) for k, name in enumerate(names))


def class_shifts(
    own: Sequence[int], others: Sequence[int], names: Sequence[str]
) -> tuple[ClassShift, ...]:
    """Return the shares of classes from counts of rows.

    >>> class_shifts([1, 3], [5, 5], ["a", "b"])[1]
    ClassShift(name='b', share=0.75, others=0.5, rows=3)
    """
    mine, theirs = max(sum(own), 1), max(sum(others), 1)
    return tuple(
        ClassShift(name, a / mine, b / theirs, int(a))
        for name, a, b in zip(names, own, others, strict=True)
    )


def how_served(
    folder: str | Path,
    client: str,
    *,
    files: Sequence[str | Path] = (),
    data: Path | None = None,
    use: Iterable[Callable[..., Any]] = (),
    threads: int | None = None,
) -> Served:
    """Return how one person is served by a run's model, beside the others.

    Parameters
    ----------
    folder
        Of the run.
    client
        Whose recordings are looked at: any client of the run or, with files, anybody.
    files
        The person's raw recordings, in place of those that the plan names.
    data
        Directory of public data sets; the usual ones if not given.
    use
        Classes of feature maps of one's own.

    >>> import tempfile
    >>> from catchment.plans import parse_plan, run_plan
    >>> data = '[data]\\nsource = "wearables"\\nusers = 5\\nwindows_per_user = 12\\n'
    >>> plan = parse_plan(data + 'test = "folds"\\n[features]\\nunits = 10\\n')
    >>> with tempfile.TemporaryDirectory() as place:
    ...     _ = run_plan(plan, Path(place) / "run")
    ...     how_served(Path(place) / "run", "user-001").rows
    12
    """
    run = read_run(folder)
    model = load(run.folder / MODEL, use=tuple(use))
    file, held = plan_of(run, None), None
    missing = "the run's folder has no plan that names them"
    if file is not None:
        try:
            held = file.load_data(data)
        except (CatchmentError, ValueError, OSError) as error:
            missing = str(error)
    if files:
        recordings: Sequence[Recording] | None = _of_files(model, files, client)
    else:
        if held is not None and client not in held.names and messages_of(folder, client, 1):
            held, missing = None, "the plan's data have no such client: it was a device"
        recordings = _of_client(held, client)
    if recordings is None:
        return as_the_server_knows(run, client, missing)
    judge = saved_judge(client, model, held) or without(run.folder, client, model)
    if judge is None:
        assert file is not None
        assert held is not None
        judge = trained_without(file, held, client, threads)
    notes = (f"the others' recordings are not here ({missing})",) if held is None else ()
    counts = read_confusions(folder, len(run.classes))
    return _served(run, client, held, judge, counts, recordings, notes)


def keep_worst(
    store: RunFolder,
    file: PlanFile,
    held: PlanData,
    model: Predictor,
    scores: Scores,
    models: Mapping[str, Predictor],
) -> None:
    """Keep how the worst client is served, if badly, at the end of a run in this process.

    It has raw signals and exact numbers of one client, so that plans that hide their clients keep
    none of it. What goes wrong here is told and does not end a run that is done.

    Parameters
    ----------
    models
        By client: the model that it was tested by, where that is not the run's own.
    """
    known = {name: one for name, one in scores.by_client.items() if not np.isnan(one.value)}
    if file.is_noisy or file.is_secret or len(known) < 3:
        return
    client, _ = Scores(scores.total, known).worst()
    others = {name: one.value for name, one in known.items() if name != client}
    metric, value = metrics(known[client])[0][0], known[client].value
    if not Served(client, metric, value, 0, "", others).is_badly_served:
        return
    folds = (models[client], "by the model of the other folds") if models else None
    judge = folds or saved_judge(client, model, held)
    recordings = _of_client(held, client)
    if judge is None or recordings is None:
        return
    try:
        counts = {k: one.counts.confusion for k, one in known.items() if one.counts is not None}
        found = _served(read_run(store.folder), client, held, judge, counts, recordings)
        content = json.dumps(found.to_dict(), separators=(",", ":"), allow_nan=False)
        store.insert("served", [(client, content)], replace=True)
    except (CatchmentError, ValueError, ArithmeticError) as error:
        log.info("why %s is served badly is not known: %s", client, error)


def read_served(folder: str | Path) -> Served | None:
    """Return what a run's folder says of its worst client, None if it says nothing."""
    rows = _rows(folder, "served", "SELECT content FROM served")
    return Served.from_dict(json.loads(rows[0][0])) if rows else None


def read_confusions(folder: str | Path, n_classes: int) -> dict[str, Integers]:
    """Return the counts (K, K) of each client; nothing in runs of earlier versions."""
    found: dict[str, Integers] = {}
    for client, i, j, count in _rows(folder, "confusions", "SELECT * FROM confusions"):
        counts = found.setdefault(client, np.zeros((n_classes, n_classes), dtype=np.int64))
        counts[i, j] = count
    return found


def _rows(folder: str | Path, table: str, query: str) -> list[Any]:
    path = Path(folder) / DATABASE
    if not path.is_file():
        return []
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        there = "SELECT 1 FROM sqlite_master WHERE name = ?"
        known = database.execute(there, (table,)).fetchone()
        return database.execute(query).fetchall() if known else []


def _of_files(model: Predictor, files: Sequence[str | Path], client: str) -> list[Recording]:
    """Return all recordings of files; only the client's where they name several clients."""
    found: dict[str, list[Recording]] = {}
    for path in find_files([str(one) for one in files]):
        for name, recordings in read_for(model, path, targets=True).items():
            found.setdefault(name, []).extend(recordings)
    if "client" in model.columns and client in found:
        return found[client]
    return [one for recordings in found.values() for one in recordings]


def _of_client(held: PlanData | None, client: str) -> list[Recording] | None:
    if held is None:
        return None
    source = held.test.get(client, held.train.get(client))
    if source is None:
        names = ", ".join(held.names[:8]) + (", ..." if len(held.names) > 8 else "")
        raise ValueError(
            f"{client!r} is not a client of this run, which has {names}; pass a new client's "
            "recordings as --files FILES"
        )
    return list(data_of(source)())


def as_the_server_knows(run: Run, client: str, missing: str) -> Served:
    """Return what a run's folder alone says of a client, and that the rest is not here."""
    asked = {name for name in (*run.scores, *run.rows_by_client) if name}
    if client not in asked and not messages_of(run.folder, client, 1):
        known = ", ".join(sorted(asked)[:8])
        raise ValueError(f"{client!r} is not a client of this run, which has {known or 'none'}")
    others = {n: s[run.metric] for n, s in run.scores.items() if n not in ("", client)}
    own = run.scores.get(client, {})
    counts = read_confusions(run.folder, len(run.classes))
    rest = [one for name, one in counts.items() if name != client]
    notes = [
        f"Their recordings are not here ({missing}). The server knows scores, the messages and "
        "what is below; it does not know their signals, and nothing about them is said here.",
        "Whoever has the recordings learns the rest with the run's folder: catchment diagnose "
        f"RUN --client {shlex.quote(client)} --files FILES",
    ]
    notes += [f"It stands out: {flag}" for flag in run.flags if flag.client == client]
    return Served(
        client,
        run.metric,
        own.get(run.metric, float("nan")),
        run.score_rows.get(client, 0),
        "as the run's own test had it" if own else "not tested: they trained the model",
        others,
        run.classes,
        counts.get(client),
        sum(rest[1:], start=rest[0]) if rest else None,
        notes=tuple(notes),
    )


def saved_judge(client: str, model: Predictor, held: PlanData | None) -> Judge | None:
    """Return the run's own model where it may judge a client; None if it learned from them."""
    if held is None or client not in held.names:
        return model, f"by the run's model, which was trained without {client}"
    if client not in held.test:
        return None
    if client in held.train:
        return model, "by the run's model, on later data of theirs than it learned from"
    return model, f"by the run's model, which has never seen {client}"


def without(folder: Path, client: str, model: Predictor) -> Judge | None:
    """Return the run's model without a client, by subtraction; None if that cannot be had.

    It cannot where something else is still fitted with the client, such as the scale.
    """
    if any(stage.name in SETTLED for stage in read_run(folder).stages):
        return None
    try:
        found = unlearn_from_run(folder, client, model)
    except FederationError:
        return None
    told = found.certificate
    return found.model, (
        f"by the run's model without {client}, left out by subtraction: the statistics of "
        f"{told.n_rows} rows were taken off the sum ({HOW[told.how]})"
    )


def trained_without(
    file: PlanFile, held: PlanData, client: str, threads: int | None = None
) -> Judge:
    """Return a model trained again without a client, in the clear: on the other folds, if any."""
    beside = Beside(file, held, threads)
    left_out, how = [client], "by a model trained again on the other {} clients"
    if file.sharing.test == "folds":
        left_out = next(fold for fold in beside.folds if client in fold)
        how = "by the model of the other folds, {} clients, trained again"
    others = {name: source for name, source in held.train.items() if name not in left_out}
    model = beside.trained_on(others).read_from(dict(held.about.columns))
    return model, how.format(len(others))


@dataclass(frozen=True, eq=False)
class RowByRow:
    """Targets and outputs (n, K) of a person's rows, and the raw recording (n,) each is of."""

    y: Array
    outputs: Array
    source: Integers
    classes: tuple[str, ...] | None

    @classmethod
    def of(cls, model: Predictor, raw: Sequence[Recording], client: str = "") -> RowByRow:
        """Return what a model says of each row of raw recordings whose target is known.

        >>> from catchment import EchoState, fit
        >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
        >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
        >>> RowByRow.of(fit(EchoState(30), data), data[:3]).source
        array([0, 1, 2])
        """
        among = [one if model.classes is None else one.among(model.classes) for one in raw]
        whole = list(map(model.labeled, model.preprocessing.apply(among)))
        outputs = model.outputs_of(whole, client)
        washout = model.washout if model.per_step else None
        every = enumerate(zip(whole, outputs, strict=True))
        y = np.concatenate([targets_of(one, len(rows), washout, k) for k, (one, rows) in every])
        places = [segment.source for segment in model.preprocessing.inputs(among)]
        source = np.repeat(places, [len(rows) for rows in outputs])
        known = ~np.isnan(y).any(axis=1)
        return cls(y[known], np.concatenate(outputs)[known], source[known], model.classes)

    @property
    def score(self) -> Score:
        counts = ClassCounts.of_scores(self.y, self.outputs) if self.classes else None
        return Score(ErrorSums.of(self.y, self.outputs), counts)

    def worst(self) -> tuple[WorstRecording, ...]:
        """Return the worst recordings: by wrong rows, or by their root mean squared error."""
        wrong = ((self.y - self.outputs) ** 2).mean(axis=1)
        if self.classes is not None:
            wrong = (self.y.argmax(axis=1) != self.outputs.argmax(axis=1)).astype(np.float64)
        found = []
        for k in np.unique(self.source):
            bad = wrong[self.source == k]
            score = float(bad.mean()) if self.classes else float(np.sqrt(bad.mean()))
            words = f"{len(bad)} rows, root mean squared error {score:.3g}"
            if self.classes is not None:
                truth, taken = (
                    self.classes[int(np.bincount(one[self.source == k].argmax(axis=1)).argmax())]
                    for one in (self.y, self.outputs)
                )
                words = f"{int(bad.sum())} of {len(bad)} rows wrong; mostly {truth}, "
                words += f"mostly predicted as {taken}"
                if len(bad) == 1:
                    words = f"{truth}, predicted as {taken}" if bad[0] else f"{truth}, right"
            found.append(WorstRecording(int(k), words, score))
        return tuple(sorted(found, key=lambda one: (-one.score, one.number))[:N_DRAWN])


def _served(
    run: Run,
    client: str,
    held: PlanData | None,
    judge: Judge,
    confusions: Mapping[str, Integers],
    recordings: Sequence[Recording],
    notes: tuple[str, ...] = (),
) -> Served:
    """Return how a client is served on raw recordings with targets."""
    model, how = judge
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd recordings lie beyond what a map expects
        rows = RowByRow.of(model, recordings, client)
        if not len(rows.y):
            raise ValueError(
                f"no row of {client} has a target to compare with; pass files that have it"
            )
        score, worst, steady = rows.score, rows.worst(), _scaled_by(model, recordings)
        tested = run.scores.get(client, {}).get(run.metric)
        if tested is not None and not np.isclose(tested, score.value, atol=5e-4):
            notes += (
                f"The run's own test had {tested:.3g} here, by a model without several people at "
                "once; the rest of this is by the model named above.",
            )
        rest = [counts for name, counts in confusions.items() if name != client]
        found = Served(
            client,
            "accuracy" if model.classes else "NRMSE",
            score.value,
            score.errors.n,
            how,
            {n: s[run.metric] for n, s in run.scores.items() if n not in ("", client)},
            model.classes or (),
            None if score.counts is None else score.counts.confusion,
            np.asarray(np.sum(rest, axis=0)) if rest else None,
            worst=worst,
            drawn=tuple(draw(steady, recordings[one.number], client) for one in worst),
            notes=notes,
        )
        return _compared(found, model, recordings, rows, _others(held, client, model))


def _compared(
    found: Served,
    model: Predictor,
    recordings: Sequence[Recording],
    rows: RowByRow,
    others: Sequence[Sequence[Recording]],
) -> Served:
    """Return the same with the person's recordings beside those of two others or more."""
    if len(others) < 2:
        return found
    own, people = Person.of(recordings), [Person.of(one) for one in others]
    channels = model.channels or tuple(f"channel {k}" for k in range(len(own.mean)))
    numbers = []
    for name, value in own.about.items():
        if name != RATE or model.preprocessing.rate is None:  # else all are brought to one
            known = [one.about[name] for one in people if name in one.about]
            numbers.append(Quantity(name, value, float(np.median(known)) if known else math.nan))
    shifts = channel_shifts(own, people, channels)
    found = replace(found, quantities=tuple(numbers), channels=shifts)
    if rows.classes is None:
        return found
    counts = np.zeros(len(rows.classes))
    for one in (one for several in others for one in several):
        y = one.among(rows.classes).y
        counts += 0 if y is None else np.nan_to_num(np.atleast_2d(y)).sum(axis=0)
    own_rows, theirs = (x.round().astype(int).tolist() for x in (rows.y.sum(axis=0), counts))
    classes = class_shifts(own_rows, theirs, rows.classes) if counts.any() else ()
    return replace(found, classes=classes)


def _others(held: PlanData | None, client: str, model: Predictor) -> list[list[Recording]]:
    """Return the raw recordings of some of the others that can be read and prepared."""
    names = [] if held is None else [name for name in held.names if name != client]
    found = []
    for name in (names[k] for k in evenly(len(names), MOST_OTHERS)):
        assert held is not None
        try:
            every = list(data_of(held.train.get(name, held.test.get(name, ())))())
            if model.preprocessing.inputs(every):
                found.append(every)
        except (CatchmentError, ValueError, OSError):
            continue  # a run leaves them out, and says so
    return found


def _scaled_by(model: Predictor, recordings: Sequence[Recording]) -> Predictor:
    """Return the model with a scale of one's own fitted to all recordings, to draw single ones."""
    preprocessing = model.preprocessing
    if preprocessing.scale != "own":
        return model
    scale = Scaler.fit(preprocessing.before_scaling(recordings))
    return model.prepared_by(replace(preprocessing, scale=scale), model.channels)

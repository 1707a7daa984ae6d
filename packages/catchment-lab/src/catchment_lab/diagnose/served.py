"""Why one person is served as they are: their recordings, a model that may judge them, the others.

The model is one that has not learned from what it is tested on. The run's own has not seen its test
clients. For somebody who trained it their statistics are taken off the sum, which is the model of a
run without them. That is so only if nothing else was fitted with them: a scale of the channels that
was is enough to hide a turned sensor or another unit. Then, and where nothing but a sum was kept or
the algorithm does not add, a model is trained again: of the other folds, which is the one that the
run's own score is of, or of all others.

Computed where the data are. Where only a server is, it says what the server knows.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from catchment import Array, Integers, load
from catchment.data import Preprocessing, Recording, Scaler, find_files
from catchment.engine import Source, data_of
from catchment.errors import CatchmentError, FederationError
from catchment.federation import RunFolder, messages_of, read_run, targets_of
from catchment.federation.measure import Score, Scores, metrics
from catchment.federation.runs import DATABASE, MODEL, SETTLED, Run, draw, unlearn_from_run
from catchment.plans import Beside, PlanData, PlanFile, plan_of
from catchment.readout import ClassCounts, ErrorSums, Predictor, read_for
from catchment_lab.diagnose.compare import (
    Person,
    channel_shifts,
    class_shifts,
    evenly,
    quantities,
)
from catchment_lab.diagnose.reasons import Served, WorstRecording, fitted_line, reasons

log = logging.getLogger(__name__)
MOST_OTHERS = 40  # people whose recordings are looked at, evenly spread
N_DRAWN = 3
HOW = {
    "equality": "an equality in integers",
    "summed-anew": "the others' were summed anew",
    "subtracted": "exact but for rounding",
}


def how_served(
    folder: str | Path,
    client: str,
    *,
    files: Sequence[str | Path] = (),
    data: Path | None = None,
    use: Iterable[Callable[..., Any]] = (),
    threads: int | None = None,
) -> Served:
    """Return how one person is served by a run's model, and likely reasons.

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
    about = About(run, client, held, *judge, read_confusions(folder, len(run.classes)))
    return about.served(recordings, notes)


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
        found = About(read_run(store.folder), client, held, *judge, counts).served(recordings)
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
            f"{client!r} is no client of this run; there are {names}. For somebody else pass "
            "their recordings: --files FILES"
        )
    return list(data_of(source)())


def as_the_server_knows(run: Run, client: str, missing: str) -> Served:
    """Return what a run's folder alone says of a client, and that the rest is not here."""
    asked = {name for name in (*run.scores, *run.rows_by_client) if name}
    if client not in asked and not messages_of(run.folder, client, 1):
        known = ", ".join(sorted(asked)[:8])
        raise ValueError(f"{client!r} is no client of this run; there are {known or 'none'}")
    others = {n: s[run.metric] for n, s in run.scores.items() if n not in ("", client)}
    own = run.scores.get(client, {})
    counts = read_confusions(run.folder, len(run.classes))
    rest = [one for name, one in counts.items() if name != client]
    notes = [
        f"Their recordings are not here ({missing}). The server knows scores, the messages and "
        "what is below; it does not know their signals, and nothing about them is said here.",
        "Whoever has the recordings learns the rest with the run's folder: catchment diagnose "
        f"RUN --client {client} --files FILES",
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


Judge = tuple[Predictor, str]  # a model, and which one it is in words


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

    @property
    def wrong(self) -> Array:
        """Whether each row is wrong, (n,), or its mean squared error."""
        if self.classes is None:
            return np.asarray(((self.y - self.outputs) ** 2).mean(axis=1))
        wrong = self.y.argmax(axis=1) != self.outputs.argmax(axis=1)
        return np.asarray(wrong, dtype=np.float64)

    def worst(self) -> tuple[WorstRecording, ...]:
        """Return the worst recordings: by wrong rows, or by their root mean squared error.

        Of those equally wrong the one that is further off comes first, by a hair. One mistake three
        times over shows less than three mistakes.
        """
        each = self.wrong
        if self.classes:
            true = np.take_along_axis(self.outputs, self.y.argmax(axis=1)[:, None], axis=1)[:, 0]
            each = each + 1e-3 * np.clip(self.outputs.max(axis=1) - true, 0.0, 10.0)
        found = []
        for k in np.unique(self.source):
            bad = float(each[self.source == k].mean())
            score = bad if self.classes else float(np.sqrt(bad))
            found.append(WorstRecording(int(k), self._taken_for(k), score))
        found.sort(key=lambda one: (-one.score, one.number))
        first = {one.words: one for one in reversed(found)}.values()
        shown = sorted(found, key=lambda one: (one not in first, -one.score))[:N_DRAWN]
        return tuple(sorted(shown, key=lambda one: (-one.score, one.number)))

    def _taken_for(self, number: int) -> str:
        here = self.source == number
        n, wrong = int(here.sum()), self.wrong[here]
        if self.classes is None:
            return f"{n} rows, root mean squared error {np.sqrt(wrong.mean()):.3g}"
        truth, said = (
            self.classes[int(np.bincount(one[here].argmax(axis=1)).argmax())]
            for one in (self.y, self.outputs)
        )
        if n == 1:
            return f"{truth}, taken for {said}" if wrong[0] else f"{truth}, right"
        return f"{int(wrong.sum())} of {n} rows wrong; mostly {truth}, mostly taken for {said}"


@dataclass(frozen=True, eq=False)
class About:
    """All that is needed to say how a client is served, but its recordings."""

    run: Run
    client: str
    held: PlanData | None
    model: Predictor
    how: str
    confusions: Mapping[str, Integers]

    def served(self, recordings: Sequence[Recording], notes: tuple[str, ...] = ()) -> Served:
        """Return how the client is served on raw recordings with targets."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd recordings lie beyond what a map expects
            return self._served(recordings, notes)

    def _served(self, recordings: Sequence[Recording], notes: tuple[str, ...]) -> Served:
        model, metric = self.model, self.run.metric
        rows = RowByRow.of(model, recordings, self.client)
        if not len(rows.y):
            raise ValueError(
                f"no row of {self.client} has a target to compare with; pass files that have it"
            )
        score, worst, wrong = rows.score, rows.worst(), rows.wrong
        counts = None if score.counts is None else score.counts.confusion
        tested = self.run.scores.get(self.client, {}).get(metric)
        if tested is not None and not np.isclose(tested, score.value, atol=5e-4):
            notes += (
                f"The run's own test had {tested:.3g} here, by a model without several people at "
                "once; the rest of this is by the model named above.",
            )
        steady = _scaled_by(model, recordings)
        found = Served(
            self.client,
            "accuracy" if model.classes else "NRMSE",
            score.value,
            score.errors.n,
            self.how,
            {n: s[metric] for n, s in self.run.scores.items() if n not in ("", self.client)},
            model.classes or (),
            counts,
            self._others_confusion(counts),
            worst=worst,
            drawn=tuple(draw(steady, [recordings[one.number]], self.client) for one in worst),
            line=self._line(rows),
            recordings=tuple(
                (int(k), int(wrong[rows.source == k].sum()), int((rows.source == k).sum()))
                for k in (np.unique(rows.source) if model.classes else ())
            ),
            notes=notes,
        )
        found = self._compared(found, recordings, rows)
        return replace(found, reasons=reasons(found))

    def _compared(self, found: Served, recordings: Sequence[Recording], rows: RowByRow) -> Served:
        """Return the same with the person's recordings beside those of two others or more."""
        others = [list(data_of(one)()) for one in self._others()]
        if len(others) < 2:
            return found
        own, people = Person.of(recordings), [Person.of(one) for one in others]
        channels = self.model.channels or tuple(f"channel {k}" for k in range(len(own.mean)))
        numbers = quantities(own, people)
        if self.model.preprocessing.rate is not None:  # all are brought to one
            numbers = tuple(one for one in numbers if one.name != "steps per second")
        found = replace(found, quantities=numbers, channels=channel_shifts(own, people, channels))
        if rows.classes is None:
            return found
        counts = np.zeros(len(rows.classes))
        for one in (one for several in others for one in several):
            y = one.among(rows.classes).y
            counts += 0 if y is None else np.nan_to_num(np.atleast_2d(y)).sum(axis=0)
        own_rows = rows.y.sum(axis=0).round().astype(int).tolist()
        shifts = class_shifts(own_rows, counts.round().astype(int).tolist(), rows.classes)
        return replace(found, classes=shifts if counts.any() else ())

    def _others(self) -> list[Source]:
        """Return the raw recordings of some of the others that can be used."""
        if self.held is None:
            return []
        test, train = self.held.test, self.held.train
        names = [name for name in self.held.names if name != self.client]
        chosen = [names[k] for k in evenly(len(names), MOST_OTHERS)]
        some = [train[name] if name in train else test[name] for name in chosen]
        return [source for source in some if _is_usable(source, self.model.preprocessing)]

    def _others_confusion(self, own: Integers | None) -> Integers | None:
        rest = [counts for name, counts in self.confusions.items() if name != self.client]
        if rest:
            return np.asarray(np.sum(rest, axis=0))
        total = self.run.confusion
        if total is None or own is None or self.client not in self.run.scores:
            return total
        left = total - own
        return left if (left >= 0).all() else None

    def _line(self, rows: RowByRow) -> tuple[float, float, float] | None:
        alone = rows.classes is None and rows.y.shape[1] == 1
        if not alone or self.model.preprocessing.horizon is not None:
            return None
        return fitted_line(rows.y[:, 0], rows.outputs[:, 0])


def _is_usable(source: Source, preprocessing: Preprocessing) -> bool:
    """Return whether recordings can be read and prepared; a run leaves out others, and says so."""
    try:
        return bool(preprocessing.inputs(list(data_of(source)())))
    except (CatchmentError, ValueError, OSError):
        return False


def _scaled_by(model: Predictor, recordings: Sequence[Recording]) -> Predictor:
    """Return the model with a scale of one's own fitted to all recordings, to draw single ones."""
    preprocessing = model.preprocessing
    if preprocessing.scale != "own":
        return model
    scale = Scaler.fit(preprocessing.before_scaling(recordings))
    return model.prepared_by(replace(preprocessing, scale=scale), model.channels)

"""Everything about how one client is served, from its recordings, the others' and a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from catchment import Integers
from catchment.data import Prepare, Recording
from catchment.engine import Source, data_of
from catchment.errors import CatchmentError
from catchment.federation import model_of
from catchment.federation.runs import Run, draw
from catchment.plans import PlanData
from catchment.readout import Model, Predictor
from catchment_lab.diagnose.judges import Judge
from catchment_lab.diagnose.person import Person
from catchment_lab.diagnose.reasons import Evidence, fitted_line, reasons
from catchment_lab.diagnose.records import Quantity, Served, WorstRecording
from catchment_lab.diagnose.repairs import repairs
from catchment_lab.diagnose.run_features import channel_names, kept_moments, moments_of
from catchment_lab.diagnose.shift import channel_shifts, class_shifts, feature_shift
from catchment_lab.diagnose.trials import RowByRow, personal_trial, row_by_row, tried, unheard

MOST_OTHERS = 40  # people whose recordings are looked at, evenly spread
MOST_ROWS_OF = 12  # people whose features are computed, where their statistics were not kept
N_DRAWN = 3
MOST_FEATURES = 4000  # beyond this a readout of one's own takes too long


@dataclass(frozen=True, eq=False)
class About:
    """All that is needed to say how a client is served, but its recordings."""

    run: Run
    client: str
    held: PlanData | None
    judge: Judge
    saved: Predictor
    confusions: Mapping[str, Integers]

    def served(self, recordings: Sequence[Recording], notes: tuple[str, ...] = ()) -> Served:
        """Return how the client is served on raw recordings with targets."""
        model = self.judge.model
        rows = row_by_row(model, recordings, self.client)
        if not len(rows.y):
            raise ValueError(
                f"no row of {self.client} has a target to compare with; pass files that have it"
            )
        score = rows.score
        channels = model.channels or tuple(f"channel {k}" for k in range(recordings[0].n_inputs))
        own = Person.of(recordings)
        enough = len(self.others) >= 2
        found = Served(
            self.client,
            "accuracy" if model.classes else "NRMSE",
            score.value,
            score.errors.n,
            self.judge.how,
            self.scores,
            model.classes or (),
            None if score.counts is None else score.counts.confusion,
            self._others_confusion(score.counts.confusion if score.counts else None),
            _quantities(own, self.people) if enough else (),
            channel_shifts(own, self.people, channels) if enough else (),
            self._features(recordings),
            self._classes(rows),
            self._personal(recordings),
            *self._worst(rows, recordings),
            notes=(*notes, *self._score_notes(score.value)),
        )
        looked_for = enough and found.is_badly_served
        changes = repairs(own, self.people, channels, has_rate=self._has_rate) if looked_for else ()
        mended = tuple(tried(model, recordings, changes, self.client))
        told = Evidence(
            found.metric,
            found.value,
            found.rows,
            list(found.others.values()),
            mended,
            found.confusion,
            found.others_confusion,
            found.classes,
            found.channels,
            found.features,
            found.personal,
            self._line(rows),
            found.names,
            rows.wrong_by_recording(),
        )
        return replace(found, reasons=reasons(told))

    @property
    def _has_rate(self) -> bool:
        return self.judge.model.prepare.rate is not None

    @cached_property
    def others(self) -> dict[str, Source]:
        """Some of the others whose recordings can be used, by name: their raw recordings."""
        if self.held is None:
            return {}
        whole, train = self.held.whole, self.held.train
        names = [name for name in self.held.names if name != self.client]
        places = np.linspace(0, len(names) - 1, min(MOST_OTHERS, len(names))).round().astype(int)
        chosen = [names[k] for k in np.unique(places)]
        some = {name: train[name] if name in train else whole[name] for name in chosen}
        prepare = self.judge.model.prepare
        return {name: source for name, source in some.items() if _is_usable(source, prepare)}

    @cached_property
    def people(self) -> list[Person]:
        """What the others' recordings are like."""
        return [Person.of(list(data_of(source)())) for source in self.others.values()]

    @cached_property
    def scores(self) -> dict[str, float]:
        """The others' scores, as the run's own test had them."""
        metric = self.run.metric
        return {n: s[metric] for n, s in self.run.scores.items() if n not in ("", self.client)}

    def _score_notes(self, value: float) -> tuple[str, ...]:
        own = self.run.scores.get(self.client, {}).get(self.run.metric)
        if own is None or np.isclose(own, value, atol=5e-4):
            return ()
        return (
            f"The run's own test had {own:.3g} here, by a model without several people at once; "
            "the rest of this is by the model named above.",
        )

    def _others_confusion(self, own: Integers | None) -> Integers | None:
        rest = [counts for name, counts in self.confusions.items() if name != self.client]
        if rest:
            return np.asarray(np.sum(rest, axis=0))
        total = self.run.confusion
        if total is None or own is None or self.client not in self.run.scores:
            return total
        left = total - own
        return left if (left >= 0).all() else None

    def _classes(self, rows: RowByRow) -> Any:
        """Return the shares of classes beside those of the others, whose targets are counted."""
        if rows.classes is None:
            return ()
        counts = np.zeros(len(rows.classes), dtype=np.int64)
        for source in self.others.values():
            counts += _counts(list(data_of(source)()), rows.classes)
        own = rows.y.sum(axis=0).round().astype(int)
        return class_shifts(own.tolist(), counts.tolist(), rows.classes) if counts.any() else ()

    def _features(self, recordings: Sequence[Recording]) -> Any:
        model = model_of(self.judge.model)
        if model is None:
            return None
        kept = {}
        if self.judge.prepares_alike:
            kept = kept_moments(self.run, model)
        elif self.others:
            some = list(self.others.items())[:: max(1, len(self.others) // MOST_ROWS_OF)]
            kept = {name: moments_of(model, list(data_of(one)())) for name, one in some}
        kept.pop(self.client, None)
        if len(kept) < 2:
            return None
        own = moments_of(model, recordings)
        return feature_shift(own, list(kept.values()), channel_names(model))

    def _personal(self, recordings: Sequence[Recording]) -> Any:
        model = model_of(self.judge.model)
        if not isinstance(model, Model) or model.features.n_features > MOST_FEATURES:
            return None
        return personal_trial(model, recordings)

    def _line(self, rows: RowByRow) -> tuple[float, float, float] | None:
        alone = rows.classes is None and rows.y.shape[1] == 1
        if not alone or self.judge.model.prepare.horizon is not None:
            return None
        return fitted_line(rows.y[:, 0], rows.outputs[:, 0])

    def _worst(self, rows: RowByRow, recordings: Sequence[Recording]) -> tuple[Any, Any]:
        """Return the worst recordings in words, and drawn."""
        bad = rows.badness()
        worst = [
            WorstRecording(k, _taken_for(rows, k), bad[k])
            for k in sorted(bad, key=lambda k: (-bad[k], k))
        ]
        # One mistake three times over shows less than three mistakes.
        first = {one.words: one for one in reversed(worst)}.values()
        words = tuple(sorted(worst, key=lambda one: (one not in first, -one.score))[:N_DRAWN])
        words = tuple(sorted(words, key=lambda one: (-one.score, one.number)))
        steady = _scaled_by(self.judge.model, recordings)
        with unheard():
            return words, tuple(
                draw(steady, [recordings[one.number]], self.client) for one in words
            )


def _is_usable(source: Source, prepare: Prepare) -> bool:
    """Return whether recordings can be read and prepared; a run leaves out others, and says so."""
    try:
        return bool(prepare.inputs(list(data_of(source)())))
    except (CatchmentError, ValueError, OSError):
        return False


def _counts(recordings: Sequence[Recording], classes: Sequence[str]) -> Integers:
    counts = np.zeros(len(classes), dtype=np.int64)
    for one in recordings:
        y = one.among(classes).y
        if y is None:
            continue
        rows = np.atleast_2d(y)
        known = rows[~np.isnan(rows).any(axis=1)]
        counts += known.sum(axis=0).round().astype(np.int64)
    return counts


def _scaled_by(model: Predictor, recordings: Sequence[Recording]) -> Predictor:
    """Return the model with a scale of one's own fitted to all recordings, to draw single ones."""
    from catchment.data import Scaler

    prepare = model.prepare
    if prepare.scale != "own":
        return model
    scale = Scaler.fit(prepare.before_scaling(recordings))
    return model.prepared_by(replace(prepare, scale=scale), model.channels)


def _taken_for(rows: RowByRow, number: int) -> str:
    here = rows.source == number
    if rows.classes is None:
        error = np.sqrt(((rows.y[here] - rows.outputs[here]) ** 2).mean())
        return f"{int(here.sum())} rows, root mean squared error {error:.3g}"
    truth, said = (
        rows.classes[k]
        for k in (_most(rows.y[here].argmax(axis=1)), _most(rows.outputs[here].argmax(axis=1)))
    )
    wrong = int((rows.y[here].argmax(axis=1) != rows.outputs[here].argmax(axis=1)).sum())
    n = int(here.sum())
    if n == 1:
        return f"{truth}, taken for {said}" if wrong else f"{truth}, right"
    return f"{wrong} of {n} rows wrong; mostly {truth}, mostly taken for {said}"


def _most(numbers: Integers) -> int:
    return int(np.bincount(numbers).argmax())


def _quantities(own: Person, others: Sequence[Person]) -> tuple[Quantity, ...]:
    """Return what recordings are like but for their values."""

    def median(values: Iterable[float | None]) -> float:
        known = [value for value in values if value is not None]
        return float(np.median(known)) if known else float("nan")

    named: list[tuple[str, Callable[[Person], float | None]]] = [
        ("recordings", lambda one: one.n_recordings),
        ("steps in a recording", lambda one: one.length),
        ("seconds in a recording", lambda one: one.seconds),
        ("steps per second", lambda one: one.rate),
        ("missing values, %", lambda one: 100 * float(one.missing.mean())),
    ]
    found = [Quantity(name, median([of(own)]), median(map(of, others))) for name, of in named]
    return tuple(one for one in found if not np.isnan(one.own))

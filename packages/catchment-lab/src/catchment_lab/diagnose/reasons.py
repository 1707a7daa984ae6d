"""How one person is served beside the others, and likely reasons. These are rules of thumb.

A reason is named only for somebody who is served worse than is usual between people, and only where
numbers support it: channels that lie off, rows that are too few, classes that nobody else has. Its
weight is the share of what they lack against the others' median that it would explain, or a guess
where nobody can compute that. It says where to look first and proves nothing: two faults can look
alike, and people may simply differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, PlainValidator, TypeAdapter

from catchment import Array, Integers
from catchment.federation.runs import DrawnRecording
from catchment_lab.diagnose.compare import ChannelShift, ClassShift, Quantity, between

LEAST_WEIGHT = 0.3
SURE = 2.5  # standard errors
FEW_ROWS = 50
TOO_FEW = 8  # rows, of which nothing can be said
FAR_RATE = 1.15
NEAR_UNIT = 0.25  # in the logarithm
UNITS = {
    9.80665: "m/s² where the others have g",
    1000.0: "thousandths of the others' unit",
    180 / np.pi: "degrees where the others have radians",
    3.6: "km/h where the others have m/s",
    100.0: "hundredths of the others' unit",
    10.0: "tenths of the others' unit",
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


@dataclass(frozen=True)
class Reason:
    """A likely reason: its name, the numbers behind it, what to do, and the share it explains."""

    name: str
    words: str
    action: str
    weight: float


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
    line
        Of numbers: slope and offset of the targets over the predictions, and the NRMSE with them.
    recordings
        Of classes, by recording: its number, how many rows are wrong, how many there are.
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
    line: tuple[float, float, float] | None = None
    recordings: tuple[tuple[int, int, int], ...] = ()
    reasons: tuple[Reason, ...] = ()
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


def reasons(found: Served) -> tuple[Reason, ...]:
    """Return likely reasons, the likeliest first; none for a person served like the others.

    >>> alike = {"ann": 0.9, "ben": 0.92, "cem": 0.88}
    >>> reasons(Served("dan", "accuracy", 0.4, 6, "", alike))[0].name
    'few recordings'
    """
    if not found.is_badly_served:
        # People differ much, and what their own rows show is said all the same.
        lacks = found.more_is_better and found.gap > 0.03
        return (*_confused(found), *_one_class(found)) if lacks else ()
    every = [
        *_unit(found),
        *_rate(found),
        *_exchanged(found),
        *_line(found),
        *_unknown_classes(found),
        *_mix(found),
        *_dead(found),
        *_gaps(found),
        *_few(found),
        *_odd_recordings(found),
    ]
    if max((one.weight for one in every), default=0.0) < 0.5:
        every += _unlike(found)
    every = every or [*_confused(found), *_one_class(found)]
    return tuple(sorted(every, key=lambda one: -one.weight))


def _unit(found: Served) -> list[Reason]:
    """Return whether channels have the spread that another unit would give them."""
    said_of: dict[str, list[ChannelShift]] = {}
    for one in found.channels:
        ratio = math.log(one.spread_ratio) if one.stands_out and one.spread_ratio > 0 else 0.0
        for factor, words in UNITS.items():
            if abs(abs(ratio) - math.log(factor)) < NEAR_UNIT:
                other = f"the others' having {words.replace('the others', 'they')}"
                said_of.setdefault(words if ratio > 0 else other, []).append(one)
                break
    if not said_of:
        return []
    words = "; ".join(
        f"{', '.join(one.name for one in listed)} {'has' if len(listed) == 1 else 'have'} "
        f"{times(float(np.median([one.spread_ratio for one in listed])))} times the others' "
        f"spread, as {unit} would"
        for unit, listed in said_of.items()
    )
    action = (
        "ask which unit and which range their sensor has, and convert their files to the others'"
    )
    return [Reason("another unit", words, action, 0.8)]


def _rate(found: Served) -> list[Reason]:
    for one in found.quantities:
        if one.name == "steps per second" and not 1 / FAR_RATE < one.own / one.others < FAR_RATE:
            words = f"they have {one.own:.3g} steps per second, the others {one.others:.3g}"
            action = (
                f"write rate = {one.others:.3g} into [preprocessing], so that all recordings are "
                "brought to one rate"
            )
            return [Reason("another rate", words, action, 0.7)]
    return []


def _is_sure(found: Served, before: float, after: float, rows: int) -> bool:
    if not found.more_is_better:
        return after < 0.85 * before
    n = max(rows, 1)
    return after - before > SURE * math.sqrt(_variance(before, n) + _variance(after, n))


def _variance(share: float, n: int) -> float:
    smooth = (share * n + 1) / (n + 2)
    return smooth * (1 - smooth) / n


def _exchanged(found: Served) -> list[Reason]:
    """Return whether labels are exchanged, as the predictions have it."""
    from scipy.optimize import linear_sum_assignment

    counts = found.confusion
    if counts is None or counts.sum() == 0:
        return []
    rows, columns = linear_sum_assignment(-counts)
    sizes = counts.sum(axis=1)
    moved = [
        (int(i), int(j))
        for i, j in zip(rows, columns, strict=True)
        if i != j and sizes[i] >= 5 and counts[i, j] > 0.5 * sizes[i]
    ]
    after = float(np.diag(counts).sum() + sum(counts[i, j] - counts[i, i] for i, j in moved))
    after /= float(counts.sum())
    if len(moved) < 2 or not _is_sure(found, found.value, after, found.rows):
        return []
    pairs = ", ".join(f"{found.names[i]} for {found.names[j]}" for i, j in moved)
    words = (
        f"most of their {pairs} are taken so: with these labels exchanged the accuracy is "
        f"{said(after, found.metric)} instead of {said(found.value, found.metric)}"
    )
    weight = min((after - found.value) / found.gap, 1.0)
    action = "look at one recording of each of these classes, and correct the labels in their files"
    return [Reason("labels exchanged", words, action, weight)] if weight >= LEAST_WEIGHT else []


def _line(found: Served) -> list[Reason]:
    """Return whether their target is another unit or sign of what the model says."""
    if found.line is None:
        return []
    slope, offset, after = found.line
    weight = found.gain(found.value, after) / found.gap
    if weight < LEAST_WEIGHT or after > 0.7 * found.value:
        return []
    words = (
        f"their target is about {slope:.3g} times what the model says"
        f"{f', plus {offset:.3g}' if abs(offset) > 1e-9 else ''}; so changed the NRMSE is "
        f"{after:.3g} instead of {found.value:.3g}"
    )
    name = "a target of the other sign" if slope < 0 else "a target in another unit"
    action = "ask how their target was measured, and bring it to the others' unit, zero and sign"
    return [Reason(name, words, action, min(weight, 1.0))]


def _unknown_classes(found: Served) -> list[Reason]:
    """Return whether their rows are of classes that the others hardly have."""
    lost = [one for one in found.classes if one.rows and one.others < 0.01 and one.share > 0.02]
    share = sum(one.share for one in lost)
    if share / found.gap < LEAST_WEIGHT:
        return []
    names = ", ".join(one.name for one in lost)
    words = (
        f"{100 * share:.0f} % of their rows are of classes that hardly anybody else has: {names}"
    )
    action = "find others who have these classes, or leave them out; nobody else can teach them"
    return [Reason("classes that the others lack", words, action, min(share / found.gap, 1.0))]


def _mix(found: Served) -> list[Reason]:
    """Return whether they have more of what is hard for everybody."""
    counts, others = found.confusion, found.others_confusion
    if counts is None or others is None or not others.sum() or not counts.sum():
        return []
    sizes = others.sum(axis=1)
    recall = np.where(sizes > 0, np.diag(others) / np.maximum(sizes, 1), np.nan)
    own = counts.sum(axis=1)
    known = np.isfinite(recall) & (own > 0)
    if not known.any():
        return []
    expected = float((own[known] @ recall[known]) / own[known].sum())
    usual = float(np.diag(others).sum() / others.sum())
    weight = (usual - expected) / found.gap
    if weight < LEAST_WEIGHT or usual - expected < 0.03:
        return []
    lacks = [one.name for one in found.classes if one.rows == 0 and one.others > 0.05]
    more = max(found.classes, key=lambda one: one.share - one.others)
    words = (
        f"they have {100 * more.share:.0f} % {more.name} against {100 * more.others:.0f} %"
        f"{' and no ' + ' or '.join(lacks) if lacks else ''}: with the others' share of right "
        f"answers in each class their mix alone would give {said(expected, 'accuracy')}"
    )
    action = (
        "compare balanced accuracy too, and find more recordings of the hard classes from anybody"
    )
    return [Reason("another mix of classes", words, action, min(weight, 1.0))]


def _confused(found: Served) -> list[Reason]:
    """Return which of their classes is mostly taken for another one, unlike the others'."""
    counts, others = found.confusion, found.others_confusion
    if counts is None:
        return []
    pairs, lost = [], 0.0
    for i, row in enumerate(counts):
        j, n = int(row.argmax()), int(row.sum())
        usual = 0.0 if others is None or not others[i].sum() else others[i, j] / others[i].sum()
        if i != j and n >= 5 and row[j] > 0.5 * n and row[j] / n > 2 * usual:
            pairs.append(f"{row[j]} of {n} {found.names[i]} for {found.names[j]}")
            lost += row[j] - usual * n
    weight = min(lost / max(found.rows, 1) / found.gap, 1.0)
    if weight < LEAST_WEIGHT:
        return []
    words = f"the model takes {', '.join(pairs)}, where the others' are mostly right"
    action = (
        "look at their recordings of these classes beside the others': labels, mounting, habits"
    )
    return [Reason("classes taken for others", words, action, weight)]


def _one_class(found: Served) -> list[Reason]:
    having = [one.name for one in found.classes if one.rows]
    if len(having) != 1 or len(found.classes) < 2:
        return []
    words = f"all their rows are {having[0]}: one class alone decides their score"
    action = "test them on recordings of other classes before looking for another reason"
    return [Reason("one class only", words, action, 0.5)]


def _dead(found: Served) -> list[Reason]:
    dead = [one.name for one in found.channels if one.spread_ratio < 0.01]
    if not dead:
        return []
    words = f"{', '.join(dead)} hardly changes in their recordings"
    action = "look whether the sensor works, and leave the person out if it does not"
    return [Reason("a dead channel", words, action, 0.6)]


def _gaps(found: Served) -> list[Reason]:
    lost = [
        one for one in found.channels if one.missing > 0.15 and one.missing > 3 * one.others_missing
    ]
    if not lost:
        return []
    worst = max(lost, key=lambda one: one.missing)
    words = (
        f"{worst.name} lacks {100 * worst.missing:.0f} % of its values, the others' "
        f"{100 * worst.others_missing:.1f} %"
    )
    action = "look why values are missing; try another policy for gaps in [preprocessing]"
    return [Reason("missing values", words, action, 0.45)]


def _few(found: Served) -> list[Reason]:
    """Return whether the score is so uncertain that it may be as good as the others'."""
    from scipy.stats import binomtest

    if not found.more_is_better or not 0 < found.rows < FEW_ROWS:
        return []
    right = round(found.value * found.rows)
    ends = binomtest(right, found.rows).proportion_ci(0.95, method="wilson")
    if found.rows >= TOO_FEW and ends.high < found.median:
        return []
    words = (
        f"{right} of {found.rows} rows are right, so that their true accuracy may be anything "
        f"from {said(ends.low, 'accuracy')} to {said(ends.high, 'accuracy')}"
    )
    action = "collect more of their recordings before looking for another reason"
    return [Reason("few recordings", words, action, 0.5)]


def _odd_recordings(found: Served) -> list[Reason]:
    """Return whether a few recordings, wrong nearly throughout, make most of it."""
    most = max(1, len(found.recordings) // 6)
    bad = [one for one in found.recordings if one[2] >= 5 and one[1] > 0.7 * one[2]]
    if len(found.recordings) < 5 or not 0 < len(bad) <= most:
        return []
    kept = [one for one in found.recordings if one not in bad]
    rows = sum(n for _, _, n in kept)
    after = 1 - sum(wrong for _, wrong, _ in kept) / rows if rows else math.nan
    weight = (after - found.value) / found.gap
    if not weight >= LEAST_WEIGHT:
        return []
    listed = " and ".join(f"recording {number + 1}" for number, _, _ in bad)
    words = (
        f"{listed}, of {len(found.recordings)}, {'is' if len(bad) == 1 else 'are'} wrong nearly "
        f"throughout; without {'it' if len(bad) == 1 else 'them'} the accuracy is "
        f"{said(after, found.metric)} instead of {said(found.value, found.metric)}"
    )
    action = "look at them, drawn by --html: a wrong label or a sensor that slipped looks like this"
    return [Reason("a few odd recordings", words, action, min(weight, 1.0))]


def _unlike(found: Served) -> list[Reason]:
    """Return whether their inputs are unlike everybody's, without saying why."""
    far = [one for one in found.channels if one.stands_out]
    far = [one for one in far if one.distance > 1.3 * one.most or one.distance > 3 * one.usual]
    if not far:
        return []
    words = "; ".join(
        f"{one.name} has {one.spread_ratio:.3g} times the others' spread and lies "
        f"{one.mean_shift:+.1f} between-person deviations off"
        for one in sorted(far, key=lambda one: -one.distance)[:3]
    )
    action = (
        "ask how the sensor is worn and mounted and which range it has: a turned one looks like "
        'this; try scale = "own" in [preprocessing], or a readout of their own'
    )
    return [Reason("inputs unlike everybody's", words, action, LEAST_WEIGHT)]


def times(factor: float) -> str:
    """Return a factor as people say it.

    >>> times(9.8123), times(1234.5), times(0.01234)
    ('9.81', '1,234', '0.0123')
    """
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def said(value: float, metric: str) -> str:
    """Return a score as people say it.

    >>> said(0.876, "accuracy"), said(0.1234, "NRMSE")
    ('87.6 %', '0.123')
    """
    if math.isnan(value):
        return "not known"
    return f"{100 * value:.1f} %" if metric == "accuracy" else f"{value:.3g}"


def fitted_line(y: Array, guess: Array) -> tuple[float, float, float] | None:
    """Return slope and offset of targets (n,) over predictions (n,), and the NRMSE with them.

    >>> y = np.arange(10.0)
    >>> [round(value, 6) for value in fitted_line(y, -y / 2)]
    [-2.0, 0.0, 0.0]
    """
    if len(y) < 10:
        return None
    spread, own = float(np.std(y)), float(np.var(guess))
    if spread <= 0 or own <= 0:
        return None
    slope = float(np.mean((y - y.mean()) * (guess - guess.mean())) / own)
    offset = float(y.mean() - slope * guess.mean())
    rest = y - slope * guess - offset
    return slope, offset, float(np.sqrt(np.mean(rest**2)) / spread)

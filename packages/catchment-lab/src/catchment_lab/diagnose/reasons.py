"""Likely reasons why one person is served worse than the others. These are rules of thumb.

A reason is named only where numbers support it: a change to their recordings with which the model
does better, rows that are too few, classes that nobody else has. Its weight is the share of what
they lack against the others' median that it would bring back. It says where to look first and
proves nothing: two faults can look alike, and people may simply differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from catchment import Array, Integers
from catchment_lab.diagnose.shift import ChannelShift, ClassShift, FeatureShift, between

LEAST_WEIGHT = 0.3
SURE = 2.5  # standard errors
FEW_ROWS = 50
TOO_FEW = 8  # rows, of which nothing can be said
LEVEL = "another level or spread"
SPECIFIC = ("a turned sensor", "another unit", "another rate")
UNSPECIFIC = {LEVEL: 0.15, "labels exchanged": 0.05, "a few odd recordings": 0.1}


@dataclass(frozen=True)
class Reason:
    """A likely reason: its name, the numbers behind it, what to do, and the share it explains."""

    name: str
    words: str
    action: str
    weight: float


@dataclass(frozen=True)
class Tried:
    """The model on recordings that were changed as if to mend a fault."""

    fault: str
    words: str
    action: str
    before: float
    after: float
    rows: int


@dataclass(frozen=True)
class PersonalTrial:
    """What readouts do on a person's later recordings: shared, their own, and of theirs alone.

    `labels` is how many labelled rows the latter two learned from, `rows` how many were tested.
    `alone` is NaN where there was too little to learn from.
    """

    shared: float
    own: float
    alone: float
    labels: int
    rows: int


@dataclass(frozen=True, eq=False)
class Evidence:
    """The numbers that reasons are found in."""

    metric: str
    value: float
    rows: int
    others: Sequence[float]
    tried: Sequence[Tried] = ()
    confusion: Integers | None = None
    others_confusion: Integers | None = None
    classes: Sequence[ClassShift] = ()
    channels: Sequence[ChannelShift] = ()
    features: FeatureShift | None = None
    personal: PersonalTrial | None = None
    line: tuple[float, float, float] | None = None  # slope, offset, NRMSE with them
    names: Sequence[str] = field(default_factory=tuple)
    # By recording: its number, how many rows are wrong, how many there are.
    recordings: Sequence[tuple[int, int, int]] = ()

    @property
    def more_is_better(self) -> bool:
        return self.metric == "accuracy"

    @property
    def median(self) -> float:
        """The others' median; NaN without others."""
        known = [value for value in self.others if not math.isnan(value)]
        return float(np.median(known)) if known else math.nan

    @property
    def gap(self) -> float:
        """By how much the person is worse off than the others' median."""
        return self.gain(self.value, self.median)

    def gain(self, before: float, after: float) -> float:
        """Return by how much one score is better than another."""
        return after - before if self.more_is_better else before - after

    @property
    def usual(self) -> float:
        """How far below the median people are often enough."""
        known = np.array([value for value in self.others if not math.isnan(value)])
        least = 0.03 if self.more_is_better else 0.1 * abs(self.median)
        return max(least, 1.5 * float(between(known[:, None])[0])) if len(known) else math.nan

    @property
    def is_badly_served(self) -> bool:
        """Whether the gap is larger than what is usual between the others."""
        return bool(self.gap > self.usual)


def reasons(found: Evidence) -> tuple[Reason, ...]:
    """Return likely reasons, the likeliest first; none for a person served like the others.

    >>> mended = Tried("a turned sensor", "ax, ay, az look turned", "turn them back", 0.4, 0.9, 100)
    >>> reasons(Evidence("accuracy", 0.4, 100, [0.9, 0.92, 0.88], [mended]))[0].name
    'a turned sensor'
    """
    if not found.is_badly_served:
        return ()
    every = [
        *_mended(found),
        *_exchanged(found),
        *_line(found),
        *_unknown_classes(found),
        *_mix(found),
        *_dead(found),
        *_gaps(found),
        *_few(found),
        *_odd_recordings(found),
    ]
    explained = max((one.weight for one in every), default=0.0)
    if explained < 0.5:
        every += [*_unlike(found), *_own_way(found)]
    best: dict[str, Reason] = {}
    for one in every:
        if one.name not in best or one.weight > best[one.name].weight:
            best[one.name] = one
    ranked = sorted(best.values(), key=_order)
    # What is said more exactly by the first reason is not said again.
    specific = bool(ranked) and ranked[0].name in SPECIFIC
    return tuple(one for one in ranked if not (specific and one.name == LEVEL))


def _order(one: Reason) -> float:
    return UNSPECIFIC.get(one.name, 0.0) - one.weight


def _mended(found: Evidence) -> list[Reason]:
    """Return the faults whose mending helps, by more than chance would."""
    made = []
    for one in found.tried:
        weight = found.gain(one.before, one.after) / found.gap
        if weight < LEAST_WEIGHT or not _is_sure(found, one.before, one.after, one.rows):
            continue
        words = (
            f"{one.words}; with that undone the {found.metric} is {said(one.after, found.metric)} "
        )
        words += f"instead of {said(one.before, found.metric)}"
        made.append(Reason(one.fault, words, one.action, min(weight, 1.0)))
    return made


def _is_sure(found: Evidence, before: float, after: float, rows: int) -> bool:
    if not found.more_is_better:
        return after < 0.85 * before
    n = max(rows, 1)
    return after - before > SURE * math.sqrt(_variance(before, n) + _variance(after, n))


def _variance(share: float, n: int) -> float:
    smooth = (share * n + 1) / (n + 2)
    return smooth * (1 - smooth) / n


def _exchanged(found: Evidence) -> list[Reason]:
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


def _line(found: Evidence) -> list[Reason]:
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


def _unknown_classes(found: Evidence) -> list[Reason]:
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


def _mix(found: Evidence) -> list[Reason]:
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


def _dead(found: Evidence) -> list[Reason]:
    dead = [one.name for one in found.channels if one.spread_ratio < 0.01]
    if not dead:
        return []
    words = f"{', '.join(dead)} hardly changes in their recordings"
    action = "look whether the sensor works, and leave the person out if it does not"
    return [Reason("a dead channel", words, action, 0.6)]


def _gaps(found: Evidence) -> list[Reason]:
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
    action = "look why values are missing; try another policy for gaps in [prepare]"
    return [Reason("missing values", words, action, 0.45)]


def _few(found: Evidence) -> list[Reason]:
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


def _odd_recordings(found: Evidence) -> list[Reason]:
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


def _unlike(found: Evidence) -> list[Reason]:
    """Return whether their inputs are unlike everybody's, without saying how."""
    far = [one for one in found.channels if one.stands_out]
    far = [one for one in far if one.distance > 1.3 * one.most or one.distance > 3 * one.usual]
    features = found.features
    off = features is not None and features.distance > 1.3 * features.most
    if not far and not off:
        return []
    said_of = [
        f"{one.name} has {one.spread_ratio:.3g} times the others' spread and lies "
        f"{one.mean_shift:+.1f} between-person deviations off"
        for one in sorted(far, key=lambda one: -one.distance)[:2]
    ]
    if off and features is not None:
        said_of.append(
            f"a typical feature lies {features.distance:.2g} deviations off, the most of "
            f"anybody else {features.most:.2g}"
        )
    action = "find out how their recordings were made; a readout of their own may help"
    return [Reason("inputs unlike everybody's", "; ".join(said_of), action, LEAST_WEIGHT)]


def _own_way(found: Evidence) -> list[Reason]:
    """Return whether a readout of their own helps although their inputs are ordinary."""
    trial = found.personal
    if trial is None or math.isnan(trial.own):
        return []
    gain = found.gain(trial.shared, trial.own)
    if gain / found.gap < LEAST_WEIGHT:
        return []
    if found.more_is_better:
        error = math.sqrt(_variance(trial.shared, trial.rows) + _variance(trial.own, trial.rows))
        if gain < 2 * error:
            return []
    words = (
        f"a readout continued on {trial.labels} labelled rows of theirs gives "
        f"{said(trial.own, found.metric)} on later ones, the shared one "
        f"{said(trial.shared, found.metric)}"
    )
    action = "give them a readout of their own: the guide to personal readouts says how"
    return [Reason("a way of their own", words, action, min(gain / found.gap, 0.9))]


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

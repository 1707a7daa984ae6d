"""How SKAB and NAB score alarms, written from their publishers' formulas.

NAB (Lavin and Ahmad 2015, arXiv 1510.03336; Ahmad et al., Neurocomputing 262, 2017). An alarm in a
window counts for the earliest one there, by its place y from -1 at the first row to almost 0 at the
last; an alarm outside costs by its distance from the end of the last window, in widths of it:

    sigma(y) = 2 / (1 + exp(5 y)) - 1;  -1 further than 3 widths, or where no window came before
    inside:   tp sigma(y) / sigma(-1),  y = -(end - t + 1) / (end - start + 1)
    outside:  fp sigma(y),              y = (t - end) / (end - start)
    missed:   -fn

Rows of the probation count for nothing, and neither does a window that has no other rows. The sum
over a corpus, S, is shown as 100 (S - S_null) / (S_perfect - S_null), where nothing is alarmed for
S_null and S_perfect is tp for each window. NAB takes the threshold that is best for the corpus, one
for each profile. The scale of a position outside divides by one step less than the width, as the
publisher's program does; the paper leaves it open.

SKAB (Katser and Kozitsin 2020): counts of rows over all runs, F1 = 2 TP / (2 TP + FP + FN), the
rate of false alarms FP / (FP + TN) and of missed ones FN / (FN + TP), over the rows after the first
400 of each run as in the publisher's strict leaderboard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from catchment import Array, Booleans
from reproductions.data.anomalies import Series


class Profile(NamedTuple):
    """Weights of a window found, of an alarm outside and of a window missed."""

    tp: float
    fp: float
    fn: float


PROFILES = {
    "standard": Profile(1.0, 0.11, 1.0),
    "low FP": Profile(1.0, 0.22, 1.0),
    "low FN": Profile(1.0, 0.11, 2.0),
}
FAR = 3.0


def sigma(y: float | Array) -> Array:
    """Return NAB's scale of relative positions, from almost 1 at -1 over 0 at 0 to -1.

    >>> sigma(-1.0).round(5), sigma(-0.5).round(5), sigma(0.0), sigma(3.5)
    (np.float64(0.98661), np.float64(0.84828), np.float64(0.0), np.float64(-1.0))
    """
    y = np.asarray(y, dtype=np.float64)
    return np.where(y > FAR, -1.0, 2 / (1 + np.exp(5 * np.minimum(y, FAR))) - 1)[()]


@dataclass(frozen=True)
class Worth:
    """What an alarm at each scored step would be worth, and which window it is in, -1 for none."""

    steps: Array  # (n,) weighted
    window: Array  # (n,) integers
    n_windows: int  # with a row that is scored

    def total(self, alarms: Booleans, profile: Profile) -> float:
        """Return NAB's raw score of alarms (n,) at the scored steps."""
        score = float(self.steps[alarms & (self.window < 0)].sum())
        for k in np.unique(self.window[self.window >= 0]):
            inside = self.steps[alarms & (self.window == k)]
            score += float(inside.max()) if len(inside) else -profile.fn
        return score


def worth(series: Series, profile: Profile) -> Worth:
    """Return what alarms at the steps after the probation would be worth by NAB."""
    n = len(series.u)
    value = np.full(n, -profile.fp)
    window = np.full(n, -1.0)
    last: tuple[int, int] | None = None
    for k, (start, end) in enumerate(series.windows):
        if last is not None:
            value[last[1] + 1 : start] = profile.fp * _after(last, start)
        y = -(end - np.arange(start, end + 1) + 1) / (end - start + 1)
        value[start : end + 1] = profile.tp * sigma(y) / sigma(-1.0)
        window[start : end + 1] = k
        last = start, end
    if last is not None:
        value[last[1] + 1 :] = profile.fp * _after(last, n)
    scored = slice(series.n_train, None)
    return Worth(value[scored], window[scored], len(np.unique(window[scored][window[scored] >= 0])))


def _after(window: tuple[int, int], stop: int) -> Array:
    start, end = window
    return sigma((np.arange(end + 1, stop) - end) / (end - start))


def nab_score(corpus: Sequence[Series], alarms: Sequence[Booleans], profile: Profile) -> float:
    """Return the score of alarms (T,) of each file, 0 for no alarm at all, 100 for the best.

    Parameters
    ----------
    alarms
        Whether each step (T,) of each file is alarmed, the probation included.
    """
    raw = sum(
        worth(one, profile).total(alarm[one.n_train :], profile)
        for one, alarm in zip(corpus, alarms, strict=True)
    )
    return normalized(raw, corpus, profile)


def normalized(raw: float, corpus: Sequence[Series], profile: Profile) -> float:
    """Return a raw score of a corpus between that of no alarm, 0, and the perfect one, 100."""
    null = -profile.fn * sum(worth(one, profile).n_windows for one in corpus)
    perfect = profile.tp * sum(len(one.windows) for one in corpus)
    return 100 * (raw - null) / (perfect - null)


@dataclass(frozen=True)
class Best:
    """The threshold that scores best on a corpus, alarms being scores of at least it."""

    threshold: float
    score: float


def best_threshold(corpus: Sequence[Series], scores: Sequence[Array], profile: Profile) -> Best:
    """Return NAB's choice: the threshold over all files whose normalized score is largest."""
    value, key, score = _sweep(corpus, scores, profile)
    order = np.argsort(-score, kind="stable")
    value, key, score = value[order], key[order], score[order]
    gains = np.where(key < 0, value, 0.0)
    held: dict[int, float] = {}
    for k in np.flatnonzero(key >= 0):
        before = held.get(int(key[k]), -profile.fn)
        held[int(key[k])] = max(before, float(value[k]))
        gains[k] = held[int(key[k])] - before
    null = -profile.fn * len(np.unique(key[key >= 0]))
    totals = null + np.cumsum(gains)
    # Equal scores are alarmed together, so a threshold is only after the last of them.
    last = np.append(np.diff(score) != 0, True)
    places = np.flatnonzero(last)
    best = places[int(np.argmax(totals[places]))]
    if totals[best] <= null:
        return Best(np.inf, normalized(null, corpus, profile))
    return Best(float(score[best]), normalized(float(totals[best]), corpus, profile))


def _sweep(
    corpus: Sequence[Series], scores: Sequence[Array], profile: Profile
) -> tuple[Array, Array, Array]:
    """Return the worth, window and score of all scored steps of all files, windows numbered on."""
    values, keys, found, n_before = [], [], [], 0
    for one, score in zip(corpus, scores, strict=True):
        known = worth(one, profile)
        values.append(known.steps)
        keys.append(np.where(known.window < 0, -1, known.window + n_before))
        found.append(score[one.n_train :])
        n_before += len(one.windows)
    return np.concatenate(values), np.concatenate(keys), np.concatenate(found)


class Rows(NamedTuple):
    """Counts of rows of a run: anomalous and alarmed, and so on."""

    tp: int
    fp: int
    fn: int
    tn: int

    @classmethod
    def of(cls, anomalous: Booleans, alarms: Booleans) -> Rows:
        """Return the counts of rows, by what they are and what was said.

        >>> Rows.of(np.array([True, True, False]), np.array([True, False, True]))
        Rows(tp=1, fp=1, fn=1, tn=0)
        """
        counts = (anomalous & alarms, ~anomalous & alarms, anomalous & ~alarms)
        tp, fp, fn = (int(one.sum()) for one in counts)
        return cls(tp, fp, fn, len(alarms) - tp - fp - fn)


def f1(rows: Array) -> Array:
    """Return F1 of counts (..., 4) in the order of `Rows`, 0 where nothing was alarmed.

    >>> f1(np.array([3, 1, 1, 5])).item()
    0.75
    """
    tp, fp, fn = rows[..., 0], rows[..., 1], rows[..., 2]
    return np.asarray(2 * tp / np.maximum(2 * tp + fp + fn, 1))


def false_positive_rate(rows: Array) -> Array:
    """Return the share of normal rows that were alarmed."""
    return np.asarray(rows[..., 1] / np.maximum(rows[..., 1] + rows[..., 3], 1))


def missed(rows: Array) -> Array:
    """Return the share of anomalous rows that were not alarmed."""
    return np.asarray(rows[..., 2] / np.maximum(rows[..., 2] + rows[..., 0], 1))


def auroc(anomalous: Booleans, scores: Array) -> float:
    """Return how often an anomalous row scores above a normal one, ties half.

    >>> auroc(np.array([True, False, False]), np.array([2.0, 1.0, 2.0]))
    0.75
    """
    from scipy.stats import rankdata

    n, m = int(anomalous.sum()), int((~anomalous).sum())
    ranks = float(rankdata(scores)[anomalous].sum())
    return (ranks - n * (n + 1) / 2) / (n * m)

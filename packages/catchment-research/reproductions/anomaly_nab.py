"""NAB: the probation of each file tells what is normal, the rest is scored as NAB scores it.

Files are clients, scaled by the mean and deviation of their own probation. NAB counts every alarmed
row outside a window, and wants one threshold for files that have nothing in common, so that what is
made of a score matters more than where it comes from:

- as it is;
- first of a segment: 0 unless it is above all scores of the last 50 or 200 rows;
- against the last 1000: divided by the largest of them.

Which option of a family, which shrinkage and which of these, and the threshold, every other file
chooses for the others ("other files"), by NAB's standard profile. Beside it stands what NAB's own
tables have: settings and threshold that are best on the files that are scored ("tuned"), and a
threshold at one false alarm in a thousand rows of the probation, by federated quantiles, with the
settings that other files chose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from scipy.ndimage import maximum_filter1d

from catchment import Array
from reproductions.anomaly_detectors import (
    Learner,
    Rows,
    Scored,
    changed,
    forecast_errors,
    pooled_difference,
    scored,
    statistics,
    thresholds,
)
from reproductions.anomaly_maps import NAB_FAMILIES
from reproductions.anomaly_scoring import (
    PROFILES,
    Best,
    auroc,
    best_threshold,
    normalized,
    worth,
)
from reproductions.anomaly_values import AnomalyCell
from reproductions.data.anomalies import Series

NAB_LEARNERS: tuple[Learner, ...] = ("local", "federated", "personal")
SHRINKAGES = (1e-2, 1e-1)
RATE = 1e-3
LARGEST = 60.0  # deviations at which inputs are cut off
STANDARD = PROFILES["standard"]


def first_of_segment(scores: Array, steps: int) -> Array:
    """Return scores, 0 for those that are not above all of the last so many.

    >>> first_of_segment(np.array([1.0, 3.0, 2.0, 4.0]), 2)
    array([1., 3., 0., 4.])
    """
    return np.where(scores > _largest_before(scores, steps), scores, 0.0)


def against_last(scores: Array, steps: int) -> Array:
    """Return scores over the largest of the last so many.

    >>> against_last(np.array([1.0, 2.0, 3.0]), 2)
    array([0. , 2. , 1.5])
    """
    before = _largest_before(scores, steps)
    return np.divide(scores, before, out=np.zeros_like(scores), where=before > 0)


def _largest_before(scores: Array, steps: int) -> Array:
    """Return the largest (T,) of the last so many scores before each, 0 before the first."""
    padded = np.concatenate([np.zeros(steps), scores])
    # A window that ends at each place, and the place before it.
    largest = maximum_filter1d(padded, steps, origin=(steps - 1) // 2)
    return np.asarray(largest[steps - 1 : -1])


def _as_it_is(scores: Array) -> Array:
    return scores


AFTERWARDS: dict[str, Callable[[Array], Array]] = {
    "as it is": _as_it_is,
    "first of 50": partial(first_of_segment, steps=50),
    "first of 200": partial(first_of_segment, steps=200),
    "against the last 1000": partial(against_last, steps=1000),
}


@dataclass(frozen=True)
class Tried:
    """One setting: its scores, and how well they rank each file's rows."""

    name: str
    found: list[Scored]
    auroc: list[float]

    @property
    def scores(self) -> list[Array]:
        return [one.scores for one in self.found]

    def some(self, which: Sequence[int]) -> list[Array]:
        return [self.found[k].scores for k in which]


def nab_cells(corpus: Sequence[Series], family: str, seed: int) -> list[AnomalyCell]:
    """Return a cell for each learner."""
    inputs = [_scaled(one) for one in corpus]
    return [_cell(corpus, inputs, family, learner, seed) for learner in NAB_LEARNERS]


def nab_baselines(corpus: Sequence[Series]) -> list[AnomalyCell]:
    """Return the cells of who alarms always, and of random scores."""
    rng = np.random.default_rng(0)
    noise = [rng.random(len(one.u)) for one in corpus]
    flat = [np.ones(len(one.u)) for one in corpus]
    cells = []
    for name, scores in (("always alarmed", flat), ("random", noise)):
        figures = {}
        for profile in PROFILES:
            if name == "random":
                figures[f"tuned, {profile}"] = best_threshold(
                    corpus, scores, PROFILES[profile]
                ).score
            else:
                figures[f"tuned, {profile}"] = _at(corpus, scores, [0.0] * len(corpus), profile)
        ranks = [_rank(one, score) for one, score in zip(corpus, scores, strict=True)]
        cells.append(
            AnomalyCell(
                data="nab",
                family=name,
                learner="-",
                seed=0,
                auroc=dict(zip((one.name for one in corpus), ranks, strict=True)),
                figures=figures,
            )
        )
    return cells


def _scaled(one: Series) -> Array:
    calm = one.u[: one.n_train]
    deviation = calm.std(axis=0)
    smallest = max(1e-3 * float(one.u.std()), 1e-12)
    z = (one.u - calm.mean(axis=0)) / np.maximum(deviation, smallest)
    return np.asarray(np.clip(z, -LARGEST, LARGEST))


def _rank(one: Series, scores: Array) -> float:
    return auroc(one.anomalous[one.n_train :], scores[one.n_train :])


def _cell(
    corpus: Sequence[Series], inputs: Sequence[Array], family: str, learner: Learner, seed: int
) -> AnomalyCell:
    begun = time.perf_counter()
    tried: list[Tried] = []
    worst = 0.0
    for option, shrinkage in product(NAB_FAMILIES[family], SHRINKAGES):
        made = option.make(inputs, seed)
        clients = [
            Rows(z, option.washout, one.n_train) for z, one in zip(made, corpus, strict=True)
        ]
        if option.errors:
            clients = forecast_errors(clients, inputs, learner)
        found = scored(clients, learner, shrinkage)
        ranks = [_rank(one, s.scores) for one, s in zip(corpus, found, strict=True)]
        if learner == "federated":
            worst = max(worst, pooled_difference(clients, shrinkage))
        for name, change in AFTERWARDS.items():
            label = f"{option.name}, shrinkage {shrinkage:g}, {name}"
            tried.append(Tried(label, changed(found, change), ranks))
    figures, chosen, ranks = _figures(corpus, tried)
    return AnomalyCell(
        data="nab",
        family=family,
        learner=learner,
        seed=seed,
        auroc=dict(zip((one.name for one in corpus), ranks, strict=True)),
        figures=figures,
        chosen=chosen,
        columns=clients[0].z.shape[1],
        upload_bytes=0
        if learner == "local"
        else len(statistics(clients[0].train).parts().to_bytes()),
        difference=worst if learner == "federated" else None,
        seconds=time.perf_counter() - begun,
    )


def _figures(
    corpus: Sequence[Series], tried: Sequence[Tried]
) -> tuple[dict[str, float], tuple[str, ...], list[float]]:
    """Return NAB's scores, the settings that each half chose, and the ranks with those."""
    figures: dict[str, float] = {}
    tuned = [best_threshold(corpus, one.scores, STANDARD).score for one in tried]
    best = tried[int(np.argmax(tuned))]
    figures["tuned, standard"] = max(tuned)
    for profile in ("low FP", "low FN"):
        figures[f"tuned, {profile}"] = best_threshold(corpus, best.scores, PROFILES[profile]).score
    limits, quantiles = np.zeros(len(corpus)), np.zeros(len(corpus))
    scores: list[Array] = [np.empty(0)] * len(corpus)
    ranks, names = [0.0] * len(corpus), []
    for half in range(2):
        judges = [k for k in range(len(corpus)) if k % 2 != half]
        one, bar = _choice([corpus[k] for k in judges], tried, judges)
        names.append(one.name)
        by_rate = thresholds(one.found, RATE)
        for k in range(half, len(corpus), 2):
            limits[k], quantiles[k] = bar.threshold, by_rate[k]
            scores[k], ranks[k] = one.found[k].scores, one.auroc[k]
    for profile in PROFILES:
        figures[f"other files, {profile}"] = _at(corpus, scores, limits, profile)
    figures["quantile, standard"] = _at(corpus, scores, quantiles, "standard")
    return figures, (*names, best.name), ranks


def _choice(
    judges: Sequence[Series], tried: Sequence[Tried], which: Sequence[int]
) -> tuple[Tried, Best]:
    """Return the setting and threshold that are best on some files."""
    bars = [best_threshold(judges, one.some(which), STANDARD) for one in tried]
    k = int(np.argmax([bar.score for bar in bars]))
    return tried[k], bars[k]


def _at(
    corpus: Sequence[Series], scores: Sequence[Array], limits: Sequence[float] | Array, profile: str
) -> float:
    weights = PROFILES[profile]
    raw = 0.0
    for one, score, limit in zip(corpus, scores, limits, strict=True):
        raw += worth(one, weights).total(score[one.n_train :] >= limit, weights)
    return normalized(raw, corpus, weights)

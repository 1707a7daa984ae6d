"""SKAB: what is normal for a water loop, from the first 400 rows of each run.

Runs are clients. Which option of a family, which shrinkage, how long scores are averaged and which
rate of false alarms sets the threshold, the labeled rest of every other run chooses for the
others, by F1: runs with even numbers for those with odd ones, and the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from catchment import Array
from reproductions.anomaly_detectors import (
    LEARNERS,
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
from reproductions.anomaly_maps import SKAB_FAMILIES, Option
from reproductions.anomaly_scoring import Rows as Counted
from reproductions.anomaly_scoring import auroc, f1
from reproductions.anomaly_values import AnomalyCell
from reproductions.data.anomalies import Series

ALWAYS, RANDOM, NOTHING = "always alarmed", "random", "-"
SHRINKAGES = (1e-3, 1e-1)
SMOOTHINGS = (1, 30)
RATES = (0.05, 0.02, 0.01)
PLAIN_RATE = 0.01


@dataclass(frozen=True)
class Tried:
    """One setting: counts (C, 4) of each run at each rate, and how well scores rank its rows."""

    name: str
    counts: dict[float, Array]
    auroc: Array  # (C,)


def skab_cells(
    runs: Sequence[Series], family: str, seed: int, learners: Sequence[Learner] = LEARNERS
) -> list[AnomalyCell]:
    """Return a cell for each learner."""
    return [_cell(runs, family, learner, seed) for learner in learners]


def baselines(runs: Sequence[Series]) -> list[AnomalyCell]:
    """Return the cells of who alarms always, and of who alarms every other row at random."""
    rng = np.random.default_rng(0)
    cells = []
    for name in (ALWAYS, RANDOM):
        rows: dict[str, tuple[int, int, int, int]] = {}
        ranks: dict[str, float] = {}
        for one in runs:
            label = judged(one)
            noise = rng.random(len(label))
            alarms = np.ones(len(label), bool) if name == ALWAYS else noise > 0.5
            rows[one.name] = Counted.of(label, alarms)
            ranks[one.name] = 0.5 if name == ALWAYS else auroc(label, noise)
        cells.append(
            AnomalyCell(
                data="skab",
                family=name,
                learner=NOTHING,
                seed=0,
                auroc=ranks,
                rows=rows,
                plain=rows,
            )
        )
    return cells


def judged(run: Series) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return the labels of the rows that are judged."""
    return run.anomalous[run.n_train :]


def scaled(runs: Sequence[Series], *, own: bool) -> list[Array]:
    """Return inputs by the moments of training rows: each run's own, or everybody's."""
    together = np.concatenate([one.u[: one.n_train] for one in runs])
    found = []
    for one in runs:
        rows = one.u[: one.n_train] if own else together
        found.append((one.u - rows.mean(axis=0)) / rows.std(axis=0))
    return found


def skab_scores(
    runs: Sequence[Series], option: Option, learner: Learner, seed: int, shrinkage: float
) -> tuple[list[Scored], list[Rows]]:
    """Return the scores of all runs, and the rows that were judged."""
    inputs = scaled(runs, own=learner == "local")
    made = option.make(inputs, seed)
    clients = [Rows(z, option.washout, one.n_train) for z, one in zip(made, runs, strict=True)]
    if option.errors:
        clients = forecast_errors(clients, inputs, learner)
    return scored(clients, learner, shrinkage), clients


def trailing(scores: Array, steps: int) -> Array:
    """Return the mean of the last so many scores, of fewer at the start.

    >>> trailing(np.array([2.0, 4.0, 6.0]), 2)
    array([2., 3., 5.])
    """
    total = np.cumsum(scores)
    n = np.minimum(np.arange(1, len(scores) + 1), steps)
    before = np.concatenate([np.zeros(steps), total])[: len(scores)]
    return np.asarray((total - before) / n)


def _cell(runs: Sequence[Series], family: str, learner: Learner, seed: int) -> AnomalyCell:
    begun = time.perf_counter()
    tried: list[Tried] = []
    worst, columns = 0.0, 0
    for option, shrinkage in product(SKAB_FAMILIES[family], SHRINKAGES):
        found, clients = skab_scores(runs, option, learner, seed, shrinkage)
        columns = clients[0].z.shape[1]
        if learner == "federated":
            worst = max(worst, pooled_difference(clients, shrinkage))
        for steps in SMOOTHINGS:
            name = f"{option.name}, shrinkage {shrinkage:g}, mean of {steps}"
            tried.append(_tried(name, runs, changed(found, partial(trailing, steps=steps))))
    upload = len(statistics(clients[0].train).parts().to_bytes())
    return AnomalyCell(
        data="skab",
        family=family,
        learner=learner,
        seed=seed,
        **_chosen(runs, tried),
        columns=columns,
        upload_bytes=0 if learner == "local" else upload,
        difference=worst if learner == "federated" else None,
        seconds=time.perf_counter() - begun,
    )


def _tried(name: str, runs: Sequence[Series], found: Sequence[Scored]) -> Tried:
    counts: dict[float, Array] = {}
    for rate in RATES:
        limits = thresholds(found, rate)
        rows = [
            Counted.of(judged(run), one.scores[run.n_train :] > limit)
            for run, one, limit in zip(runs, found, limits, strict=True)
        ]
        counts[rate] = np.array(rows)
    ranks = [
        auroc(judged(run), one.scores[run.n_train :]) for run, one in zip(runs, found, strict=True)
    ]
    return Tried(name, counts, np.array(ranks))


def _chosen(runs: Sequence[Series], tried: Sequence[Tried]) -> dict[str, Any]:
    """Return the figures of each run with the setting that the runs of the other half choose."""
    half = np.arange(len(runs)) % 2 == 1
    rows: dict[str, tuple[int, ...]] = {}
    plain: dict[str, tuple[int, ...]] = {}
    ranks: dict[str, float] = {}
    names = []
    for judges in (half, ~half):
        free = max(
            ((one, rate) for one in tried for rate in RATES),
            key=lambda pair: float(f1(pair[0].counts[pair[1]][judges].sum(axis=0))),
        )
        fixed = max(tried, key=lambda one: float(f1(one.counts[PLAIN_RATE][judges].sum(axis=0))))
        ranked = max(tried, key=lambda one: float(one.auroc[judges].mean()))
        names.append(f"{free[0].name}, {free[1]:g} false alarms")
        for k in map(int, np.flatnonzero(~judges)):
            rows[runs[k].name] = tuple(free[0].counts[free[1]][k].tolist())
            plain[runs[k].name] = tuple(fixed.counts[PLAIN_RATE][k].tolist())
            ranks[runs[k].name] = float(ranked.auroc[k])
    return {"rows": rows, "plain": plain, "auroc": ranks, "chosen": tuple(names)}

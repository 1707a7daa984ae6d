"""The tables of a run's folder that a report shows: scores, confusions, ridges, comparison."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np

from catchment.federation.algorithm import Kept
from catchment.federation.measure.baselines import Row
from catchment.federation.measure.evaluation import Scores, metrics
from catchment.federation.measure.outliers import Flag
from catchment.federation.runs.write import Cell, Store


def write_results(
    store: Store, kept: Kept, scores: Scores, classes: tuple[str, ...] | None
) -> None:
    """Keep all that a report shows of a finished training and its evaluation."""
    write_scores(store, scores, classes)
    write_rows(store, kept)
    write_flags(store, kept)
    if kept.drifts:
        store.write_facts({"drifts": json.dumps([asdict(one) for one in kept.drifts])})
    write_path(store, kept, classes)


def write_scores(store: Store, scores: Scores, classes: tuple[str, ...] | None) -> None:
    """Keep every client's metrics, those of all together, and the confusions."""
    rows: list[tuple[Cell, ...]] = []
    named = {"": scores.total} | dict(scores.by_client)
    for client, score in named.items():
        if score is not None:
            rows += [("evaluation", client, m, v, score.errors.n) for m, v in metrics(score)]
    store.insert("scores", rows, replace=True)
    total = scores.total
    if total is not None and total.counts is not None and classes is not None:
        counts = total.counts.confusion
        store.insert(
            "confusion",
            [
                (true, guessed, int(counts[i, j]))
                for i, true in enumerate(classes)
                for j, guessed in enumerate(classes)
            ],
            replace=True,
        )


def write_rows(store: Store, kept: Kept) -> None:
    """Keep how many rows are behind each client's message, where the server knows them."""
    store.insert("clients", kept.rows.items(), replace=True)


def write_flags(store: Store, kept: Kept) -> None:
    """Keep the clients whose data the others predict badly; they are in the sum all the same.

    Who has far more rows than the others follows from the rows that are kept.
    """
    rows = [(flag.client, flag.loss, flag.z) for flag in kept.flags if isinstance(flag, Flag)]
    store.insert("flags", rows, replace=True)


def write_path(store: Store, kept: Kept, classes: tuple[str, ...] | None) -> None:
    """Keep the errors along the path of ridges, if the algorithm chose one."""
    choice = kept.choice
    if choice is None:
        return
    K = choice.errors.shape[1]
    names = classes or tuple(f"output {k}" for k in range(K))
    best = np.atleast_1d(choice.best)
    store.insert(
        "ridge_path",
        [
            (float(ridge), name, float(error) if np.isfinite(error) else None, int(ridge in best))
            for ridge, errors in zip(choice.ridges, choice.errors, strict=True)
            for name, error in zip(names, errors, strict=True)
        ],
        replace=True,
    )


def write_comparison(store: Store, rows: list[Row]) -> None:
    """Keep a comparison's rows in the order in which they are shown."""
    store.insert(
        "comparison",
        [
            (
                k,
                row.name,
                row.metric,
                row.score,
                row.worst_client,
                row.worst,
                row.spread,
                row.bytes_up,
                row.bytes_down,
                row.rounds,
                row.seconds,
                row.note,
            )
            for k, row in enumerate(rows)
        ],
        replace=True,
    )


def write_confusions(store: Store, scores: Scores, classes: tuple[str, ...] | None) -> None:
    """Keep how often each class was taken for each, client by client."""
    if classes is None:
        return
    store.insert(
        "confusions",
        [
            (client, int(i), int(j), int(score.counts.confusion[i, j]))
            for client, score in sorted(scores.by_client.items())
            if score.counts is not None
            for i, j in zip(*np.nonzero(score.counts.confusion), strict=True)
        ],
        replace=True,
    )

"""One owner's model, by the steps that a federation of one client takes, without any message.

The scale is fitted, the statistics are summed and the readout is solved by the functions that
clients and server use, so the result is theirs to the bit; mistakes in the data are plain errors.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.recording import Recording
from catchment.features.base import label_of
from catchment.features.default_map import AutoMap
from catchment.features.pipeline import Pipeline
from catchment.features.sizes import refuse_large
from catchment.readout.accumulation import accumulate
from catchment.readout.model import Model, solved_model
from catchment.readout.ridge_choice import RidgeChoice, chosen_readout
from catchment.readout.statistics import RidgeStatistics

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Learned:
    """A model, the statistics it was solved from, and how its ridge was chosen.

    `tried` is the score of every map, if the map was chosen too.
    """

    model: Model
    statistics: RidgeStatistics
    choice: RidgeChoice | None
    tried: Mapping[str, float] = field(default_factory=dict)


def fitted_pipeline(
    pipeline: Pipeline, recordings: Sequence[Recording], *, classes: bool = False
) -> Pipeline:
    """Return the pipeline with its map built and its scale fitted to raw recordings with targets.

    Parameters
    ----------
    classes
        Whether the targets are classes, or numbers.

    >>> from catchment import EchoState
    >>> ready = fitted_pipeline(Pipeline(Prepare(), EchoState(5)), [Recording([1.0, 3.0], [0.0])])
    >>> ready.prepare.scale.mean, ready.features.per_step
    (array([2.]), False)
    """
    if not recordings:
        raise ValueError("there are no recordings; pass at least one")
    first, prepare = recordings[0], pipeline.prepare
    per_step = has_target_per_step(prepare, first)
    n_inputs = prepare.n_inputs(first.n_inputs)
    refuse_large(pipeline.known_map, n_inputs, per_step=per_step, classes=classes)
    built = pipeline.built(first.n_inputs, per_step=per_step, classes=classes)
    if prepare.is_fitted:
        return built
    return Pipeline(prepare.fitted(prepare.moments(recordings)), built.map)


def learn(
    pipeline: Pipeline,
    recordings: Sequence[Recording],
    *,
    ridge: float | Array | Literal["gcv"] = "gcv",
    classes: tuple[str, ...] | None = None,
    threads: int | None = None,
) -> Learned:
    """Return what one owner learns from raw recordings with targets.

    Parameters
    ----------
    pipeline
        Built and fitted here if it is not yet. Of an `AutoMap` the candidate with the least score
        of generalised cross-validation is taken.

    >>> import numpy as np
    >>> from catchment import EchoState
    >>> u = np.sin(np.arange(200) / 5)
    >>> found = learn(Pipeline(Prepare(), EchoState(20)), [Recording(u[:-1], u[1:])])
    >>> found.statistics.n_rows, found.choice.best == found.model.readout.ridge
    (199, True)
    """
    described = pipeline.known_map
    if isinstance(described, AutoMap) and recordings:
        if ridge != "gcv":
            raise ValueError("map 'auto' is chosen by 'gcv'; leave out ridge, or name a map")
        per_step = has_target_per_step(pipeline.prepare, recordings[0])
        n_inputs = pipeline.prepare.n_inputs(recordings[0].n_inputs)
        return _best(
            [
                learn(Pipeline(pipeline.prepare, one), recordings, classes=classes, threads=threads)
                for one in described.candidates(n_inputs, per_step=per_step)
            ]
        )
    ready = fitted_pipeline(pipeline, recordings, classes=classes is not None)
    statistics = accumulate(
        ready.features,
        ready.prepare.stream(recordings),
        threads=threads,
        classes=classes is not None,
    )
    return solved(ready, statistics, ridge, classes=classes, channels=recordings[0].channels)


def _best(found: Sequence[Learned]) -> Learned:
    """Return what has the least score of generalised cross-validation, and what all have."""
    scores = [float(one.choice.errors.sum(axis=1).min()) for one in found if one.choice is not None]
    tried = {label_of(one.model.features): s for one, s in zip(found, scores, strict=True)}
    best = found[scores.index(min(scores))]
    log.info("map chosen: %s, of %s", label_of(best.model.features), "; ".join(tried))
    return replace(best, tried=tried)


def solved(
    pipeline: Pipeline,
    statistics: RidgeStatistics,
    ridge: float | Array | Literal["gcv"] = "gcv",
    *,
    classes: tuple[str, ...] | None = None,
    channels: tuple[str, ...] | None = None,
) -> Learned:
    """Return what is learned from statistics that are summed already."""
    standardise = pipeline.features.standardise
    choice, readout = chosen_readout(
        statistics, ridge, classes=classes is not None, standardise=standardise
    )
    model = solved_model(pipeline, statistics, readout, choice, classes=classes, channels=channels)
    return Learned(model, statistics, choice)


def has_target_per_step(prepare: Prepare, recording: Recording) -> bool:
    """Whether prepared recordings have a target for every step, or one for all.

    >>> has_target_per_step(Prepare(window=10), Recording([0.0, 1.0], [0.0, 1.0]))
    False
    """
    if prepare.window is not None:
        return False
    return prepare.horizon is not None or bool(recording.per_step)

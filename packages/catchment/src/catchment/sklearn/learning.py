"""What the regressor and the classifier do alike: statistics, the readout, honest training scores.

Leaving row i out of a ridge regression with an unpenalised intercept changes its residual from e to
e / (1 - h), with h = 1/n + (z - m)'(G + ridge I)^-1 (z - m) on centred moments, so leave-one-out
scores need no second fit. Weights count as repetitions: one unit of weight is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from catchment.arrays import Array
from catchment.data.recording import Recording
from catchment.data.scaling import Scaler
from catchment.features.pipeline import Pipeline
from catchment.readout.accumulation import accumulate, accumulate_with_rows, grid_of
from catchment.readout.model import Model, fitted_pipeline, solved
from catchment.readout.solve import Spectrum, rescaled, scale_of
from catchment.readout.statistics import Readout, RidgeStatistics
from catchment.sklearn.base import SequenceEstimator, count_jobs
from catchment.sklearn.inputs import Given


@dataclass(eq=False, repr=False, kw_only=True)
class ReadoutEstimator(SequenceEstimator):
    """An estimator with a ridge readout.

    Parameters
    ----------
    ridge
        A number, one number per output, or "gcv": chosen by generalised cross-validation.
    """

    ridge: float | Array | Literal["gcv"] = "gcv"

    def _learned(
        self,
        given: Given,
        y: Array,
        weight: Array | None,
        past: Model | None,
        classes: tuple[str, ...] | None = None,
    ) -> tuple[Model, Array | None]:
        """Return the model of samples with targets (n, K), and their feature rows where needed.

        Without weights it is what `catchment.fit` learns from the same recordings, to the bit.
        """
        recordings = given.recordings(y, weight)
        if past is None:
            pipeline = fitted_pipeline(
                self._scaled(given, weight), recordings, classes=classes is not None
            )
        else:
            pipeline = past.pipeline
        features, threads, is_classes = (
            pipeline.features,
            count_jobs(self.n_jobs),
            classes is not None,
        )
        prepared = pipeline.prepare.apply(recordings)
        rows: Array | None = None
        if weight is not None and not (given.pooled and features.grid is None):
            kept = given.after(features.washout)
            rows = np.concatenate(features.rows([r.u for r in prepared], threads=threads))
            total = RidgeStatistics.from_states(
                rows,
                y[kept],
                weight=weight[kept],
                fingerprint=features.fingerprint,
                grid=None if (weight % 1).any() else grid_of(features, prepared, is_classes),
            )
        elif classes is None:
            total = accumulate(features, prepared, threads=threads, classes=False)
        else:
            total, rows = accumulate_with_rows(features, prepared, threads=threads, classes=True)
        if past is not None:
            total = _sum(known_statistics(past), total)
        found = solved(
            pipeline, total, self.ridge, classes=classes, channels=recordings[0].channels
        )
        return replace(found.model, statistics=total), rows

    def _scaled(self, given: Given, weight: Array | None) -> Pipeline:
        """Return the pipeline as described; samples with weights are weighted in its scale too."""
        pipeline = self._pipeline()
        if weight is None or pipeline.prepare.is_fitted:
            return pipeline
        filled = pipeline.prepare.before_scaling(given.recordings())
        scaler = weighted_scaler(filled, np.split(weight, np.cumsum(given.lengths)[:-1]))
        return Pipeline(pipeline.prepare.fitted(scaler), pipeline.map)


def weighted_scaler(recordings: list[Recording], weights: list[Array]) -> Scaler:
    """Return the scaler of inputs whose steps, or whole recordings, count by their weights.

    >>> scaler = weighted_scaler([Recording([0.0, 4.0])], [np.array([3.0, 1.0])])
    >>> scaler.mean, scaler.scale.round(3)
    (array([1.]), array([1.732]))
    """
    u = np.concatenate([recording.u for recording in recordings])
    w = np.concatenate(
        [np.broadcast_to(w, r.n_steps) for r, w in zip(recordings, weights, strict=True)]
    )
    known = ~np.isnan(u)
    share = known * w[:, None]
    n = np.maximum(share.sum(axis=0), np.finfo(np.float64).tiny)
    values = np.where(known, u, 0.0)
    mean = (share * values).sum(axis=0) / n
    variance = (share * (values - mean) ** 2).sum(axis=0) / n
    # What is within rounding of zero is a constant.
    varies = variance > 1e-12 * (variance + mean**2)
    return Scaler(mean, np.where(varies, np.sqrt(np.where(varies, variance, 1.0)), 1.0))


def _sum(past: RidgeStatistics, new: RidgeStatistics) -> RidgeStatistics:
    """Return the sum, in float64 if one of them has weights that are no whole numbers."""
    if past.grid is None or new.grid is None:
        return past.floats + new.floats
    return past + new


def known_statistics(model: Model) -> RidgeStatistics:
    """Return the statistics of a fitted model; ValueError if they were dropped."""
    if model.statistics is None:
        raise ValueError("the fitted model has lost its statistics; fit the estimator again")
    return model.statistics


def leave_one_out(
    statistics: RidgeStatistics,
    readout: Readout,
    z: Array,
    y: Array,
    *,
    standardise: bool = False,
) -> Array:
    """Return what the readout would predict (n, K) for each training row had it not been there.

    Parameters
    ----------
    statistics
        Of the training rows, these among them.
    readout
        Solved from the statistics.
    z, y
        (n, F) features and (n, K) targets.
    standardise
        Whether the readout's ridge acts on features divided by their standard deviation; the row
        that is left out stays in it.

    >>> from catchment.readout.solve import solve_readout
    >>> z, y = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([[0.0], [1.0], [3.0], [4.0]])
    >>> s = RidgeStatistics.from_states(z, y)
    >>> last = s - RidgeStatistics.from_states(z[:1], y[:1])
    >>> loo = leave_one_out(s, solve_readout(s, 0.5), z, y)
    >>> bool(np.isclose(loo[0], solve_readout(last, 0.5)(z[:1])).all())
    True
    """
    scale = scale_of(statistics, standardise)
    centred = z - statistics.floats.feature_sum / statistics.weight
    if scale is not None:
        statistics, centred = rescaled(statistics, scale), centred / scale
    spectrum = Spectrum.of(statistics)
    along = (centred @ spectrum.vectors) ** 2
    leverage = 1.0 / statistics.weight + along @ spectrum.inverse(readout.ridge)
    # Weights below one per row, or rows fitted exactly, leave nothing to divide by.
    left = np.clip(1.0 - leverage, 1e-3, 1.0)
    return np.asarray(y - (y - readout(z)) / left)

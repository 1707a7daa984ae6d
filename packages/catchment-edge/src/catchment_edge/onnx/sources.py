"""What can be exported: a model, or an estimator of `catchment.sklearn` that holds one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from catchment.features import Pipeline
from catchment.readout import Model, PersonalModels, Predictor
from catchment_edge.onnx.file import Source


def source_of(model: Any, steps: int | None, rate: float | None) -> Source:
    """Return what to export of a model or a fitted estimator."""
    if isinstance(model, Model):
        return Source.of(model, steps=steps, rate=rate)
    if isinstance(model, PersonalModels):
        raise ValueError(
            "these are models by client, and a file holds one; say whose with --client NAME, or in "
            'Python export models.model or models.of("name")'
        )
    from catchment.sklearn import PreparedEstimator

    if isinstance(model, PreparedEstimator):
        return _of_estimator(model, steps, rate)
    # What can be trained and has no form here is a value that the command may meet.
    kind = ValueError if isinstance(model, Predictor) else TypeError
    raise kind(
        f"{type(model).__name__} has no form in ONNX; export a model with one map and one readout, "
        "or a fitted estimator of catchment.sklearn"
    )


def _of_estimator(estimator: Any, steps: int | None, rate: float | None) -> Source:
    """Return what to export of an estimator: rows and labels are those of its `predict`."""
    from sklearn.utils.validation import check_is_fitted

    from catchment.sklearn import EchoStateFeatures, SequenceClassifier, SequenceScaler

    if isinstance(estimator, EchoStateFeatures | SequenceScaler):
        raise ValueError(
            f"{type(estimator).__name__} does not predict; export an estimator that does, such as "
            "EchoStateClassifier"
        )
    check_is_fitted(estimator)
    model: Model = estimator.model_
    features: Any = model.features
    if features.reservoir is not None and model.per_step:
        # Estimators answer for the steps of the washout, too.
        features = replace(features, washout=0)
        model = replace(model, before=Pipeline(model.preprocessing, features), statistics=None)
    labels = None
    if isinstance(estimator, SequenceClassifier):
        known = np.asarray(estimator.classes_)
        labels = known.astype(np.int64) if known.dtype.kind in "iub" else known.astype(np.str_)
    return Source.of(model, labels=labels, steps=steps, rate=rate)

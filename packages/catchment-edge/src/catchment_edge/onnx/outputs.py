"""From feature rows to scores, probabilities and labels, as nodes."""

from __future__ import annotations

import numpy as np

from catchment.readout import Model
from catchment_edge.onnx.values import Array, Value


def scores_of(model: Model, z: Value) -> Value:
    """Return the outputs (rows, K) of feature rows (.., F)."""
    flat = z.reshape(-1, model.readout.n_features)
    return flat @ model.readout.weights + model.readout.intercept


def probabilities_of(model: Model, scores: Value) -> Value:
    """Return class probabilities (rows, K), as `Model.probabilities` does."""
    if model.temperature is not None:
        return scores.builder.op("Softmax", scores / model.temperature, axis=-1)
    return nearest_probabilities(scores, model.n_outputs)


def nearest_probabilities(scores: Value, K: int) -> Value:
    """Return the nearest rows that are not negative and sum to 1."""
    ordered = scores.sorted(K, axis=1, largest=True)
    excess = (ordered.running_sum(axis=1) - 1.0) / np.arange(1.0, K + 1.0)
    kept = (ordered > excess).cast(np.int64).sum(axis=1, keep=True)
    # Scores that are missing keep nothing, and have no place before the first.
    threshold = excess.take_along((kept - 1).at_least(0), axis=1)
    return (scores - threshold).at_least(0.0)


def labels_of(scores: Value, labels: Array) -> Value:
    """Return the label (rows,) of the largest score of each row, the first of equals."""
    return scores.builder.constant(labels).take(scores.place_of_max(axis=1), axis=0)

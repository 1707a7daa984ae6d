"""Output feedback: what the model said last is among its inputs.

In training the true target of the step before stands there (teacher forcing), which keeps the
regression in closed form and federated like any other; in prediction the model's own output does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from catchment import Array, as_matrix
from catchment.data import RAW, Recording
from catchment.readout import Model


def with_feedback(recordings: Sequence[Recording]) -> list[Recording]:
    """Return recordings whose inputs have the targets (T, K) of the step before beside them.

    >>> with_feedback([Recording([1.0, 2.0], [[5.0], [6.0]])])[0].u.tolist()
    [[1.0, 0.0], [2.0, 5.0]]
    """
    made = []
    for k, one in enumerate(recordings):
        if one.y is None or one.y.shape[0] != one.n_steps or one.y.ndim != 2:
            raise ValueError(f"recording {k} has no target for every step, which would be fed back")
        before = np.vstack([np.zeros((1, one.y.shape[1])), one.y[:-1]])
        made.append(Recording(np.hstack([one.u, before]), one.y))
    return made


def predict_with_feedback(model: Model, u: ArrayLike, given: ArrayLike | None = None) -> Array:
    """Return the outputs (T, K) of a model that was trained `with_feedback`, fed its own.

    Parameters
    ----------
    model
        Trained on raw inputs (`Pipeline(RAW, map)`), with a map that gives a row per step and can
        go on with a recording.
    u
        (T, I) the inputs alone.
    given
        (n, K) outputs that are known for the first steps, such as the washout's; they are returned
        as they are.
    """
    if model.preprocessing != RAW:
        raise ValueError("the model changes its inputs; train it with Pipeline(RAW, map)")
    inputs, K = as_matrix(u, "u"), model.n_outputs
    known = np.empty((0, K)) if given is None else as_matrix(given, "given")
    found = np.zeros((len(inputs), K))
    last, carried = np.zeros(K), tuple[Array, ...]()
    for t, row in enumerate(inputs):
        z, carried = model.features.go_on(np.concatenate([row, last])[None], t, carried)
        if t < len(known):
            last = known[t]
        elif len(z):
            (last,) = model.readout(z)
            if model.target_range is not None:
                last = np.clip(last, *model.target_range)
        found[t] = last
    return found

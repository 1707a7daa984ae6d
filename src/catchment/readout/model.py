"""A trained model: frozen features and the readout on top, for numbers or for classes.

Classification is ridge regression on one-hot targets (Bacciu et al., IJCNN 2021). Its scores
estimate class probabilities but are not confined to them. Without calibration, probabilities are
the scores' nearest point on the simplex. With it they are softmax(scores / temperature), the
temperature fitted by maximum likelihood on held-out sequences (Guo et al., ICML 2017) whose labels
are smoothed by one count per class (as in Platt 1999), so that it stays finite when every held-out
sequence is classified rightly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from catchment.arrays import Array, Integers
from catchment.data.recording import Recording
from catchment.errors import FingerprintError
from catchment.features.feature_map import FeatureMap
from catchment.readout.accumulate import accumulate
from catchment.readout.readout import Readout
from catchment.readout.solve import solve_readout
from catchment.readout.statistics import RidgeStatistics


@dataclass(frozen=True, eq=False)
class Model:
    """Features of a frozen reservoir and a readout; `train` makes one.

    Parameters
    ----------
    features
        Map from an input sequence to feature rows.
    readout
        Map from feature rows (n, F) to outputs (n, K).
    classes
        Names of the K outputs if they are classes, else None.
    statistics
        What the readout was solved from, if it is to be updated later. They tell about the training
        data: drop them with `replace(model, statistics=None)` before giving a model away.
    temperature
        Softness of the class probabilities, as fitted by `calibrated`.

    >>> from catchment import Recipe, Reservoir
    >>> features = EchoStateMap(Reservoir.from_recipe(Recipe(units=30, inputs=1, seed=1)), washout=20)
    >>> u = np.sin(np.arange(300) / 5)
    >>> model = train(features, [Recording(u[:-1], u[1:])])
    >>> model.predict(u[:40]).shape
    (20, 1)
    """

    features: FeatureMap
    readout: Readout
    classes: tuple[str, ...] | None = None
    statistics: RidgeStatistics | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        if self.readout.n_features != self.features.n_features:
            raise ValueError(
                f"the readout takes {self.readout.n_features} features, these features have "
                f"{self.features.n_features}; use the features it was trained on"
            )
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))
            if len(set(self.classes)) != self.readout.n_outputs:
                raise ValueError(
                    f"{len(set(self.classes))} different classes are named for "
                    f"{self.readout.n_outputs} outputs; name each output once"
                )
        if self.statistics is not None:
            if self.statistics.fingerprint not in ("", self.features.fingerprint):
                raise FingerprintError(
                    "the statistics come from other features than the model's; "
                    "accumulate them with the same features"
                )
            if self.statistics.cross.shape != self.readout.weights.shape:
                raise ValueError(
                    f"the statistics have {self.statistics.cross.shape} features and targets, the "
                    f"readout {self.readout.weights.shape}; solve the readout from them"
                )
        if self.temperature is not None and not 0 < self.temperature < np.inf:
            raise ValueError(f"temperature is {self.temperature}; pass a finite number above 0")

    @property
    def n_outputs(self) -> int:
        return self.readout.n_outputs

    def predict(self, u: ArrayLike) -> Array:
        """Return the outputs (rows, K) of one sequence of inputs (T, I).

        There is a row per step after the washout, or one row if the features are pooled.
        """
        return self.readout(self.features(u))

    def predict_all(self, sequences: Sequence[ArrayLike | Recording]) -> list[Array]:
        """Return the outputs (rows, K) of each sequence, run side by side."""
        return [self.readout(z) for z in self.features.rows([_inputs(s) for s in sequences])]

    def scores(self, sequences: Sequence[ArrayLike | Recording]) -> Array:
        """Return one row of class scores (n, K) per sequence, the mean over its rows."""
        self._names()
        if len(sequences) == 0:
            return np.zeros((0, self.n_outputs))
        return np.array([y.mean(axis=0) for y in self.predict_all(sequences)])

    def predict_proba(self, sequences: Sequence[ArrayLike | Recording]) -> Array:
        """Return one row of class probabilities (n, K) per sequence; each row sums to 1."""
        scores = self.scores(sequences)
        if self.temperature is None:
            return simplex_projection(scores)
        return softmax(scores / self.temperature)

    def classify(self, sequences: Sequence[ArrayLike | Recording]) -> list[str]:
        """Return the name of the class of each sequence."""
        names = self._names()
        return [names[k] for k in self.scores(sequences).argmax(axis=1)]

    def calibrated(self, held_out: Sequence[Recording]) -> Model:
        """Return the model with the temperature that makes held-out labels most likely.

        Parameters
        ----------
        held_out
            Sequences with one-hot targets (K,) that took no part in training. Those whose target is
            missing are left out.
        """
        labels = np.array([self._label(s, k) for k, s in enumerate(held_out)], dtype=np.int64)
        known = [s for s, label in zip(held_out, labels, strict=True) if label >= 0]
        if not known:
            raise ValueError("there are no held-out sequences with a target; pass at least one")
        temperature = fitted_temperature(self.scores(known), labels[labels >= 0])
        return replace(self, temperature=temperature)

    def _names(self) -> tuple[str, ...]:
        if self.classes is None:
            raise ValueError("the model predicts numbers; name its classes to classify with it")
        return self.classes

    def _label(self, sequence: Recording, k: int) -> int:
        """Return the number of the class, -1 if it is missing."""
        y = sequence.y
        if y is None or y.shape != (self.n_outputs,):
            raise ValueError(
                f"held-out sequence {k} has no target of shape ({self.n_outputs},); "
                "use Recording.labelled"
            )
        return -1 if np.isnan(y).any() else int(y.argmax())


def train(
    features: FeatureMap,
    sequences: Iterable[Recording],
    ridge: float | Array = 1e-6,
    *,
    classes: Sequence[str] | None = None,
    intercept: bool = True,
    threads: int | None = None,
) -> Model:
    """Return the model that predicts the sequences' targets, with its statistics.

    Parameters
    ----------
    features
        Map from inputs to feature rows.
    sequences
        With targets; one-hot rows if there are classes.
    ridge
        One number, or (K,) numbers, one per output.
    classes
        Names of the K targets if they are classes.

    >>> from catchment import Recipe, Reservoir
    >>> reservoir = Reservoir.from_recipe(Recipe(units=30, inputs=1, seed=1))
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labelled(u, k % 2, 2) for k, u in enumerate(waves)]
    >>> model = train(EchoStateMap(reservoir, pool="mean_std"), data, classes=("fast", "slow"))
    >>> model.classify(waves[:3])
    ['fast', 'slow', 'fast']
    """
    statistics = accumulate(features, sequences, threads=threads)
    readout = solve_readout(statistics, ridge, intercept=intercept)
    return Model(features, readout, None if classes is None else tuple(classes), statistics)


def softmax(scores: Array) -> Array:
    """Return positive rows (n, K) that sum to 1, in the proportions of the exponentials.

    >>> softmax(np.array([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def simplex_projection(scores: Array) -> Array:
    """Return the nearest rows (n, K) that are not negative and sum to 1.

    >>> simplex_projection(np.array([[0.75, 0.5, -0.25]]))
    array([[0.625, 0.375, 0.   ]])
    """
    K = scores.shape[1]
    ordered = -np.sort(-scores, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, K + 1)
    kept = (ordered > excess).sum(axis=1)
    threshold = np.take_along_axis(excess, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(scores - threshold, 0.0))


def fitted_temperature(scores: Array, labels: Integers, weight: Array | None = None) -> float:
    """Return the temperature under which softmax(scores / temperature) makes the labels likeliest.

    Parameters
    ----------
    scores
        (n, K) class scores of held-out rows.
    labels
        (n,) numbers of their classes.
    weight
        (n,) how many rows each stands for; ones if not given.

    >>> scores = np.array([[0.6, 0.4], [0.4, 0.6], [0.7, 0.3], [0.3, 0.7]] * 50)
    >>> 0.0 < fitted_temperature(scores, np.array([0, 1, 0, 1] * 50)) < 0.1
    True
    """
    K = scores.shape[1]
    rows = np.ones(len(scores)) if weight is None else weight
    n = rows.sum()
    target = np.full(scores.shape, 1.0 / (n + K))
    target[np.arange(len(scores)), labels] = (n + 1.0) / (n + K)
    weighted = scores * rows[:, None]
    aimed = float((target * weighted).sum())

    def too_sharp(temperature: float) -> bool:
        # The likelihood is concave in 1/temperature; its slope is this difference.
        return float((softmax(scores / temperature) * weighted).sum()) > aimed

    low, high = 1e-6, 1e6
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if too_sharp(middle) else (low, middle)
    return float(np.sqrt(low * high))


def _inputs(sequence: ArrayLike | Recording) -> ArrayLike:
    return sequence.u if isinstance(sequence, Recording) else sequence

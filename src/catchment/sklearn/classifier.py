"""Classification of sequences, or of their steps, by the states of a reservoir."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from catchment.arrays import Array, Integers
from catchment.features.echo_state.pooling import Pool
from catchment.features.echo_state.settings import Mixture, Spread
from catchment.features.feature_map import FeatureMap
from catchment.readout.model import Model, fitted_temperature, softmax
from catchment.readout.solve import solve_readout
from catchment.readout.statistics import RidgeStatistics
from catchment.sklearn.base import EchoState
from catchment.sklearn.inputs import Given, Inputs, Targets
from catchment.sklearn.learning import chosen_ridge, known_statistics, leave_one_out, training_rows

# One-hot targets need no closer fit than to a hundredth; a smaller ridge would fit rounding.
FINEST = 1e-4


class EchoStateClassifier(ClassifierMixin, EchoState):  # type: ignore[misc]
    """Ridge regression on one-hot classes; with a pool, the default, one class per sequence.

    A matrix X then holds a sequence of one input in each row; lists of (T, I) arrays and arrays
    (B, T, I) hold sequences of several inputs. With `pool=None` every step has a class of its own,
    and a matrix X is one sequence. `catchment.sklearn` has the whole table.

    Scores are the readout's. Probabilities are softmax(scores / temperature), the temperature being
    the likeliest for the scores that each training sample has when it is left out.

    Parameters
    ----------
    pool, segments
        How a sequence is summed up: `last`, `mean`, `mean_std` or `max`, of each of this many equal
        parts; None classifies every step.
    washout
        Steps at the start of each sequence that are neither pooled nor learnt from.
    units, spectral_radius, leak_rate, input_scaling, bias_scaling, activation
        As in `EchoStateRegressor`.
    topology, density, connections, input_connections, random_signs
        Wiring, as in `Recipe`.
    input, ridge, random_state, n_jobs
        As in `EchoStateRegressor`.

    Attributes
    ----------
    classes_
        Labels, sorted.
    temperature_
        Softness of the probabilities.
    model_
        The fitted `Model`, ready for `catchment.save`; it holds the training statistics.
    n_features_in_
        Columns of X.

    >>> X = [np.sin(np.arange(40 + k) / (3 + k % 2)) for k in range(20)]
    >>> y = ["fast", "slow"] * 10
    >>> classifier = EchoStateClassifier(50, pool="mean_std").fit(X[:16], y[:16])
    >>> classifier.predict(X[16:]).tolist()
    ['fast', 'slow', 'fast', 'slow']
    """

    def __init__(
        self,
        units: int | tuple[int, ...] = 200,
        *,
        spectral_radius: float | tuple[float, ...] = 0.9,
        leak_rate: float | Spread | tuple[float | Spread, ...] = 0.3,
        input_scaling: float | tuple[float, ...] = 0.5,
        bias_scaling: float | tuple[float, ...] = 0.2,
        topology: str | tuple[str, ...] = "random",
        density: float | tuple[float | None, ...] | None = None,
        connections: int | tuple[int | None, ...] | None = None,
        input_connections: int | tuple[int | None, ...] | None = None,
        random_signs: bool | tuple[bool, ...] = False,
        activation: str | Mixture | tuple[str | Mixture, ...] = "tanh",
        input: bool = True,
        washout: int = 0,
        pool: Pool | None = "mean",
        segments: int = 1,
        ridge: float | Array | str = "gcv",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            units,
            spectral_radius=spectral_radius,
            leak_rate=leak_rate,
            input_scaling=input_scaling,
            bias_scaling=bias_scaling,
            topology=topology,
            density=density,
            connections=connections,
            input_connections=input_connections,
            random_signs=random_signs,
            activation=activation,
            input=input,
            washout=washout,
            pool=pool,
            segments=segments,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.ridge = ridge

    def fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from inputs and labels, forgetting what was learnt before."""
        given = self._read(X, reset=True)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        # A class that occurs only with weight zero does not occur.
        classes = np.unique(labels if weight is None else labels[weight > 0])
        if len(classes) < 2:
            raise ValueError(f"y has 1 class, {classes[0]}; a classifier needs at least 2")
        if weight is not None:
            weight = np.where(np.isin(labels, classes), weight, 0.0)
            labels = np.where(np.isin(labels, classes), labels, classes[0])
        features = self._features(given.n_inputs)
        return self._learn(given, labels, weight, classes, features, None)

    def partial_fit(
        self,
        X: Inputs,
        y: Targets,
        classes: ArrayLike | None = None,
        sample_weight: Targets | None = None,
    ) -> Self:
        """Learn from more sequences; the result is that of one fit on all of them as a list.

        Only the temperature of the probabilities is fitted on the samples of the last call alone.

        Parameters
        ----------
        classes
            All labels that will ever occur; needed in the first call.
        """
        first = not hasattr(self, "model_")
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        known = np.unique(np.asarray(classes)) if first else self.classes_
        if not first and classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(
                f"classes {np.unique(classes)} differ from {known} of the first call; "
                "pass the same ones or none"
            )
        given = self._read(X, reset=first)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(
                f"y has the label {unknown[0]}, which is not among the classes {known}"
            )
        features = self._features(given.n_inputs) if first else self.model_.features
        past = None if first else known_statistics(self.model_)
        return self._learn(given, labels, weight, known, features, past)

    def decision_function(self, X: Inputs) -> NDArray[Any]:
        """Return scores (n, K), or for two classes the second's lead (n,), arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict_proba(self, X: Inputs) -> NDArray[Any]:
        """Return probabilities (n, K), arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(softmax(scores / self.temperature_))

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return labels (n,), arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(self.classes_[scores.argmax(axis=1)])

    def score(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> float:
        """Return the share of right labels; of steps, without the washout of each sequence."""
        given, scores = self._scores(X)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        kept = given.after(self.washout)
        predicted = self.classes_[scores.argmax(axis=1)]
        weight = None if weight is None else weight[kept]
        return float(accuracy_score(labels[kept], predicted[kept], sample_weight=weight))

    def _scores(self, X: Inputs) -> tuple[Given, Array]:
        check_is_fitted(self)
        given = self._read(X, reset=False)
        return given, self.model_.readout(self._rows(self.model_.features, given))

    def _labels(self, given: Given, y: Targets | None) -> NDArray[Any]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        labels: NDArray[Any] = column_or_1d(given.flat(y, "y"), warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return labels

    def _learn(
        self,
        given: Given,
        labels: NDArray[Any],
        weight: Array | None,
        classes: NDArray[Any],
        features: FeatureMap,
        past: RidgeStatistics | None,
    ) -> Self:
        index: Integers = np.searchsorted(classes, labels)[given.after(features.washout)]
        weight = None if weight is None else weight[given.after(features.washout)]
        z, y = training_rows(features, given, threads=self._threads()), np.eye(len(classes))[index]
        statistics = RidgeStatistics.from_states(
            z, y, weight=weight, fingerprint=features.fingerprint
        )
        total = statistics if past is None else past + statistics
        with self._solver():
            readout = solve_readout(total, chosen_ridge(self.ridge, total, finest=FINEST))
            honest = leave_one_out(total, readout, z, y)
        self.temperature_ = fitted_temperature(honest, index, weight)
        self.classes_ = classes
        names = tuple(str(label) for label in classes)
        self.model_ = Model(features, readout, names, total, self.temperature_)
        return self

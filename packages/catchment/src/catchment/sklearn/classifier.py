"""Classification of sequences or of their steps, and detection of anomalies in them."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin, OutlierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from catchment.arrays import Array, Integers
from catchment.data.frames import missing_values
from catchment.features.recipes import AutoMap, FeatureMap, known_map
from catchment.readout.adapt import SelfTraining, self_train
from catchment.readout.detector import MahalanobisDetector
from catchment.readout.model import Model, fitted_temperature
from catchment.readout.statistics import RidgeStatistics
from catchment.sklearn.base import (
    EchoStateEstimator,
    Given,
    Inputs,
    ReadoutEstimator,
    Targets,
    follows_data,
    known_statistics,
    leave_one_out,
)


class SequenceClassifier(ClassifierMixin, ReadoutEstimator):  # type: ignore[misc]
    """Ridge regression on one-hot classes, whatever the map is."""

    def fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from inputs and labels, forgetting what was learned before."""
        X = self._oriented(X, y, reset=True, per_step=True)
        self.pooled_ = follows_data(self._pooling(), X, y, matrix_pooled=True)
        given = self._read(X, pooled=self.pooled_, reset=True)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        # A class that occurs only with weight zero does not occur.
        classes = np.unique(labels if weight is None else labels[weight > 0])
        if len(classes) < 2:
            raise ValueError(f"y has 1 class, {classes[0]}; a classifier needs at least 2")
        if weight is not None:
            weight = np.where(np.isin(labels, classes), weight, 0.0)
            labels = np.where(np.isin(labels, classes), labels, classes[0])
        return self._learn(given, labels, weight, classes, None)

    def partial_fit(
        self,
        X: Inputs,
        y: Targets,
        classes: ArrayLike | None = None,
        sample_weight: Targets | None = None,
    ) -> Self:
        """Learn from more sequences; inputs are scaled as in the first call.

        With `scale=False` the result is that of one fit on all sequences as a list; only the
        temperature of the probabilities is fitted on the samples of the last call alone.

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
        if first:
            X = self._oriented(X, y, reset=True, per_step=True)
        self.pooled_ = follows_data(self._pooling(), X, y, matrix_pooled=True)
        given = self._read(X, pooled=self.pooled_, reset=first)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(
                f"y has the label {unknown[0]}, which is not among the classes {known}"
            )
        return self._learn(given, labels, weight, known, None if first else self.model_)

    def decision_function(self, X: Inputs) -> NDArray[Any]:
        """Return scores (n, K), or for two classes the second's lead (n,), arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict_proba(self, X: Inputs) -> NDArray[Any]:
        """Return probabilities (n, K), arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(softmax(scores / self.temperature_, axis=1))

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return labels (n,), arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(self.classes_[scores.argmax(axis=1)])

    def score(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> float:
        """Return the share of right labels; of steps, without the washout of each sequence."""
        given, scores = self._scores(X)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        kept = given.after(self.model_.washout)
        predicted = self.classes_[scores.argmax(axis=1)]
        weight = None if weight is None else weight[kept]
        return float(accuracy_score(labels[kept], predicted[kept], sample_weight=weight))

    def _scores(self, X: Inputs) -> tuple[Given, Array]:
        check_is_fitted(self)
        given = self._given(X)
        return given, self.model_.readout(self._rows(self.model_.pipeline, given))

    def _labels(self, given: Given, y: Targets | None) -> NDArray[Any]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        labels: NDArray[Any] = column_or_1d(given.flat(y, "y"), warn=True)
        missing = np.flatnonzero(missing_values(labels))
        if len(missing):
            raise ValueError(
                f"Input y contains NaN: {len(missing)} of {len(labels)} samples have no label, the "
                f"first is number {missing[0]}; leave them out of X and y"
            )
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return labels

    def _learn(
        self,
        given: Given,
        labels: NDArray[Any],
        weight: Array | None,
        classes: NDArray[Any],
        past: Model | None,
    ) -> Self:
        index: Integers = np.searchsorted(classes, labels)
        y = np.eye(len(classes))[index]
        names = tuple(str(label) for label in classes)
        model, z = self._learned(given, y, weight, past, names)
        assert z is not None
        kept = given.after(model.features.washout)
        honest = leave_one_out(
            known_statistics(model),
            model.readout,
            z,
            y[kept],
            standardize=model.features.standardize,
        )
        kept_weight = None if weight is None else weight[kept]
        self.temperature_ = fitted_temperature(honest, index[kept], kept_weight)
        self.classes_ = classes
        self.model_ = replace(model, temperature=self.temperature_)
        return self


@dataclass(eq=False, repr=False)
class EchoStateClassifier(SequenceClassifier, EchoStateEstimator):
    """Ridge regression on one-hot classes: of whole sequences, or of their steps.

    By default a matrix X holds a sequence of one input in each row; lists of (T, I) arrays and
    arrays (B, T, I) hold sequences of several inputs, with a label each or one for every step. With
    `pool=None` every step has a class of its own, and a matrix X is one sequence.
    `catchment.sklearn` has the whole table.

    Scores are the readout's. Probabilities are softmax(scores / temperature), the temperature being
    the likeliest for the scores that each training sample has when it is left out.

    Parameters
    ----------
    pool, segments
        How a sequence is summed up: `last`, `mean`, `mean_std` or `max`, of each of this many equal
        parts; None classifies every step. "auto" is `mean_std` unless several sequences have a
        label for every step.
    washout
        Steps at the start of each sequence that are neither pooled nor learned from.
    units, topology, density, connections, rewiring, jump, jump_weight, random_signs
        As in `EchoStateRegressor`, and so are all others.

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


@dataclass(eq=False, repr=False)
class TimeSeriesClassifier(SequenceClassifier):
    """Classes of whole sequences, by ridge regression on the features of any map.

    A matrix X holds a sequence of one input in each row; lists of (T, I) arrays and arrays
    (B, T, I), or with `layout="channels_first"` (I, T) and (B, I, T), hold sequences of several
    inputs. Scores, probabilities and the readout are those of
    `EchoStateClassifier`; without weights the model is that of `catchment.fit`, to the bit.

    Parameters
    ----------
    map
        A feature map with one row per recording, its description, or its name.
    ridge
        A number, or "gcv": chosen by generalized cross-validation.
    gaps, scale, layout, n_jobs
        As in `EchoStateClassifier`.

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
    >>> TimeSeriesClassifier("window_statistics").fit(X[:16], y[:16]).predict(X[16:]).tolist()
    ['fast', 'slow', 'fast', 'slow']
    """

    map: FeatureMap | str = "default"

    def _description(self) -> FeatureMap | str:
        # A copy, as a map keeps what it has found out about itself, and settings stay as they are.
        described = known_map(deepcopy(self.map))
        if isinstance(described, AutoMap):
            raise ValueError(
                "map is 'auto', which catchment.fit and federate choose by; name the maps to "
                "choose from in a search, such as GridSearchCV over map"
            )
        return described


@dataclass(eq=False, repr=False)
class AdaptiveClassifier(SequenceClassifier):
    """Classes of whole sequences, by a readout that adapts to new samples without labels.

    It is fitted as `TimeSeriesClassifier`, to the bit. `partial_fit_unlabeled` then takes sequences
    of one new person or machine and corrects the readout by self-training
    (`catchment.readout.SelfTraining`); `fit` and `partial_fit` forget them.

    Parameters
    ----------
    map
        A feature map with one row per recording, its description, or its name.
    share, weight, iterations
        As in `SelfTraining`.
    length
        Only so many of the last samples without labels count.
    ridge, gaps, scale, layout, n_jobs
        As in `TimeSeriesClassifier`.

    Attributes
    ----------
    classes_
        Labels, sorted.
    fitted_model_
        The `Model` before it adapted; it holds the training statistics.
    model_
        The `Model` that predicts.
    n_unlabeled_
        How many samples without labels count now.

    >>> rng = np.random.default_rng(0)
    >>> def wave(k, level): return np.sin(np.arange(50) / (3 + k % 2)) + level * rng.normal(size=50)
    >>> X, y = [wave(k, 0.2) for k in range(40)], ["fast", "slow"] * 20
    >>> new = [wave(k, 0.6) for k in range(40)]
    >>> classifier = AdaptiveClassifier("window_statistics").fit(X, y)
    >>> classifier.partial_fit_unlabeled(new).n_unlabeled_
    40
    """

    map: FeatureMap | str = "default"
    _: KW_ONLY
    share: float = 0.9
    weight: float = 0.1
    iterations: int = 5
    length: int = 2000

    _description = TimeSeriesClassifier._description

    def partial_fit_unlabeled(self, X: Inputs) -> Self:
        """Adapt to more sequences, whose labels nobody knows; X is as in `predict`."""
        check_is_fitted(self)
        if self.length < 1:
            raise ValueError(f"length is {self.length}; pass how many samples count, 1 or more")
        rule = SelfTraining(share=self.share, weight=self.weight, iterations=self.iterations)
        base: Model = self.fitted_model_
        rows = self._rows(base.pipeline, self._given(X))
        self.rows_: Array = np.concatenate([self.rows_, rows])[-self.length :]
        how = {"standardize": base.features.standardize}
        found = self_train(known_statistics(base), base.readout, self.rows_, rule, **how)
        self.model_ = replace(base, readout=found.readout)
        self.n_unlabeled_ = len(self.rows_)
        return self

    def _learn(
        self,
        given: Given,
        labels: NDArray[Any],
        weight: Array | None,
        classes: NDArray[Any],
        past: Model | None,
    ) -> Self:
        super()._learn(given, labels, weight, classes, past)
        self.fitted_model_: Model = self.model_
        self.rows_ = np.zeros((0, self.model_.features.n_features))
        self.n_unlabeled_ = 0
        return self


PARTS = 5  # of the rows, left out in turn for the threshold
WASHOUT = 50


@dataclass(eq=False, repr=False)
class AnomalyDetector(OutlierMixin, EchoStateEstimator):  # type: ignore[misc]
    """How unusual steps, or whole sequences, are: the Mahalanobis distance of reservoir features.

    `catchment.sklearn` says what X may be; a pool of "auto" is none here, so that a matrix X is one
    sequence and its steps are scored. The model of what is normal is the one that
    `FederatedAnomalyDetector` learns from many clients' sums.

    Parameters
    ----------
    false_positive_rate
        Share of new normal samples that may count as anomalies. The threshold is taken from samples
        of `fit` that are left out in turn, a fifth in a row at a time.
    washout
        Steps at the start of each sequence that are neither learned from nor judged, as the
        reservoir has yet to forget its zeros; "auto" is 50, and at most a tenth of the shortest.
    shrinkage
        Of the covariance: a number from 0 to 1, or "auto"
        (`catchment.readout.MahalanobisDetector`).
    units, pool
        As in `EchoStateRegressor`, and so are all others.

    Attributes
    ----------
    washout_
        The washout.
    normal_
        The `MahalanobisDetector`.
    offset_
        Samples whose `score_samples` is below it are anomalies.
    pipeline_
        The fitted `Pipeline`: preparation and map.
    n_features_in_
        Columns of X.

    >>> u = np.sin(np.arange(400) / 5)[:, None]
    >>> detector = AnomalyDetector(30).fit(u)
    >>> u[300] += 2
    >>> int(detector.score_samples(u).argmin()), int(detector.predict(u)[300])
    (300, -1)
    """

    _: KW_ONLY
    washout: int | Literal["auto"] = "auto"  # type: ignore[assignment]
    false_positive_rate: float = 0.01
    shrinkage: float | Literal["auto"] = "auto"

    def fit(self, X: Inputs, y: object = None) -> Self:
        """Learn what is normal; y is not used."""
        rate = self.false_positive_rate
        if not 0 < rate < 1:
            raise ValueError(
                f"false_positive_rate is {rate}; pass a share between 0 and 1, such as 0.01"
            )
        self.pooled_ = self.pool not in (None, "auto")
        read = self._read(self._oriented(X, reset=True), pooled=self.pooled_, reset=True)
        shortest = min(len(u) for u in read.inputs)
        self.washout_ = min(WASHOUT, shortest // 10) if self.washout == "auto" else self.washout
        given = self._fit_features(X)
        features = self.pipeline_.features
        rows = self._rows(self.pipeline_, given)[given.after(features.washout)]
        if len(rows) < 2:
            raise ValueError(
                f"X has {len(rows)} sample{'' if len(rows) == 1 else 's'} after the washout; what "
                "is normal takes two or more"
            )
        self.normal_ = self._normal(rows)
        blocks = [block for block in np.array_split(np.arange(len(rows)), PARTS) if len(block)]
        if len(rows) < 2 * PARTS:
            scores = self.normal_.scores(rows)
        else:
            others = [self._normal(np.delete(rows, block, axis=0)) for block in blocks]
            held = zip(others, blocks, strict=True)
            scores = np.concatenate([other.scores(rows[block]) for other, block in held])
        self.offset_ = float(np.quantile(-scores, rate))
        return self

    def _normal(self, rows: Array) -> MahalanobisDetector:
        """Return what is normal for rows (n, F)."""
        sums = RidgeStatistics.from_states(rows, np.zeros((len(rows), 1)))
        standardize = self.pipeline_.features.standardize
        return MahalanobisDetector.of(sums, self.shrinkage, standardize=standardize)

    def _description(self) -> FeatureMap:  # type: ignore[override]
        settled = copy(self)
        settled.washout = self.washout_
        return EchoStateEstimator._description(settled)

    def score_samples(self, X: Inputs) -> NDArray[Any]:
        """Return minus the scores (n,), arranged like X: the lower, the more unusual."""
        given, scores = self._scores(X)
        return given.arranged(-scores)

    def decision_function(self, X: Inputs) -> NDArray[Any]:
        """Return how far samples (n,) are above the offset; anomalies are below 0."""
        given, scores = self._scores(X)
        return given.arranged(-scores - self.offset_)

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return 1 for samples (n,) that are normal and -1 for anomalies, arranged like X."""
        given, scores = self._scores(X)
        return given.arranged(np.where(-scores < self.offset_, -1, 1))

    def _scores(self, X: Inputs) -> tuple[Given, Array]:
        check_is_fitted(self, "normal_")
        given = self._given(X)
        scores = self.normal_.scores(self._rows(self.pipeline_, given))
        return given, np.where(given.after(self.pipeline_.features.washout), scores, 0.0)

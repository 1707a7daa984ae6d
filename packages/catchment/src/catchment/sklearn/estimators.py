"""The estimators: classes and numbers of sequences or of their steps, anomalies, and forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from catchment.arrays import (
    Array,
    Integers,
    PositiveInt,
    Probability,
    as_matrix,
    as_numbers,
    check_type,
    refuse_nonfinite,
)
from catchment.data.frames import missing_values
from catchment.data.preprocessing import Preprocessing
from catchment.data.recording import Recording
from catchment.data.steps import Policy
from catchment.features.nvar import NVAR
from catchment.features.pipeline import Pipeline
from catchment.features.recipes import AutoMap, FeatureMap, known_map
from catchment.federation.learn.yule_walker import LOOKBACK, fit_lags
from catchment.readout.adapt import SelfTraining, self_train
from catchment.readout.detector import MahalanobisDetector
from catchment.readout.forecasting import Forecast, forecast, forecasts
from catchment.readout.model import Model, fitted_temperature, softmax
from catchment.readout.statistics import RidgeStatistics
from catchment.sklearn.base import (
    EchoStateEstimator,
    Given,
    Inputs,
    ReadoutEstimator,
    Targets,
    known_statistics,
    leave_one_out,
)


class SequenceClassifier(ClassifierMixin, ReadoutEstimator):  # type: ignore[misc]
    """Ridge regression on one-hot classes, whatever the map is."""

    _in_rows = True

    def fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from inputs and labels, forgetting what was learned before."""
        given = self._first(X, y, per_step=True)
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
        given = self._first(X, y, per_step=True) if first else self._given(X)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        unknown = np.setdiff1d(labels, known)
        if len(unknown):
            raise ValueError(
                f"y has the label {unknown[0]}, which is not among the classes {known}"
            )
        return self._learn(given, labels, weight, known, None if first else self.model_)

    def decision_function(self, X: Inputs) -> NDArray[Any]:
        """Return scores (n, K), or for two classes the second's lead (n,), arranged like X."""
        given, scores = self._outputs(X)
        return given.arranged(scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict_proba(self, X: Inputs) -> NDArray[Any]:
        """Return probabilities (n, K), arranged like X."""
        given, scores = self._outputs(X)
        return given.arranged(softmax(scores / self.temperature_))

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return labels (n,), arranged like X."""
        given, scores = self._outputs(X)
        return given.arranged(self.classes_[scores.argmax(axis=1)])

    def score(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> float:
        """Return the share of right labels; of steps, without the washout of each sequence."""
        given, scores = self._outputs(X)
        labels, weight = self._labels(given, y), given.weights(sample_weight)
        kept = given.after(self.model_.washout)
        predicted = self.classes_[scores.argmax(axis=1)]
        weight = None if weight is None else weight[kept]
        return float(accuracy_score(labels[kept], predicted[kept], sample_weight=weight))

    def _labels(self, given: Given, y: Targets | None) -> NDArray[Any]:
        labels: NDArray[Any] = column_or_1d(self._flat(given, y), warn=True)
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
    `EchoStateClassifier`, whose attributes it has; without weights the model is that of
    `catchment.fit`, to the bit.

    Parameters
    ----------
    map
        A feature map with one row per recording, its description, or its name.
    ridge
        A number, or "gcv": chosen by generalized cross-validation.
    gaps, scale, layout, n_jobs
        As in `EchoStateClassifier`.

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
class AdaptiveClassifier(TimeSeriesClassifier):
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

    _: KW_ONLY
    share: float = 0.9
    weight: float = 0.1
    iterations: int = 5
    length: int = 2000

    def partial_fit_unlabeled(self, X: Inputs) -> Self:
        """Adapt to more sequences, whose labels nobody knows; X is as in `predict`."""
        check_is_fitted(self)
        check_type(self.length, PositiveInt, "length")
        rule = SelfTraining(share=self.share, weight=self.weight, iterations=self.iterations)
        base: Model = self.fitted_model_
        rows = self._rows(base.pipeline, self._given(X))
        self.rows_: Array = np.concatenate([self.rows_, rows])[-self.length :]
        how = {"standardize": base.features.standardize}
        found = self_train(known_statistics(base), base.readout, self.rows_, rule, **how)
        self.model_ = replace(base, readout=found.readout)
        self.n_unlabeled_ = len(self.rows_)
        return self

    def _learn(self, *given: Any) -> Self:
        super()._learn(*given)
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
        check_type(rate := self.false_positive_rate, Probability, "false_positive_rate")
        given = self._first(X)
        shortest = min(len(u) for u in given.inputs)
        self.washout_ = min(WASHOUT, shortest // 10) if self.washout == "auto" else self.washout
        self._fit_features(given)
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


@dataclass(eq=False, repr=False)
class EchoStateRegressor(RegressorMixin, ReadoutEstimator, EchoStateEstimator):  # type: ignore[misc]
    """Ridge regression on reservoir states; a matrix X is one sequence with a row per step.

    `catchment.sklearn` says what else X may be. Rows whose target is NaN are left out of `fit`.

    Parameters
    ----------
    units, topology, density, connections, rewiring, jump, jump_weight, random_signs
        The reservoir and its wiring, as in `EchoState`.
    spectral_radius, input_scaling, input_connections, bias_scaling, leak_rate, activation
        Its dynamics, as in `EchoState`.
    bias, input, state, precision
        What the readout sees of it, as in `EchoState`.
    pool, segments
        None for a target per step; else how a sequence with one target is summed up. With "auto",
        a matrix is one sequence with a target per step, and several sequences have one target each
        if y has.
    washout
        Steps at the start of each sequence that are not learned from, nor scored.
    gaps, scale
        What replaces NaN in X ("hold", "interpolate" or "error"), and whether inputs are scaled to
        mean 0 and standard deviation 1 over the data of `fit`.
    layout
        Which axis of arrays (n, a, b) and lists is time: "time_first", "channels_first", or "auto".
    ridge
        A number, or "gcv": chosen by generalized cross-validation.
    random_state
        An integer is the seed of `EchoState`; None draws new weights at each fit.
    n_jobs
        Threads; None is one, -1 all cores. Results do not depend on it.

    Attributes
    ----------
    model_
        The fitted `Model`, ready for `catchment.save`; it holds the training statistics.
    n_features_in_
        Columns of X.

    >>> u = np.sin(np.arange(500) / 5)[:, None]
    >>> regressor = EchoStateRegressor(50, washout=50).fit(u[:400], u[1:401, 0])
    >>> regressor.score(u[350:-1], u[351:, 0]) > 0.999
    True
    >>> regressor.forecast(u[:400], horizon=3).shape
    (3,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from inputs and targets, forgetting what was learned before."""
        # With a pool, or without a word, as many targets as an axis is long may be outputs.
        given = self._first(X, y, per_step=self.pool is None)
        return self._learn(given, y, sample_weight, None)

    def partial_fit(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> Self:
        """Learn from more sequences; inputs are scaled as in the first call.

        With `scale=False` the result is that of one fit on all sequences as a list.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, sample_weight)
        given = self._given(X)
        return self._learn(given, y, sample_weight, self.model_)

    def predict(self, X: Inputs) -> NDArray[Any]:
        """Return predictions arranged like X."""
        given, outputs = self._outputs(X)
        return given.arranged(self._narrow(outputs))

    def score(self, X: Inputs, y: Targets, sample_weight: Targets | None = None) -> float:
        """Return the share of variance explained (R2), the washout of each sequence left out."""
        given, predicted = self._outputs(X)
        target, weight = as_matrix(self._target(given, y), "y"), given.weights(sample_weight)
        kept = given.after(self.washout) & ~np.isnan(target).any(axis=1)
        weight = None if weight is None else weight[kept]
        return float(r2_score(target[kept], predicted[kept], sample_weight=weight))

    def forecast(
        self,
        X: ArrayLike,
        horizon: int,
        *,
        limit: ArrayLike | Literal["training"] | None = "training",
    ) -> Array:
        """Return the next values (horizon,) or (horizon, K), each one being the next input.

        The loop is held within the range of the training targets, and warns where it would leave
        it; see `catchment.readout.forecasting.forecast`.

        Parameters
        ----------
        X
            (T, I) inputs of one sequence up to now, longer than the washout.
        horizon
            Number of steps to go on.
        limit
            Lowest and highest values (2, K) that are fed back; "training" is the range of the
            training targets, None lets the loop go where it will.
        """
        check_is_fitted(self)
        return self._narrow(forecast(self.model_, X, horizon, limit=limit))

    def _learn(
        self, given: Given, y: Targets, sample_weight: Targets | None, past: Model | None
    ) -> Self:
        target, weight = self._target(given, y), given.weights(sample_weight)
        self.model_, _ = self._learned(given, as_matrix(target, "y"), weight, past)
        self._narrowed = target.ndim == 1
        return self

    def _target(self, given: Given, y: Targets | None) -> Array:
        """Return targets (n,) or (n, K) as numbers."""
        target = as_numbers(self._flat(given, y), "y")
        refuse_nonfinite(target, "y", missing=True)
        if np.isnan(target).all():
            raise ValueError("y is NaN throughout; pass targets, some of which may be missing")
        return target

    def _narrow(self, values: Array) -> Array:
        """Return (n,) instead of (n, 1) if the targets in `fit` were so."""
        return values[:, 0] if self._narrowed else values


@dataclass(eq=False, repr=False)
class YuleWalkerForecaster(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The next values of series that share their coefficients, by the Yule-Walker equations.

    `fh` is counted as in sktime: 3 is the third step ahead alone, `range(1, 25)` the first 24. Any
    steps may be asked for: the same autocovariances give them all.

    Parameters
    ----------
    lookback
        How many of the last values are looked at, at most; the data choose among these and halves
        of them. Of a series shorter than three times that and the steps ahead, a third is.
    trailing_mean, ridge
        As in `catchment.federation.learn.FederatedYuleWalker`; chosen by generalized
        cross-validation if "auto".
    gaps
        What replaces NaN among the last values; those before are passed over.

    Attributes
    ----------
    n_outputs_
        Series in y.

    >>> y = np.sin(np.arange(400) / 5) + 0.1 * np.random.default_rng(0).normal(size=400)
    >>> forecaster = YuleWalkerForecaster(64).fit(y[:390])
    >>> lower, upper = forecaster.predict_interval(range(1, 11), coverage=0.9)
    >>> bool(np.mean((lower < y[390:]) & (y[390:] < upper)) > 0.6)
    True
    """

    lookback: int = LOOKBACK
    _: KW_ONLY
    trailing_mean: int | Literal["auto"] = "auto"
    ridge: float | Literal["auto"] = "auto"
    gaps: Policy = "hold"

    def fit(
        self, y: ArrayLike, X: ArrayLike | None = None, fh: int | Sequence[int] | None = None
    ) -> Self:
        """Learn a series (T,) or several (T, K), with others (T, M) that are known ahead.

        Parameters
        ----------
        y
            Values in the order of time, at equal intervals; NaN where one is missing.
        X
            What is known of each step before it comes, such as a price list.
        fh
            Steps ahead that `predict` is to answer for if it is not told others.
        """
        self.fh_ = None if fh is None else steps_ahead(fh)
        self._series = as_matrix(y, "y")
        self._narrowed = np.ndim(y) == 1
        refuse_nonfinite(self._series, "y", missing=True)
        self._known = known_values(X, len(self._series), "fit")
        self.n_outputs_ = self._series.shape[1]
        if (n := int((~np.isnan(self._series)).sum(axis=0).min())) < 4:
            raise ValueError(f"y has {n} steps with a value; a forecast needs at least 4")
        return self

    def model(self, fh: int | Sequence[int]) -> Model:
        """Return the model of some steps ahead, ready to be saved; its inputs are y and X."""
        check_is_fitted(self, "n_outputs_")
        steps, (T, K), M = sorted(set(steps_ahead(fh))), self._series.shape, self._known.shape[1]
        check_type(self.lookback, PositiveInt, "lookback")
        lags = max(1, min(self.lookback, T // 3 - max(steps)))
        ahead = Preprocessing(horizon=tuple(steps), known=tuple(range(K, K + M)), gaps=self.gaps)
        pipeline = Pipeline(ahead, NVAR(lags, order=1))
        settings: dict[str, Any] = {"trailing_mean": self.trailing_mean, "ridge": self.ridge}
        return fit_lags(pipeline, [self._recording(None)], **settings)

    def predict(
        self, fh: int | Sequence[int] | None = None, X: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the values (H,) or (H, K) of the steps ahead that are asked for.

        Parameters
        ----------
        fh
            Steps ahead, from 1 on; those of `fit` if not given.
        X
            (max(fh), M) what is known of the steps to come, if `fit` had it.
        """
        steps, found = self._forecast(fh, X, 0.9)
        return self._narrow(found.values, steps, found)

    def predict_interval(
        self,
        fh: int | Sequence[int] | None = None,
        X: ArrayLike | None = None,
        coverage: float = 0.9,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return lower and upper ends, each (H,) or (H, K), that hold each value with the coverage.

        They hold if errors are normal, and as large as the equations expect them.
        """
        steps, found = self._forecast(fh, X, coverage)
        assert found.lower is not None
        assert found.upper is not None
        return self._narrow(found.lower, steps, found), self._narrow(found.upper, steps, found)

    def _forecast(
        self, fh: int | Sequence[int] | None, X: ArrayLike | None, coverage: float
    ) -> tuple[list[int], Forecast]:
        check_is_fitted(self, "n_outputs_")
        steps = self.fh_ if fh is None else steps_ahead(fh)
        if steps is None:
            raise ValueError("there is no fh; pass the steps ahead, such as range(1, 25)")
        if (X is None) != (self._known.shape[1] == 0):
            raise ValueError(
                f"fit had X of {self._known.shape[1]} columns; pass X with a row for each of "
                f"{max(steps)} steps if there are any, and only then"
            )
        future = None if X is None else known_values(X, max(steps), "predict")
        (found,) = forecasts(self.model(steps), [self._recording(future)], coverage=coverage)
        return steps, found

    def _recording(self, future: Array | None) -> Recording:
        """Return series and what is known of them, and what is known of the steps to come."""
        u = np.hstack([self._series, self._known])
        if future is not None:
            gone = np.full((len(future), self.n_outputs_), np.nan)
            u = np.vstack([u, np.hstack([gone, future])])
        return Recording(u)

    def _narrow(self, values: Array, steps: list[int], found: Forecast) -> Array:
        rows = values[[found.horizons.index(step) for step in steps]]
        return rows[:, 0] if self._narrowed else rows


def steps_ahead(fh: int | Sequence[int]) -> list[int]:
    """Return the steps ahead as a list; ValueError if they are no integers from 1 on.

    >>> steps_ahead(3), steps_ahead(range(1, 4))
    ([3], [1, 2, 3])
    """
    steps = np.atleast_1d(np.asarray(fh))
    whole = steps.ndim == 1 and steps.size and steps.dtype.kind in "iu"
    if not whole or steps.min() < 1:
        raise ValueError(
            f"fh is {fh!r}; pass steps ahead as integers from 1 on, such as 3 for the third "
            "step or range(1, 25) for the first 24"
        )
    return [int(step) for step in steps]


def known_values(X: ArrayLike | None, n_steps: int, verb: str) -> Array:
    """Return what is known of each step (n_steps, M); none is (n_steps, 0)."""
    if X is None:
        return np.zeros((n_steps, 0))
    values = as_matrix(X, "X")
    refuse_nonfinite(values, "X", missing=True)
    if len(values) != n_steps:
        raise ValueError(f"X has {len(values)} rows, {verb} needs {n_steps}: one for each step")
    return values

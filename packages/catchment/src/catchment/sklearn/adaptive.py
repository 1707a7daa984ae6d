"""A classifier that goes on learning from samples without labels, for scikit-learn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from catchment.arrays import Array
from catchment.features.base import FeatureMap
from catchment.readout.adapt import SelfTraining, self_train
from catchment.readout.model import Model
from catchment.sklearn.base import Given, Inputs, known_statistics
from catchment.sklearn.classifier import SequenceClassifier, TimeSeriesClassifier


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

"""Classification of whole sequences by any feature map."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from catchment.features.base import FeatureMap, known_map
from catchment.features.default_map import AutoMap
from catchment.features.minirocket import MiniRocket
from catchment.sklearn.base import seed_of
from catchment.sklearn.classifier import SequenceClassifier


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
        A number, one number per output, or "gcv": chosen by generalised cross-validation.
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
        described = known_map(self.map)
        if isinstance(described, AutoMap):
            raise ValueError(
                "map is 'auto', which catchment.fit and federate choose by; name the maps to "
                "choose from in a search, such as GridSearchCV over map"
            )
        return self.map


@dataclass(eq=False, repr=False)
class MiniRocketClassifier(SequenceClassifier):
    """Classes of whole sequences, by ridge regression on random convolutions.

    X, the attributes and the other settings are those of `TimeSeriesClassifier`.

    Parameters
    ----------
    features
        Columns.
    random_state
        An integer is the seed of `MiniRocket`; None draws new convolutions at each fit.
    ridge, gaps, scale, layout, n_jobs
        As in `TimeSeriesClassifier`.

    >>> X = [np.sin(np.arange(50) / (3 + k % 2) + k) for k in range(20)]
    >>> y = ["fast", "slow"] * 10
    >>> MiniRocketClassifier(84).fit(X[:16], y[:16]).predict(X[16:]).tolist()
    ['fast', 'slow', 'fast', 'slow']
    """

    features: int = MiniRocket.features
    _: KW_ONLY
    random_state: int | np.random.RandomState | None = 0

    def _description(self) -> MiniRocket:
        return MiniRocket(self.features, seed=seed_of(self.random_state))

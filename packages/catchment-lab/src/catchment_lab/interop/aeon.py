"""A classifier with aeon's interface: collections (n, channels, time), lists of (channels, time).

It is `catchment.sklearn.TimeSeriesClassifier` inside, to the bit; aeon checks and converts the
collection.
"""

from __future__ import annotations

from typing import Any, ClassVar

from catchment import Array
from catchment.errors import MissingExtraError
from catchment.sklearn import TimeSeriesClassifier as Ours

try:
    from aeon.classification.base import BaseClassifier
except ImportError as error:
    raise MissingExtraError("aeon", needed_for="classifiers of aeon") from error


class TimeSeriesClassifier(BaseClassifier):  # type: ignore[misc]  # aeon has no types
    """Classes of whole series, by ridge regression on the features of any map.

    Parameters
    ----------
    map
        A feature map with one row per recording, its description, or its name: "default",
        "minirocket", "echo_state", "window_statistics" and others.
    ridge, gaps, scale
        As in `catchment.sklearn.TimeSeriesClassifier`.
    n_jobs
        Threads; -1 is all cores.

    Attributes
    ----------
    classifier_
        The fitted `catchment.sklearn.TimeSeriesClassifier`; its `model_` can be saved.

    >>> import numpy as np
    >>> from catchment_lab.interop.aeon import TimeSeriesClassifier
    >>> X = np.sin(np.arange(40) / (3 + np.arange(20)[:, None, None] % 2))
    >>> y = np.array(["fast", "slow"] * 10)
    >>> fitted = TimeSeriesClassifier("window_statistics").fit(X[:16], y[:16])
    >>> fitted.predict(X[16:]).tolist(), fitted.predict_proba(X[16:]).shape
    (['fast', 'slow', 'fast', 'slow'], (4, 2))
    """

    _tags: ClassVar[dict[str, Any]] = {
        "X_inner_type": ["numpy3D", "np-list"],
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
        "capability:multithreading": True,
        "algorithm_type": "convolution",
    }

    def __init__(
        self,
        map: Any = "default",
        ridge: Any = "gcv",
        gaps: str = "hold",
        scale: bool = True,
        n_jobs: int = 1,
    ) -> None:
        self.map = map
        self.ridge = ridge
        self.gaps = gaps
        self.scale = scale
        self.n_jobs = n_jobs
        super().__init__()

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"map": "window_statistics"}

    def _fit(self, X: Any, y: Any) -> TimeSeriesClassifier:
        own = self.get_params(deep=False) | {"layout": "channels_first"}
        self.classifier_ = Ours(**own).fit(X, y)
        return self

    def _predict(self, X: Any) -> Any:
        return self.classifier_.predict(X)

    def _predict_proba(self, X: Any) -> Array:
        return self.classifier_.predict_proba(X)

"""A forecaster with sktime's interface: frames with an index in, frames with an index out.

It is `catchment.sklearn.YuleWalkerForecaster` inside, to the bit; sktime looks after the index, the
horizon, several instances, and pipelines.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from catchment.errors import MissingExtraError
from catchment.sklearn import YuleWalkerForecaster as Ours

try:
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster, ForecastingHorizon
except ImportError as error:
    raise MissingExtraError("sktime", needed_for="forecasters of sktime") from error


class YuleWalkerForecaster(BaseForecaster):  # type: ignore[misc]  # sktime has no types
    """The next values of one series or several, from autocovariances, with intervals.

    Parameters
    ----------
    lookback, trailing_mean, ridge, gaps
        As in `catchment.sklearn.YuleWalkerForecaster`.

    Attributes
    ----------
    forecaster_
        The fitted `catchment.sklearn.YuleWalkerForecaster`; its `model(fh)` can be saved.

    >>> import numpy as np
    >>> import pandas as pd
    >>> from catchment_lab.interop.sktime import YuleWalkerForecaster
    >>> y = pd.Series(np.sin(np.arange(200) / 5), name="wave")
    >>> YuleWalkerForecaster(20).fit(y).predict(fh=[1, 2]).round(2).tolist()
    [0.75, 0.6]
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The catchment authors",
        "maintainers": "The catchment authors",
        "y_inner_mtype": "pd.DataFrame",
        "X_inner_mtype": "pd.DataFrame",
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": True,
        "capability:categorical_in_X": False,
        "requires-fh-in-fit": False,
    }

    def __init__(
        self,
        lookback: int = 336,
        trailing_mean: Any = "auto",
        ridge: Any = "auto",
        gaps: str = "hold",
    ) -> None:
        self.lookback = lookback
        self.trailing_mean = trailing_mean
        self.ridge = ridge
        self.gaps = gaps
        super().__init__()

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return the settings that sktime's own checks run with."""
        return [{"lookback": 8}, {"lookback": 5, "ridge": 0.01, "trailing_mean": 1}]

    def _fit(self, y: Any, X: Any, fh: Any) -> YuleWalkerForecaster:
        self.forecaster_ = Ours(**self.get_params(deep=False)).fit(
            _numbers(y), None if X is None else _numbers(X)
        )
        return self

    def _predict(self, fh: Any, X: Any) -> Any:
        steps = self._steps(fh)
        values = self.forecaster_.predict(steps, self._ahead(max(steps), X))
        return pd.DataFrame(values, index=self._index(fh), columns=self._get_varnames())

    def _predict_interval(self, fh: Any, X: Any, coverage: list[float]) -> Any:
        steps = self._steps(fh)
        names = self._get_varnames()
        columns = pd.MultiIndex.from_product([names, coverage, ["lower", "upper"]])
        found = pd.DataFrame(index=self._index(fh), columns=columns, dtype=np.float64)
        ahead = self._ahead(max(steps), X)
        for one in coverage:
            ends = self.forecaster_.predict_interval(steps, ahead, one)
            for end, values in zip(("lower", "upper"), ends, strict=True):
                for k, name in enumerate(names):
                    found[(name, one, end)] = values[:, k]
        return found

    def _steps(self, fh: Any) -> list[int]:
        return [int(step) for step in fh.to_relative(self.cutoff).to_pandas()]

    def _index(self, fh: Any) -> Any:
        return fh.to_absolute(self.cutoff).to_pandas()

    def _ahead(self, horizon: int, X: Any) -> Any:
        """Return what is known of every step ahead; steps that X leaves out hold the one before."""
        if X is None:
            return None
        steps = ForecastingHorizon(np.arange(1, horizon + 1), is_relative=True)
        return _numbers(X.reindex(self._index(steps)).ffill().bfill())


def _numbers(frame: Any) -> Any:
    return frame.to_numpy(dtype=np.float64)

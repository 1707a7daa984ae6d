"""Feature maps as scikit-learn's estimators: `fit`, `predict`, pipelines, searches, pickling.

The estimators describe a map and a `Preprocessing` with the library's own defaults, and learn by
the functions behind `catchment.fit`: the same data give the same readout to the bit. X is raw: gaps
are filled and inputs scaled as in `fit`. `TimeSeriesClassifier` takes any map with one row per
recording, and those of `EchoState` have the settings of a reservoir.

One rule says what X holds. Without a pool the samples are steps; with a pool they are sequences:

=================================  ===========================  ================================
X                                  `pool=None`                  `pool="mean_std"` and the others
=================================  ===========================  ================================
matrix (n, m)                      one sequence of n steps      n sequences of m steps, each of
                                   with m inputs                one input
array (B, T, I), or list of        B sequences                  B sequences
arrays (T_k, I)
y, sample_weight, predictions      one row per step, in the     one row per sequence
                                   arrangement of X
=================================  ===========================  ================================

With `pool="auto"`, the default, a matrix is one sequence for `EchoStateRegressor` and
`EchoStateFeatures`, and holds a sequence in each row for `EchoStateClassifier`. Several sequences
are pooled unless y has as many values for a sequence as it has steps.

`layout` says which axis of a sequence is time, for (B, a, b) arrays and lists: "time_first", or
"channels_first" as aeon and sktime have it. Without a word ("auto"), an array (B, T, 1), lists of
unequal lengths and targets per step say it by themselves, a list of equal arrays has steps first if
these are more than the channels, and everything else is refused by an error that names both calls.
Rows of features lie as X does; y and predictions have a row per step in either layout.

Every sequence starts from a state of zero, also in `predict` and in each call of `partial_fit`.
Without a pool the order of the rows is therefore part of the data: do not shuffle them, and split
with `TimeSeriesSplit` or by whole sequences. The washout leaves the first steps of each sequence
out of `fit` and of `score`; `predict` answers for all of them, less surely for the first.
"""

from __future__ import annotations

from catchment.errors import MissingExtraError

try:
    import sklearn as _  # noqa: F401  # the modules below have it at their tops
except ImportError as error:
    raise MissingExtraError("sklearn", needed_for="estimators") from error

# For the other packages and the tests; may change without notice.
from catchment.sklearn.base import EchoStateFeatures
from catchment.sklearn.base import SequenceEstimator as SequenceEstimator
from catchment.sklearn.base import found_layout as found_layout
from catchment.sklearn.base import leave_one_out as leave_one_out
from catchment.sklearn.base import steps_of as steps_of
from catchment.sklearn.base import time_first as time_first
from catchment.sklearn.estimators import (
    AdaptiveClassifier,
    AnomalyDetector,
    EchoStateClassifier,
    EchoStateRegressor,
    TimeSeriesClassifier,
    YuleWalkerForecaster,
)
from catchment.sklearn.estimators import SequenceClassifier as SequenceClassifier

__all__ = [
    "AdaptiveClassifier",
    "AnomalyDetector",
    "EchoStateClassifier",
    "EchoStateFeatures",
    "EchoStateRegressor",
    "TimeSeriesClassifier",
    "YuleWalkerForecaster",
]

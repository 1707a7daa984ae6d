"""Reservoirs with scikit-learn's manners: `fit`, `predict`, pipelines, searches, pickling.

One rule says what X holds. Without a pool the samples are steps; with a pool they are sequences:

=================================  ===========================  ================================
X                                  `pool=None`                  `pool="mean"` and the others
=================================  ===========================  ================================
matrix (n, m)                      one sequence of n steps      n sequences of m steps, each of
                                   with m inputs                one input
array (B, T, I), or list of        B sequences                  B sequences
arrays (T_k, I)
y, sample_weight, predictions      one row per step, in the     one row per sequence
                                   arrangement of X
=================================  ===========================  ================================

Every sequence starts from a state of zero, also in `predict` and in each call of `partial_fit`.
Without a pool the order of the rows is therefore part of the data: do not shuffle them, and split
with `TimeSeriesSplit` or by whole sequences. The washout leaves the first steps of each sequence
out of `fit` and of `score`; `predict` answers for all of them, less surely for the first.
"""

from __future__ import annotations

from catchment.sklearn.classifier import EchoStateClassifier
from catchment.sklearn.regressor import EchoStateRegressor
from catchment.sklearn.transformer import EchoStateFeatures

__all__ = ["EchoStateClassifier", "EchoStateFeatures", "EchoStateRegressor"]

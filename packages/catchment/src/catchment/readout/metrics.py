"""Errors as sums: add them over clients, then divide.

A mean of the clients' errors is another number than the error of all their rows. So evaluation
gathers `ErrorSums` or `ClassCounts`, small values with `+`, and only their total becomes a metric.

With several outputs a metric is computed for each and averaged, as scikit-learn does.
NRMSE = RMSE / standard deviation of the target: 1 is what the mean of the target scores. Where a
metric is not defined (no rows; NRMSE and R2 of a constant target) it is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from catchment.arrays import Array, Booleans, Integers, as_matrix, refuse_nonfinite
from catchment.wire import Summable


@dataclass(frozen=True, eq=False)
class ErrorSums(Summable):
    """Additive sums over rows of errors and targets, (K,) each.

    >>> a = ErrorSums.of([0.0, 1.0], [0.0, 2.0])
    >>> b = ErrorSums.of([2.0, 3.0], [2.0, 2.0])
    >>> (a + b).n, (a + b).mse, (a + b).mae
    (4, 0.5, 0.5)
    """

    n: int
    squared_error: Array
    absolute_error: Array
    target_sum: Array
    target_squares: Array

    @classmethod
    def of(cls, target: Any, predicted: Any) -> ErrorSums:
        """Return the sums of targets and predictions, (n, K) or (n,) each.

        A row with a NaN target is left out, whole.
        """
        y, guess = _pair(target, predicted)
        error = guess - y
        return cls(
            len(y),
            (error**2).sum(axis=0),
            np.abs(error).sum(axis=0),
            y.sum(axis=0),
            (y**2).sum(axis=0),
        )

    @property
    def mse(self) -> float:
        return float(np.mean(self.squared_error / (self.n or np.nan)))

    @property
    def rmse(self) -> float:
        return float(np.mean(np.sqrt(self.squared_error / (self.n or np.nan))))

    @property
    def mae(self) -> float:
        return float(np.mean(self.absolute_error / (self.n or np.nan)))

    @property
    def nrmse(self) -> float:
        return float(np.mean(np.sqrt(self._unexplained())))

    @property
    def r2(self) -> float:
        return float(np.mean(1.0 - self._unexplained()))

    def _unexplained(self) -> Array:
        """Return the mean squared error (K,) over the variance of each target."""
        n = self.n or np.nan
        second = self.target_squares / n
        spread = second - (self.target_sum / n) ** 2
        # What is within rounding of zero is zero: a constant has no spread.
        return self.squared_error / n / np.where(spread > 1e-12 * second, spread, np.nan)


@dataclass(frozen=True, eq=False)
class ClassCounts(Summable):
    """Additive confusion counts (K, K): rows are true classes, columns predicted ones.

    >>> counts = ClassCounts.of_labels([0, 0, 1], [0, 1, 1], n_classes=2)
    >>> counts.confusion.tolist(), (counts + counts).n, round(counts.accuracy, 3)
    ([[1, 1], [0, 1]], 6, 0.667)
    """

    confusion: Integers

    def __post_init__(self) -> None:
        shape = self.confusion.shape
        if len(shape) != 2 or shape[0] != shape[1] or (self.confusion < 0).any():
            raise ValueError(f"confusion has shape {shape}; pass a square matrix of counts")

    @classmethod
    def of_labels(cls, target: Any, predicted: Any, n_classes: int) -> ClassCounts:
        """Return the counts of class numbers (n,) against predicted class numbers (n,)."""
        if len(target) != len(predicted):
            raise ValueError(f"there are {len(target)} targets and {len(predicted)} predictions")
        pairs = np.array([target, predicted])
        within = pairs.dtype.kind in "iu" and pairs.ndim == 2 and (pairs >= 0).all()
        if pairs.size and not (within and (pairs < n_classes).all()):
            raise ValueError(
                f"labels have shape {pairs.shape[1:]} and type {pairs.dtype}; pass integers from 0 "
                f"to {n_classes - 1}, one per row"
            )
        found = cls.zero(n_classes)
        np.add.at(found.confusion, tuple(pairs.astype(np.int64)), 1)
        return found

    @classmethod
    def of_scores(cls, target: Any, scores: Any) -> ClassCounts:
        """Return the counts of one-hot rows (n, K) against the largest of the scores (n, K).

        A row with a NaN target is left out.
        """
        y, guess = _pair(target, scores)
        return cls.of_labels(y.argmax(axis=1), guess.argmax(axis=1), y.shape[1])

    @classmethod
    def zero(cls, n_classes: int) -> ClassCounts:
        """Return the counts of no rows."""
        return cls(np.zeros((n_classes, n_classes), dtype=np.int64))

    @property
    def n(self) -> int:
        return int(self.confusion.sum())

    @property
    def accuracy(self) -> float:
        return float(np.trace(self.confusion)) / self.n if self.n else float("nan")

    @property
    def recall(self) -> Array:
        """(K,) share of each true class that was found; NaN for a class that does not occur."""
        return _share(np.diag(self.confusion), self.confusion.sum(axis=1))

    @property
    def precision(self) -> Array:
        """(K,) share of each predicted class that was right; NaN for one never predicted."""
        return _share(np.diag(self.confusion), self.confusion.sum(axis=0))

    @property
    def f1(self) -> Array:
        """(K,) harmonic mean of precision and recall; NaN for a class in neither."""
        both = self.confusion.sum(axis=0) + self.confusion.sum(axis=1)
        return _share(2 * np.diag(self.confusion), both)

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the classes that occur."""
        recall = self.recall[~np.isnan(self.recall)]
        return float(recall.mean()) if len(recall) else float("nan")

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur or were predicted."""
        f1 = self.f1[~np.isnan(self.f1)]
        return float(f1.mean()) if len(f1) else float("nan")


def nrmse(target: Any, predicted: Any) -> float:
    """Return the root mean squared error divided by the standard deviation of the target.

    >>> nrmse([0.0, 2.0], [1.0, 1.0])
    1.0
    """
    return ErrorSums.of(target, predicted).nrmse


def accuracy(target: Any, predicted: Any) -> float:
    """Return the share of right classes; both are labels of any kind (n,).

    >>> accuracy(["sit", "walk"], ["sit", "sit"])
    0.5
    """
    y, guess = np.asarray(target), np.asarray(predicted)
    if y.ndim != 1 or y.shape != guess.shape:
        raise ValueError(
            f"targets have shape {y.shape} and predictions {guess.shape}; pass one label per row"
        )
    return float(np.mean(y == guess)) if len(y) else float("nan")


def _pair(target: Any, predicted: Any) -> tuple[Array, Array]:
    y, guess = as_matrix(target, "targets"), as_matrix(predicted, "predictions")
    if y.shape != guess.shape:
        raise ValueError(
            f"targets have shape {y.shape} and predictions {guess.shape}; they must agree"
        )
    refuse_nonfinite(y, "targets", missing=True)
    known: Booleans = np.logical_not(np.isnan(y).any(axis=1))
    guess = guess[known]
    refuse_nonfinite(guess, "predictions")
    return y[known], guess


def _share(part: Integers, whole: Integers) -> Array:
    return part / np.where(whole > 0, whole, np.nan)

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
import sklearn.metrics as theirs
from hypothesis import given
from hypothesis import strategies as st

from catchment import Array
from catchment.errors import UploadError
from catchment.readout import (
    ClassCounts,
    ErrorSums,
    accuracy,
    nrmse,
)


def targets_and_predictions(n: int, K: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.normal(3.0, [1.0, 10.0, 0.1][:K], size=(n, K))
    return y, y + rng.normal(0.0, 0.5, size=(n, K))


@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("n", [2, 50])
def test_regression_metrics_agree_with_sklearn(n: int, K: int) -> None:
    y, guess = targets_and_predictions(n, K)
    assert ErrorSums.of(y, guess).mse == pytest.approx(theirs.mean_squared_error(y, guess))
    assert ErrorSums.of(y, guess).rmse == pytest.approx(theirs.root_mean_squared_error(y, guess))
    assert ErrorSums.of(y, guess).mae == pytest.approx(theirs.mean_absolute_error(y, guess))
    assert ErrorSums.of(y, guess).r2 == pytest.approx(theirs.r2_score(y, guess), rel=1e-6)
    ratios = np.sqrt(((guess - y) ** 2).mean(axis=0)) / y.std(axis=0)
    assert nrmse(y, guess) == pytest.approx(ratios.mean(), rel=1e-6)


def test_nrmse_of_the_mean_is_one() -> None:
    y = np.random.default_rng(1).normal(5.0, 2.0, 300)
    assert nrmse(y, np.full(300, y.mean())) == pytest.approx(1.0)


@given(cuts=st.lists(st.integers(0, 60), max_size=5))
def test_sums_over_clients_are_the_sums_of_all_rows(cuts: list[int]) -> None:
    y, guess = targets_and_predictions(60, 2)
    parts = zip(np.split(y, sorted(cuts)), np.split(guess, sorted(cuts)), strict=True)
    total = reduce(add, (ErrorSums.of(*part) for part in parts))
    assert total.n == 60
    assert total.mse == pytest.approx(theirs.mean_squared_error(y, guess))
    assert total.r2 == pytest.approx(theirs.r2_score(y, guess))
    assert total.mae == pytest.approx(theirs.mean_absolute_error(y, guess))


def test_a_row_with_a_missing_target_does_not_count() -> None:
    y, guess = targets_and_predictions(20, 2)
    y[3, 0] = np.nan
    guess[3, 1] = np.nan
    rest = np.arange(20) != 3
    sums = ErrorSums.of(y, guess)
    assert sums == ErrorSums.of(y[rest], guess[rest])
    assert sums.n == 19


def test_undefined_metrics_are_nan() -> None:
    empty = ErrorSums.of(np.empty((0, 2)), np.empty((0, 2)))
    assert all(np.isnan([empty.mse, empty.rmse, empty.mae, empty.nrmse, empty.r2]))
    constant = np.full(7, 0.1)
    assert np.isnan(nrmse(constant, constant + 1.0))
    assert np.isnan(ErrorSums.of(constant, constant).r2)
    assert ErrorSums.of(constant, constant + 1.0).mse == pytest.approx(1.0)
    assert np.isnan(ClassCounts.zero(3).accuracy)
    assert np.isnan(ClassCounts.zero(3).macro_f1)
    assert np.isnan(ClassCounts.zero(3).balanced_accuracy)
    assert np.isnan(accuracy([], []))


def test_zero_is_neutral() -> None:
    sums = ErrorSums.of([1.0, 2.0], [0.0, 3.0])
    assert sums + ErrorSums.of(np.empty((0, 1)), np.empty((0, 1))) == sums
    counts = ClassCounts.of_labels([0, 1], [1, 1], 2)
    assert counts + ClassCounts.zero(2) == counts
    assert sums != counts


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="they must agree"):
        ErrorSums.of(np.zeros((3, 2)), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="predictions are not finite at row 1"):
        ErrorSums.of(np.zeros(3), np.array([0.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match="targets are infinite"):
        ErrorSums.of(np.array([np.inf]), np.zeros(1))
    with pytest.raises(UploadError, match=r"of .* do not add"):
        ErrorSums.of(np.empty((0, 1)), np.empty((0, 1))) + ErrorSums.of(
            np.empty((0, 2)), np.empty((0, 2))
        )
    with pytest.raises(UploadError, match=r"of .* do not add"):
        ClassCounts.zero(2) + ClassCounts.zero(3)
    with pytest.raises(ValueError, match="from 0 to 1"):
        ClassCounts.of_labels([0, 2], [0, 1], n_classes=2)
    with pytest.raises(ValueError, match="pass integers"):
        ClassCounts.of_labels([0.0, 1.0], [0, 1], n_classes=2)
    with pytest.raises(ValueError, match="2 targets and 1 predictions"):
        ClassCounts.of_labels([0, 1], [0], n_classes=2)
    with pytest.raises(ValueError, match="square matrix"):
        ClassCounts(np.zeros((2, 3), dtype=np.int64))
    with pytest.raises(ValueError, match="one label per row"):
        accuracy(["a"], ["a", "b"])


labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(pairs=labels)
def test_class_metrics_agree_with_sklearn(pairs: list[tuple[int, int]]) -> None:
    y, guess = np.array(pairs).T
    counts = ClassCounts.of_labels(y, guess, 4)
    np.testing.assert_array_equal(
        counts.confusion, theirs.confusion_matrix(y, guess, labels=range(4))
    )
    assert counts.accuracy == pytest.approx(theirs.accuracy_score(y, guess))
    assert counts.macro_f1 == pytest.approx(theirs.f1_score(y, guess, average="macro"))
    expected = theirs.recall_score(y, guess, labels=range(4), average=None, zero_division=np.nan)
    np.testing.assert_allclose(counts.recall, expected)
    expected = theirs.precision_score(y, guess, labels=range(4), average=None, zero_division=np.nan)
    np.testing.assert_allclose(counts.precision, expected)
    occurring = np.unique(y)
    expected = theirs.recall_score(y, guess, labels=occurring, average="macro")
    assert counts.balanced_accuracy == pytest.approx(expected)


@given(pairs=labels, cut=st.integers(0, 40))
def test_counts_of_clients_add(pairs: list[tuple[int, int]], cut: int) -> None:
    y, guess = np.array(pairs).T
    parts = ClassCounts.of_labels(y[:cut], guess[:cut], 4) + ClassCounts.of_labels(
        y[cut:], guess[cut:], 4
    )
    assert parts.n == len(pairs)
    assert parts.accuracy == pytest.approx(theirs.accuracy_score(y, guess))


def test_scores_are_decided_by_the_largest() -> None:
    y = np.array([[1.0, 0.0], [0.0, 1.0], [np.nan, np.nan]])
    scores = np.array([[0.2, -0.1], [0.6, 0.5], [0.0, 1.0]])
    assert ClassCounts.of_scores(y, scores).confusion.tolist() == [[1, 0], [1, 0]]


def test_accuracy_of_named_labels() -> None:
    assert accuracy(["a", "b", "c"], ["a", "b", "d"]) == pytest.approx(2 / 3)

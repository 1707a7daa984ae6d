"""Sequences are scaled as scikit-learn scales the same steps in a table."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import catchment as ct
from catchment import Array
from catchment.sklearn import EchoStateClassifier, SequenceScaler


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [SequenceScaler(), SequenceScaler(gaps="error"), SequenceScaler(scale=False)]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def ragged(seed: int = 0) -> list[Array]:
    """Return five sequences (T, 3) of unequal lengths and units."""
    rng = np.random.default_rng(seed)
    return [
        rng.normal([5.0, -300.0, 0.02], [1.0, 40.0, 0.001], size=(20 + 3 * k, 3)) for k in range(5)
    ]


@given(arrays(np.float64, (3, 6, 2), elements=st.floats(-1e3, 1e3, width=32)), st.booleans())
def test_numbers_are_those_of_a_standard_scaler(X: Array, turned: bool) -> None:
    X = np.where(np.abs(X) < 1e-6, 0.0, X)  # squares of still smaller numbers are lost in a sum
    stacked = X.reshape(-1, 2)
    theirs = StandardScaler().fit(stacked)
    ours = SequenceScaler(layout="channels_first" if turned else "time_first")
    scaled = ours.fit(X.transpose(0, 2, 1) if turned else X).transform(
        X.transpose(0, 2, 1) if turned else X
    )
    # Where a channel hardly varies, the last digits are those of the table's own rounding.
    varies = stacked.std(axis=0) > 1e-2 * np.sqrt((stacked**2).mean(axis=0))
    flat = (scaled.transpose(0, 2, 1) if turned else scaled).reshape(-1, 2)
    assert_allclose(flat[:, varies], theirs.transform(stacked)[:, varies], rtol=0, atol=1e-12)


def test_lists_stacks_and_matrices_have_one_scale() -> None:
    X = ragged()
    theirs = StandardScaler().fit(np.concatenate(X))
    listed = SequenceScaler().fit(X)
    assert_allclose(listed.mean_, theirs.mean_, rtol=1e-12)
    assert_allclose(listed.scale_, theirs.scale_, rtol=1e-12)
    for ours, u in zip(listed.transform(X), X, strict=True):
        assert_allclose(ours, theirs.transform(u), rtol=1e-12, atol=1e-12)
    turned = SequenceScaler().fit([u.T for u in X])
    assert turned.layout_ == "channels_first"
    assert [u.shape for u in turned.transform([u.T for u in X])] == [u.T.shape for u in X]
    matrix = SequenceScaler().fit(np.concatenate(X))
    assert_array_equal(matrix.transform(X[0]), listed.transform(X)[0])
    grown = SequenceScaler()
    for u in X:
        grown.partial_fit(u)
    assert_array_equal(grown.mean_, listed.mean_)
    assert_array_equal(grown.scale_, listed.scale_)


def test_the_way_back() -> None:
    X = ragged()
    scaler = SequenceScaler().fit(X)
    for back, u in zip(scaler.inverse_transform(scaler.transform(X)), X, strict=True):
        assert_allclose(back, u, rtol=1e-12)
    stack = np.stack([u[:20].T for u in X])
    first = SequenceScaler(layout="channels_first").fit(stack)
    assert_allclose(first.inverse_transform(first.transform(stack)), stack, rtol=1e-12)
    assert_array_equal(pickle.loads(pickle.dumps(first)).transform(stack), first.transform(stack))


def test_gaps_are_held_and_can_be_all_that_is_done() -> None:
    u = np.array([[1.0, 5.0], [np.nan, 6.0], [3.0, np.nan]])
    filled = SequenceScaler(scale=False).fit(u)
    assert_array_equal(filled.transform(u), [[1.0, 5.0], [1.0, 6.0], [3.0, 6.0]])
    assert_array_equal(filled.inverse_transform(u), u)
    assert (filled.mean_.tolist(), filled.scale_.tolist()) == ([0.0, 0.0], [1.0, 1.0])
    scaled = SequenceScaler(gaps="interpolate").fit_transform(u)
    assert_allclose(scaled[:, 0], [-1.224744871391589, 0.0, 1.224744871391589], atol=1e-12)
    with pytest.raises(ValueError, match="contains NaN"):
        SequenceScaler(gaps="error").fit(u)
    with pytest.raises(NotFittedError):
        SequenceScaler().inverse_transform(u)


def test_columns_keep_their_names() -> None:
    frame = pd.DataFrame(ragged()[0], columns=["heat", "load", "wind"])
    scaler = SequenceScaler().set_output(transform="pandas").fit(frame)
    table = scaler.transform(frame)
    assert table.columns.tolist() == ["heat", "load", "wind"]
    assert_allclose(table, StandardScaler().fit_transform(frame), atol=1e-12)
    assert SequenceScaler().fit(ragged()).get_feature_names_out().tolist() == ["x0", "x1", "x2"]


def test_before_another_estimator_and_inside_ours() -> None:
    rng = np.random.default_rng(0)
    X = 50 + 9 * rng.normal(size=(60, 2, 15)) * np.where(np.arange(60) % 2, 1, 3)[:, None, None]
    y = np.arange(60) % 2
    spread = FunctionTransformer(lambda scaled: scaled.std(axis=2))
    pipeline = make_pipeline(SequenceScaler(layout="channels_first"), spread, LogisticRegression())
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.9
    scaler = SequenceScaler(layout="channels_first").fit(X)
    inside = EchoStateClassifier(10, layout="channels_first", ridge=0.1).fit(X, y)
    outside = clone(inside).set_params(scale=False).fit(scaler.transform(X), y)
    assert_allclose(
        inside.decision_function(X), outside.decision_function(scaler.transform(X)), atol=1e-12
    )
    assert ct.Pipeline(scaler.prepare_, ct.EchoState(5)).preprocessing.is_fitted

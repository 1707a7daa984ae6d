"""Which axis is time is said or certain: channels before time are never taken for time."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from catchment import Array, MiniRocket
from catchment.sklearn import (
    EchoStateClassifier,
    EchoStateFeatures,
    EchoStateRegressor,
    TimeSeriesClassifier,
    found_layout,
    steps_of,
    time_first,
)

CLASSIFIERS = [
    EchoStateClassifier(10, ridge=0.1),
    TimeSeriesClassifier("window_statistics", ridge=0.1),
    TimeSeriesClassifier(MiniRocket(84), ridge=0.1),
]
LABELS = np.array(["a", "b"] * 6)


def like_aeon(channels: int = 3, steps: int = 40, n: int = 12) -> Array:
    """Return (n, channels, steps) of two kinds in turn: slow and quick waves."""
    rng = np.random.default_rng(0)
    t = np.arange(steps) / np.array([3.0, 5.0])[np.arange(n) % 2, None, None]
    return np.asarray(np.sin(t + rng.uniform(0, 6, (n, channels, 1))))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda one: type(one).__name__)
def test_both_layouts_give_one_model(estimator: Any) -> None:
    X = like_aeon()
    first = clone(estimator).set_params(layout="channels_first").fit(X, LABELS)
    second = clone(estimator).set_params(layout="time_first").fit(X.transpose(0, 2, 1), LABELS)
    assert_array_equal(first.model_.readout.weights, second.model_.readout.weights)
    assert_array_equal(first.predict_proba(X), second.predict_proba(X.transpose(0, 2, 1)))
    assert_array_equal(pickle.loads(pickle.dumps(first)).predict(X), first.predict(list(X)))
    assert first.n_features_in_ == second.n_features_in_ == 3
    assert first.model_.features.n_inputs == 3
    assert cross_val_score(clone(first), X, LABELS, cv=2).min() >= 0.5


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=lambda one: type(one).__name__)
def test_later_sequences_lie_as_the_first_did(estimator: Any) -> None:
    X, weights = like_aeon(), []
    for layout, lying in (("channels_first", X), ("time_first", X.transpose(0, 2, 1))):
        grown = clone(estimator).set_params(layout=layout)
        for part in (slice(0, 6), slice(6, 12)):
            grown.partial_fit(lying[part], LABELS[part], classes=["a", "b"])
        weights.append(grown.model_.readout.weights)
    assert_array_equal(*weights)


@pytest.mark.parametrize(
    "estimator",
    [*CLASSIFIERS, EchoStateRegressor(10, pool="mean"), EchoStateFeatures(10)],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("shape", [(12, 3, 40), (12, 40, 3), (12, 1, 40), (12, 20, 20)])
def test_an_array_that_can_be_read_twice_is_refused(estimator: Any, shape: Any) -> None:
    X, y = np.ones(shape), np.arange(12) % 2
    with pytest.raises(ValueError, match="X holds recordings") as told:
        clone(estimator).fit(X, y)
    a, b = shape[1:]
    assert f"{a} steps of {b} channels" in str(told.value)
    assert 'layout="time_first"' in str(told.value)
    assert 'layout="channels_first"' in str(told.value)


def test_ragged_lists_say_by_themselves_which_axis_is_time() -> None:
    X = [one[:, : 30 + k] for k, one in enumerate(like_aeon(n=12))]
    ours = EchoStateClassifier(10).fit([u.T for u in X], LABELS)
    theirs = EchoStateClassifier(10).fit(X, LABELS)
    assert (ours.layout_, theirs.layout_) == ("time_first", "channels_first")
    assert_array_equal(ours.model_.readout.weights, theirs.model_.readout.weights)
    assert_array_equal(theirs.predict(X[:1]), ours.predict([X[0].T]))
    with pytest.raises(ValueError, match="30 channels, EchoStateClassifier was fitted on 3"):
        theirs.predict([X[0].T])


def test_lists_of_recordings_have_steps_first_and_short_ones_are_refused() -> None:
    X = list(like_aeon().transpose(0, 2, 1))
    assert EchoStateClassifier(5).fit(X, LABELS).n_features_in_ == 3
    with pytest.raises(ValueError, match='layout="channels_first"'):
        EchoStateClassifier(5).fit([u.T for u in X], LABELS)
    frames = [pd.DataFrame(u[:2], columns=["x", "y", "z"]) for u in X]
    assert EchoStateClassifier(5).fit(frames, LABELS).n_features_in_ == 3


def test_targets_per_step_tell_time() -> None:
    X = like_aeon()
    labels = np.tile(["up", "down"], (12, 20))
    first = EchoStateClassifier(5).fit(X, labels)
    assert first.layout_ == "channels_first"
    assert first.predict(X).shape == (12, 40)
    regressor = EchoStateRegressor(5, pool=None).fit(X, X[:, 0])
    assert regressor.layout_ == "channels_first"
    assert regressor.predict(X).shape == (12, 40)
    assert EchoStateRegressor(5, pool=None).fit(X.transpose(0, 2, 1), X[:, 0]).n_features_in_ == 3
    with pytest.raises(ValueError, match="channels of 40 steps"):
        EchoStateRegressor(5).fit(X, X[:, :, -1])  # three outputs of each, or three steps?


def test_features_lie_as_their_inputs_do() -> None:
    X = like_aeon()
    first = EchoStateFeatures(5, layout="channels_first").fit(X)
    second = EchoStateFeatures(5, layout="time_first").fit(X.transpose(0, 2, 1))
    assert first.transform(X).shape == (12, 8, 40)
    assert_array_equal(
        first.transform(X).transpose(0, 2, 1), second.transform(X.transpose(0, 2, 1))
    )
    ragged = [X[0], X[1][:, :20]]
    assert [z.shape for z in first.transform(ragged)] == [(8, 40), (8, 20)]
    pooled = EchoStateFeatures(5, pool="mean", layout="channels_first").fit(X)
    assert pooled.transform(X).shape == (12, 8)


def test_a_matrix_has_its_samples_in_rows_whatever_the_layout() -> None:
    rows = like_aeon(1)[:, 0]
    plain = EchoStateClassifier(10).fit(rows, LABELS)
    turned = EchoStateClassifier(10, layout="channels_first").fit(rows, LABELS)
    assert_array_equal(plain.predict_proba(rows), turned.predict_proba(rows))
    assert_array_equal(plain.predict_proba(rows), plain.predict_proba(rows[:, None, :]))
    assert_array_equal(plain.predict_proba(rows), plain.predict_proba(rows[:, :, None]))


def test_a_fitted_estimator_goes_on_as_it_began() -> None:
    X = like_aeon(1)
    fitted = EchoStateClassifier(10).fit(X.transpose(0, 2, 1), LABELS)
    with pytest.raises(ValueError, match=r'fitted on 1; pass .* layout="channels_first"'):
        fitted.predict(X)
    with pytest.raises(ValueError, match="layout is 'sktime'; give 'auto', 'time_first' or"):
        EchoStateClassifier(layout="sktime").fit(X, LABELS)  # type: ignore[arg-type]


@given(n=st.integers(1, 4), a=st.integers(1, 9), b=st.integers(2, 9))
def test_no_stack_of_several_columns_is_read_without_a_word(n: int, a: int, b: int) -> None:
    with pytest.raises(ValueError, match=f"{a} steps of {b} channels"):
        found_layout(np.zeros((n, a, b)))


@given(
    lengths=st.lists(st.integers(1, 9), min_size=2, max_size=5),
    channels=st.integers(1, 9),
    turned=st.booleans(),
)
def test_unequal_lengths_are_always_read_rightly(
    lengths: list[int], channels: int, turned: bool
) -> None:
    assume(len(set(lengths)) > 1)
    parts = [np.full((length, channels), k) for k, length in enumerate(lengths)]
    X = [part.T for part in parts] if turned else parts
    assume(not all(u.shape[1] == 1 for u in X))
    read = time_first(X, found_layout(X))
    assert [u.shape for u in read] == [part.shape for part in parts]  # type: ignore[union-attr]


def test_a_column_of_labels_is_one_each() -> None:
    assert steps_of(np.zeros((3, 1))) is None
    assert steps_of(np.zeros((3, 2))) == [2, 2, 2]

"""`AdaptiveClassifier`: fitted as any other, then taught by samples without labels."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from catchment import Recording
from catchment.data import synthetic_wearables
from catchment.sklearn import AdaptiveClassifier, TimeSeriesClassifier

Sequences = list[np.ndarray]


@pytest.fixture(scope="module")
def people() -> tuple[Sequences, list[str], Sequences]:
    """Return sequences and labels of four people, and sequences of a fifth."""
    held = synthetic_wearables(5, 0, windows_per_user=30)
    new = [one.u for one in held.pop("user-000")]
    every = [one for own in held.values() for one in own]
    return [one.u for one in every], [label_of(one) for one in every], new


def label_of(one: Recording) -> str:
    assert one.y is not None
    assert one.classes is not None
    return one.classes[int(one.y.argmax())]


def test_before_it_adapts_it_is_the_other_classifier_to_the_bit(
    people: tuple[Sequences, list[str], Sequences],
) -> None:
    X, y, new = people
    ours = AdaptiveClassifier(layout="time_first").fit(X, y)
    theirs = TimeSeriesClassifier(layout="time_first").fit(X, y)
    np.testing.assert_array_equal(ours.decision_function(new), theirs.decision_function(new))
    assert ours.n_unlabeled_ == 0


def test_it_adapts_as_the_model_does_and_in_parts_as_at_once(
    people: tuple[Sequences, list[str], Sequences],
) -> None:
    X, y, new = people
    classifier = AdaptiveClassifier(layout="time_first").fit(X, y)
    expected = classifier.fitted_model_.adapt([Recording(u) for u in new])
    for start in (0, 10, 20):
        classifier.partial_fit_unlabeled(new[start : start + 10])
    np.testing.assert_array_equal(classifier.model_.readout.weights, expected.readout.weights)
    assert classifier.n_unlabeled_ == 30
    last = clone(classifier).set_params(length=10).fit(X, y).partial_fit_unlabeled(new)
    assert last.n_unlabeled_ == 10
    again = pickle.loads(pickle.dumps(classifier)).partial_fit_unlabeled(new[:0] or new[:1])
    assert again.n_unlabeled_ == 31
    fitted_anew = classifier.fit(X, y)
    assert fitted_anew.n_unlabeled_ == 0


def test_mistakes_are_named(people: tuple[Sequences, list[str], Sequences]) -> None:
    X, y, new = people
    with pytest.raises(NotFittedError):
        AdaptiveClassifier().partial_fit_unlabeled(new)
    fitted = AdaptiveClassifier(layout="time_first").fit(X, y)
    with pytest.raises(ValueError, match=r"share is 0; "):
        fitted.set_params(share=0).partial_fit_unlabeled(new)
    with pytest.raises(ValueError, match=r"length is 0; give an integer, 1 or more"):
        fitted.set_params(share=0.9, length=0).partial_fit_unlabeled(new)
    lost = fitted.set_params(length=5)
    lost.fitted_model_ = replace(lost.fitted_model_, statistics=None)
    with pytest.raises(ValueError, match="has lost its statistics; fit the estimator again"):
        lost.partial_fit_unlabeled(new)

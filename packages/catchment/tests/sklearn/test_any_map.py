"""Estimators of any feature map: scikit-learn's contract, its own ridge, and `catchment.fit`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import catchment as ct
from catchment.data import ACTIVITIES, synthetic_wearables
from catchment.sklearn import TimeSeriesClassifier

WINDOWS = [
    one for own in synthetic_wearables(3, seed=2, windows_per_user=24).values() for one in own
]
X = [one.u for one in WINDOWS]
Y = np.array([ACTIVITIES[int(np.argmax(one.y))] for one in WINDOWS])  # type: ignore[arg-type]


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [
        TimeSeriesClassifier(ct.EchoState(30), ridge=1e-3),
        TimeSeriesClassifier(ct.MiniRocket(84), ridge=1e-3),
    ],
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("estimator", "described"),
    [
        (TimeSeriesClassifier(), "default"),
        (TimeSeriesClassifier(ct.FeatureUnion(ct.EchoState(20), ct.WindowStatistics())), None),
        (TimeSeriesClassifier(ct.MiniRocket(168, seed=3)), None),
    ],
)
def test_the_model_is_that_of_fit_to_the_bit(estimator: Any, described: Any) -> None:
    fitted = estimator.fit(X, Y)
    classes = tuple(sorted(set(Y)))
    named = [ct.Recording.labeled(u, str(label), classes) for u, label in zip(X, Y, strict=True)]
    model = ct.fit(estimator.map if described is None else described, named)
    assert_array_equal(fitted.model_.readout.weights, model.readout.weights)
    assert_array_equal(fitted.model_.readout.intercept, model.readout.intercept)
    assert fitted.model_.features.fingerprint == model.features.fingerprint
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X[:5]), fitted.predict(X[:5]))


def test_scores_are_those_of_scikit_learn_on_standardized_features() -> None:
    fitted = TimeSeriesClassifier("window_statistics", ridge=0.5).fit(X, Y)
    pipeline = fitted.model_.pipeline
    z = np.concatenate(pipeline.rows([ct.Recording(u) for u in X]))
    targets = (Y[:, None] == fitted.classes_).astype(float)
    theirs = make_pipeline(StandardScaler(), Ridge(alpha=0.5, solver="svd")).fit(z, targets)
    assert_allclose(fitted.decision_function(X), theirs.predict(z), atol=1e-9)


def test_a_map_is_a_parameter_like_any_other() -> None:
    search = GridSearchCV(
        TimeSeriesClassifier(), {"map": ["window_statistics", ct.MiniRocket(84)]}, cv=2
    )
    assert search.fit(X, Y).best_params_["map"] is not None
    assert clone(TimeSeriesClassifier("minirocket")).map == "minirocket"


def test_auto_is_for_those_who_choose() -> None:
    with pytest.raises(ValueError, match="GridSearchCV over map"):
        TimeSeriesClassifier("auto").fit(X, Y)

"""The estimators keep scikit-learn's contract, and agree with its own ridge on explicit states."""

from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import catchment
from catchment import Array, EchoState, LogUniform, Uniform
from catchment.features.echo_state import PER_RECORDING, PER_STEP
from catchment.readout import ForecastLimitWarning, RidgeStatistics, chosen_readout, solve_readout
from catchment.sklearn import (
    EchoStateClassifier,
    EchoStateFeatures,
    EchoStateRegressor,
    leave_one_out,
)

IN_ORDER = "without a pool the samples are the steps of one sequence, whose states depend on order"
REPEATED = "without a pool a repeated sample is one more step in time, not one more of its kind"


def expected_failures(estimator: Any) -> dict[str, str]:
    pooled = isinstance(estimator, EchoStateClassifier) if estimator.pool == "auto" else True
    if pooled and estimator.pool is not None:
        return {}
    order = {
        "check_methods_sample_order_invariance": IN_ORDER,
        "check_methods_subset_invariance": IN_ORDER,
    }
    if isinstance(estimator, EchoStateFeatures):
        return order
    return order | {"check_sample_weight_equivalence_on_dense_data": REPEATED}


@parametrize_with_checks(  # type: ignore[untyped-decorator]  # scikit-learn has no types
    [
        EchoStateRegressor(30),
        EchoStateRegressor(30, pool="last", leak_rate=1.0, spectral_radius=1.0, ridge=1e-3),
        EchoStateClassifier(30, ridge=1e-3),
        EchoStateClassifier(30, pool=None),
        EchoStateFeatures(20),
        EchoStateFeatures(20, pool="mean_std"),
    ],
    expected_failed_checks=expected_failures,
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def wave(n: int = 300, seed: int = 0) -> tuple[Array, Array]:
    """Return inputs (n, 2) and a target (n,) that remembers them."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 2))
    y = np.convolve(u[:, 0], [0.5, 0.3, 0.2])[:n] + 0.3 * u[:, 1] + 0.05 * rng.normal(size=n)
    return u, y


def states(u: Array, **settings: Any) -> Array:
    """Return inputs and states (T, I + N) of the reservoir that an unscaled estimator builds."""
    chosen: dict[str, Any] = PER_STEP | {"pool": None} | settings
    described = EchoState(**chosen)
    return described.build(u.shape[1], per_step=True).rows([u])[0]


def tones(n: int = 30, seed: int = 0) -> tuple[list[Array], list[str]]:
    """Return ragged sequences (T, 2) of three kinds, and their names."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for k in range(n):
        t = np.arange(25 + int(rng.integers(20)))
        pitch = (3.0, 4.5, 7.0)[k % 3]
        phase = rng.uniform(0, 6)
        u = np.stack([np.sin(t / pitch + phase), np.cos(t / pitch + phase)], axis=1)
        X.append(u + 0.1 * rng.normal(size=u.shape))
        y.append(("high", "mid", "low")[k % 3])
    return X, y


def test_regressor_is_ridge_on_states() -> None:
    u, y = wave()
    ours = EchoStateRegressor(40, washout=30, ridge=0.1, random_state=5, scale=False).fit(u, y)
    z = states(u, units=40, seed=5)
    theirs = Ridge(alpha=0.1, solver="svd").fit(z[30:], y[30:])
    assert_allclose(ours.predict(u), theirs.predict(z), rtol=1e-8, atol=1e-9)
    assert ours.score(u, y) == pytest.approx(r2_score(y[30:], theirs.predict(z[30:])))
    assert ours.n_features_in_ == 2


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10)
def test_weights_per_step_are_those_of_ridge(seed: int) -> None:
    u, y = wave(120)
    weight = np.random.default_rng(seed).uniform(0, 3, len(y))
    ours = EchoStateRegressor(20, washout=10, ridge=0.1, scale=False).fit(u, y, weight)
    z = states(u, units=20, seed=0)
    theirs = Ridge(alpha=0.1, solver="svd").fit(z[10:], y[10:], sample_weight=weight[10:])
    assert_allclose(ours.predict(u), theirs.predict(z), rtol=1e-7, atol=1e-8)


def test_rows_without_a_target_are_left_out() -> None:
    u, y = wave()
    known = np.random.default_rng(1).random(len(y)) < 0.7
    gappy = np.where(known, y, np.nan)
    ours = EchoStateRegressor(20, ridge=0.1, scale=False).fit(u, gappy)
    z = states(u, units=20, seed=0)
    theirs = Ridge(alpha=0.1, solver="svd").fit(z[known], y[known])
    assert_allclose(ours.predict(u), theirs.predict(z), rtol=1e-8, atol=1e-9)
    assert ours.score(u, gappy) == pytest.approx(r2_score(y[known], theirs.predict(z)[known]))
    with pytest.raises(ValueError, match="y is NaN throughout"):
        EchoStateRegressor(20).fit(u, np.full(len(y), np.nan))


def test_several_outputs_are_solved_together() -> None:
    u, y = wave()
    Y = np.stack([y, y**2, -y], axis=1)
    ours = EchoStateRegressor(20, ridge=0.1, scale=False).fit(u, Y)
    z = states(u, units=20, seed=0)
    assert_allclose(ours.predict(u), Ridge(alpha=0.1, solver="svd").fit(z, Y).predict(z))
    one = EchoStateRegressor(20, ridge=0.1, scale=False).fit(u, Y[:, :1])
    assert one.predict(u).shape == (300, 1)
    assert_allclose(one.predict(u)[:, 0], ours.predict(u)[:, 0])
    both = MultiOutputRegressor(EchoStateRegressor(20, ridge=0.1, scale=False)).fit(u, Y[:, :2])
    assert_allclose(both.predict(u)[:, 0], ours.predict(u)[:, 0])


def test_many_sequences_in_a_list_a_stack_or_one_after_the_other() -> None:
    parts = [wave(100, seed) for seed in range(3)]
    X, y = [u for u, _ in parts], [target for _, target in parts]
    listed = EchoStateRegressor(20, washout=5, ridge=0.1, scale=False).fit(X, y)
    stacked = clone(listed).set_params(layout="time_first").fit(np.stack(X), np.stack(y))
    grown = clone(listed)
    for u, target in parts:
        grown.partial_fit(u, target)
    predicted = listed.predict(X)
    assert [p.shape for p in predicted] == [(100,)] * 3
    assert stacked.predict(np.stack(X)).shape == (3, 100)
    for k, u in enumerate(X):
        assert_allclose(predicted[k], stacked.predict(np.stack(X))[k])
        assert_allclose(predicted[k], grown.predict(u))
    assert listed.score(X, y) == pytest.approx(stacked.score(np.stack(X), np.stack(y)))
    z = np.concatenate([states(u, units=20, seed=0)[5:] for u in X])
    theirs = Ridge(alpha=0.1, solver="svd").fit(z, np.concatenate([t[5:] for t in y]))
    assert_allclose(predicted[1][5:], theirs.predict(z[95:190]), rtol=1e-8)
    weights = [np.full(100, k + 1.0) for k in range(3)]
    weighted = clone(listed).fit(X, y, weights)
    theirs.fit(z, np.concatenate([t[5:] for t in y]), np.repeat([1.0, 2.0, 3.0], 95))
    assert_allclose(weighted.predict(X)[1][5:], theirs.predict(z[95:190]), rtol=1e-8)


def test_pooled_rows_of_a_matrix_are_sequences_of_one_input() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 25))
    y = X[:, -3:].sum(axis=1)
    matrix = EchoStateRegressor(20, pool="last", ridge=0.1, scale=False).fit(X, y)
    stack = clone(matrix).fit(X[:, :, None], y)
    listed = clone(matrix).fit([row[:, None] for row in X], y)
    assert_array_equal(matrix.predict(X), stack.predict(X[:, :, None]))
    assert_array_equal(matrix.predict(X), listed.predict([row[:, None] for row in X]))
    assert (matrix.n_features_in_, stack.n_features_in_) == (25, 1)
    z = np.stack([states(row[:, None], **PER_RECORDING, units=20, seed=0)[-1] for row in X])
    theirs = Ridge(alpha=0.1, solver="svd").fit(z, y)
    assert_allclose(matrix.predict(X), theirs.predict(z), rtol=1e-8, atol=1e-9)


def test_a_forecast_is_held_in_the_range_of_training_unless_it_is_let_go() -> None:
    s = np.cumsum(np.ones(300))[:, None] / 100  # grows for ever
    model = EchoStateRegressor(units=20, washout=20, ridge=1e-8, random_state=0)
    model.fit(s[:-1], s[1:])
    free = model.forecast(s, horizon=3000, limit=None)
    with pytest.warns(ForecastLimitWarning, match="was held at the limit"):
        held = model.forecast(s, horizon=3000, limit=[[0.0], [3.0]])
    assert free.max() > 3.5
    assert held.max() == 3.0
    assert model.model_.target_range is not None
    low, high = model.model_.target_range
    assert (model.forecast(s, horizon=5) <= high).all()
    np.testing.assert_array_equal(
        model.model_.forecast(s, 50, limit=None)[:, 0], model.forecast(s, 50, limit=None).ravel()
    )
    assert low[0] < 0 < 3 < high[0]


def test_forecast_goes_on_by_itself() -> None:
    s = np.sin(np.arange(700) / 10)[:, None]
    model = EchoStateRegressor(60, washout=50, ridge=1e-8).fit(s[:499], s[1:500, 0])
    ahead = model.forecast(s[:500], horizon=100)
    assert ahead.shape == (100,)
    assert np.abs(ahead - s[500:600, 0]).max() < 0.05
    wide = clone(model).fit(s[:499], s[1:500])
    assert wide.forecast(s[:500], horizon=2).shape == (2, 1)
    with pytest.raises(ValueError, match="horizon is 0"):
        model.forecast(s[:500], horizon=0)
    with pytest.raises(NotFittedError):
        EchoStateRegressor().forecast(s, horizon=1)


def test_ridge_by_gcv_is_near_the_best_on_new_data() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(3000, 1))
    y = np.convolve(u[:, 0], 0.8 ** np.arange(10))[:3000] + rng.normal(size=3000)
    chosen = EchoStateRegressor(100, washout=50).fit(u[:400], y[:400]).score(u[400:], y[400:])
    scores = [
        EchoStateRegressor(100, washout=50, ridge=ridge)
        .fit(u[:400], y[:400])
        .score(u[400:], y[400:])
        for ridge in 10.0 ** np.arange(-8, 4)
    ]
    assert chosen > max(scores) - 0.02
    assert min(scores) < chosen - 0.05


def test_ridge_of_features_that_do_not_vary() -> None:
    constant = RidgeStatistics.from_states(np.ones((3, 2)), np.arange(3.0)[:, None])
    assert chosen_readout(constant, "gcv")[1].ridge == 1.0
    fitted = EchoStateRegressor(10, pool="last").fit(np.ones((6, 4)), np.arange(6.0))
    assert_allclose(fitted.predict(np.ones((2, 4))), 2.5)


@pytest.mark.parametrize("units", [20, 200])
def test_gcv_never_chooses_a_ridge_that_cannot_be_solved(units: int) -> None:
    u = np.full((250, 1), 0.5)
    u[::50] += 1e-3
    fitted = EchoStateRegressor(units, bias_scaling=1.0, leak_rate=1.0).fit(u, u[:, 0])
    assert np.isfinite(fitted.predict(u)).all()


@pytest.mark.parametrize("pool", ["mean", "mean_std", "last", "max"])
def test_classifier_learns_tones(pool: Any) -> None:
    X, y = tones(75)
    fitted = EchoStateClassifier(100, pool=pool).fit(X[:45], y[:45])
    X, y = X[45:], y[45:]
    assert fitted.score(X, y) > 0.85
    assert fitted.classes_.tolist() == ["high", "low", "mid"]
    probability = fitted.predict_proba(X)
    assert_allclose(probability.sum(axis=1), 1.0)
    assert_array_equal(fitted.classes_[probability.argmax(axis=1)], fitted.predict(X))
    assert fitted.decision_function(X).shape == (30, 3)


def test_classifier_of_two_classes_scores_the_lead_of_the_second() -> None:
    X, y = tones(60)
    two = [(u, label) for u, label in zip(X, y, strict=True) if label != "mid"]
    X, y = [u for u, _ in two], [label for _, label in two]
    fitted = EchoStateClassifier(20).fit(X, y)
    lead, probability = fitted.decision_function(X), fitted.predict_proba(X)[:, 1]
    assert lead.shape == (40,)
    assert_array_equal(np.argsort(lead), np.argsort(probability))
    assert_array_equal(lead > 0, fitted.predict(X) == "low")


def test_training_scores_are_those_of_refits_without_the_row() -> None:
    rng = np.random.default_rng(3)
    z, y = rng.normal(size=(25, 6)), np.eye(3)[rng.integers(3, size=25)]
    statistics = RidgeStatistics.from_states(z, y)
    quick = leave_one_out(statistics, solve_readout(statistics, 0.7), z, y)
    for k in range(25):
        rest = np.arange(25) != k
        theirs = Ridge(alpha=0.7, solver="svd").fit(z[rest], y[rest])
        assert_allclose(quick[k], theirs.predict(z[k : k + 1])[0], rtol=1e-9, atol=1e-10)


def test_probabilities_are_fair_on_new_data() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=3000)
    X = rng.normal(size=(3000, 8)) + 0.25 * label[:, None]
    fitted = EchoStateClassifier(50).fit(X[:600], label[:600])
    probability = fitted.predict_proba(X[600:])[:, 1]
    for low in (0.2, 0.4, 0.6):
        inside = (probability >= low) & (probability < low + 0.2)
        assert inside.sum() > 100
        assert abs(label[600:][inside].mean() - probability[inside].mean()) < 0.08


def test_classifier_grows_by_clients_of_one_class_each() -> None:
    X, y = tones(30)
    whole = EchoStateClassifier(20, scale=False).fit(X, y)
    grown = EchoStateClassifier(20, scale=False)
    for kind in ("high", "mid", "low"):
        part = [k for k in range(30) if y[k] == kind]
        grown.partial_fit([X[k] for k in part], [kind] * 10, classes=["high", "mid", "low"])
    assert_allclose(grown.decision_function(X), whole.decision_function(X), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="label alto, which is not among"):
        grown.partial_fit(X[:1], ["alto"])
    with pytest.raises(ValueError, match="differ from"):
        grown.partial_fit(X[:1], y[:1], classes=["high", "low"])
    with pytest.raises(ValueError, match="classes must be passed"):
        EchoStateClassifier(20).partial_fit(X, y)


def test_classes_of_no_weight_do_not_occur() -> None:
    X, y = tones(30)
    weight = np.array([0.0 if label == "mid" else 2.0 for label in y])
    fitted = EchoStateClassifier(20).fit(X, y, weight)
    assert fitted.classes_.tolist() == ["high", "low"]
    kept = np.flatnonzero(weight)
    twice = [int(k) for k in np.repeat(kept, 2)]
    other = EchoStateClassifier(20).fit([X[k] for k in twice], [y[k] for k in twice])
    assert_allclose(fitted.predict_proba(X), other.predict_proba(X), rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="1 class"):
        EchoStateClassifier(20).fit(X[:3], ["low"] * 3)


def test_every_step_can_have_a_class() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(80 + 10 * k, 1)) for k in range(4)]
    y = [np.where(np.convolve(u[:, 0], [1, 1])[: len(u)] > 0, "up", "down") for u in X]
    fitted = EchoStateClassifier(30, pool=None, washout=2, leak_rate=1.0).fit(X[:3], y[:3])
    assert fitted.score(X[3:], y[3:]) > 0.9
    assert fitted.score(X[3], y[3]) == fitted.score(X[3:], y[3:])
    assert [p.shape for p in fitted.predict(X)] == [(80,), (90,), (100,), (110,)]
    assert fitted.predict_proba(np.stack([X[0], X[0]])).shape == (2, 80, 2)


def test_search_over_sequences_and_over_time() -> None:
    X, y = tones(30)
    grid = {"leak_rate": [0.3, LogUniform(0.1, 1.0)], "units": [10, (8, 8)]}
    search = GridSearchCV(EchoStateClassifier(pool="mean_std"), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    assert search.predict(X[:2]).tolist() == y[:2]
    u, target = wave(600)
    pipeline = make_pipeline(StandardScaler(), EchoStateRegressor(20, washout=20))
    scores = cross_val_score(pipeline, u, target, cv=TimeSeriesSplit(3))
    assert scores.min() > 0.9


def test_clones_and_pickles_predict_the_same_bits(tmp_path: Path) -> None:
    u, y = wave()
    fitted = EchoStateRegressor(20, leak_rate=Uniform(0.2, 0.9), n_jobs=2).fit(u, y)
    same = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(same.predict(u), fitted.predict(u))
    assert_array_equal(same.partial_fit(u, y).predict(u), fitted.partial_fit(u, y).predict(u))
    one = clone(fitted).set_params(n_jobs=1).fit(u, y)
    assert_array_equal(one.predict(u), clone(fitted).fit(u, y).predict(u))
    X, labels = tones(12)
    classifier = EchoStateClassifier(20).fit(X, labels)
    loaded = catchment.load(catchment.save(classifier.model_, tmp_path / "tones.safetensors"))
    assert isinstance(loaded, catchment.Model)
    assert loaded.classify(X) == classifier.predict(X).tolist()
    assert_allclose(loaded.predict_proba(X), classifier.predict_proba(X), rtol=1e-9)


def test_random_state_names_the_reservoir() -> None:
    u, y = wave(100)

    def weights(state: Any) -> str:
        fitted = EchoStateRegressor(10, random_state=state).fit(u, y)
        return str(fitted.model_.features.fingerprint)

    assert weights(3) == weights(np.int64(3)) != weights(4)
    assert weights(np.random.RandomState(1)) == weights(np.random.RandomState(1))
    assert weights(None) != weights(None)


def test_features_have_names_and_feed_other_estimators() -> None:
    frame = pd.DataFrame(wave(50)[0], columns=["heat", "load"])
    fitted = EchoStateFeatures(3, scale=False).fit(frame)
    assert fitted.get_feature_names_out().tolist() == ["heat", "load", "x0", "x1", "x2"]
    table = fitted.set_output(transform="pandas").transform(frame)
    assert_allclose(table.to_numpy(), states(frame.to_numpy(), units=3, seed=0))
    pooled = EchoStateFeatures(2, pool="mean_std", input=False).fit(np.zeros((4, 5)))
    assert pooled.get_feature_names_out().tolist() == ["mean_x0", "mean_x1", "std_x0", "std_x1"]
    X, y = tones(90)
    pipeline = make_pipeline(EchoStateFeatures(30, pool="mean_std"), LogisticRegression(C=100))
    assert pipeline.fit(X[:45], y[:45]).score(X[45:], y[45:]) > 0.8
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        fitted.get_feature_names_out(["heat", "wind"])


def test_ragged_univariate_sequences_need_no_columns() -> None:
    X = [np.sin(np.arange(20 + k) / (2 + 3 * (k % 2))) for k in range(12)]
    fitted = EchoStateClassifier(20).fit(X, [0, 1] * 6)
    columns = EchoStateClassifier(20).fit([u[:, None] for u in X], [0, 1] * 6)
    ragged = np.empty(12, dtype=object)
    ragged[:] = X
    assert_array_equal(fitted.decision_function(ragged), columns.decision_function(X))


@pytest.mark.parametrize(
    ("settings", "X", "y", "message"),
    [
        ({"ridge": "cv"}, np.eye(4), np.ones(4), "ridge is 'cv'"),
        ({"ridge": -1.0}, np.eye(4), np.ones(4), "ridge is -1.0"),
        ({"washout": 4}, np.eye(4), np.ones(4), "washout"),
        ({"units": 0}, np.eye(4), np.ones(4), "units is 0"),
        ({"pool": "median"}, np.eye(4), np.ones(4), "pool is 'median'"),
        ({"n_jobs": 0}, np.eye(4), np.ones(4), "n_jobs is 0"),
        ({}, [np.eye(2), np.eye(3)], [np.ones(2), np.ones(3)], "columns"),
        ({}, [np.eye(3)[:, :2]] * 2, [np.ones(3), np.ones(2)], "one row per step"),
        ({}, [np.eye(3)[:, :2]] * 2, np.ones(4), "y has 4 samples, X has 2"),
        ({}, [np.eye(3)[:, :2]] * 2, None, "y is None"),
        ({"gaps": "error"}, [np.eye(3, 2), np.eye(3, 2) * np.nan], [np.ones(3)] * 2, "recording 1"),
        ({"gaps": "restart"}, np.eye(4), np.ones(4), "gaps is 'restart'"),
        ({}, np.eye(4), np.array([1.0, 2.0, np.inf, 1.0]), "infinite at row 2"),
        ({"pool": "mean"}, np.ones((3, 5, 1)), np.ones(4), "y has 4 samples, X has 3"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EchoStateRegressor(**{"units": 5} | settings).fit(X, y)


def test_weights_and_lost_statistics_are_checked() -> None:
    u, y = wave(60)
    fitted = EchoStateRegressor(5).fit(u, y)
    with pytest.raises(ValueError, match="not negative"):
        fitted.fit(u, y, -np.ones(60))
    with pytest.raises(ValueError, match="3 channels, EchoStateRegressor was fitted on 2"):
        fitted.predict([np.ones((5, 3)), np.ones((4, 3))])
    fitted.model_ = catchment.Model(fitted.model_.features, fitted.model_.readout)
    with pytest.raises(ValueError, match="lost its statistics"):
        fitted.partial_fit(u, y)


def test_gaps_are_filled_as_the_library_fills_them() -> None:
    u, y = wave()
    gappy = u.copy()
    gappy[50:60, 0] = np.nan
    held = u.copy()
    held[50:60, 0] = u[49, 0]
    ours = EchoStateRegressor(20).fit(gappy, y)
    assert_array_equal(ours.predict(gappy), EchoStateRegressor(20).fit(held, y).predict(held))
    with pytest.raises(ValueError, match="contains NaN"):
        EchoStateRegressor(20, gaps="error").fit(gappy, y)
    with pytest.raises(ValueError, match="infinity"):
        EchoStateRegressor(20).fit(np.where(np.isnan(gappy), np.inf, gappy), y)


def test_scaled_inputs_are_those_of_a_standard_scaler() -> None:
    u, y = wave()
    odd = 1000.0 + 50.0 * u
    inside = EchoStateRegressor(20, ridge=0.1).fit(odd, y)
    outside = make_pipeline(StandardScaler(), EchoStateRegressor(20, ridge=0.1, scale=False))
    assert_allclose(inside.predict(odd), outside.fit(odd, y).predict(odd), rtol=1e-6, atol=1e-8)


def test_more_data_are_scaled_as_the_first_were() -> None:
    u, y = wave()
    grown = EchoStateRegressor(20, ridge=0.1).fit(u[:100], y[:100])
    scale = grown.model_.preprocessing.scale
    grown.partial_fit(7.0 * u[100:], y[100:])
    assert grown.model_.preprocessing.scale == scale
    mean, deviation = u[:100].mean(axis=0), u[:100].std(axis=0)
    parts = [(u[:100] - mean) / deviation, (7.0 * u[100:] - mean) / deviation]
    z = np.concatenate([states(part, units=20, seed=0) for part in parts])
    theirs = Ridge(alpha=0.1, solver="svd").fit(z, y)
    assert_allclose(grown.predict(u[:100]), theirs.predict(z[:100]), rtol=1e-6, atol=1e-8)


def test_weights_count_in_the_scale_as_repetitions_do() -> None:
    X, y = tones(12)
    X = [100.0 * k + u for k, u in enumerate(X)]
    weight = np.array([0.0, 1.0, 2.0] * 4)
    repeated = [int(k) for k in np.repeat(np.arange(12), weight.astype(int))]
    fitted = EchoStateClassifier(20, ridge=0.1).fit(X, y, weight)
    other = EchoStateClassifier(20, ridge=0.1).fit(
        [X[k] for k in repeated], [y[k] for k in repeated]
    )
    assert_allclose(fitted.decision_function(X), other.decision_function(X), rtol=1e-6, atol=1e-8)


def test_the_pool_follows_the_targets_of_several_sequences() -> None:
    X, y = tones(12)
    one_each = EchoStateRegressor(10).fit(X, [float(len(label)) for label in y])
    assert one_each.predict(X).shape == (12,)
    each_step = EchoStateRegressor(10).fit(X, [u[:, 0] for u in X])
    assert [len(p) for p in each_step.predict(X)] == [len(u) for u in X]
    steps = EchoStateClassifier(10).fit(
        X, [[label] * len(u) for u, label in zip(X, y, strict=True)]
    )
    assert [len(p) for p in steps.predict(X)] == [len(u) for u in X]
    assert EchoStateClassifier(10).fit(X, y).predict(X).shape == (12,)


def test_the_estimators_have_every_setting_of_the_description() -> None:
    described = {field.name for field in fields(EchoState)} - {"seed", "n_inputs", "matrices"}
    own = {"gaps", "layout", "scale", "random_state", "n_jobs"}
    assert set(EchoStateFeatures().get_params()) == described | own
    for estimator in (EchoStateRegressor(), EchoStateClassifier()):
        settings = estimator.get_params()
        assert set(settings) == described | own | {"ridge"}
        assert all(settings[name] == getattr(EchoState(), name) for name in described)


def test_the_model_knows_the_names_of_columns() -> None:
    u, y = wave(60)
    frame = pd.DataFrame(u, columns=["heat", "load"])
    fitted = EchoStateRegressor(5).fit(frame, y)
    assert fitted.model_.channels == ("heat", "load")
    assert_allclose(fitted.predict(frame), fitted.model_.predict(u)[:, 0])

"""Models: predictions, class scores, and how far probabilities can be believed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.optimize
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from catchment import Array, Integers
from catchment.arrays import Fraction, check_fields
from catchment.data import Recording
from catchment.errors import FingerprintError
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import Pool
from catchment.readout import (
    Model,
    Predictor,
    Readout,
    RidgeStatistics,
    fitted_temperature,
    simplex_projection,
    softmax,
    train,
)

RESERVOIR = Reservoir(units=25, inputs=2, seed=3)
NAMES = ("low", "middle", "high")


def noisy_classes(n: int, seed: int) -> list[Recording]:
    """Return short two-channel sequences whose three classes overlap."""
    rng = np.random.default_rng(seed)
    levels = np.array([[-0.4, 0.0], [0.0, 0.5], [0.4, 0.0]])
    labels = rng.integers(0, 3, n)
    return [
        Recording.labeled(
            levels[k] + rng.normal(0, 0.4, 2) + rng.normal(0, 0.3, (rng.integers(6, 12), 2)), k, 3
        )
        for k in labels
    ]


def classifier(pool: Pool | None = "mean") -> Model:
    return train(EchoState.of(RESERVOIR, pool=pool), noisy_classes(150, 0), 1e-2, classes=NAMES)


def labels_of(sequences: list[Recording]) -> Integers:
    return np.array([np.asarray(s.y).argmax() for s in sequences])


def calibration_error(probabilities: Array, labels: Integers, n_bins: int = 10) -> float:
    """Return the expected calibration error: mean gap of confidence and accuracy over bins."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = [
        np.sum(bins == b) * abs(confidence[bins == b].mean() - right[bins == b].mean())
        for b in set(bins.tolist())
    ]
    return float(np.sum(gaps) / len(labels))


def test_a_trained_model_is_sklearns_ridge_on_its_features() -> None:
    rng = np.random.default_rng(1)
    sequences = [Recording(u, u[:, :1] * 2 + 1) for u in rng.normal(size=(4, 50, 2))]
    features = EchoState.of(RESERVOIR, washout=10)
    model = train(features, sequences, 0.1)
    z = np.concatenate(features.rows([s.u for s in sequences]))
    y = np.concatenate([np.asarray(s.y)[10:] for s in sequences])
    theirs = Ridge(alpha=0.1, solver="svd").fit(z, y)
    ours = np.concatenate([model.predict(s.u) for s in sequences])
    np.testing.assert_allclose(ours, theirs.predict(z).reshape(ours.shape), atol=1e-9)
    assert model.statistics is not None
    assert model.statistics.n_rows == 160
    assert model.n_outputs == 1


def test_outputs_of_several_are_those_of_each_and_arrays_will_do() -> None:
    model = classifier(pool=None)
    sequences = noisy_classes(5, 7)
    for one, array, sequence in zip(
        [model.outputs(s.u)[0] for s in sequences],
        model.outputs([s.u for s in sequences]),
        model.outputs(sequences),
        strict=True,
    ):
        np.testing.assert_allclose(array, one, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(array, sequence)


@pytest.mark.parametrize("pool", ["mean", "last", None])
def test_classes_are_the_largest_scores_and_beat_chance(pool: Pool | None) -> None:
    model, test = classifier(pool), noisy_classes(300, 1)
    scores = model.scores(test)
    assert scores.shape == (300, 3)
    expected = [model.outputs(s.u)[0].mean(axis=0) for s in test]
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)
    named = model.classify(test)
    assert named == [NAMES[k] for k in scores.argmax(axis=1)]
    assert np.mean(scores.argmax(axis=1) == labels_of(test)) > 0.6


def test_probabilities_sum_to_one_calibrated_or_not() -> None:
    model, test = classifier(), noisy_classes(100, 2)
    for either in (model, model.calibrated(noisy_classes(80, 3))):
        probabilities = either.predict_proba(test)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
        assert (probabilities >= 0).all()
        likeliest = np.take_along_axis(
            probabilities, model.scores(test).argmax(axis=1)[:, None], axis=1
        )
        np.testing.assert_array_equal(likeliest[:, 0], probabilities.max(axis=1))


def test_calibration_brings_confidence_near_accuracy() -> None:
    model, test = classifier(), noisy_classes(1500, 4)
    calibrated = model.calibrated(noisy_classes(400, 5))
    labels = labels_of(test)
    plain = calibration_error(softmax(model.scores(test)), labels)
    fitted = calibration_error(calibrated.predict_proba(test), labels)
    assert fitted < 0.06
    assert fitted < plain / 3
    assert calibrated.classify(test) == model.classify(test)
    assert model.temperature is None


@given(n=st.integers(0, 5), K=st.integers(1, 6), size=st.floats(0, 1e4), seed=st.integers(0, 99))
def test_softmax_is_scipys(n: int, K: int, size: float, seed: int) -> None:
    scores = size * np.random.default_rng(seed).normal(size=(n, K))
    expected = scipy.special.softmax(scores, axis=1)
    np.testing.assert_allclose(softmax(scores), expected, rtol=1e-14, atol=1e-300)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), K=st.integers(2, 5))
def test_the_temperature_is_the_one_scipy_finds(seed: int, n: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n)
    scores = rng.normal(0, 0.5, (n, K)) + 0.7 * np.eye(K)[labels]
    target = (np.eye(K)[labels] * n + 1) / (n + K)

    def loss(log_temperature: float) -> float:
        logs = scipy.special.log_softmax(scores / np.exp(log_temperature), axis=1)
        return -float((target * logs).sum())

    found = scipy.optimize.minimize_scalar(loss, bounds=(-6, 6), method="bounded")
    ours = fitted_temperature(scores, labels)
    assert loss(np.log(np.clip(ours, np.exp(-6), np.exp(6)))) <= found.fun + 1e-6 * abs(found.fun)


def test_the_temperature_stays_sensible_at_both_extremes() -> None:
    labels = np.arange(30) % 3
    sure = fitted_temperature(np.eye(3)[labels], labels)
    assert 0.01 < sure < 1.0
    useless = fitted_temperature(np.eye(3)[(labels + 1) % 3], labels)
    np.testing.assert_allclose(softmax(np.eye(3) / useless), 1 / 3, atol=1e-5)


@settings(max_examples=40)
@given(st.lists(st.floats(-3, 3), min_size=2, max_size=6))
def test_the_simplex_projection_is_the_nearest_point(row: list[float]) -> None:
    scores = np.array([row])
    ours = simplex_projection(scores)[0]
    assert ours.min() >= 0
    assert ours.sum() == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    others = rng.dirichlet(np.ones(len(row)), 200)
    distance = np.linalg.norm(ours - scores[0])
    assert (np.linalg.norm(others - scores[0], axis=1) >= distance - 1e-12).all()


def test_held_out_sequences_without_a_target_are_left_out() -> None:
    model, held_out = classifier(), noisy_classes(60, 5)
    gaps = [*held_out, Recording(held_out[0].u, np.full(3, np.nan))]
    assert model.calibrated(gaps).temperature == model.calibrated(held_out).temperature
    with pytest.raises(ValueError, match="no held-out recordings"):
        model.calibrated(gaps[-1:])
    with pytest.raises(ValueError, match=r"held-out recording 0 has no target of shape \(3,\)"):
        model.calibrated([Recording(held_out[0].u)])


def test_no_sequences_have_no_classes() -> None:
    model = classifier()
    assert model.classify([]) == []
    assert model.predict_proba([]).shape == (0, 3)
    assert model.outputs([]) == []


def test_numbers_are_not_classified() -> None:
    model = replace(classifier(), classes=None)
    for ask in (model.classify, model.scores, model.predict_proba):
        with pytest.raises(ValueError, match="predicts numbers"):
            ask([np.zeros((3, 2))])


def test_parts_that_do_not_belong_together_are_refused() -> None:
    model = classifier()
    assert model.statistics is not None
    with pytest.raises(ValueError, match="readout takes 2 features"):
        replace(model, readout=Readout(np.zeros((2, 3)), np.zeros(3)))
    with pytest.raises(ValueError, match="2 different classes are named for 3 outputs"):
        replace(model, classes=("a", "b", "a"))
    with pytest.raises(FingerprintError, match="other features"):
        replace(model, statistics=replace(model.statistics, fingerprint="x" * 64))
    with pytest.raises(ValueError, match="solve the readout from them"):
        replace(model, statistics=RidgeStatistics.zero(27, 2))
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature is"):
            replace(model, temperature=temperature)


@dataclass(frozen=True, eq=False)
class Cautious(Predictor):
    share: Fraction = 0.5

    outputs_of = probabilities = stored = NotImplemented

    def __post_init__(self) -> None:
        check_fields(self)


def test_the_settings_of_a_predictor_are_checked_by_their_types() -> None:
    assert Cautious(0.25).share == 0.25
    with pytest.raises(ValueError, match="share is 2; give a number, 0 or more, at most 1"):
        Cautious(2)

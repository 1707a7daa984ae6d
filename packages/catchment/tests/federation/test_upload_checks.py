"""What no data can have is refused, against eigenvalues and by the seven attacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import Array, Recording, Reservoir
from catchment.errors import UploadError
from catchment.features import EchoState
from catchment.federation import check_statistics, moment_matrix
from catchment.readout import FixedPoint, RidgeStatistics, accumulate, pack, unpack

pytestmark = pytest.mark.processor

NAMES = ("feature_sum", "target_sum", "gram", "cross", "target_gram")


def statistics(
    seed: int, n: int = 30, F: int = 6, K: int = 2, scale: float = 1.0
) -> RidgeStatistics:
    rng = np.random.default_rng(seed)
    z, y = rng.normal(size=(n, F)), scale * rng.normal(size=(n, K))
    return RidgeStatistics.from_states(z, y, fingerprint="f")


def code(bad: RidgeStatistics, **settings: object) -> str:
    with pytest.raises(UploadError) as caught:
        check_statistics(bad, fingerprint="f", **settings)  # type: ignore[arg-type]
    return caught.value.code


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 40),
    st.integers(1, 12),
    st.integers(1, 3),
    st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_statistics_of_any_data_pass(seed: int, n: int, F: int, K: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    z, y = rng.normal(size=(n, F)), scale * rng.normal(size=(n, K))
    z[:, : F // 3] = 1.0  # constants, and features that repeat each other
    z[:, -1] = z[:, 0]
    weight = rng.uniform(0, 2, n)
    s = RidgeStatistics.from_states(z, y, weight=weight, fingerprint="f")
    check_statistics(s, fingerprint="f", n_targets=K)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(-6, 0))
def test_the_verdict_is_that_of_the_eigenvalues(seed: int, exponent: float) -> None:
    """Statistics pushed toward the impossible are refused when an eigenvalue says so."""
    s = statistics(seed, n=12)
    rng = np.random.default_rng(seed)
    G = unpack(s.gram)
    v = rng.normal(size=len(G))
    v /= np.linalg.norm(v)
    pushed = replace(s, gram=pack(G - 10.0**exponent * np.linalg.norm(G) * np.outer(v, v)))
    M = moment_matrix(pushed)
    diagonal = M.diagonal()
    root = np.sqrt(np.abs(diagonal))
    smallest = float(np.linalg.eigvalsh(M / np.outer(root, root))[0])
    possible = diagonal.min() >= 0 and smallest > -1e-8
    if abs(smallest) < 1e-6:
        return  # where rounding decides
    if possible:
        check_statistics(pushed, fingerprint="f")
    else:
        assert code(pushed) == "moments"


def test_large_targets_do_not_hide_a_small_impossible_block() -> None:
    s = statistics(0, scale=1e7)
    G = unpack(s.gram)
    G[0, 1] = G[1, 0] = 1.01 * np.sqrt(G[0, 0] * G[1, 1])
    assert code(replace(s, gram=pack(G))) == "moments"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, -1])
def test_numbers_that_are_not_finite_are_named_as_such(name: str, value: float, place: int) -> None:
    s = statistics(1)
    array: Array = getattr(s, name).copy()
    array.flat[place] = value
    bad = replace(s, **{name: array})  # type: ignore[arg-type]
    assert code(bad) in ("not-finite", "moments")
    if not np.isinf(value):
        assert code(bad) == "not-finite"
    assert code(replace(s, weight=value)) == "count"


def test_each_fault_has_its_own_code() -> None:
    s = statistics(2)
    assert code(replace(s, fingerprint="other")) == "fingerprint"
    assert code(s, n_targets=3) == "shape"
    assert code(replace(s, weight=-1.0)) == "count"
    assert code(s, state_bound=0.1) == "bound"
    assert code(s, state_bound=np.array([9.0, 9, 9, 9, 9, 0.1])) == "bound"
    assert code(s, one_hot=True) == "classes"
    check_statistics(s, fingerprint="f", n_targets=2, state_bound=10.0)


def test_one_hot_targets_pass_and_others_do_not() -> None:
    rng = np.random.default_rng(3)
    z, labels = rng.normal(size=(20, 3)), rng.integers(0, 4, 20)
    y = np.eye(4)[labels]
    weight = rng.uniform(0.5, 2, 20)
    for w in (None, weight):
        good = RidgeStatistics.from_states(z, y, weight=w, fingerprint="f")
        check_statistics(good, fingerprint="f", one_hot=True)
    for targets in (20 * y, -y, y + np.roll(y, 1, axis=1), rng.normal(size=y.shape)):
        bad = RidgeStatistics.from_states(z, targets, fingerprint="f")
        assert code(bad, one_hot=True) == "classes"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bias": True, "input": False},
        {"pool": "mean_std", "segments": 2, "bias": True},
        {"pool": "max", "state": False},
    ],
)
def test_bounds_hold_for_every_kind_of_feature(settings: dict[str, object]) -> None:
    recipe = Reservoir(units=(6, 5), inputs=2, leak_rate=1.0, input_scaling=5.0, seed=1)
    features = EchoState.of(recipe, **settings)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    bounds = features.bounds
    assert bounds.shape == (features.n_features,)
    rows = np.concatenate(features.rows([100 * rng.normal(size=(40, 2)) for _ in range(5)]))
    assert (np.abs(rows) <= bounds).all()
    names = features.names()
    inputs = np.array(["u" in name for name in names])
    np.testing.assert_array_equal(np.isinf(bounds), inputs)


def test_units_without_a_bound_have_none() -> None:
    recipe = Reservoir(units=4, inputs=1, activation="relu")
    features = EchoState.of(recipe, input=False)
    assert np.isinf(features.bounds).all()


def test_real_statistics_pass_their_own_bounds() -> None:
    features = EchoState.of(Reservoir(units=20, inputs=1), washout=3)
    rng = np.random.default_rng(0)
    s = accumulate(features, [Recording(rng.normal(size=(80, 1)), rng.normal(size=(80, 1)))])
    check_statistics(s, fingerprint=features.fingerprint, state_bound=features.bounds)
    assert s.n_rows == 77


def test_whole_numbers_of_features_without_a_bound_pass() -> None:
    rng = np.random.default_rng(0)
    grid = FixedPoint(8, ((2, 8), (2, 7)))
    z, y = rng.integers(-128, 129, size=(30, 4)) / 128, np.eye(3)[rng.integers(0, 3, 30)]
    whole = RidgeStatistics.from_states(z, y, fingerprint="f", fixed=grid)
    check_statistics(whole, fingerprint="f", one_hot=True, fixed=grid)

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from catchment import Array
from catchment.data import Moments, Recording, Scaler
from catchment.errors import UploadError


def channels(n: int = 120, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    u = rng.normal([0.0, 1000.0, -3.0], [1.0, 0.5, 20.0], size=(n, 3))
    u[rng.random(u.shape) < 0.1] = np.nan
    return u


def test_the_scaler_agrees_with_sklearn_on_data_with_gaps() -> None:
    u = channels()
    ours = Scaler.fit([Recording(u[:50]), Recording(u[50:])])
    theirs = StandardScaler().fit(u)
    np.testing.assert_allclose(ours.mean, theirs.mean_)
    np.testing.assert_allclose(ours.scale, theirs.scale_, rtol=1e-7)
    np.testing.assert_allclose(ours(u), theirs.transform(u), atol=1e-6)
    np.testing.assert_allclose(ours.undo(ours(u)), u)


def of_sum(clients: dict[str, list[Recording]]) -> Scaler:
    return Scaler.from_moments(reduce(add, map(Moments.of, clients.values())))


@given(cuts=st.lists(st.integers(1, 119), max_size=6, unique=True))
def test_any_split_over_clients_gives_the_scaler_of_the_pool(cuts: list[int]) -> None:
    u = channels()
    parts = np.split(u, sorted(cuts))
    clients = {f"c{k}": [Recording(part)] for k, part in enumerate(parts)}
    ours, theirs = of_sum(clients), StandardScaler().fit(u)
    np.testing.assert_allclose(ours.mean, theirs.mean_)
    np.testing.assert_allclose(ours.scale, theirs.scale_, rtol=1e-7)


def test_the_order_of_clients_does_not_matter() -> None:
    parts = {name: [Recording(channels(seed=k))] for k, name in enumerate("abcd")}
    turned = dict(reversed(parts.items()))
    assert of_sum(parts).mean.tobytes() == of_sum(turned).mean.tobytes()


@given(cut=st.integers(0, 120))
def test_taking_out_what_was_added(cut: int) -> None:
    u = channels()
    assert Moments.of([u]) - Moments.of([u[:cut]]) == Moments.of([u[cut:]])


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 / 3, -1e-20])
@pytest.mark.parametrize("n", [1, 3, 100_000])
def test_a_constant_channel_has_scale_one(value: float, n: int) -> None:
    parts = [Moments.of([np.full(n, value)]) for _ in range(7)]
    scaler = Scaler.from_moments(reduce(add, parts))
    np.testing.assert_array_equal(scaler.scale, [1.0])
    np.testing.assert_allclose(scaler.mean, [value], atol=2.0**-60)


def test_tiny_channels_are_scaled_all_the_same() -> None:
    u = 1e-9 * np.random.default_rng(0).normal(size=(50, 1))
    np.testing.assert_allclose(Scaler.fit([Recording(u)]).scale, u.std(axis=0))


def test_a_channel_without_values_is_left_alone() -> None:
    u = np.array([[1.0, np.nan], [3.0, np.nan]])
    moments = Moments.of([u])
    assert np.isnan(moments.mean[1])
    assert np.isnan(moments.variance[1])
    scaler = Scaler.from_moments(moments)
    np.testing.assert_array_equal(scaler.mean, [2.0, 0.0])
    np.testing.assert_array_equal(scaler.scale, [1.0, 1.0])


def test_apply_keeps_everything_but_the_inputs() -> None:
    sequence = Recording.labeled(channels(3), 1, 3, weight=0.3)
    (scaled,) = Scaler(np.zeros(3), np.full(3, 2.0)).apply([sequence])
    np.testing.assert_array_equal(scaled.u, sequence.u / 2)
    assert scaled.per_step is False
    assert scaled.weight == 0.3
    np.testing.assert_array_equal(cast(Array, scaled.y), cast(Array, sequence.y))


def test_each_client_can_be_scaled_by_itself() -> None:
    clients = {name: [Recording(channels(seed=k))] for k, name in enumerate("ab")}
    for own in clients.values():
        (scaled,) = Scaler.fit(own).apply(own)
        expected = StandardScaler().fit_transform(own[0].u)
        np.testing.assert_allclose(scaled.u, expected, atol=1e-6)


def test_wrong_arguments_are_refused() -> None:
    one, two = Moments.of([np.zeros((2, 1))]), Moments.of([np.zeros((2, 2))])
    with pytest.raises(UploadError, match="do not add"):
        one + two
    with pytest.raises(TypeError, match="cannot combine Moments with int"):
        one + cast(Any, 3)
    with pytest.raises(ValueError, match="more values than were added"):
        one - (one + one)
    with pytest.raises(ValueError, match="infinite at row 0"):
        Moments.of([[np.inf]])
    with pytest.raises(ValueError, match="values of 1 and 2 channels"):
        Moments.of([Recording(np.zeros((2, 1))), Recording(np.zeros((2, 2)))])
    with pytest.raises(ValueError, match="no recordings"):
        Scaler.fit([])
    with pytest.raises(ValueError, match="2 channels, the scaler was fitted on 1"):
        Scaler(np.zeros(1), np.ones(1))(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="positive"):
        Scaler(np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match="vectors of one length"):
        Scaler(np.zeros(2), np.ones(1))
    assert one != 3


@pytest.mark.parametrize(
    ("mean", "scale"),
    [(2e12, 1.0), (-2e12, 1.0), (np.nan, 1.0), (np.inf, 1.0)]
    + [(0.0, bad) for bad in (0.0, -1.0, 1e-13, 1e13, np.nan, np.inf)],
)
def test_numbers_outside_the_public_bounds_are_refused(mean: float, scale: float) -> None:
    with pytest.raises(ValueError, match=r"channel 1 has mean .* change the unit of the channel"):
        Scaler(np.array([0.0, mean]), np.array([1.0, scale]))
    Scaler(np.array([1e12, -1e12]), np.array([1e-12, 1e12]))


def test_scalers_of_equal_numbers_are_equal() -> None:
    one, other = (Scaler(np.array([1.0, 2.0]), np.array([3.0, 4.0])) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != Scaler(np.array([1.0, 2.0]), np.array([3.0, 5.0]))
    assert one != "none"

"""Diagnostics on reservoirs whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from catchment import Array
from catchment.features import Reservoir
from catchment.features.echo_state import MixedActivation, Purpose, Uniform, Words, uniform
from catchment_lab import echo_state_check, effective_spectral_radius, kernel_rank, memory_capacity

pytestmark = pytest.mark.processor


def built(recipe: Reservoir) -> Reservoir:
    return recipe


def delay_line(units: int, weight: float = 1.0) -> Reservoir:
    W = weight * np.eye(units, k=-1)
    return Reservoir.from_matrices(W, np.eye(units, 1), activation="identity")


def linear_step(reservoir: Reservoir, index: int) -> Array:
    layer = reservoir.layers[index]
    W = (layer.leak * layer.gain)[:, None] * layer.W.to_dense()
    return W + np.diag(1.0 - layer.leak)


@pytest.mark.parametrize(
    "recipe",
    [
        Reservoir(units=80, leak_rate=0.3),
        Reservoir(units=80, density=1.0, leak_rate=Uniform(0.1, 1.0), gain=1.7),
        Reservoir(units=(60, 40), leak_rate=(1.0, 0.05), topology=("random", "ring")),
        Reservoir(units=30, connections=0, leak_rate=0.25),
        Reservoir(units=520, leak_rate=0.02),
    ],
)
def test_effective_radius_agrees_with_dense_eigenvalues(recipe: Reservoir) -> None:
    reservoir = built(recipe)
    expected = [
        np.abs(np.linalg.eigvals(linear_step(reservoir, index))).max()
        for index in range(len(reservoir.layers))
    ]
    np.testing.assert_allclose(effective_spectral_radius(reservoir), expected, rtol=1e-8)


def test_effective_radius_follows_plasticity() -> None:
    reservoir = built(Reservoir(units=20, topology="ring", spectral_radius=0.5, leak_rate=1.0))
    adapted = reservoir.with_plasticity(np.full(20, 3.0), np.zeros(20))
    assert effective_spectral_radius(adapted) == pytest.approx((1.5,))


def test_a_contracting_reservoir_forgets_its_start() -> None:
    report = echo_state_check(built(Reservoir(units=50, inputs=3, spectral_radius=0.8)))
    assert report.converged
    assert report.steps is not None
    assert report.distance.shape == (2000,)
    assert (report.distance[report.steps - 1 :] <= 1e-12).all()
    assert report.distance[report.steps - 2] > 1e-12


def test_a_linear_unit_forgets_at_its_own_rate() -> None:
    reservoir = Reservoir.from_matrices([[0.5]], [[1.0]], activation="identity")
    report = echo_state_check(reservoir, steps=60, tolerance=1e-6)
    np.testing.assert_allclose(report.distance[:20], 2.0 * 0.5 ** np.arange(1, 21), rtol=1e-9)
    # 2 / 2^n first falls to 1e-6 at n = 21.
    assert report.steps == 21


def test_a_delay_line_forgets_in_as_many_steps_as_units() -> None:
    assert echo_state_check(delay_line(7)).steps == 7


def test_one_step_is_enough_without_recurrence() -> None:
    assert echo_state_check(built(Reservoir(units=5, connections=0, leak_rate=1.0))).steps == 1


@pytest.mark.parametrize("activation", ["tanh", "identity"])
def test_an_expanding_reservoir_does_not_forget(activation: str) -> None:
    recipe = Reservoir(
        units=40, spectral_radius=3.0, leak_rate=1.0, input_scaling=0.01, activation=activation
    )
    report = echo_state_check(built(recipe))
    assert not report.converged
    assert report.steps is None
    assert report.distance[-1] > 0.1


def test_the_input_decides_whether_the_start_is_forgotten() -> None:
    # Without input two fixed points attract; a strong one drives the unit through both.
    reservoir = Reservoir.from_matrices([[1.5]], [[1.0]])
    assert not echo_state_check(reservoir, np.zeros((500, 1))).converged
    assert echo_state_check(reservoir, np.full((500, 1), 3.0)).converged


def test_echo_state_check_of_a_stack_covers_all_layers() -> None:
    deep = built(Reservoir(units=(30, 20), spectral_radius=(0.5, 4.0), leak_rate=1.0))
    shallow = Reservoir.of_layers(deep.layers[:1])
    assert echo_state_check(shallow).converged
    assert not echo_state_check(deep).converged


@pytest.mark.parametrize("units", [1, 2, 30])
def test_a_delay_line_remembers_one_step_less_than_it_has_units(units: int) -> None:
    capacity = memory_capacity(delay_line(units))
    np.testing.assert_allclose(capacity.per_delay[: units - 1], 1.0, rtol=1e-9)
    assert capacity.total == pytest.approx(units - 1, abs=0.1)
    assert len(capacity.per_delay) == 2 * units


def test_a_linear_ring_remembers_nearly_as_much_as_it_has_units() -> None:
    recipe = Reservoir(
        units=30, topology="ring", spectral_radius=0.95, leak_rate=1.0, activation="identity"
    )
    assert 27.0 < memory_capacity(built(recipe), 100).total < 30.5


def test_saturation_costs_memory() -> None:
    def total(input_scaling: float) -> float:
        recipe = Reservoir(units=40, leak_rate=1.0, input_scaling=input_scaling, bias_scaling=0.0)
        return memory_capacity(built(recipe)).total

    assert total(0.05) > 1.5 * total(5.0)


def test_memory_capacity_agrees_with_scikit_learn() -> None:
    reservoir = built(Reservoir(units=25, inputs=2, seed=1))
    capacity = memory_capacity(reservoir, 6, steps=1000, seed=3)
    signal = uniform(Words(seed=3, layer=0, purpose=Purpose.PROBE), 1106, -1.0, 1.0)
    x = reservoir.states(np.stack([signal, signal], axis=1))
    for delay in (1, 6):
        y = np.roll(signal, delay)
        readout = LinearRegression().fit(x[106:606], y[106:606])
        r = np.corrcoef(readout.predict(x[606:]), y[606:])[0, 1]
        assert capacity.per_delay[delay - 1] == pytest.approx(r**2, rel=1e-6)


def test_a_dead_reservoir_remembers_nothing() -> None:
    capacity = memory_capacity(built(Reservoir(units=5, input_scaling=0.0, bias_scaling=0.0)))
    assert capacity.total < 1e-9


def test_kernel_rank_of_linear_reservoirs() -> None:
    assert kernel_rank(delay_line(12)) == 12
    assert kernel_rank(delay_line(12), steps=4) == 4
    assert kernel_rank(delay_line(12), 5) == 5
    # Two copies of a line add no direction.
    W = np.kron(np.eye(2), np.eye(6, k=-1))
    twins = Reservoir.from_matrices(W, np.tile(np.eye(6, 1), (2, 1)), activation="identity")
    assert kernel_rank(twins) == 6


def test_kernel_rank_counts_the_same_in_groups() -> None:
    reservoir = built(Reservoir(units=70, inputs=2, activation=MixedActivation(tanh=0.5, sin=0.5)))
    inputs = uniform(Words(seed=0, layer=0, purpose=Purpose.PROBE), 150 * 40 * 2, -1.0, 1.0)
    last = np.array([x[-1] for x in reservoir.run(list(inputs.reshape(150, 40, 2)))])
    expected = np.linalg.matrix_rank(last, rtol=1e-3)
    assert kernel_rank(reservoir, 150, steps=40) == expected
    assert 10 < expected < 70


def test_a_dead_reservoir_has_rank_zero() -> None:
    assert kernel_rank(built(Reservoir(units=5, input_scaling=0.0, bias_scaling=0.0))) == 0


def test_wrong_arguments_are_named() -> None:
    reservoir = built(Reservoir(units=50))
    with pytest.raises(ValueError, match="steps is 90; give more than twice the 50 units"):
        memory_capacity(reservoir, steps=90)
    with pytest.raises(ValueError, match="max_delay is 0"):
        memory_capacity(reservoir, 0)
    with pytest.raises(ValueError, match="no inputs"):
        memory_capacity(built(Reservoir(units=5, inputs=0)))
    with pytest.raises(ValueError, match="steps is 0"):
        echo_state_check(reservoir, steps=0)
    with pytest.raises(ValueError, match="tolerance is"):
        echo_state_check(reservoir, tolerance=0.0)
    with pytest.raises(ValueError, match="streams is 0"):
        kernel_rank(reservoir, 0)


def test_states_that_overflow_are_refused() -> None:
    reservoir = built(Reservoir(units=9, spectral_radius=5.0, leak_rate=1.0, activation="identity"))
    with pytest.raises(ValueError, match="grow without bound; lower the spectral radius"):
        memory_capacity(reservoir)
    with pytest.raises(ValueError, match="grow without bound"):
        kernel_rank(reservoir, steps=1000)

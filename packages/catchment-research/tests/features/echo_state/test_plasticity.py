"""Intrinsic plasticity against the numeric gradient of the divergence, and a plain loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from catchment import Array, Reservoir
from catchment.features.echo_state import ACTIVATIONS
from catchment.federation import WeightedSum
from catchment_research.plasticity import IntrinsicPlasticity, plasticity_of

pytestmark = pytest.mark.slow

Density = Callable[[float], float]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
DRIVE = (0.3, 0.8)  # mean and standard deviation of the Gaussian drive of the one unit

GAUSSIAN_CASES = [
    (0.0, 0.1, 1.0, 0.0),
    (0.0, 0.5, 0.7, 0.2),
    (0.2, 0.5, 1.3, -0.4),
    (-0.3, 0.25, 0.4, 0.1),
]
EXPONENTIAL_CASES = [(0.2, 1.0, 0.0), (0.1, 0.6, -1.5), (0.4, 2.0, 0.5)]


def divergence(activation: str, target: Density, gain: float, shift: float) -> float:
    """Return KL(output || target) of one unit by its definition, integrated over outputs."""
    lowest = -1.0 if activation == "tanh" else 0.0

    def drive_and_slope(y: float) -> tuple[float, float]:
        if activation == "tanh":
            return (np.arctanh(y) - shift) / gain, gain * (1 - y * y)
        return (np.log(y / (1 - y)) - shift) / gain, gain * y * (1 - y)

    def integrand(y: float) -> float:
        p, slope = drive_and_slope(y)
        density = norm.pdf(p, *DRIVE) / slope
        return 0.0 if density < 1e-300 else density * np.log(density / target(y))

    edge = 1e-12
    value, _ = quad(integrand, lowest + edge, 1 - edge, limit=400, epsabs=1e-12, epsrel=1e-12)
    return float(value)


def numeric_gradient(activation: str, target: Density, gain: float, shift: float) -> Array:
    h = 1e-4

    def slope(at: Callable[[float], float]) -> float:
        # Fourth order, so that the step's own error is far below what is tested.
        return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)

    return np.array(
        [
            slope(lambda d: divergence(activation, target, gain + d, shift)),
            slope(lambda d: divergence(activation, target, gain, shift + d)),
        ]
    )


def followed_gradient(
    rule: IntrinsicPlasticity, activation: str, gain: float, shift: float
) -> Array:
    """Return what the compiled rule descends, in expectation over the drive."""
    alone = Reservoir.from_matrices([[0.0]], [[1.0]], activation=activation)
    start = alone.with_plasticity(np.array([gain]), np.array([shift]))
    eta = rule.learning_rate
    total = np.zeros(2)
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        after = plasticity_of(rule.adapt(start, [[DRIVE[0] + DRIVE[1] * node]]))
        total -= weight * np.array([after[0][0] - gain, after[1][0] - shift]) / eta
    return total


@pytest.mark.parametrize(("mean", "std", "gain", "shift"), GAUSSIAN_CASES)
def test_tanh_units_descend_the_divergence_from_a_gaussian(
    mean: float, std: float, gain: float, shift: float
) -> None:
    rule = IntrinsicPlasticity(target_mean=mean, target_std=std, learning_rate=1e-7)
    ours = followed_gradient(rule, "tanh", gain, shift)
    theirs = numeric_gradient("tanh", lambda y: float(norm.pdf(y, mean, std)), gain, shift)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("mean", "std", "gain", "shift"), GAUSSIAN_CASES)
def test_the_rule_as_printed_is_not_that_gradient(
    mean: float, std: float, gain: float, shift: float
) -> None:
    """Eq. 2 of De Caro et al. (ESANN 2022), which the module documents as a misprint."""
    y = np.tanh(gain * (DRIVE[0] + DRIVE[1] * NODES) + shift)
    printed = float(WEIGHTS @ (-mean / std**2 + (y / std**2 + 1 - y**2 + mean * y)))
    _, gradient = numeric_gradient("tanh", lambda v: float(norm.pdf(v, mean, std)), gain, shift)
    assert abs(printed - gradient) > 0.1 * abs(gradient)


@pytest.mark.parametrize(("mean", "gain", "shift"), EXPONENTIAL_CASES)
def test_sigmoid_units_descend_the_divergence_from_an_exponential(
    mean: float, gain: float, shift: float
) -> None:
    rule = IntrinsicPlasticity(exponential_mean=mean, learning_rate=1e-7)
    ours = followed_gradient(rule, "sigmoid", gain, shift)
    theirs = numeric_gradient("sigmoid", lambda y: float(np.exp(-y / mean) / mean), gain, shift)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def plain_loop(
    rule: IntrinsicPlasticity, reservoir: Reservoir, us: list[Array]
) -> tuple[Array, Array, WeightedSum]:
    """Return gains, shifts and the moments of all drives, one unit and one lane at a time."""
    gain, shift = plasticity_of(reservoir)
    n, total, squares = 0.0, np.zeros(len(gain)), np.zeros(len(gain))
    edges = np.cumsum([0, *(layer.n_units for layer in reservoir.layers)])
    for _ in range(rule.epochs):
        for first in range(0, len(us), rule.batch):
            batch = us[first : first + rule.batch]
            states = [np.zeros(reservoir.n_units) for _ in batch]
            for t in range(max(map(len, batch))):
                moving = [k for k, u in enumerate(batch) if t < len(u)]
                counted = moving if t >= rule.washout else []
                n += len(counted)
                below = [u[t] if t < len(u) else u[0] for u in batch]
                for layer, (begin, end) in zip(reservoir.layers, pairwise(edges), strict=True):
                    W, W_in = layer.W.to_dense(), layer.W_in.to_dense()
                    drives = {
                        k: W @ states[k][begin:end] + W_in @ below[k] + layer.bias for k in moving
                    }
                    for i in range(layer.n_units):
                        j = begin + i
                        name = ACTIVATIONS[layer.activation[i]]
                        ds, dg = 0.0, 0.0
                        g, s = gain[j], shift[j]
                        for k in moving:
                            p = drives[k][i]
                            y = output(name, g * p + s)
                            states[k][j] += layer.leak[i] * (y - states[k][j])
                            if k in counted:
                                d = descent(rule, name, y)
                                ds, dg = ds + d, dg + d * p
                                total[j] += p
                                squares[j] += p * p
                        if counted and name in ("tanh", "sigmoid"):
                            shift[j] += rule.learning_rate * ds / len(counted)
                            gain[j] += rule.learning_rate * (1 / g + dg / len(counted))
                    below = [state[begin:end] for state in states]
    return gain, shift, WeightedSum((total, squares), n)


def output(name: str, value: float) -> float:
    outputs = {
        "tanh": float(np.tanh(value)),
        "sigmoid": float(1 / (1 + np.exp(-value))),
        "relu": max(value, 0.0),
        "sin": float(np.sin(value)),
        "identity": value,
    }
    return outputs[name]


def descent(rule: IntrinsicPlasticity, name: str, y: float) -> float:
    m, v, e = rule.target_mean, rule.target_std**2, rule.exponential_mean
    if name == "tanh" and rule.equation == "printed":
        # Eq. 2 of De Caro et al., typed from the paper: Delta b without its eta.
        return -((-m / v) + (y / v + 1 - y**2 + m * y))
    if name == "tanh":
        return -(-m / v + y / v * (2 * v + 1 - y * y + m * y))
    return 1 - (2 + 1 / e) * y + y * y / e


def ragged(rng: np.random.Generator, n: int, inputs: int) -> list[Array]:
    return [rng.uniform(-1, 1, (int(length), inputs)) for length in rng.integers(3, 17, n)]


@pytest.mark.parametrize("units", [7, (6, 5)])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
@pytest.mark.parametrize(("n", "batch", "washout"), [(1, 32, 0), (7, 3, 0), (40, 32, 4)])
def test_it_is_the_plain_loop(
    units: int | tuple[int, ...], activation: str, n: int, batch: int, washout: int
) -> None:
    reservoir = Reservoir(units=units, inputs=2, activation=activation, leak_rate=0.4, seed=3)
    us = ragged(np.random.default_rng(n), n, 2)
    rule = IntrinsicPlasticity(
        target_mean=0.1, target_std=0.4, learning_rate=5e-3, epochs=2, batch=batch, washout=washout
    )
    gain, shift, _ = plain_loop(rule, reservoir, us)
    ours = plasticity_of(rule.adapt(reservoir, us))
    np.testing.assert_allclose(ours[0], gain, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours[1], shift, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("n", "batch", "washout"), [(1, 32, 0), (7, 3, 0), (40, 32, 4)])
def test_the_printed_equation_is_the_papers_letter_by_letter(
    n: int, batch: int, washout: int
) -> None:
    reservoir = Reservoir(units=(6, 5), inputs=2, leak_rate=0.4, seed=3)
    us = ragged(np.random.default_rng(n), n, 2)
    rule = IntrinsicPlasticity(
        target_mean=0.1, target_std=0.4, learning_rate=5e-3, epochs=2, batch=batch,
        washout=washout, equation="printed",
    )  # fmt: skip
    gain, shift, _ = plain_loop(rule, reservoir, us)
    ours = plasticity_of(rule.adapt(reservoir, us))
    np.testing.assert_allclose(ours[0], gain, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours[1], shift, rtol=1e-12, atol=1e-14)
    corrected = plasticity_of(replace(rule, equation="corrected").adapt(reservoir, us))
    assert np.abs(corrected[1] - ours[1]).max() > 1e-3


def one_sequence_after_another(
    rule: IntrinsicPlasticity, reservoir: Reservoir, us: list[Array]
) -> tuple[Array, Array]:
    """Return gains and shifts after one update for each batch, whose steps are taken in turn."""
    (layer,) = reservoir.layers
    W, W_in, names = layer.W.to_dense(), layer.W_in.to_dense(), layer.activation
    gain, shift = plasticity_of(reservoir)
    for _ in range(rule.epochs):
        for first in range(0, len(us), rule.batch):
            descents = []
            for u in us[first : first + rule.batch]:
                x = np.zeros(len(gain))
                for t, now in enumerate(u):
                    p = W @ x + W_in @ now + layer.bias
                    y = np.array(
                        [
                            output(ACTIVATIONS[k], v)
                            for k, v in zip(names, gain * p + shift, strict=True)
                        ]
                    )
                    x = (1 - layer.leak) * x + layer.leak * y
                    if t >= rule.washout:
                        d = [
                            descent(rule, ACTIVATIONS[k], v) for k, v in zip(names, y, strict=True)
                        ]
                        descents.append((np.array(d), np.array(d) * p))
            if descents:
                ds, dg = np.mean(descents, axis=0)
                gain, shift = (
                    gain + rule.learning_rate * (1 / gain + dg),
                    shift + rule.learning_rate * ds,
                )
    return gain, shift


@pytest.mark.parametrize("equation", ["corrected", "printed"])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
@pytest.mark.parametrize(("n", "batch", "washout"), [(1, 1, 0), (7, 3, 2), (45, 40, 4)])
def test_one_update_follows_a_batch(
    equation: Any, activation: str, n: int, batch: int, washout: int
) -> None:
    reservoir = Reservoir(units=6, inputs=2, activation=activation, leak_rate=0.4, seed=3)
    us = ragged(np.random.default_rng(n), n, 2)
    rule = IntrinsicPlasticity(
        target_mean=0.1, target_std=0.4, learning_rate=5e-2, epochs=2, batch=batch,
        washout=washout, updates="batch", equation=equation,
    )  # fmt: skip
    gain, shift = one_sequence_after_another(rule, reservoir, us)
    ours = plasticity_of(rule.adapt(reservoir, us))
    np.testing.assert_allclose(ours[0], gain, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours[1], shift, rtol=1e-12, atol=1e-14)


def test_the_layers_of_a_stack_wait_for_the_end_of_a_batch() -> None:
    """With gains that stand still, the lower layer moves as if it were alone."""
    stack = Reservoir(units=(6, 5), inputs=2, leak_rate=0.4, seed=3)
    us = ragged(np.random.default_rng(0), 9, 2)
    rule = IntrinsicPlasticity(target_std=0.4, learning_rate=5e-2, updates="batch", batch=9)
    gain, shift = one_sequence_after_another(rule, Reservoir.of_layers([stack.layers[0]]), us)
    ours = plasticity_of(rule.adapt(stack, us))
    np.testing.assert_allclose(ours[0][:6], gain, rtol=1e-12)
    np.testing.assert_allclose(ours[1][:6], shift, rtol=1e-12, atol=1e-14)
    assert (ours[0][6:] != 1).all()


def test_a_batchs_update_descends_the_divergence_of_all_its_steps() -> None:
    """Finite differences of what depends on gain and shift in the divergence of the outputs."""
    rng = np.random.default_rng(5)
    us = [rng.normal(0.3, 0.8, (length, 1)) for length in (30, 50, 20)]
    every = np.concatenate(us)[:, 0]
    mean, std, gain, shift, eta, h = 0.1, 0.3, 0.8, -0.2, 1e-6, 1e-5
    alone = Reservoir.from_matrices([[0.0]], [[1.0]])
    start = alone.with_plasticity(np.array([gain]), np.array([shift]))
    rule = IntrinsicPlasticity(
        target_mean=mean, target_std=std, learning_rate=eta, updates="batch", batch=50
    )

    def divergence_of_sample(g: float, s: float) -> float:
        y = np.tanh(g * every + s)
        return float(np.mean(-np.log(g * (1 - y**2)) + (y - mean) ** 2 / (2 * std**2)))

    after = plasticity_of(rule.adapt(start, us))
    moved = [(after[0][0] - gain) / eta, (after[1][0] - shift) / eta]
    slopes = [
        (divergence_of_sample(gain + h, shift) - divergence_of_sample(gain - h, shift)) / (2 * h),
        (divergence_of_sample(gain, shift + h) - divergence_of_sample(gain, shift - h)) / (2 * h),
    ]
    np.testing.assert_allclose(moved, [-slope for slope in slopes], rtol=1e-6)


def test_moments_of_the_drives_are_those_of_the_plain_loop() -> None:
    reservoir = Reservoir(units=(6, 5), inputs=2, seed=4)
    us = ragged(np.random.default_rng(0), 9, 2)
    still = IntrinsicPlasticity(learning_rate=0.0, washout=2)
    ours = still.drives(reservoir, us)
    _, _, theirs = plain_loop(still, reservoir, us)
    assert ours.weight == theirs.weight == sum(max(len(u) - 2, 0) for u in us)
    for one, other in zip(ours.arrays, theirs.arrays, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    halves = still.drives(reservoir, us[:4]) + still.drives(reservoir, us[4:])
    for one, other, rtol in zip(
        mean_and_std(halves), mean_and_std(ours), (1e-12, 1e-10), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=rtol)


def mean_and_std(drives: WeightedSum) -> tuple[Array, Array]:
    mean, squares = drives.mean()
    return mean, np.sqrt(np.maximum(squares - mean**2, 0.0))


def test_units_of_other_activations_are_left_alone() -> None:
    names = ["tanh", "relu", "sin", "identity", "sigmoid"]
    rng = np.random.default_rng(1)
    reservoir = Reservoir.from_matrices(
        rng.uniform(-0.3, 0.3, (5, 5)), rng.uniform(-1, 1, (5, 1)), activation=names
    )
    gain, shift = plasticity_of(
        IntrinsicPlasticity(learning_rate=1e-2).adapt(reservoir, [rng.uniform(-1, 1, (50, 1))])
    )
    adapted = np.array([name in ("tanh", "sigmoid") for name in names])
    assert ((gain != 1) == adapted).all()
    assert ((shift != 0) == adapted).all()


def test_outputs_come_near_the_target() -> None:
    reservoir = Reservoir(units=60, inputs=1, input_scaling=2.0, seed=2)
    u = np.random.default_rng(0).uniform(-1, 1, (4000, 1))
    rule = IntrinsicPlasticity(target_mean=0.1, target_std=0.2, learning_rate=2e-3, epochs=3)
    (layer,) = rule.adapt(reservoir, [u]).layers
    (before,) = reservoir.layers
    mean, std = mean_and_std(rule.drives(Reservoir.of_layers([layer]), [u]))
    # With leak 1 - a kept, outputs before the leak are had by driving the units by themselves.
    spread = layer.gain * std
    assert abs(np.median(np.tanh(layer.gain * mean + layer.shift)) - 0.1) < 0.03
    assert 0.15 < np.median(np.tanh(spread)) < 0.25
    _, wide = mean_and_std(rule.drives(Reservoir.of_layers([before]), [u]))
    assert np.median(np.tanh(wide)) > 0.4


def test_weights_other_than_gain_and_shift_stay() -> None:
    reservoir = Reservoir(units=20, inputs=1, seed=1)
    adapted = IntrinsicPlasticity().adapt(reservoir, [np.ones((30, 1))])
    before, after = reservoir.layers[0], adapted.layers[0]
    assert before.W is after.W
    assert before.W_in is after.W_in
    assert adapted.fingerprint != reservoir.fingerprint


def test_no_sequences_change_nothing() -> None:
    reservoir = Reservoir(units=5, inputs=1, seed=1)
    gain, shift = plasticity_of(IntrinsicPlasticity().adapt(reservoir, []))
    assert (gain == 1).all()
    assert (shift == 0).all()


def test_divergence_is_an_error_not_a_reservoir_of_nan() -> None:
    reservoir = Reservoir(units=20, inputs=1, input_scaling=2.0, seed=1)
    u = np.random.default_rng(0).uniform(-1, 1, (500, 1))
    with pytest.raises(ArithmeticError, match="learning rate 1"):
        IntrinsicPlasticity(target_std=0.01, learning_rate=1.0).adapt(reservoir, [u])


def test_gains_may_change_their_sign_where_that_is_asked_for() -> None:
    reservoir = Reservoir(units=6, inputs=2, input_scaling=2.0, seed=3)
    us = ragged(np.random.default_rng(1), 5, 2)
    rule = IntrinsicPlasticity(
        target_std=0.1, learning_rate=0.05, epochs=2, updates="batch", gains="any"
    )
    gain, shift = one_sequence_after_another(rule, reservoir, us)
    assert (gain < 0).any()
    ours = plasticity_of(rule.adapt(reservoir, us))
    np.testing.assert_allclose(ours[0], gain, rtol=1e-9)
    np.testing.assert_allclose(ours[1], shift, rtol=1e-9)
    with pytest.raises(ArithmeticError, match=r"learning rate 0\.05; lower it"):
        replace(rule, gains="positive").adapt(reservoir, us)
    in_fixed_point = Reservoir(units=6, inputs=2, seed=3, bits=20)
    with pytest.raises(ValueError, match="gains is 'any'; in fixed point gains stay above 0"):
        rule.adapt(in_fixed_point, us)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_inputs_that_are_not_finite_are_refused(bad: float) -> None:
    reservoir = Reservoir(units=5, inputs=1, seed=1)
    with pytest.raises(ValueError, match="recording 1"):
        IntrinsicPlasticity().adapt(reservoir, [[0.0], [bad]])
    with pytest.raises(ValueError, match="recording 0"):
        IntrinsicPlasticity().drives(reservoir, [np.zeros((3, 2))])


@pytest.mark.parametrize(
    "settings",
    [
        {"target_std": 0.0},
        {"target_std": np.nan},
        {"exponential_mean": -1.0},
        {"learning_rate": -1e-3},
        {"learning_rate": np.inf},
        {"epochs": 0},
        {"batch": 0},
        {"batch": 33},
        {"updates": "epoch"},
        {"equation": "right"},
        {"gains": "negative"},
        {"washout": -1},
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        IntrinsicPlasticity(**settings)  # type: ignore[arg-type]

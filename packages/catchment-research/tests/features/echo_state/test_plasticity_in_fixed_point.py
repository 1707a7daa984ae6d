"""Plasticity in fixed point against fractions, in any lanes, and on several processors."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from inspect import getmodule
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from catchment import Array, Reservoir
from catchment.features.echo_state import (
    ACTIVATIONS,
    fixed_linear,
    fixed_sigmoid,
    fixed_sin,
    fixed_tanh,
    programs_in_fixed_point,
    rounder,
)
from catchment_research.plasticity import IntrinsicPlasticity, plasticity_of

pytestmark = pytest.mark.slow

RULE = IntrinsicPlasticity(
    target_mean=0.1, target_std=0.3, learning_rate=5e-3, epochs=2, batch=3, washout=2
)


def on(value: Fraction, digits: int) -> Fraction:
    """Return a fraction rounded to binary digits, ties to even."""
    return Fraction(round(value * 2**digits), 2**digits)


def output(name: str, z: Fraction, bits: int) -> Fraction:
    G, top, x = rounder(bits), 1 - 0.5**bits, float(z)
    assert Fraction(x) == z, "an argument is exact in float64"
    if name in ("relu", "identity"):
        linear: Any = fixed_linear
        return Fraction(float(linear.py_func(max(x, 0.0) if name == "relu" else x, G)))
    curved: Any = {"tanh": fixed_tanh, "sigmoid": fixed_sigmoid, "sin": fixed_sin}[name]
    return Fraction(float(curved.py_func(x, G, top)))


class Unit:
    """A unit in all lanes of a batch, in fractions."""

    def __init__(self, name: str, gain: float, shift: float, leak: float, bits: int) -> None:
        self.name, self.bits, self.leak = name, bits, Fraction(leak)
        self.g, self.s = (on(Fraction(value), 32) for value in (gain, shift))
        self.total, self.squares = 0, 0
        self.batch: list[tuple[Fraction, Fraction]] = []

    def step(self, drives: dict[int, Fraction], x: dict[int, Fraction]) -> dict[int, Fraction]:
        """Return the new states of some lanes, and keep what a step of the rule needs."""
        self.lanes = {}
        h = on(self.g, 16)
        for k, drive in drives.items():
            p = min(max(on(drive, 20), Fraction(-64)), Fraction(64))
            z = p * h + on(p * (self.g - h), 30) + on(self.s, 30)
            y = output(self.name, z, self.bits)
            self.lanes[k] = p, y
            x[k] = on((1 - self.leak) * x[k] + self.leak * y, self.bits)
        return x

    def adapt(self, rule: IntrinsicPlasticity, counted: list[int]) -> None:
        held = [self.lanes[k] for k in counted]
        self.total += sum(int(p * 2**20) for p, _ in held)
        self.squares += sum(int(on(p * p, 36) * 2**36) for p, _ in held)
        if rule.updates == "batch":
            self.batch += held
        else:
            self.update(rule, held)

    def update(self, rule: IntrinsicPlasticity, held: list[tuple[Fraction, Fraction]]) -> None:
        """Change gain and shift by the mean over drives and outputs."""
        if not held or self.name not in ("tanh", "sigmoid"):
            return
        m = on(Fraction(rule.target_mean), self.bits)
        if self.name == "tanh" and rule.equation == "printed":
            e = [-1 - on(y * (m - y), 22) for _, y in held]
            f = [on(y - m, 22) for _, y in held]
            c = rule.target_std**2
        elif self.name == "tanh":
            e = [-2 * y for _, y in held]
            f = [on(y * on(y * (m - y), 22) + y - m, 22) for _, y in held]
            c = rule.target_std**2
        else:
            e = [1 - 2 * y for _, y in held]
            f = [on(y * (1 - y), 22) for _, y in held]
            c = rule.exponential_mean
        pairs = list(zip(held, e, f, strict=True))
        E, F = float(sum(e)), float(sum(f))
        pE = float(sum(on(p * one, 30) for (p, _), one, _ in pairs))
        pF = float(sum(on(p * one, 30) for (p, _), _, one in pairs))
        n, slowness, g = float(len(held)), 1 / rule.learning_rate, float(self.g)
        ds = (E - F / c) / (n * slowness)
        dg = (1 / g + (pE - pF / c) / n) / slowness
        self.s = on(Fraction(float(self.s) + ds), 32)
        self.g = on(Fraction(g + dg), 32)


def reference(
    rule: IntrinsicPlasticity, reservoir: Reservoir, us: list[Array]
) -> tuple[list[float], list[float], list[int], list[int]]:
    """Return gains, shifts and the moments of the drives, by the definition."""
    bits = reservoir.bits
    assert bits is not None
    bare = [
        replace(layer, gain=np.ones(layer.n_units), shift=np.zeros(layer.n_units))
        for layer in reservoir.layers
    ]
    programs = programs_in_fixed_point(bare, bits, reservoir.range)
    gain, shift = plasticity_of(reservoir)
    units, first = [], 0
    for program in programs:
        names = [ACTIVATIONS[code] for code in program.activation]
        values = zip(names, gain[first:], shift[first:], program.leak, strict=False)
        units.append([Unit(*value, bits) for value in values])
        first += program.n_units
    for _ in range(rule.epochs):
        for begin in range(0, len(us), rule.batch):
            batch = [reservoir.checked(u) for u in us[begin : begin + rule.batch]]
            states = [[{k: Fraction(0) for k in range(len(batch))} for _ in p] for p in units]
            for t in range(max(map(len, batch))):
                moving = [k for k, u in enumerate(batch) if t < len(u)]
                counted = moving if t >= rule.washout else []
                below = {k: [Fraction(value) for value in batch[k][t]] for k in moving}
                for program, layer, x in zip(programs, units, states, strict=True):
                    extended = {k: [*(one[k] for one in x), *below[k], Fraction(1)] for k in moving}
                    for unit, one, (a, b) in zip(layer, x, pairwise(program.starts), strict=True):
                        entries = list(zip(program.values[a:b], program.columns[a:b], strict=True))
                        drives = {
                            k: sum(Fraction(float(w)) * extended[k][j] for w, j in entries)
                            for k in moving
                        }
                        unit.step({k: Fraction(d) for k, d in drives.items()}, one)
                    for unit in layer:
                        unit.adapt(rule, counted)
                    below = {k: [one[k] for one in x] for k in moving}
            for unit in (unit for layer in units for unit in layer):
                unit.update(rule, unit.batch)
                unit.batch = []
    every = [unit for layer in units for unit in layer]
    return (
        [float(unit.g) for unit in every],
        [float(unit.s) for unit in every],
        [unit.total for unit in every],
        [unit.squares for unit in every],
    )


def ragged(n: int, inputs: int, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1, (int(length), inputs)) for length in rng.integers(3, 15, n)]


@pytest.mark.parametrize("bits", [9, 15, 20, 24])
@pytest.mark.parametrize("units", [6, (5, 4)])
@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_it_is_the_definition_in_fractions(
    bits: int, units: int | tuple[int, ...], activation: str
) -> None:
    recipe = Reservoir(
        units=units, inputs=2, activation=activation, leak_rate=0.4, input_scaling=2.0, seed=3,
        bits=bits,
    )  # fmt: skip
    reservoir = recipe
    us = ragged(5, 2)
    gain, shift, _, _ = reference(RULE, reservoir, us)
    found = plasticity_of(RULE.adapt(reservoir, us))
    assert found[0].tolist() == gain
    assert found[1].tolist() == shift


@pytest.mark.parametrize("updates", ["step", "batch"])
@pytest.mark.parametrize("equation", ["corrected", "printed"])
@pytest.mark.parametrize(("activation", "bits"), [("tanh", 9), ("tanh", 24), ("sigmoid", 20)])
def test_both_readings_and_equations_are_their_definitions(
    updates: Any, equation: Any, activation: str, bits: int
) -> None:
    recipe = Reservoir(
        units=(5, 4), inputs=2, activation=activation, leak_rate=0.4, input_scaling=2.0, seed=3,
        bits=bits,
    )  # fmt: skip
    reservoir = recipe
    rule = replace(RULE, updates=updates, equation=equation, learning_rate=8e-3)
    us = ragged(5, 2)
    gain, shift, _, _ = reference(rule, reservoir, us)
    found = plasticity_of(rule.adapt(reservoir, us))
    assert found[0].tolist() == gain
    assert found[1].tolist() == shift


def test_a_batch_beyond_the_lanes_is_the_same_in_any_order() -> None:
    reservoir = Reservoir(units=40, inputs=2, leak_rate=0.5, seed=4, bits=20)
    us = ragged(40, 2)
    rule = replace(RULE, updates="batch", batch=40, washout=0, learning_rate=0.05)
    one = plasticity_of(rule.adapt(reservoir, us))
    order = np.random.default_rng(2).permutation(40)
    other = plasticity_of(rule.adapt(reservoir, [us[k] for k in order]))
    assert one[0].tobytes() == other[0].tobytes()
    assert one[1].tobytes() == other[1].tobytes()


def test_a_batch_whose_sums_could_overflow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getmodule(plasticity_of), "MOST_STEPS", 20)
    reservoir = Reservoir(units=4, inputs=2, seed=4, bits=20)
    rule = IntrinsicPlasticity(updates="batch", batch=100)
    with pytest.raises(
        ValueError, match="a batch has 30 steps; in fixed point pass a batch of at most"
    ):
        rule.adapt(reservoir, [np.zeros((15, 2))] * 2)


def mixed(bits: int | None = 20) -> Reservoir:
    rng = np.random.default_rng(1)
    names = ["tanh", "relu", "sin", "identity", "sigmoid"]
    return Reservoir.from_matrices(
        rng.uniform(-0.3, 0.3, (5, 5)),
        rng.uniform(-30, 30, (5, 1)),
        leak_rate=[0.3, 0.5, 1.0, 0.2, 0.7],
        activation=names,
        bits=bits,
    )


def test_mixed_activations_and_drives_out_of_range_are_the_definition() -> None:
    reservoir = mixed().with_plasticity(
        np.array([0.01, 1.3, 2.0, 0.5, 300.0]), np.array([0.2, -0.1, 0.0, 1.0, -2.7])
    )
    us = [np.array([[0.1], [8.0], [-3.0], [0.4]] * 3), np.array([[0.3]] * 5)]
    rule = replace(RULE, learning_rate=1e-4)
    gain, shift, _, _ = reference(rule, reservoir, us)
    found = plasticity_of(rule.adapt(reservoir, us))
    assert found[0].tolist() == gain
    assert found[1].tolist() == shift
    assert found[0][1:4].tolist() == gain[1:4]


def test_moments_are_whole_numbers_of_any_order() -> None:
    reservoir = Reservoir(units=(6, 5), inputs=2, seed=4, bits=20)
    us = ragged(9, 2)
    still = IntrinsicPlasticity(learning_rate=0.0, washout=2)
    ours = still.drives(reservoir, us)
    rule = replace(RULE, learning_rate=1e-300, epochs=1)  # adapts by nothing
    _, _, total, squares = reference(rule, reservoir, us)
    assert ours.weight == sum(max(len(u) - 2, 0) for u in us)
    assert ours.arrays[0].tolist() == [k / 2**20 for k in total]
    assert ours.arrays[1].tolist() == [k / 2**36 for k in squares]
    turned = still.drives(reservoir, [*us[4:], *us[:4]])
    for one, other in zip(ours.arrays, turned.arrays, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("n", [3, 8, 13, 32])
def test_the_order_of_lanes_does_not_matter(n: int) -> None:
    reservoir = Reservoir(units=40, inputs=2, leak_rate=0.5, seed=4, bits=20)
    us, rule = ragged(n, 2), replace(RULE, batch=32, washout=0)
    one = plasticity_of(rule.adapt(reservoir, us))
    order = np.random.default_rng(2).permutation(n)
    other = plasticity_of(rule.adapt(reservoir, [us[k] for k in order]))
    assert one[0].tobytes() == other[0].tobytes()
    assert one[1].tobytes() == other[1].tobytes()


@pytest.mark.parametrize("bits", [15, 20, 24])
def test_it_is_plasticity_in_float64_but_for_rounding(bits: int) -> None:
    plain = Reservoir(units=60, inputs=2, input_scaling=1.0, leak_rate=0.5, seed=2)
    us = [np.random.default_rng(k).uniform(-1, 1, (300, 2)) for k in range(6)]
    rule = IntrinsicPlasticity(target_mean=0.1, target_std=0.2, learning_rate=1e-3, epochs=2)
    ours = plasticity_of(rule.adapt(replace(plain, bits=bits), us))
    theirs = plasticity_of(rule.adapt(plain, us))
    near = 40 * 2.0 ** -min(bits, 20)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=near, atol=near)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=near, atol=near)


def test_the_adapted_reservoir_stays_in_fixed_point() -> None:
    reservoir = Reservoir(units=20, inputs=2, seed=1, bits=15)
    adapted = RULE.adapt(reservoir, ragged(4, 2))
    assert adapted.bits == 15
    states = adapted.states(ragged(1, 2)[0])
    assert (states * 2**15 == np.rint(states * 2**15)).all()


def test_divergence_and_gains_out_of_reach_are_errors() -> None:
    reservoir = Reservoir(units=20, inputs=1, input_scaling=2.0, seed=1, bits=20)
    u = np.random.default_rng(0).uniform(-1, 1, (500, 1))
    with pytest.raises(ArithmeticError, match="learning rate 1"):
        IntrinsicPlasticity(target_std=0.01, learning_rate=1.0).adapt(reservoir, [u])
    large = reservoir.with_plasticity(np.full(20, 1e3), np.zeros(20))
    with pytest.raises(ValueError, match=r"gains from 1000 to 1000 .* use bits=None"):
        IntrinsicPlasticity().adapt(large, [u])
    with pytest.raises(ValueError, match=r"target_mean is 2\.0; in fixed point"):
        IntrinsicPlasticity(target_mean=2.0).adapt(reservoir, [u])


PROGRAM = """
import hashlib
import numpy as np
from catchment import Plan, Reservoir, Recording, Reservoir, federate
from catchment.federation.learn import FederatedPlasticity, MomentPlasticity
from catchment.features import IntrinsicPlasticity

reservoir = Reservoir(units=(30, 20), inputs=2, seed=4, leak_rate=0.5, bits=20)
rng = np.random.default_rng(0)
data = {
    name: [Recording(rng.uniform(-1, 1, (30 + 7 * k, 2))) for k in range(n)]
    for name, n in (("a", 3), ("b", 11))
}
rule = IntrinsicPlasticity(target_mean=0.1, target_std=0.3, learning_rate=2e-3, epochs=2)
found = hashlib.sha256()
for kind in (FederatedPlasticity, MomentPlasticity):
    plan = Plan(algorithm=kind(reservoir=reservoir, rule=rule), rounds=2)
    state = federate(plan, data).state
    found.update(state.gain.tobytes() + state.shift.tobytes())
print(found.hexdigest())
"""


@pytest.mark.long
def test_every_processor_has_the_same_gains_and_shifts() -> None:
    found = set()
    for machine in (
        {},
        {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Prescott"},
        {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1"},
    ):
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", PROGRAM],
            env={**os.environ, **machine},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(run.stdout)
    assert len(found) == 1, found

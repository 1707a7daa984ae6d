"""Recipes written down with every setting: what they build, and how it runs, never changes.

The recipes are prepared, so their scales are read and no eigenvalue is solved for. A change that
fails here breaks models that people have saved. For a change of format that is meant,
`python tests/features/echo_state/test_recorded_bits.py` writes the record anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment import Array, Recording, Reservoir, RidgeStatistics
from catchment.features import EchoState
from catchment.features.echo_state import (
    ACTIVATIONS,
    TOPOLOGIES,
    Linspace,
    LogUniform,
    LongTail,
    MixedActivation,
    Uniform,
)
from catchment.readout import accumulate

pytestmark = pytest.mark.processor

FILE = Path(__file__).with_name("recorded_bits.json")
RECORD: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
STEPS, N_STATES, WASHOUT = 120, 8, 20
RIDGE_TASKS = ("random by connections", "deep, one spread per layer")


def fixed_inputs(n_inputs: int) -> Array:
    """Return inputs (T, I) in [-1, 1] from integers, the same on every machine."""
    t, k = np.arange(STEPS)[:, None], np.arange(n_inputs)
    return ((t * t * 7 + t * (11 + 6 * k) + 29 * k) % 101) / 50.0 - 1.0


def state_values(reservoir: Reservoir) -> list[float]:
    """Return a state near the start and one at the end, of units spread over all layers."""
    xs = reservoir.states(fixed_inputs(reservoir.n_inputs))
    units = np.linspace(0, reservoir.n_units - 1, N_STATES // 2).astype(int)
    return [float(x) for t in (3, STEPS - 1) for x in xs[t, units]]


def statistics(reservoir: Reservoir) -> RidgeStatistics:
    """Return the statistics of two sequences whose targets are products of past inputs."""
    u = fixed_inputs(reservoir.n_inputs)
    y = np.stack([np.roll(u[:, 0], 2) * u[:, -1], np.roll(u[:, 0], 5)], axis=1)
    parts = [Recording(u[:70], y[:70]), Recording(u[70:], y[70:])]
    return accumulate(EchoState.of(reservoir, washout=WASHOUT), parts)


def statistics_values(reservoir: Reservoir) -> dict[str, list[float]]:
    """Return all small arrays of the statistics, and every 97th entry of the large ones."""
    found = statistics(reservoir)
    return {
        "n_rows": [float(found.n_rows)],
        "weight": [found.weight],
        "feature_sum": found.feature_sum[::7].tolist(),
        "target_sum": found.target_sum.tolist(),
        "gram": found.gram[::97].tolist(),
        "cross": found.cross[::7].ravel().tolist(),
        "target_gram": found.target_gram.tolist(),
    }


@pytest.mark.parametrize("name", RECORD)
def test_a_recorded_recipe_builds_the_same_bits_and_states(name: str) -> None:
    kept = RECORD[name]
    reservoir = Reservoir.from_json(kept["recipe"])
    assert reservoir.fingerprint == kept["fingerprint"]
    np.testing.assert_allclose(state_values(reservoir), kept["states"], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", RIDGE_TASKS)
def test_a_recorded_task_has_the_same_statistics(name: str) -> None:
    kept = RECORD[name]
    found = statistics_values(Reservoir.from_json(kept["recipe"]))
    assert list(found) == list(kept["statistics"])
    for part, values in found.items():
        expected = np.array(kept["statistics"][part])
        # A sum of terms of both signs is as exact as its largest companions are.
        atol = 1e-13 * np.abs(expected).max()
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=atol, err_msg=part)


@pytest.mark.parametrize("name", RECORD)
def test_a_recorded_recipe_is_written_as_it_was(name: str) -> None:
    recipe = Reservoir.from_json(RECORD[name]["recipe"])
    assert recipe.is_prepared
    assert json.loads(recipe.to_json()).items() >= json.loads(RECORD[name]["recipe"]).items()


def test_the_record_has_every_topology_activation_and_spread() -> None:
    assert len(RECORD) >= 16
    layers = [
        layer
        for kept in RECORD.values()
        for layer in Reservoir.from_json(kept["recipe"]).layer_settings
    ]
    activations = {
        name
        for layer in layers
        for name in (
            dict(layer.activation.parts)
            if isinstance(layer.activation, MixedActivation)
            else [layer.activation]
        )
    }
    kinds = {layer.leak_rate.kind for layer in layers if isinstance(layer.leak_rate, Uniform)}
    assert {layer.wiring.topology for layer in layers} == set(TOPOLOGIES)
    assert activations == set(ACTIVATIONS)
    assert kinds == {"uniform", "log_uniform", "layered", "tail"}


def recipes() -> dict[str, Reservoir]:
    """Return the recipes of the record; what one of them leaves out does not apply to it."""
    base: dict[str, Any] = {
        "units": 60,
        "inputs": 2,
        "topology": "random",
        "random_signs": False,
        "spectral_radius": 0.9,
        "input_scaling": 0.5,
        "input_connections": 2,
        "bias_scaling": 0.2,
        "leak_rate": 0.3,
        "activation": "tanh",
        "gain": 1.0,
        "shift": 0.0,
        "seed": 1,
    }
    shapes: dict[str, dict[str, Any]] = {
        "random by connections": {"connections": 10},
        "random by density": {"density": 0.07, "leak_rate": 1.0, "seed": 2**63 + 5},
        "small world": {"topology": "small_world", "connections": 6, "rewiring": 0.15},
        "scale free": {"topology": "scale_free", "connections": 4, "spectral_radius": 0.7},
        "ring": {"topology": "ring", "leak_rate": 1.0},
        "ring with signs": {"topology": "ring", "random_signs": True, "input_scaling": 1.5},
        "delay line with signs": {
            "topology": "delay_line",
            "random_signs": True,
            "inputs": 1,
            "input_connections": 1,
            "input_scaling": 0.1,
            "bias_scaling": 0.5,
            "spectral_radius": 0.85,
            "leak_rate": 1.0,
        },
        "cycle with jumps": {"topology": "cycle_jumps", "jump": 6, "jump_weight": 0.4},
        "cycle with signed jumps": {
            "topology": "cycle_jumps",
            "jump": 7,
            "jump_weight": 0.6,
            "random_signs": True,
        },
        "permutation": {"topology": "permutation", "random_signs": True, "seed": 12},
        "orthogonal": {"topology": "orthogonal", "units": 24, "spectral_radius": 0.95},
        "sparse inputs, weak, no bias": {
            "connections": 5,
            "inputs": 9,
            "input_connections": 3,
            "input_scaling": 0.05,
            "bias_scaling": 0.0,
        },
        "uniform leaks, mixed units": {
            "connections": 8,
            "leak_rate": Uniform(0.2, 0.9),
            "activation": MixedActivation(tanh=0.55, sigmoid=0.2, relu=0.25),
        },
        "log-uniform leaks, mixed units": {
            "connections": 8,
            "leak_rate": LogUniform(0.05, 1.0),
            "activation": MixedActivation(sin=0.5, tanh=0.3, identity=0.2),
            "spectral_radius": 0.6,
        },
        "layered leaks, gain and shift": {
            "connections": 4,
            "leak_rate": Linspace(0.1, 1.0),
            "activation": "sigmoid",
            "gain": 1.3,
            "shift": -0.1,
        },
        "a tail of slow units": {
            "connections": 10,
            "spectral_radius": 0.95,
            "input_scaling": 0.2,
            "leak_rate": LongTail(0.1, 1.0),
        },
        "deep, one spread per layer": {
            "units": (40, 30),
            "inputs": 3,
            "connections": (10, 6),
            "spectral_radius": (0.9, 0.8),
            "input_scaling": (0.5, 0.3),
            "input_connections": (3, 10),
            "bias_scaling": (0.2, 0.1),
            "leak_rate": (0.8, LogUniform(0.05, 0.5)),
            "activation": ("tanh", MixedActivation(tanh=0.5, identity=0.5)),
            "gain": (1.0, 1.1),
            "shift": (0.0, 0.05),
        },
        "deep, other topologies": {
            "units": (30, 20, 16),
            "topology": ("ring", "random", "small_world"),
            "connections": (None, 5, 4),
            "rewiring": (None, None, 0.2),
            "random_signs": (True, False, False),
            "input_connections": (1, 8, 6),
            "leak_rate": (1.0, 0.4, 0.1),
        },
    }
    return {name: Reservoir(**(base | changes)) for name, changes in shapes.items()}


def write_record() -> None:
    """Write the record anew; never run by the tests."""
    record: dict[str, dict[str, Any]] = {}
    for name, recipe in recipes().items():
        prepared = recipe.prepared()
        reservoir = prepared
        record[name] = {
            "recipe": prepared.to_json(),
            "fingerprint": reservoir.fingerprint,
            "states": state_values(reservoir),
        }
        if name in RIDGE_TASKS:
            record[name]["statistics"] = statistics_values(reservoir)
    FILE.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_record()

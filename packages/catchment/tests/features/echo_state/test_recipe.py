"""Settings of a reservoir: what they accept, what they refuse, and how they travel."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import IntegrityError
from catchment.features import Reservoir
from catchment.features.echo_state import (
    TOPOLOGIES,
    Linspace,
    LogUniform,
    LongTail,
    MixedActivation,
    Uniform,
)


def deep_recipe() -> Reservoir:
    return Reservoir(
        units=(30, 20),
        inputs=4,
        topology=("random", "small_world"),
        connections=(5, 4),
        rewiring=(None, 0.25),
        spectral_radius=(0.95, 0.8),
        input_connections=2,
        leak_rate=(LogUniform(0.05, 1.0), 0.1),
        activation=("relu", MixedActivation(tanh=0.5, sin=0.5)),
        gain=1.5,
        shift=(-0.5, 0.0),
        seed=2**64 - 1,
    )


def rates() -> st.SearchStrategy[float | Uniform]:
    rate = st.floats(0, 1, exclude_min=True)
    pair = st.tuples(rate, rate).map(sorted)
    kinds = st.sampled_from([Uniform, LogUniform, Linspace, LongTail])
    return st.one_of(rate, st.builds(lambda kind, ends: kind(*ends), kinds, pair))


@given(
    units=st.one_of(st.integers(4, 500), st.lists(st.integers(4, 500), min_size=1).map(tuple)),
    topology=st.sampled_from(TOPOLOGIES),
    leak_rate=rates(),
    numbers=st.tuples(*[st.floats(0, 1e6)] * 3),
    seed=st.integers(0, 2**64 - 1),
)
def test_json_brings_back_an_equal_recipe(
    units: int | tuple[int, ...],
    topology: str,
    leak_rate: float | Uniform,
    numbers: tuple[float, float, float],
    seed: int,
) -> None:
    radius, scaling, shift = numbers
    recipe = Reservoir(
        units=units,
        topology=topology,
        spectral_radius=radius,
        input_scaling=scaling,
        leak_rate=leak_rate,
        shift=-shift,
        seed=seed,
    )
    assert Reservoir.from_json(recipe.to_json()) == recipe
    assert Reservoir.from_json(recipe.to_json()).to_json() == recipe.to_json()


def test_json_of_a_prepared_deep_recipe_is_small_exact_and_canonical() -> None:
    recipe = deep_recipe().prepared()
    text = recipe.to_json()
    assert len(text) < 900
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert recipe.scale is not None
    assert json.loads(text)["scale"] == [factor.hex() for factor in recipe.scale]
    back = Reservoir.from_json(text)
    assert back == recipe
    assert hash(back) == hash(recipe)


def test_layers_hold_each_layer_s_own_settings() -> None:
    first, second = deep_recipe().layer_settings
    assert (first.units, first.inputs, second.units, second.inputs) == (30, 4, 20, 30)
    assert (first.spectral_radius, second.spectral_radius) == (0.95, 0.8)
    assert (first.gain, second.gain) == (1.5, 1.5)
    assert (first.wiring.topology, second.wiring.rewiring) == ("random", 0.25)
    assert (first.input_connections, second.input_connections) == (2, 2)
    assert first.wiring.layer != second.wiring.layer


@pytest.mark.parametrize(
    ("topology", "units", "expected"),
    [
        ("random", 3, {"connections": 3}),
        ("random", 50, {"connections": 10, "density": None}),
        ("small_world", 3, {"connections": 2, "rewiring": 0.1}),
        ("small_world", 50, {"connections": 10}),
        ("scale_free", 2, {"connections": 2}),
        ("cycle_jumps", 50, {"jump": 7, "jump_weight": 0.5}),
        ("ring", 1, {"connections": 0}),
    ],
)
def test_defaults_fit_the_number_of_units(
    topology: str, units: int, expected: dict[str, object]
) -> None:
    wiring = Reservoir(units=units, topology=topology).layer_settings[0].wiring
    assert {name: getattr(wiring, name) for name in expected} == expected


def test_default_inputs_are_all_in_the_first_layer_and_ten_above() -> None:
    first, second, third = Reservoir(units=(50, 8, 5), inputs=20).layer_settings
    assert (first.input_connections, second.input_connections) == (20, 10)
    assert third.input_connections == 8


@pytest.mark.parametrize(
    "name",
    [
        "topology",
        "density",
        "random_signs",
        "spectral_radius",
        "input_scaling",
        "input_connections",
        "bias_scaling",
        "leak_rate",
        "activation",
        "gain",
        "shift",
    ],
)
def test_a_wrong_number_of_layers_names_the_setting(name: str) -> None:
    values = {"topology": "ring", "random_signs": True, "activation": "sin", "density": None}
    value = values.get(name, 1)
    settings: dict[str, object] = {"units": (10, 10), "inputs": 3, name: (value,) * 3}
    with pytest.raises(ValueError, match=f"{name} has 3 values for 2 layers; give one value"):
        Reservoir(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": 0}, "units is 0; give an integer, 1 or more"),
        ({"units": ()}, "units is an empty tuple"),
        ({"units": (5, 0)}, r"units is \(5, 0\)"),
        ({"units": 2.5}, "units is 2.5; give an integer"),
        ({"units": True}, "units is True"),
        ({"units": None}, "units is None"),
        ({"inputs": -1}, "inputs is -1"),
        ({"inputs": (1, 2)}, "inputs is"),
        ({"seed": -1}, "seed is -1; give an integer, 0 or more"),
        ({"seed": 2**64}, "seed is 18446744073709551616"),
        ({"topology": "star"}, "topology is 'star'; give 'random'"),
        ({"density": 1.5}, "density is 1.5; give a number, 0 or more, at most 1"),
        ({"density": 0.1, "connections": 3}, "density 0.1 and connections 3 both set layer 0"),
        ({"connections": 9}, "connections is 9, more than 8 units .* at most 8"),
        ({"topology": "ring", "density": 0.0}, "density is set for layer 0, .* applies to random"),
        ({"random_signs": True}, "random_signs is set .* applies to ring"),
        ({"topology": "small_world", "connections": 3}, "connections is 3; .* even number"),
        ({"topology": "small_world", "connections": 8}, "at most 7"),
        ({"topology": "scale_free", "connections": 0}, "even number >= 2"),
        ({"topology": "small_world", "units": 2}, "'small_world' needs at least 3"),
        ({"topology": "cycle_jumps", "jump": 5}, "jump is 5; .* from 2 to 4"),
        ({"topology": "cycle_jumps", "jump": 1}, "jump is 1; .* from 2 to 4"),
        ({"topology": "small_world", "rewiring": -0.1}, "rewiring is -0.1"),
        ({"spectral_radius": -0.1}, "spectral_radius is -0.1; give a number, 0 or more"),
        ({"spectral_radius": float("nan")}, "spectral_radius is nan; give a number"),
        ({"spectral_radius": "0.9"}, "spectral_radius is '0.9'; give a number"),
        ({"spectral_radius": None}, "spectral_radius is None; give a number"),
        ({"input_scaling": float("inf")}, "input_scaling is inf"),
        ({"input_connections": 3}, "input_connections is 3 in layer 0, which has 2 inputs"),
        ({"leak_rate": 0.0}, "leak_rate is 0.0; give a number, more than 0, at most 1"),
        ({"leak_rate": 1.1}, "leak_rate is 1.1"),
        ({"activation": "softmax"}, "activation is 'softmax'; give 'tanh'"),
        ({"gain": True}, "gain is True; give a number"),
        ({"random_signs": 1}, "random_signs is 1; give true or false"),
        ({"scale": (1.0,)}, "scale and fingerprint together"),
        ({"scale": (1.0,), "known_fingerprint": "abc"}, "fingerprint is 'abc'; give the 64"),
        ({"scale": (1.0, 1.0), "known_fingerprint": "0" * 64}, "scale has 2 values for 1 layers"),
    ],
)
def test_wrong_settings_say_what_is_wrong(settings: dict[str, object], message: str) -> None:
    given_settings: dict[str, object] = {"units": 8, "inputs": 2} | settings
    with pytest.raises((ValueError, TypeError), match=message):
        Reservoir(**given_settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.0, 0.2, "low is 0.0"),
        (0.1, 1.2, "high is 1.2"),
        (0.3, 0.2, "low 0.3 is above high 0.2"),
    ],
)
def test_wrong_ranges(low: float, high: float, message: str) -> None:
    for kind in (Uniform, LogUniform, Linspace, LongTail):
        with pytest.raises(ValueError, match=message):
            kind(low, high)


def test_wrong_mixtures() -> None:
    with pytest.raises(ValueError, match=r"sum to 0\.75; make them sum to 1"):
        MixedActivation(tanh=0.5, sin=0.25)
    with pytest.raises(ValueError, match="sin is -"):
        MixedActivation(tanh=1.5, sin=-0.5)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "3"])
def test_damaged_json_is_an_integrity_error(text: str) -> None:
    with pytest.raises(IntegrityError, match="a reservoir is"):
        Reservoir.from_json(text)


@pytest.mark.parametrize("version", [2, 0, None, "1"])
def test_another_format_is_an_integrity_error(version: object) -> None:
    with pytest.raises(IntegrityError, match=f"format {version!r}, this version reads 1"):
        Reservoir.from_json(json.dumps({"format": version, "units": 5}))


def test_unknown_and_missing_settings_are_named() -> None:
    with pytest.raises(ValueError, match="no setting 'leek_rate'; the settings are units, inputs"):
        Reservoir.from_json('{"format":1,"units":5,"leek_rate":0.5}')
    with pytest.raises(ValueError, match="add the setting 'units'"):
        Reservoir.from_json('{"format":1}')
    with pytest.raises(ValueError, match="leak_rate has a part 'kinds'"):
        Reservoir.from_json('{"format":1,"units":5,"leak_rate":{"kinds":"uniform"}}')
    with pytest.raises(ValueError, match="'normal'; choose one of uniform"):
        Reservoir.from_json('{"format":1,"units":5,"leak_rate":{"kind":"normal"}}')
    with pytest.raises(ValueError, match="scale is 'x1'"):
        Reservoir.from_json('{"format":1,"units":5,"scale":["x1"]}')


def test_numbers_of_numpy_and_lists_are_taken() -> None:
    recipe = Reservoir(
        units=[np.int64(5), 6],  # type: ignore[arg-type]
        leak_rate=np.float64(0.5),
        spectral_radius=1,
    )
    assert recipe == Reservoir(units=(5, 6), leak_rate=0.5, spectral_radius=1.0)
    assert '"spectral_radius":1.0' in recipe.to_json()


def test_prepared_is_done_once_and_keeps_the_settings() -> None:
    recipe = deep_recipe()
    prepared = recipe.prepared()
    assert prepared.is_prepared
    assert not recipe.is_prepared
    assert prepared.prepared() is prepared
    assert replace(prepared, scale=None, known_fingerprint=None) == recipe

"""Rows by torch are the rows of the compiled kernels, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

from catchment import Array
from catchment.features import EchoState, Reservoir
from catchment.features.echo_state import MixedActivation, Uniform
from catchment_gpu import echo_state as torch_form
from catchment_gpu import rows_on
from catchment_gpu.echo_state import EchoStateForm, form_on
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture

CPU = torch.device("cpu")
RECIPES: dict[str, dict[str, Any]] = {
    "tanh": {"units": 40},
    "sigmoid, dense": {"units": 30, "density": 0.7, "activation": "sigmoid", "leak_rate": 0.3},
    "sin, ring": {"units": 30, "topology": "ring", "activation": "sin"},
    "relu, two layers": {"units": (20, 15), "activation": "relu", "leak_rate": 0.9},
    "mixed": {
        "units": 40,
        "activation": MixedActivation(tanh=0.4, sigmoid=0.3, identity=0.3),
        "leak_rate": Uniform(0.1, 1.0),
    },
}


def sequences(lengths: tuple[int, ...], n_inputs: int = 2) -> list[Array]:
    rng = np.random.default_rng(7)
    return [rng.normal(size=(n_steps, n_inputs)) for n_steps in lengths]


def assert_same_rows(features: EchoState, inputs: list[Array], device: str = "cpu") -> None:
    ours = rows_on(EchoStateForm(features, torch.device(device)), inputs)
    for mine, theirs in zip(ours, features.rows(inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def with_cut(bits: int, cut: tuple[int, int]) -> Reservoir:
    rng = np.random.default_rng(3)
    W = rng.uniform(-1, 1, (25, 25)) * (rng.random((25, 25)) < 0.2)
    return Reservoir.from_matrices(W * 0.8, rng.uniform(-1, 1, (25, 2)), bits=bits, cut=cut)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bits", [15, 20, 24])
@pytest.mark.parametrize("name", RECIPES)
def test_states_of_every_step(name: str, bits: int, device: str) -> None:
    reservoir = Reservoir(inputs=2, seed=5, bits=bits, **RECIPES[name])
    assert_same_rows(EchoState.of(reservoir), sequences((50, 3, 41)), device)
    rounded = EchoState.of(reservoir, feature_bits=8, bias=True, state=False, washout=2)
    assert_same_rows(rounded, sequences((20, 3)), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("bits", [15, 24])
@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
@pytest.mark.parametrize("segments", [1, 3])
def test_pooled_rows(pool: Any, segments: int, bits: int, device: str) -> None:
    for cut in ((0, 0), (16, 6)):
        for feature_bits in (None, 8):
            features = EchoState.of(
                with_cut(bits, cut),
                bias=True,
                pool=pool,
                segments=segments,
                washout=4,
                feature_bits=feature_bits,
            )
            assert_same_rows(features, sequences((60, 7, 33, 33)), device)


def test_deviations_of_wide_inputs_need_more_than_63_bits() -> None:
    reservoir = with_cut(24, (0, 0))
    features = EchoState.of(reservoir, pool="mean_std", state=False)
    u = np.where(np.arange(1200)[:, None] % 2, [7.9, 1.0], [-7.9, 0.5]) + 0.01
    assert_same_rows(features, [u])


@pytest.mark.parametrize("washout", [0, 5, 40])
def test_a_cut_sequence(washout: int) -> None:
    features = EchoState.of(with_cut(20, (16, 6)), feature_bits=20, washout=washout)
    assert_same_rows(features, sequences((100, 41, 63)))


def test_blocks_of_few_steps_and_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_form.LANES, "cpu", 3)
    monkeypatch.setitem(torch_form.NUMBERS, "cpu", 600)
    for pool in (None, "mean_std", "last", "max"):
        features = EchoState.of(with_cut(20, (16, 6)), feature_bits=12, pool=pool, washout=3)
        assert_same_rows(features, sequences((100, 4, 41, 63, 17)))


def test_large_sparse_layers_are_multiplied_as_such() -> None:
    recipe = Reservoir(units=1100, inputs=2, connections=5, bits=20)
    assert_same_rows(EchoState.of(recipe), sequences((12,)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", RECIPES)
def test_in_floating_point_rows_agree_to_rounding(name: str, device: str) -> None:
    reservoir = Reservoir(inputs=2, seed=5, **RECIPES[name])
    inputs = sequences((300, 3, 41))
    features = EchoState.of(reservoir, bias=True, washout=2)
    ours = rows_on(EchoStateForm(features, torch.device(device)), inputs)
    for mine, theirs in zip(ours, features.rows(inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("pool", ["last", "mean", "mean_std", "max"])
@pytest.mark.parametrize("segments", [1, 3])
def test_pooled_rows_in_floating_point(
    pool: Any, segments: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reservoir = Reservoir(units=(12, 9), inputs=2, seed=5)
    features = EchoState.of(reservoir, bias=True, pool=pool, segments=segments, washout=4)
    inputs = sequences((60, 7, 33, 33))
    for numbers in (1 << 20, 400):
        monkeypatch.setitem(torch_form.NUMBERS, device, numbers)
        ours = rows_on(EchoStateForm(features, torch.device(device)), inputs)
        for mine, theirs in zip(ours, features.rows(inputs), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_forms_are_kept_and_the_oldest_let_go() -> None:
    maps = [EchoState.of(Reservoir(units=3 + n)) for n in range(torch_form.KEPT_FORMS + 1)]
    forms = [form_on(features, CPU) for features in maps]
    for features, kept in list(zip(maps, forms, strict=True))[:0:-1]:
        assert form_on(features, CPU) is kept
    assert form_on(maps[0], CPU) is not forms[0]


def test_memory_is_used_again_from_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EchoStateForm, "by_graph", lambda self, n_lanes: True)
    monkeypatch.setattr(torch_form, "GRAPH_STEPS", (7, 9))
    monkeypatch.setattr(torch_form, "GRAPH_COLUMNS", 20)
    features = EchoState.of(with_cut(20, (0, 0)), feature_bits=20)
    form, inputs = EchoStateForm(features, CPU), sequences((50, 31, 45))
    first = rows_on(form, inputs)
    (memory,) = form._free
    second = rows_on(form, inputs)
    for mine, again, theirs in zip(first, second, features.rows(inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(again, theirs)
    assert form._free == [memory]

"""A diagonal reservoir by torch gives the bits of the compiled loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catchment import DiagonalReservoir, Recording
from catchment.errors import ClippingWarning
from catchment.features import FeatureMap
from catchment.readout import accumulate
from catchment_gpu import form_of, rows_on
from catchment_gpu.diagonal import DiagonalForm, cut_into_lanes, memory_of
from catchment_gpu.diagonal import steps as torch_steps
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture

RNG = np.random.default_rng(3)


def built(channels: int, *, pooled: bool = False, **given: Any) -> DiagonalReservoir:
    made = DiagonalReservoir(**given).build(channels, per_step=not pooled)
    assert isinstance(made, DiagonalReservoir)
    return made


def own_form(features: DiagonalReservoir, device: str, **given: Any) -> DiagonalForm:
    return DiagonalForm(features, torch.device(device), **given)


def same_rows(features: FeatureMap, form: DiagonalForm, inputs: list[Any]) -> None:
    for mine, theirs in zip(features.rows(inputs), rows_on(form, inputs), strict=True):
        assert mine.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "recipe",
    [
        {"units": 24},
        {"units": 24, "nonlinearity": "products", "washout": 7},
        {"units": 25, "nonlinearity": "mix", "seed": 2},
        {"units": 24, "nonlinearity": "none", "washout": 40},
        {"units": 24, "bits": 12, "memory": (1, 30)},
        {"units": 24, "bits": None},
    ],
)
def test_rows_of_steps(recipe: dict[str, Any], device: str) -> None:
    for channels, lengths in ((1, (150,)), (3, (90, 41, 90))):
        features = built(channels, **recipe)
        inputs = [RNG.normal(size=(n, channels)) for n in lengths]
        same_rows(features, own_form(features, device, n_steps=50, warm_up=60), inputs)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("washout", [0, 5])
def test_pooled_rows_add_moments_in_the_same_order(washout: int, device: str) -> None:
    features = built(2, pooled=True, units=30, washout=washout)
    inputs = [RNG.normal(size=(n, 2)) for n in (60, 6, 33, 60)]
    form = form_of(features, torch.device(device))
    assert isinstance(form, DiagonalForm)
    same_rows(features, form, inputs)


@given(
    n_steps=st.integers(1, 40),
    warm_up=st.integers(0, 40),
    lengths=st.lists(st.integers(4, 70), min_size=1, max_size=3),
    quiet=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=15, deadline=None)
def test_any_cut_gives_the_rows_of_one_loop(
    n_steps: int, warm_up: int, lengths: list[int], quiet: bool, seed: int
) -> None:
    """Lanes that began with a wrong state are run again; in silence every one of them does."""
    rng = np.random.default_rng(seed)
    features = built(1, units=8, washout=3, seed=seed)
    inputs = [rng.normal(size=(n, 1)) for n in lengths]
    if quiet:
        for u in inputs:
            u[len(u) // 3 :] = 0.0
    same_rows(features, own_form(features, "cpu", n_steps=n_steps, warm_up=warm_up), inputs)


def test_the_usual_start_is_right_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    features = built(1, units=60)
    form = DiagonalForm(features, torch.device("cpu"))
    assert form.warm_up > 20 * memory_of(features)
    u = torch.from_numpy(np.rint(RNG.normal(size=(4000, 1)) * 2**20) / 2**20)
    runs = []

    def counted(*arguments: Any) -> None:
        runs.append(arguments)
        torch_steps.run(*arguments)

    monkeypatch.setattr(form, "steps", type("Steps", (), {"run": staticmethod(counted)}))
    form.starts(u, cut_into_lanes([4000], 0, 100, form.warm_up))
    assert len(runs) == 2  # one before the lanes, one through them


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
def test_one_digest(classes: bool, pooled: bool, device: str) -> None:
    features = DiagonalReservoir(20, washout=2).build(2, per_step=not pooled, classes=classes)
    data = []
    for k, n in enumerate((30, 50, 30)):
        y = np.eye(3)[RNG.integers(0, 3, n)] if classes else RNG.normal(size=(n, 3)) * 10.0**k
        if not pooled:
            y[k + 5] = np.nan
        one_target = pooled or k == 1  # which stands for every step
        u = RNG.normal(size=(n, 2))
        y = y[0] if one_target else y
        data.append(Recording(u, y, weight=1.0 + k, per_step=not one_target))
    assert accumulate(features, data).digest() == accumulate(features, data, device=device).digest()


def test_targets_that_suit_no_fixed_point_are_refused_as_on_the_cpu() -> None:
    features = DiagonalReservoir(8).build(1, per_step=True)
    u = RNG.normal(size=(20, 1))
    for y, classes in ((u * 2.0**45, False), (u, True), (np.full((20, 1), 300.0), True)):
        errors = []
        for device in (None, "cpu"):
            with pytest.raises(ValueError, match="target") as raised:
                accumulate(features, [Recording(u, y)], classes=classes, device=device)
            errors.append(str(raised.value))
        assert errors[0] == errors[1]


def test_it_warns_of_inputs_that_are_cut_off() -> None:
    features = built(1, units=8)
    with pytest.warns(ClippingWarning, match="beyond 8"):
        same_rows(features, own_form(features, "cpu"), [np.full((9, 1), 11.0)])


def test_a_recording_shorter_than_the_washout_is_refused() -> None:
    features = built(1, units=8, washout=9)
    with pytest.raises(ValueError, match="washout is 9"):
        rows_on(own_form(features, "cpu"), [np.zeros((9, 1))])

"""Maps beside reservoirs and convolutions give, by torch, the bits of their rows on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs torch")

import torch

import catchment as ct
from catchment.errors import ClippingWarning
from catchment.readout import accumulate
from catchment_gpu import form_of, rows_on
from catchment_gpu import maps as torch_maps
from tests.features.echo_state.devices import DEVICES, one_thread  # noqa: F401  # a fixture

RNG = np.random.default_rng(8)
LENGTHS = (40, 13, 40)


def inputs(channels: int) -> list[Any]:
    return [RNG.normal(size=(n, channels)) for n in LENGTHS]


def on_device(features: Any, device: str, data: list[Any]) -> list[Any]:
    form = form_of(features, torch.device(device))
    assert form is not None
    return rows_on(form, data)


PER_STEP: dict[str, Any] = {
    "nvar": ct.NVAR(delays=3, stride=2),
    "nvar of order 1": ct.NVAR(delays=4, order=1, washout=3),
    "nvar of order 3": ct.NVAR(delays=2, order=3, washout=5),
    "cosines of inputs": ct.RandomFourierFeatures(features=30),
    "cosines of states": ct.RandomFourierFeatures(ct.EchoState(12, washout=4), features=20),
    "rectifiers": ct.RandomFourierFeatures(ct.NVAR(delays=2), features=9, activation="relu"),
    "projected states": ct.RandomProjection(ct.DiagonalReservoir(20), features=11),
    "projected cosines": ct.RandomProjection(
        ct.RandomFourierFeatures(features=30, bits=12), features=7
    ),
    "norm": ct.AppendNorm(ct.NVAR(delays=2)),
    "side by side": ct.FeatureUnion(ct.NVAR(delays=2, washout=2), ct.DiagonalReservoir(12)),
}
POOLED: dict[str, Any] = {
    "projected convolutions": ct.RandomProjection(ct.MiniRocket(84), features=20),
    "cosines of statistics": ct.RandomFourierFeatures(ct.WindowStatistics(), features=20),
    "norm": ct.AppendNorm(ct.RandomProjection(ct.DiagonalReservoir(20), features=9)),
}
CASES = [(name, True) for name in PER_STEP] + [(name, False) for name in POOLED]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize(("name", "per_step"), CASES)
def test_one_digest(name: str, per_step: bool, classes: bool, device: str) -> None:
    described = (PER_STEP if per_step else POOLED)[name]
    features = described.build(2, per_step=per_step, classes=classes)
    us = inputs(2)
    for mine, theirs in zip(features.rows(us), on_device(features, device, us), strict=True):
        assert mine.tobytes() == np.ascontiguousarray(theirs).tobytes()
    targets = [(u[:, :1] > 0) * 1.0 if per_step else np.array([u[0, 0] > 0.0]) * 1.0 for u in us]
    data = [ct.Recording(u, y, per_step=per_step) for u, y in zip(us, targets, strict=True)]
    here = accumulate(features, data, classes=classes)
    assert here.digest() == accumulate(features, data, classes=classes, device=device).digest()


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_may_be_as_small_as_a_row(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_maps, "block_numbers", lambda place: 256)
    us = inputs(2)
    for name in ("nvar of order 3", "cosines of states", "projected states"):
        features = PER_STEP[name].build(2, per_step=True)
        for mine, theirs in zip(features.rows(us), on_device(features, device, us), strict=True):
            assert mine.tobytes() == np.ascontiguousarray(theirs).tobytes()


@pytest.mark.parametrize("device", DEVICES)
def test_maps_in_floating_point_agree_too(device: str) -> None:
    us = inputs(2)
    for described in (
        ct.RandomProjection(ct.DiagonalReservoir(20, bits=None), features=11),
        ct.NVAR(delays=2, order=3, bits=None),
        ct.RandomFourierFeatures(features=9, bits=None),
    ):
        features = described.build(2, per_step=True)
        for mine, theirs in zip(features.rows(us), on_device(features, device, us), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_the_device_warns_and_refuses_as_the_cpu_does() -> None:
    features = ct.NVAR(delays=2, washout=9).build(1, per_step=True)
    with pytest.warns(ClippingWarning, match="beyond 8"):
        on_device(features, "cpu", [np.full((20, 1), 11.0)])
    with pytest.raises(ValueError, match="washout is 9"):
        on_device(features, "cpu", [np.zeros((9, 1))])

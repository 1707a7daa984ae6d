"""A client of autocovariances as a device: on an emulated board, in a federation with others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import catchment as ct
from catchment_edge import EdgeClient
from catchment_edge.ports import STACK
from catchment_edge.training import lags_device, sensor_bytes
from tools.edge.devices import board, build_board, build_host, host
from tools.edge.needs import missing

boards = pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")
compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here; install gcc")
PLAN = """
[data]
files = "*.csv"
inputs = ["load"]

[preprocessing]
horizon = {horizon}
scale = "federated"

[features]
delays = {delays}

[learn]
algorithm = "yule_walker"
"""


def series(seed: int, n: int = 600) -> ct.Recording:
    noise = np.random.default_rng(seed).normal(size=n)
    return ct.Recording(20 + 3 * np.convolve(noise, [1.0, 0.9, 0.5], "same"))


def exported(folder: Path, delays: int, horizon: str, port: str) -> Any:
    (folder / "plan.toml").write_text(PLAN.format(delays=delays, horizon=horizon))
    device = lags_device(folder / "plan.toml")
    assert device is not None
    device.write(folder, port=port)
    return device


def sensor(folder: Path, *segments: list[ct.Recording]) -> Path:
    path = folder / "sensor"
    path.write_bytes(b"".join(sensor_bytes(one, targets=False) for one in segments))
    return path


def federated(clients: dict[str, Any], delays: int, horizon: Any) -> ct.Run:
    lags = ct.Pipeline(ct.Preprocessing(horizon=horizon), ct.NVAR(delays, order=1))
    return ct.federate(lags, clients, upload="autocovariances")


@compiled
def test_a_program_of_this_machine_is_in_one_sum_with_others(tmp_path: Path) -> None:
    exported(tmp_path, 12, "[1, 4]", "host")
    own = [series(0), series(9, 50)]
    others: dict[str, Any] = {name: [series(k)] for k, name in enumerate(("bob", "cid"), start=1)}
    here = federated({"ann": own, **others}, 12, (1, 4))
    with host(build_host(tmp_path), sensor(tmp_path, own, own)) as device:
        there = federated({"ann": EdgeClient(device.address), **others}, 12, (1, 4))
    found, wanted = there.training.state, here.training.state
    assert found.by_client["ann"].digest() == wanted.by_client["ann"].digest()
    assert found.total.digest() == wanted.total.digest()
    assert (there.model.readout.weights == here.model.readout.weights).all()


@boards
def test_an_emulated_board_sums_1056_lags_in_less_than_8_kb(tmp_path: Path) -> None:
    device = exported(tmp_path, 336, "[1, 720]", "mps2_an386")
    firmware = build_board(tmp_path, memory=True)
    assert firmware.ram - STACK == pytest.approx(device.ram, abs=64)
    assert device.ram < 8 * 1024
    assert firmware.ram - STACK < 8 * 1024
    own, others = [series(0, 1_500)], {"bob": [series(1, 1_500)], "cid": [series(2, 1_500)]}
    here = federated({"ann": own, **others}, 336, (1, 720))
    with board(firmware, sensor(tmp_path, own, own)) as running:
        there = federated({"ann": EdgeClient(running.address), **others}, 336, (1, 720))
        assert running.stack(STACK) < STACK - 512
    assert there.refused == ()
    assert there.training.state.total.digest() == here.training.state.total.digest()

"""Devices that mask their own sums: in one secure sum with Python clients, unseen by the gateway."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.engine.test_device_plans import PLAN, SECURE, people, plan_of, trained

from catchment.engine.device import Device
from catchment.engine.device import device as device_module
from catchment.engine.device.frames import Frame
from catchment.engine.device.link import Link
from catchment.errors import DeviceError
from catchment.export.device import device_of, sensor_bytes, to_device
from catchment.federation.runs.read import read_run
from catchment.federation.runs.write import MODEL
from catchment.plans.in_process import run_plan
from tools.edge.devices import build_host, host

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no gcc here; install build tools"
)
SECRET_PLAN = PLAN + SECURE


def exported(folder: Path, name: str, *, masks: int = 8) -> Path:
    """Return the program of one device, which has a secret of its own."""
    to_device(folder / "plan.toml", folder / name, name="device", port="host", masks=masks)
    return build_host(folder / name)


def sensor(folder: Path, name: str) -> Path:
    found = folder / f"{name}.sensor"
    found.write_bytes(2 * sensor_bytes(people()[name], classes=6))
    return found


def test_devices_that_mask_and_python_clients_are_in_one_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is that of Python alone to the byte, and no plain sums crossed a gateway's line."""
    file = plan_of(tmp_path, SECRET_PLAN)
    run_plan(file, tmp_path / "python")
    crossed: list[bytes] = []
    asked: list[str] = []
    answer, send = Link._answer, Link._send

    def answered(link: Link, deadline: float, quiet: float | None) -> Frame:
        frame = answer(link, deadline, quiet)
        crossed.append(frame.payload)
        return frame

    def sent(link: Link, frame: Frame) -> None:
        asked.append(frame.kind)
        send(link, frame)

    monkeypatch.setattr(Link, "_answer", answered)
    monkeypatch.setattr(Link, "_send", sent)
    first, second, *_ = trained(file)
    lines = [sensor(tmp_path, name) for name in (first, second)]
    programs = [exported(tmp_path, name) for name in (first, second)]
    with host(programs[0], lines[0]) as a, host(programs[1], lines[1]) as b:
        devices = {first: Device(a.address), second: Device(b.address)}
        run_plan(file, tmp_path / "mixed", devices=devices)
        assert Device(a.address).hello().masks
    made = (tmp_path / "mixed" / MODEL).read_bytes()
    assert made == (tmp_path / "python" / MODEL).read_bytes()
    assert read_run(tmp_path / "mixed").rounds["training"][0].n_used == 4
    assert {"K", "B", "O", "N", "X"} <= set(asked)
    assert "T" not in asked


def test_masked_numbers_look_like_noise(tmp_path: Path) -> None:
    """Of a few hundred small sums nothing is left: the bytes are as even as random ones."""
    from catchment.engine.device import vault as vault_module
    from catchment.federation.plan import Turn
    from catchment.privacy.secure_sum import keys
    from catchment.privacy.secure_sum.ring import Ring
    from catchment.privacy.secure_sum.vault import Holder, Me, Terms

    file = plan_of(tmp_path, SECRET_PLAN)
    name = trained(file)[0]
    program, line = exported(tmp_path, name), sensor(tmp_path, name)
    me = Me(keys.Session("f", "p", 1), 2, name)
    near = [Holder(k, f"c{k}", 2 * keys.public_key(keys.new_key())) for k in (0, 5)]
    told = bytes(range(32))
    with host(program, line) as running, Device(running.address).link() as link:
        scale = np.concatenate([np.zeros(3), np.ones(3)]).astype("<f8").tobytes()
        channels = Device  # the number of channels is the device's own
        del channels
        n = device_of(tmp_path / "plan.toml", masks=8).layout.task.channels
        link.command("S", (scale[: 8 * 3] * n)[: 8 * n] + np.ones(n).tobytes())
        vault_module._session(link, me)
        for one in near:
            payload = told + vault_module.PLACE.pack(one.place) + one.public[32:]
            link.command("N", payload)
        ask = vault_module.UPLOAD.pack(0, 0, told, 8, 2**62, 1, len(near))
        found = b"".join(link.collect("X", ask, part="u", limit=1 << 20))
        again = b"".join(link.collect("X", ask, part="u", limit=1 << 20))
        assert found == again  # the same question has the same answer
        with pytest.raises(DeviceError, match="under masks|masks of a secure sum"):
            list(link.collect("T", b"\0" * 5, part="u", limit=1 << 20))
        with pytest.raises(DeviceError, match="other masks"):
            link.command("N", bytes(32) + payload[32:])
    counts = np.bincount(np.frombuffer(found, np.uint8), minlength=256)
    expected = len(found) / 256
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert 150 < chi < 400  # 255 degrees of freedom
    _ = Terms(told, Ring(64, 0), 3, 0.0, 3), Turn(0, ())


def test_a_plan_without_a_secure_sum_has_no_masks_to_send_under(tmp_path: Path) -> None:
    file = plan_of(tmp_path, SECRET_PLAN)
    name = trained(file)[0]
    program, line = exported(tmp_path, name), sensor(tmp_path, name)
    plan = file.course(file.load_data().about, {}, 4).plan
    del plan
    with host(program, line) as running:
        assert Device(running.address).hello().masks
        with pytest.raises(DeviceError, match="under the masks of a secure sum only"):
            device_module._unseen(_PlainPlan(), None, 6)  # type: ignore[arg-type]


class _PlainPlan:
    masking = None
    plain = ()


def test_every_export_has_another_secret_that_others_cannot_read(tmp_path: Path) -> None:
    plan_of(tmp_path, SECRET_PLAN)
    texts = []
    for name in ("one", "two"):
        to_device(tmp_path / "plan.toml", tmp_path / name, name="device", masks=8)
        secret = tmp_path / name / "device_secret.h"
        assert secret.stat().st_mode & 0o77 == 0
        texts.append(secret.read_text())
    assert texts[0] != texts[1]
    assert (tmp_path / "one" / "device.c").read_text() == (
        tmp_path / "two" / "device.c"
    ).read_text()


@pytest.mark.parametrize("masks", [-1, 256])
def test_too_many_neighbours_are_refused_before_anything_is_written(
    tmp_path: Path, masks: int
) -> None:
    plan_of(tmp_path, SECRET_PLAN)
    with pytest.raises(ValueError, match=f"--masks is {masks}; a device has room for 1 to 255"):
        device_of(tmp_path / "plan.toml", masks=masks)

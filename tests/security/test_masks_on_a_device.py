"""Devices that mask their own sums, in one secure aggregation with Python clients."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from catchment.errors import DeviceError
from catchment.federation import read_run
from catchment.federation.runs import MODEL
from catchment.plans import run_plan
from catchment.privacy.secure_aggregation import Me, keys
from catchment_edge.client import PLACE, UPLOAD, EdgeClient, Frame, Link, opened_session
from catchment_edge.training import device_of, sensor_bytes, to_device
from tests.engine.test_device_plans import PLAN, SECURE, people, plan_of, trained
from tools.edge.devices import build_host, host

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no gcc here; install build tools"
)
SECRET_PLAN = PLAN + SECURE
ME = Me(keys.Session("f", "p", 1), 2, "user-000")
TOLD = bytes(range(32))


def exported(folder: Path, name: str, *, masks: int = 8) -> Path:
    """Return the program of one device, which has a secret of its own."""
    to_device(folder / "plan.toml", folder / name, name="device", port="host", masks=masks)
    return build_host(folder / name, model="device")


def sensor(folder: Path, name: str) -> Path:
    found = folder / f"{name}.sensor"
    found.write_bytes(2 * sensor_bytes(people()[name], classes=6))
    return found


def test_devices_that_mask_and_python_clients_are_in_one_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is that of Python alone to the byte, and no gateway asked for plain sums."""
    file = plan_of(tmp_path, SECRET_PLAN)
    run_plan(file, tmp_path / "python")
    asked: list[str] = []
    send = Link._send

    def sent(link: Link, frame: Frame) -> None:
        asked.append(frame.kind)
        send(link, frame)

    monkeypatch.setattr(Link, "_send", sent)
    first, second, *_ = trained(file)
    lines = [sensor(tmp_path, name) for name in (first, second)]
    programs = [exported(tmp_path, name) for name in (first, second)]
    with host(programs[0], lines[0]) as a, host(programs[1], lines[1]) as b:
        devices = {first: EdgeClient(a.address), second: EdgeClient(b.address)}
        run_plan(file, tmp_path / "mixed", devices=devices)
        assert EdgeClient(a.address).hello().masks
    made = (tmp_path / "mixed" / MODEL).read_bytes()
    assert made == (tmp_path / "python" / MODEL).read_bytes()
    assert read_run(tmp_path / "mixed").rounds["training"][0].n_used == 4
    assert {"K", "B", "O", "N", "X"} <= set(asked)
    assert "T" not in asked


def test_who_is_lost_after_dealing_its_shares_is_left_out_of_the_sum(
    one: Path, tmp_path: Path
) -> None:
    """The others' masks toward it are taken off by the shares that the device dealt."""
    file = plan_of(tmp_path, SECRET_PLAN)
    lost, line = trained(file)[0], tmp_path / "empty.sensor"
    line.write_bytes(2 * sensor_bytes([], classes=6))
    programs = {"device": one / "user-000" / "device", "gateway": exported(one, "plain", masks=0)}
    for who, program in programs.items():
        with host(program, line) as running:
            done = run_plan(file, tmp_path / who, devices={lost: EdgeClient(running.address)})
        (record,) = done.run.rounds["training"]
        assert [one.client for one in record.refused] == [lost]
        assert record.n_used == 3
    assert (
        "fewer rows than a client sends"
        in read_run(tmp_path / "device").rounds["training"][0].refused[0].reason
    )
    made = [(tmp_path / who / MODEL).read_bytes() for who in programs]
    assert made[0] == made[1]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan, a device's program and its sensor."""
    folder = tmp_path_factory.mktemp("one")
    plan_of(folder, SECRET_PLAN)
    exported(folder, "user-000")
    sensor(folder, "user-000")
    return folder


@contextmanager
def talking(folder: Path) -> Iterator[Link]:
    """Open a link to the device, which is told a scale and a session."""
    n = device_of(folder / "plan.toml", masks=8).layout.task.channels
    program, line = folder / "user-000" / "device", folder / "user-000.sensor"
    with host(program, line) as running, EdgeClient(running.address).link() as link:
        link.command("S", np.concatenate([np.zeros(n), np.ones(n)]).astype("<f8").tobytes())
        opened_session(link, ME)
        yield link


def neighbor(link: Link, told: bytes, place: int) -> None:
    public = keys.public_key(hashlib.sha256(bytes([place])).digest())
    link.command("N", told + PLACE.pack(place) + public)


def masked(link: Link, told: bytes, n_near: int, *, round_: int = 0, least: int = 1) -> bytes:
    asked = UPLOAD.pack(round_, 0, told, 8, 2**62, least, n_near)
    return b"".join(link.collect("X", asked, part="u", limit=1 << 20))


def test_masked_numbers_are_as_even_as_random_bytes(one: Path) -> None:
    with talking(one) as link:
        neighbor(link, TOLD, 0)
        neighbor(link, TOLD, 5)
        found = masked(link, TOLD, 2)
        assert found == masked(link, TOLD, 2)  # the same question has the same answer
    counts = np.bincount(np.frombuffer(found, np.uint8), minlength=256)
    expected = len(found) / 256
    assert 150 < ((counts - expected) ** 2 / expected).sum() < 400  # 255 degrees of freedom


def test_a_device_with_masks_refuses_what_would_bare_its_sums(one: Path) -> None:
    with talking(one) as link:
        with pytest.raises(DeviceError, match="under the masks of secure aggregation only"):
            list(link.collect("T", bytes(5), part="u", limit=1 << 20))
        neighbor(link, TOLD, 0)
        with pytest.raises(DeviceError, match="neighbors of this sum were not all told"):
            masked(link, TOLD, 0)
        with pytest.raises(DeviceError, match="so few clients hides nobody"):
            masked(link, TOLD, 1)
        neighbor(link, TOLD, 1)
        with pytest.raises(DeviceError, match="fewer rows than a client sends"):
            masked(link, TOLD, 2, least=10**6)
        masked(link, TOLD, 2)
        with pytest.raises(DeviceError, match="the sums changed since"):
            masked(link, TOLD, 2, round_=1)
        with pytest.raises(DeviceError, match="left under other masks"):
            neighbor(link, bytes(32), 0)


def test_a_device_has_no_room_for_more_neighbors_than_it_was_made_for(one: Path) -> None:
    with talking(one) as link:
        for place in (0, 1, 3, 4, 5, 6, 7, 8):
            neighbor(link, TOLD, place)
        with pytest.raises(DeviceError, match="more neighbors than the device has room for"):
            neighbor(link, TOLD, 9)


def test_a_plan_without_secure_aggregation_is_refused_by_who_masks(
    one: Path, tmp_path: Path
) -> None:
    file = plan_of(tmp_path, PLAN)
    with host(one / "user-000" / "device", one / "user-000.sensor") as running:
        device = EdgeClient(running.address)
        done = run_plan(file, tmp_path / "run", devices=dict.fromkeys(trained(file)[:1], device))
    (refused,) = done.run.rounds["training"][0].refused
    assert "under the masks of secure aggregation only, and the plan has none" in refused.reason


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


def test_a_plan_without_secure_aggregation_is_refused_at_the_export(tmp_path: Path) -> None:
    plan_of(tmp_path, PLAN)
    with pytest.raises(ValueError, match="the plan has no secure aggregation under whose masks"):
        device_of(tmp_path / "plan.toml", masks=8)


@pytest.mark.parametrize("masks", [-1, 256])
def test_too_many_neighbors_are_refused_before_anything_is_written(
    tmp_path: Path, masks: int
) -> None:
    plan_of(tmp_path, SECRET_PLAN)
    with pytest.raises(ValueError, match=f"--masks is {masks}; a device has room for 1 to 255"):
        device_of(tmp_path / "plan.toml", masks=masks)


def dealt(link: Link, place: int, threshold: int) -> bytes:
    """Return what the device deals to a holder of the gateway's choice."""
    public = keys.public_key(hashlib.sha256(bytes([place % 256])).digest())
    asked = TOLD + PLACE.pack(place) + threshold.to_bytes(2, "little") + public + b"\x01x"
    return link.ask("B", asked, "b")


def test_a_gateway_cannot_ask_for_shares_that_are_the_secret(one: Path) -> None:
    """With a threshold of 1 the share is the secret, and to the device itself it is not boxed."""
    wrong = "would give secrets away"
    with talking(one) as link:
        for threshold in (0, 1):
            with pytest.raises(DeviceError, match=wrong):
                dealt(link, ME.place, threshold)
        with pytest.raises(DeviceError, match=wrong):
            dealt(link, 2**32 - 1, 3)  # the share at zero is the secret, too
        first = dealt(link, ME.place, 3)
        assert dealt(link, ME.place, 3) == first
        for threshold in (2, 4):
            with pytest.raises(DeviceError, match=wrong):
                dealt(link, ME.place, threshold)
        for place in (0, 1):
            neighbor(link, TOLD, place)
        masked(link, TOLD, 2)


def test_a_sum_of_fewer_than_open_it_does_not_leave_the_device(one: Path) -> None:
    with talking(one) as link:
        dealt(link, ME.place, 4)
        for place in (0, 1):
            neighbor(link, TOLD, place)
        with pytest.raises(DeviceError, match="hides nobody"):
            masked(link, TOLD, 2)
        neighbor(link, TOLD, 3)
        masked(link, TOLD, 3)

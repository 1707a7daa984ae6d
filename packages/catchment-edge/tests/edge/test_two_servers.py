"""A board that sends its contribution for two servers, through a gateway that learns nothing of it.

On the emulated board of 64 kB where compiler and emulator are here, and as a program of this
machine, the same C, where there is a compiler; the names of the tests say which.
"""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.data import synthetic_wearables
from catchment.errors import DeviceError, IntegrityError
from catchment.plans import AwaitedError, Contribution, assist, combine, contribute, kit
from catchment.readout import RidgeStatistics
from catchment.wire import Message
from catchment_edge import EdgeClient
from catchment_edge.client import link as kinds
from catchment_edge.ports import STACK
from catchment_edge.training import sensor_bytes, to_device
from tools.edge.devices import Running, board, build_board, build_host, host
from tools.edge.needs import missing

boards = pytest.mark.skipif(bool(missing()), reason=missing() or "all is here")
compiled = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here; install gcc")
RAM = 64 * 1024
PLAN = """
[data]
files = "*.csv"
label = "activity"
inputs = ["acc-x", "acc-y", "acc-z", "gyr-x", "gyr-y", "gyr-z"]
classes = ["a", "b", "c"]
test = "folds"

[preprocessing]
scale = "none"
window = 16

[features]
map = "echo_state"
units = 4
bits = 15
feature_bits = 8
pool = "mean"

[learn]
algorithm = "ridge"
ridge = "gcv"
upload = "statistics"
store_per_client = false

[run]
baselines = []

[[protections]]
name = "secure_aggregation"
servers = 2
min_clients = 3
rows_per_feature = 2
bits = 32
"""
NAMES = ("ann", "bob", "cid", "dan")


def people(folder: Path) -> dict[str, list[Any]]:
    """Write recordings of four people, and return those of each."""
    folder.mkdir()
    found = {}
    for name, held in zip(NAMES, synthetic_wearables(4, 3).values(), strict=True):
        u = np.concatenate([one.u[:, :6] for one in held])[:800]
        labels = np.arange(len(u)) // 100 % 3
        lines = ["acc-x,acc-y,acc-z,gyr-x,gyr-y,gyr-z,activity"]
        lines += [
            ",".join(map(repr, row.tolist())) + "," + "abc"[k]
            for row, k in zip(u, labels, strict=True)
        ]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        found[name] = [u, labels]
    return found


class Sites:
    """Kits of four people, the first of whom has a device."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.held = people(self.data)
        (folder / "plan.toml").write_text(PLAN)
        self.folder = kit(folder / "plan.toml", NAMES, folder / "kits")
        self.plan, self.keys = self.folder / "plan.toml", self.folder / "identities.json"

    def contributed(self, name: str, data: str) -> Contribution:
        keys = self.folder / name / "keys"
        return contribute(self.plan, data, name=name, keys=keys, identities=self.keys)

    def model(self, contributions: dict[str, Contribution], out: str) -> bytes:
        paths = [
            one.save(self.folder / f"{out}-{name}.contribution")
            for name, one in contributions.items()
        ]
        told: dict[str, Any] = {"out": self.folder / out, "identities": self.keys}
        with pytest.raises(AwaitedError) as awaited:
            combine(paths, self.plan, **told)
        batch = self.folder / f"{out}.batch"
        batch.write_bytes(awaited.value.content)
        helper = self.folder / "helper" / "keys"
        answer = self.folder / f"{out}.answer"
        answer.write_bytes(assist(batch, self.plan, keys=helper, identities=self.keys))
        combine(paths, self.plan, **told, answers=[answer])
        return (self.folder / out / "model.safetensors").read_bytes()

    def export(self, folder: Path, port: str) -> Any:
        return to_device(self.plan, folder, rows=200, port=port, masks=1)

    def sensor(self, path: Path) -> Path:
        from catchment import Recording

        u, labels = self.held["ann"]
        one = Recording(u, np.eye(3)[labels])
        path.write_bytes(sensor_bytes([one], classes=3))
        return path


def same_model(tmp_path: Path, running: AbstractContextManager[Running], sites: Sites) -> None:
    """Assert that a device's contribution stands for its recordings, and tells nothing alone."""
    with running as device:
        assert EdgeClient(device.address).hello().masks
        own = sites.contributed("ann", device.address)
        with (
            EdgeClient(device.address).link() as link,
            pytest.raises(DeviceError, match="under the masks"),
        ):
            link.command(kinds.TRAIN, bytes(5))
    numbers, sealed = own.message.arrays
    assert (numbers.dtype.name, sealed.size) == ("uint32", 80 + 64)
    bits = np.unpackbits(numbers.view(np.uint8)).mean()
    assert abs(bits - 0.5) < 5 * 0.5 / np.sqrt(numbers.size * 32)
    others = {name: sites.contributed(name, str(sites.data / f"{name}.csv")) for name in NAMES[1:]}
    there = sites.model({"ann": own, **others}, "there")
    # The same people in another kit, ann's recordings in a file: the sum is the same to the bit.
    (tmp_path / "again").mkdir()
    again = Sites(tmp_path / "again")
    every = {name: again.contributed(name, str(again.data / f"{name}.csv")) for name in NAMES}
    assert there == again.model(every, "here")


@compiled
def test_a_program_of_this_machine_contributes_by_one_message(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    sites.export(tmp_path / "c", "host")
    running = host(build_host(tmp_path / "c"), sites.sensor(tmp_path / "sensor"))
    same_model(tmp_path, running, sites)


@boards
def test_an_emulated_board_of_64_kb_contributes_by_one_message(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    sites.export(tmp_path / "c", "mps2_an386")
    firmware = build_board(tmp_path / "c", memory=True)
    assert firmware.ram <= RAM
    same_model(tmp_path, board(firmware, sites.sensor(tmp_path / "sensor")), sites)
    assert firmware.ram > STACK


@compiled
def test_a_gateway_cannot_lower_the_floor_or_have_the_sums_bare(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    sites.export(tmp_path / "c", "host")
    told = bytes(range(32))

    def asked(least: int, said: bytes = told) -> bytes:
        terms = {"bits": 32, "client": "ann", "min_clients": least, "told": said.hex()}
        text = json.dumps(["catchment-two-servers-1", terms], sort_keys=True, separators=(",", ":"))
        return b"\0" * 5 + told + bytes([4]) + (2**31 - 1).to_bytes(8, "little") + text.encode()

    with host(build_host(tmp_path / "c"), sites.sensor(tmp_path / "sensor")) as device:
        for words in (asked(2), asked(3, bytes(32))):
            with (
                EdgeClient(device.address).link() as link,
                pytest.raises(DeviceError, match="not those of the device's plan"),
            ):
                list(link.collect(kinds.SINGLE, words, part=kinds.UPLOAD, limit=1 << 20))
        with EdgeClient(device.address).link() as link:
            parts = list(link.collect(kinds.SINGLE, asked(3), part=kinds.UPLOAD, limit=1 << 20))
        for kind, words in ((kinds.MASKED, bytes(52)), (kinds.KEYS, bytes(9))):
            with (
                EdgeClient(device.address).link() as link,
                pytest.raises(DeviceError, match="masks for two servers"),
            ):
                link.command(kind, words)
    with pytest.raises(IntegrityError):
        RidgeStatistics.from_message(Message.from_bytes(b"".join(parts)))

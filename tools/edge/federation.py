"""A federation whose clients are all devices, compared with one process that has all recordings.

Every device has one person's recordings on its sensor's line and nothing else. The gateways, all in
this process, ask for the moments, the statistics and, at the end, for predictions on recordings of
people who took no part.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import catchment as ct
from catchment import Array, Integers
from catchment_edge import EdgeClient
from catchment_edge.training import TrainingDevice, sensor_bytes, to_device
from tools.edge.devices import Firmware, Running, board, build_board

People = Mapping[str, Sequence[ct.Recording]]
NAME = "har"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What devices learn.

    Parameters
    ----------
    map
        Settings of the echo states, as a plan's file has them.
    rows
        How many rows a device's sums must have room for.
    cpu
        What the firmware is compiled for: "cortex-m4" or "cortex-m0plus".
    masks
        Neighbors of secure aggregation that devices have room for, if they mask their sums
        themselves.
    """

    map: Mapping[str, Any]
    rows: int = 512
    cpu: str = "cortex-m4"
    masks: int = 0

    @property
    def echo_state(self) -> ct.EchoState:
        settings: dict[str, Any] = {
            name: None if value == "none" else value for name, value in self.map.items()
        }
        return ct.EchoState(**settings)

    def plan(self, *, users: int = 5) -> str:
        """Return the plan that the firmware is exported from."""
        lines = ['[data]\nsource = "wearables"', f"users = {users}\n", "[preprocessing]"]
        lines += ['scale = "federated"\n', '[features]\nmap = "echo_state"']
        lines += [f"{key} = {_toml(value)}" for key, value in self.map.items()]
        lines += ['\n[learn]\nalgorithm = "ridge"\nupload = "statistics"\n']
        if self.masks:
            lines += ['store_per_client = false\n[[protections]]\nname = "secure_aggregation"\n']
        return "\n".join(lines)

    def write(self, folder: Path, *, port: str = "mps2_an386") -> TrainingDevice:
        """Export the device of the plan into a folder, with the files of a port; return it."""
        folder.mkdir(parents=True, exist_ok=True)
        plan = folder / "plan.toml"
        plan.write_text(self.plan(), encoding="utf-8")
        return to_device(
            plan,
            folder,
            rows=self.rows,
            name=NAME,
            port=port,
            masks=self.masks,
        )

    def firmware(self, folder: Path, **build: bool) -> Firmware:
        """Return the firmware, exported and compiled in a folder."""
        self.write(folder)
        return build_board(folder, model=NAME, cpu=self.cpu, **build)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a federation of devices, beside that of one process with the same recordings.

    Parameters
    ----------
    ram, flash
        Bytes that the linker gave, of RAM with the stack.
    digest, pooled_digest
        SHA-256 of the devices' sum, and of the statistics of all recordings.
    gram_error, cross_error
        Largest difference of the two sums, as a part of the largest number in it.
    tested, agree
        Windows of other people, and for how many both models name the same class.
    device_agree
        For how many of them the device itself, with the readout it was sent, names the class
        that the model of all recordings names.
    accuracy, pooled_accuracy
        Parts of these windows that are named right.
    upload
        Bytes of an upload, the mean of all.
    seconds
        Of the federation of devices, emulated.
    """

    devices: int
    rows: int
    features: int
    ram: int
    flash: int
    digest: str
    pooled_digest: str
    gram_error: float
    cross_error: float
    tested: int
    agree: int
    device_agree: int
    accuracy: float
    pooled_accuracy: float
    upload: int
    seconds: float
    refused: tuple[str, ...] = field(default=())

    @property
    def is_the_same(self) -> bool:
        """Whether the devices' sum is the statistics of all recordings, bit for bit."""
        return self.digest == self.pooled_digest


def federated(
    recipe: Recipe, people: People, unseen: People, folder: Path, *, classes: Sequence[str]
) -> Outcome:
    """Return what devices learn from these people, one each, beside what one process learns."""
    windows = [window for held in unseen.values() for window in held]
    pooled = ct.federate(recipe.echo_state, people, classes=classes)
    firmware = recipe.firmware(folder, memory=True)
    tests = {name: windows[k :: len(people)] for k, name in enumerate(people)}
    segments = {name: (held, held, tests[name]) for name, held in people.items()}
    with running(firmware, segments, folder) as devices:
        started = time.perf_counter()
        run = ct.federate(recipe.echo_state, clients_of(devices), classes=classes)
        seconds = time.perf_counter() - started
        device_agree = sum(
            _agreeing(np.concatenate(EdgeClient(device.address).predict()), pooled, tests[name])
            for name, device in devices.items()
            if tests[name]
        )
    return Outcome(
        devices=len(people),
        rows=run.statistics.n_rows,
        features=run.statistics.n_features,
        ram=firmware.ram,
        flash=firmware.flash,
        digest=run.statistics.digest(),
        pooled_digest=pooled.statistics.digest(),
        gram_error=_apart(run.statistics.gram, pooled.statistics.gram),
        cross_error=_apart(run.statistics.cross, pooled.statistics.cross),
        tested=len(windows),
        agree=_agreeing(run.model.scores(windows), pooled, windows),
        device_agree=device_agree,
        accuracy=float(np.mean(_named(run.model.scores(windows)) == _labels(windows))),
        pooled_accuracy=float(np.mean(_named(pooled.model.scores(windows)) == _labels(windows))),
        upload=round(run.stages["training"][0].bytes_up / len(people)),
        seconds=seconds,
        refused=tuple(str(one) for one in run.refused),
    )


@contextlib.contextmanager
def running(
    firmware: Firmware, segments: Mapping[str, Sequence[Sequence[ct.Recording]]], folder: Path
) -> Iterator[dict[str, Running]]:
    """Start a board for each client, with its segments of recordings on the sensor's line."""
    with contextlib.ExitStack() as stack:
        devices = {}
        for name, held in segments.items():
            sensor = sensor_file(folder / f"{name}.sensor", held)
            devices[name] = stack.enter_context(board(firmware, sensor))
        yield devices


def sensor_file(file: Path, segments: Sequence[Sequence[ct.Recording]]) -> Path:
    """Write what a device's sensor will say, segment after segment, and return the file."""
    classes = _n_classes(segments)
    file.write_bytes(b"".join(sensor_bytes(one, classes=classes) for one in segments))
    return file


def clients_of(devices: Mapping[str, Running]) -> dict[str, EdgeClient]:
    """Return the devices as clients of a federation."""
    return {name: EdgeClient(device.address) for name, device in devices.items()}


def _n_classes(segments: Sequence[Sequence[ct.Recording]]) -> int:
    y = segments[0][0].y
    assert y is not None
    return int(y.shape[-1])


def _named(scores: Array) -> Integers:
    found: Integers = scores.argmax(axis=1)
    return found


def _labels(windows: Sequence[ct.Recording]) -> Integers:
    return np.array([np.argmax(window.y) for window in windows if window.y is not None])


def _agreeing(scores: Array, pooled: ct.Run, windows: Sequence[ct.Recording]) -> int:
    return int(np.sum(_named(scores) == _named(pooled.model.scores(windows))))


def _apart(ours: Any, theirs: Any) -> float:
    mine, wanted = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    return float(np.abs(mine - wanted).max() / np.abs(wanted).max())


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()

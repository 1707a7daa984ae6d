"""Devices that are built by the native compiler, and conversations with them."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from catchment import Array, Preprocessing, Recording
from catchment.federation.learn import SentMoments
from catchment.readout import Readout, accumulate
from catchment_edge.training import TrainingDevice, sensor_bytes

HOST = Path(__file__).parent / "train_host.c"
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wconversion")
CHECKED = ("-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here; install build tools")

Frames = list[tuple[str, bytes]]


def frame(kind: str, payload: bytes = b"") -> bytes:
    body = kind.encode() + struct.pack("<I", len(payload)) + payload
    return b"\xca\x7c" + body + struct.pack("<I", zlib.crc32(body))


def read_frames(stream: bytes) -> Frames:
    found = []
    while stream:
        assert stream[:2] == b"\xca\x7c"
        (n,) = struct.unpack_from("<I", stream, 3)
        assert struct.unpack_from("<I", stream, 7 + n)[0] == zlib.crc32(stream[2 : 7 + n])
        found.append((chr(stream[2]), stream[7 : 7 + n]))
        stream = stream[11 + n :]
    return found


def train(round_: int = 0, *, new: bool = False) -> bytes:
    return frame("T", struct.pack("<IB", round_, new))


def scale(preprocessing: Preprocessing) -> bytes:
    assert not isinstance(preprocessing.scale, str)
    return frame("S", preprocessing.scale.mean.tobytes() + preprocessing.scale.scale.tobytes())


def measure(round_: int = 0) -> bytes:
    return frame("M", struct.pack("<I", round_))


def acknowledge(round_: int = 0) -> bytes:
    return frame("A", struct.pack("<I", round_))


def readout(found: Readout) -> bytes:
    numbers = np.concatenate([found.weights.reshape(-1), found.intercept])
    return frame("R", numbers.astype("<f8").tobytes())


def rows_of(frames: Frames, outputs: int) -> dict[int, Array]:
    """Return the scores (n, K) of every recording that was predicted."""
    found: dict[int, list[Array]] = {}
    for kind, payload in frames:
        if kind == "p":
            recording, row = struct.unpack_from("<II", payload)
            assert row == len(found.setdefault(recording, []))
            found[recording].append(np.frombuffer(payload[8:], "<f4"))
            assert len(payload) == 8 + 4 * outputs
    return {recording: np.array(rows) for recording, rows in found.items()}


def messages(frames: Frames) -> list[bytes]:
    """Return what came in 'u' frames, joined up to each 'e'."""
    found, current = [], b""
    for kind, payload in frames:
        if kind == "u":
            assert 0 < len(payload) <= 512
            current += payload
        elif kind == "e":
            found.append(current)
            current = b""
    return found


@dataclass(frozen=True)
class Program:
    """A device as a program of this machine."""

    path: Path
    device: TrainingDevice

    @classmethod
    def of(
        cls,
        device: TrainingDevice,
        folder: Path,
        flags: Iterable[str] = CHECKED,
        sources: Mapping[str, str] | None = None,
    ) -> Program:
        """Return the device compiled in a folder, with other text of some files if given."""
        folder.mkdir(exist_ok=True)
        for name, content in {**device.files(), **(sources or {})}.items():
            (folder / name).write_bytes(content.encode())
        program = folder / "device"
        names = [f"{device.layout.name}.c", str(HOST)]
        serve = f"-DDEVICE_SERVE={device.layout.name}_serve"
        if device.layout.neighbors:  # not our code: its conversions are its authors' matter
            subprocess.run(["gcc", "-w", *flags, "-c", "monocypher.c"], cwd=folder, check=True)
            names.append("monocypher.o")
        words = ["gcc", *STRICT, *flags, serve, *names, "-o", program.name, "-lm"]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        return cls(program, device)

    def fitted(self, preprocessing: Preprocessing) -> Preprocessing:
        """Return the device's preparation with the scale of another."""
        assert not isinstance(preprocessing.scale, str)
        return self.device.layout.task.preprocessing.fitted(preprocessing.scale)

    def sensor(self, recordings: Iterable[Recording], *, open_end: bool = False) -> bytes:
        """Return a segment of the sensor's line."""
        task = self.device.layout.task
        classes = None if task.classes is None else task.outputs
        targets = task.preprocessing.horizon is None
        return sensor_bytes(recordings, classes=classes, targets=targets, open_end=open_end)

    def talk(self, asked: bytes, sensor: bytes = b"") -> Frames:
        """Return what the device answers to frames."""
        line = self.path.with_name("sensor")
        line.write_bytes(sensor)
        done = subprocess.run(
            [self.path, line], input=asked, capture_output=True, check=False, timeout=60
        )
        assert not done.returncode, done.stderr.decode()
        return read_frames(done.stdout)


def moments_message(preprocessing: Preprocessing, recordings: list[Recording]) -> bytes:
    """Return what the library's client sends for the scale."""
    return SentMoments.of(preprocessing.moments(recordings)).parts().to_bytes()


def statistics_message(
    device: TrainingDevice, preprocessing: Preprocessing, recordings: list[Recording]
) -> bytes:
    """Return what the library's client sends for the training."""
    task = device.layout.task
    rows = accumulate(
        task.features,
        preprocessing.apply(recordings),
        classes=task.classes is not None,
        row_stride=task.row_stride,
    )
    return rows.parts().to_bytes()

"""How many instructions a device takes, as an emulator counts them.

qemu counts every instruction of the emulated processor as one nanosecond of the board's time, and
the firmware reads the board's clock before and after each answer. A real processor takes more
cycles than instructions: for divisions, jumps, and flash that it waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import catchment as ct
from catchment.data import synthetic_wearables
from catchment.privacy.secure_aggregation import Me, keys
from catchment_edge import EdgeClient
from catchment_edge.client import PLACE, UPLOAD, Address, Link, opened, opened_session
from catchment_edge.client import link as kinds
from catchment_edge.ports import STACK
from tools.edge.devices import Firmware, Running
from tools.edge.federation import running

STEPS, FEW, MANY = 128, 2, 6  # of a window; windows of a segment
CHANNELS, OUTPUTS = 6, 6
MOST = 1 << 20  # bytes of an upload


@dataclass(frozen=True)
class Counts:
    """Instructions of a device.

    Parameters
    ----------
    trained_step
        Of a step of training, the reading of its sample from memory and its part of a window's end
        included, where the features are added to the sums; windows have 128 steps.
    predicted_step
        The same where scores are made of the features.
    upload
        Of an upload: packed, hashed, framed and sent.
    stack
        Bytes of the stack that were used, and not instructions.
    """

    trained_step: int
    predicted_step: int
    upload: int
    stack: int


def counted(firmware: Firmware, features: int, folder: Path) -> Counts:
    """Return the instructions of a firmware that was built to count.

    Parameters
    ----------
    features
        How many the device's map has.
    """
    segments = [_windows(n) for n in (1, FEW, MANY, FEW, MANY)]
    with running(firmware, {"counted": segments}, folder) as devices:
        few, many, few_predicted, many_predicted = _asked(devices["counted"], features)
        stack = devices["counted"].stack(STACK)
    window, predicted = (many - few) / (MANY - FEW), (many_predicted - few_predicted) / (MANY - FEW)
    return Counts(
        trained_step=round(window / STEPS),
        predicted_step=round(predicted / STEPS),
        upload=round(few - FEW * window),
        stack=stack,
    )


@dataclass(frozen=True)
class MaskCounts:
    """Instructions of a device that masks its sums.

    Parameters
    ----------
    agreement
        Of agreeing on a key with one other client (X25519, and what is derived from it).
    masked
        Of sums that are sent under the own mask and that of one neighbor.
    numbers
        How many numbers those sums are, of 8 bytes each.
    stack
        Bytes of the stack that were used, and not instructions.
    """

    agreement: int
    masked: int
    numbers: int
    stack: int


def counted_masks(firmware: Firmware, folder: Path) -> MaskCounts:
    """Return the instructions of a firmware that was built to count and to mask."""
    me = Me(keys.Session("federation", "0" * 64, 1, "0" * 64), 2, "counted")
    told = bytes(32)
    with running(firmware, {"counted": [_windows(FEW)]}, folder) as devices:
        device = devices["counted"]
        with EdgeClient(device.address).link() as link:
            link.command(kinds.SCALE, np.repeat([0.0, 1.0], CHANNELS).astype("<f8").tobytes())
            opened_session(link, me)
            for place in (0, 5):  # the fewest whom a device takes
                near = keys.public_key(bytes([place] * 32))
                link.command(kinds.NEIGHBOR, told + PLACE.pack(place) + near)
            asked = UPLOAD.pack(0, False, told, 8, 1 << 62, 1, 2)
            for _ in range(2):  # the second time nothing is left to learn
                parts = link.collect(kinds.MASKED, asked, part=kinds.UPLOAD, limit=MOST)
                n_bytes = sum(map(len, parts))
        taken, stack = device.instructions(7), device.stack(STACK)
    return MaskCounts(agreement=taken[3], masked=taken[6], numbers=n_bytes // 8, stack=stack)


def _windows(n: int) -> list[ct.Recording]:
    return synthetic_wearables(1, windows_per_user=n, steps=STEPS)["user-000"]


def _asked(device: Running, features: int) -> list[int]:
    """Return the instructions of two rounds of training and of two of predictions."""
    place = Address.of(device.address)
    answers = 0
    wanted = []
    with opened(place) as line:
        link = Link(line, place)

        def ask(what: Callable[[], object], *, keep: bool = False) -> None:
            nonlocal answers
            what()
            if keep:
                wanted.append(answers)
            answers += 1

        def collect(kind: str, payload: bytes, part: str = kinds.UPLOAD) -> Callable[[], object]:
            return lambda: list(link.collect(kind, payload, part=part, limit=MOST))

        ask(link.greet)
        ask(collect(kinds.MOMENTS, bytes(4)))
        scale = np.repeat([0.0, 1.0], CHANNELS).astype("<f8").tobytes()
        ask(lambda: link.command(kinds.SCALE, scale))
        for round_ in range(2):
            number = round_.to_bytes(4, "little")
            ask(collect(kinds.TRAIN, number + b"\1"), keep=True)
            ask(lambda number=number: link.command(kinds.ACKNOWLEDGED, number))  # type: ignore[misc]
        readout = np.full((features + 1) * OUTPUTS, 0.1).astype("<f8").tobytes()
        ask(lambda: link.command(kinds.READOUT, readout))
        for _ in range(2):
            ask(collect(kinds.PREDICT, b"", kinds.ROW), keep=True)
    taken = device.instructions(answers)
    return [taken[k] for k in wanted]

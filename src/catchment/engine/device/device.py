"""A small device as a client: it makes its own upload, and everything after that is as always.

What the device is asked for is what a client's recordings would be asked for: the moments of its
inputs in the stage that fits the scale, its ridge statistics in the training. The answer is read as
a server reads it, before a client's protections (clipping, noise, the masks of a secure sum) are
put on it here. The gateway, which is this process, therefore sees the device's statistics; it never
sees a sample.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from catchment.arrays import Array
from catchment.data.prepare import Prepare
from catchment.data.scaling import Scaler
from catchment.engine.device import link as kinds
from catchment.engine.device.address import Address
from catchment.engine.device.hello import DeviceHello
from catchment.engine.device.lines import opened
from catchment.engine.device.link import Link
from catchment.errors import DeviceError
from catchment.federation.delivery import Delivery, Receipt
from catchment.federation.learn.input_scaling import FederatedScaling, SentMoments
from catchment.federation.learn.ridge import FederatedRidge
from catchment.federation.plan import Memory, Plan, Turn, Upload
from catchment.readout.grid import Grid
from catchment.readout.model import Model
from catchment.readout.packing import packed_length
from catchment.readout.statistics import RidgeStatistics
from catchment.readout.storage import model_from_bytes
from catchment.wire import Parts

AnyPlan = Plan[Any, Any, Any]
SLACK = 1 << 16  # bytes of a message beside its numbers
MOST_ROWS = 1 << 20  # that a device may predict at once
NEW_ONLY = 1
COUNTED = "device/counted"  # in the memory: a counted round that the device does not know of yet
ROUND = struct.Struct("<I")
ASK = struct.Struct("<IB")


@dataclass(frozen=True)
class Device:
    """A small device in the place of a client's recordings.

    Parameters
    ----------
    address
        "tcp://127.0.0.1:7007", or "serial:///dev/ttyACM0?baud=115200". After the question mark may
        also stand `timeout`, seconds without a byte in the middle of an answer (10); `patience`,
        seconds for the device to read its sensor and answer (600); and, for a host that is not
        this machine, `network=yes`: nothing hides what goes over that line.

    >>> Device("tcp://127.0.0.1:7007?patience=60").address
    'tcp://127.0.0.1:7007?patience=60'
    """

    address: str
    _place: Address = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_place", Address.of(self.address))

    @property
    def place(self) -> str:
        """Its host and port, or its serial line."""
        return self._place.place

    def hello(self) -> DeviceHello:
        """Return what the device says of itself."""
        with self._talk() as (_, said):
            return said

    def upload(self, plan: AnyPlan, received: Parts, turn: Turn, memory: Memory) -> Upload:
        """Return what the device sends at a stage of a plan, read and checked as a server does.

        Parameters
        ----------
        received
            The algorithm's own letter, which only a delivery has.
        memory
            What this client remembers; a round that was counted and that the device does not know
            of yet.
        """
        self._settle(memory)
        algorithm = plan.algorithm
        match algorithm:
            case FederatedScaling():
                return self._moments(algorithm, turn)
            case FederatedRidge():
                return self._statistics(plan, algorithm, turn)
            case Delivery():
                return self._delivered(algorithm, received, turn)
        raise DeviceError(
            "plan",
            f"a device sums statistics for a ridge, and cannot take part in "
            f'{type(algorithm).__name__}; use algorithm = "ridge" and upload = "statistics", or '
            "leave the device out",
        )

    def counted(self, plan: AnyPlan, round_: int, memory: Memory) -> None:
        """Tell the device that its sums of a round were counted; later, if it does not hear it."""
        if isinstance(plan.algorithm, FederatedRidge):
            memory[COUNTED] = str(round_).encode()
            self._settle(memory)

    def _settle(self, memory: Memory) -> None:
        if COUNTED in memory:
            self.acknowledge(int(memory[COUNTED]))
            del memory[COUNTED]

    def acknowledge(self, round_: int) -> None:
        """Tell the device that its sums of a round were counted."""
        with self._talk() as (link, _):
            link.command(kinds.ACKNOWLEDGED, ROUND.pack(round_))

    def keep(self, model: Model) -> None:
        """Send the readout of a model down, with which the device predicts from then on."""
        with self._talk() as (link, said):
            weights, intercept = model.readout.weights, model.readout.intercept
            if said.fingerprint != model.features.fingerprint or weights.shape != (
                said.features,
                said.outputs,
            ):
                raise DeviceError(
                    "map",
                    f"the model has {weights.shape[0]} features of the map "
                    f"{model.features.fingerprint[:12]}, the device {said.features} of "
                    f"{said.fingerprint[:12]}; export the device from the model's plan",
                )
            self._scale(link, said, model.prepare)
            numbers = np.concatenate([weights.reshape(-1), intercept.reshape(-1)])
            link.command(kinds.READOUT, numbers.astype("<f8").tobytes())

    def predict(self) -> list[Array]:
        """Return the scores (n, K) of each recording that the device's sensor has next."""
        with self._talk() as (link, said):
            if not said.has_readout:
                raise DeviceError(
                    "readout", "the device has no readout yet; train, or send it one with keep"
                )
            row = np.dtype([("recording", "<u4"), ("row", "<u4"), ("scores", "<f4", said.outputs)])
            limit = MOST_ROWS * row.itemsize
            parts = link.collect(kinds.PREDICT, b"", part=kinds.ROW, limit=limit)
            found: dict[int, list[Array]] = {}
            for part in parts:
                if len(part) != row.itemsize:
                    raise DeviceError(
                        "shape",
                        f"a row of {len(part)} bytes came, {said.outputs} scores have "
                        f"{row.itemsize}; export the device again",
                    )
                one = np.frombuffer(part, row)[0]
                scores = one["scores"].reshape(-1).astype(np.float64)
                found.setdefault(int(one["recording"]), []).append(scores)
        return [np.array(found[number]) for number in sorted(found)]

    @contextmanager
    def _talk(self) -> Iterator[tuple[Link, DeviceHello]]:
        with opened(self._place) as line:
            link = Link(line, self._place)
            yield link, DeviceHello.from_bytes(link.greet())

    def _moments(self, algorithm: FederatedScaling, turn: Turn) -> SentMoments:
        with self._talk() as (link, said):
            said.check_channels(algorithm.channels)
            parts = _collected(link, kinds.MOMENTS, ROUND.pack(turn.round), SLACK)
        came = algorithm.read_update(parts, turn)
        if not came.count.any():
            raise ValueError("no input has a value; there is nothing to scale by")
        return came

    def _statistics(self, plan: AnyPlan, algorithm: FederatedRidge, turn: Turn) -> RidgeStatistics:
        features, classes = algorithm.features, algorithm.classes is not None
        new = NEW_ONLY if algorithm.increments != 1 else 0
        with self._talk() as (link, said):
            said.check_map(features, classes=classes, plan=plan)
            self._scale(link, said, plan.prepare)
            limit = most_bytes(Grid.of(features, classes=classes), said.features, said.outputs)
            parts = _collected(link, kinds.TRAIN, ASK.pack(turn.round, new), limit)
        algorithm.read_update(parts, turn)
        came = RidgeStatistics.from_parts(parts)
        if came.n_targets != said.outputs:
            raise DeviceError(
                "shape", f"{came.n_targets} targets came, the device has {said.outputs} outputs"
            )
        return came

    def _delivered(self, algorithm: Delivery, received: Parts, turn: Turn) -> Receipt:
        receipt = algorithm.client_update(received, tuple, turn)
        self.keep(model_from_bytes(received.arrays[0].tobytes()))
        return receipt

    @staticmethod
    def _scale(link: Link, said: DeviceHello, prepare: Prepare) -> None:
        scale = prepare.scale
        if isinstance(scale, Scaler):
            numbers = np.concatenate([scale.mean, scale.scale]).astype("<f8")
            link.command(kinds.SCALE, numbers.tobytes())
        elif said.needs_scale:
            raise DeviceError(
                "scale",
                f"the device waits for a scale, and the plan has scale = {scale!r}; export it from "
                "this plan",
            )


def most_bytes(grid: Grid | None, n_features: int, n_targets: int) -> int:
    """Return the most bytes that a device's statistics can have as a message.

    >>> most_bytes(None, 100, 2)
    108512
    """
    F, K = n_features, n_targets
    entries = {
        "feature_sum": F,
        "target_sum": K,
        "gram": packed_length(F),
        "cross": F * K,
        "target_gram": packed_length(K),
    }
    limbs = dict.fromkeys(entries, 1) if grid is None else grid.limbs
    return SLACK + 8 * sum(limbs[name] * n for name, n in entries.items())


def _collected(link: Link, kind: str, payload: bytes, limit: int) -> Parts:
    """Return a message that the device sends in parts; IntegrityError if it is damaged."""
    message = b"".join(link.collect(kind, payload, part=kinds.UPLOAD, limit=limit))
    return Parts.from_bytes(message, limit=limit)

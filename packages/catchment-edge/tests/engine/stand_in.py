"""A device for tests: it speaks the frames over TCP, and uses the library for its sums."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from catchment import Array
from catchment.data import Preprocessing, Recording, Scaler
from catchment.features import FeatureMap
from catchment.federation.learn import SentMoments
from catchment.readout import RidgeStatistics, accumulate
from catchment_edge.client import HEAD, DeviceHello, Frame, n_after_head, read_frame

Fault = Callable[[str, bytes], "bytes | None"]
PART = 512


class HangUpError(Exception):
    """Raised by a fault: the device closes the line, after these bytes."""


def honest(kind: str, answer: bytes) -> bytes:
    return answer


@dataclass
class StandIn:
    """A device whose sensor has these segments of recordings."""

    features: FeatureMap
    segments: list[Sequence[Recording]]
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    classes: tuple[str, ...] | None = None
    fault: Fault = honest
    changed_hello: dict[str, object] = field(default_factory=dict)
    sums: RidgeStatistics | None = None
    pending: tuple[int, bytes] | None = None
    new_only: bool = False
    last: int = 0
    told: bool = False
    moments: tuple[int, bytes] | None = None
    weights: Array | None = None
    asked: list[str] = field(default_factory=list)

    @property
    def n_channels(self) -> int:
        return self.segments[0][0].n_inputs if self.segments else 1

    @property
    def n_outputs(self) -> int:
        if self.classes:
            return len(self.classes)
        y = self.segments[0][0].y if self.segments else None
        return 1 if y is None else y.shape[-1]

    def hello(self) -> DeviceHello:
        said = DeviceHello(
            number="whole",
            channels=self.n_channels,
            outputs=self.n_outputs,
            features=self.features.n_features,
            classes=self.classes is not None,
            per_step=self.features.per_step,
            needs_scale=self.told or not self.preprocessing.is_fitted,
            has_readout=self.weights is not None,
            fingerprint=self.features.fingerprint,
        )
        return replace(said, **self.changed_hello)  # type: ignore[arg-type]

    def answer(self, frame: Frame) -> bytes:
        """Return all bytes of the answer to a frame."""
        self.asked.append(frame.kind)
        payload = frame.payload
        match frame.kind:
            case "H":
                return Frame("h", self.hello().to_bytes()).to_bytes()
            case "S":
                self.told, self.moments = True, None
                mean, scale = np.frombuffer(payload, "<f8").reshape(2, -1)
                self.preprocessing = replace(
                    self.preprocessing, scale=Scaler(mean.copy(), scale.copy())
                )
            case "M":
                return _upload(self._moments(*struct.unpack("<I", payload)))
            case "T":
                return _upload(self._statistics(*struct.unpack("<IB", payload)))
            case "A":
                return self._acknowledged(*struct.unpack("<I", payload))
            case "R":
                numbers = np.frombuffer(payload, "<f8")
                self.weights = numbers.reshape(-1, self.n_outputs).copy()
            case "P":
                return b"".join(self._rows())
            case other:
                return Frame("n", f"no such request {other}".encode()).to_bytes()
        return Frame("k").to_bytes()

    def _segment(self) -> Sequence[Recording]:
        return self.segments.pop(0) if len(self.segments) > 1 else self.segments[0]

    def _moments(self, round_: int) -> bytes:
        if self.moments is None:
            unfitted = replace(self.preprocessing, scale="federated")
            made = SentMoments.of(unfitted.moments(self._segment()))
            self.moments = round_, made.parts().to_bytes()
        return self.moments[1]

    def _statistics(self, round_: int, flags: int) -> bytes:
        self.new_only = bool(flags & 1)
        if self.pending is None or self.pending[0] != round_:
            rows = self.preprocessing.apply(self._segment())
            if self.classes:
                rows = [one.among(self.classes) for one in rows]
            new = accumulate(self.features, rows, classes=self.classes is not None)
            self.sums = new if self.sums is None else self.sums + new
            self.pending, self.last = (round_, self.sums.parts().to_bytes()), round_
        return self.pending[1]

    def _acknowledged(self, round_: int) -> bytes:
        if self.last != round_:
            return Frame("n", b"another round was asked for last").to_bytes()
        if self.pending is not None and self.new_only:
            self.sums = None
        self.pending = None
        return Frame("k").to_bytes()

    def _rows(self) -> Iterator[bytes]:
        assert self.weights is not None
        recordings = self.preprocessing.apply(self._segment())
        for number, z in enumerate(self.features.rows([one.u for one in recordings])):
            for row, scores in enumerate(z @ self.weights[:-1] + self.weights[-1]):
                head = struct.pack("<II", number, row)
                yield Frame("p", head + scores.astype("<f4").tobytes()).to_bytes()
        yield Frame("e").to_bytes()

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Yield the address at which the device answers, one connection after the other."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(0.05)
            stop = threading.Event()
            thread = threading.Thread(target=self._serve, args=(server, stop), daemon=True)
            thread.start()
            try:
                yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
            finally:
                stop.set()
                thread.join()

    def _serve(self, server: socket.socket, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection:
                self._talk(connection.fileno(), stop)

    @contextmanager
    def on_a_serial_line(self) -> Iterator[str]:
        """Yield the path of a line, at the other end of which the device is."""
        import tty

        ours, theirs = os.openpty()
        tty.setraw(ours)
        stop = threading.Event()
        thread = threading.Thread(target=self._talk, args=(ours, stop), daemon=True)
        thread.start()
        try:
            yield os.ttyname(theirs)
        finally:
            stop.set()
            thread.join()
            os.close(ours)
            os.close(theirs)

    def _talk(self, line: int, stop: threading.Event) -> None:
        came = b""
        while not stop.is_set():
            if not select.select([line], [], [], 0.05)[0]:
                continue
            try:
                more = os.read(line, 1 << 16)
                if not more:
                    return
                came += more
                while (size := _size(came)) <= len(came):
                    frame, came = read_frame(came[:size]), came[size:]
                    self._respond(line, frame)
            except (HangUpError, OSError):
                return

    def _respond(self, line: int, frame: Frame) -> None:
        try:
            sent = self.fault(frame.kind, self.answer(frame))
        except HangUpError as error:
            _write(line, error.args[0])
            raise
        if sent is not None:
            _write(line, sent)


def _size(came: bytes) -> int:
    """Return how long the first frame is, more than there is if that is not known yet."""
    if len(came) < HEAD.size:
        return len(came) + 1
    return HEAD.size + n_after_head(came[: HEAD.size], 1 << 26)


def _write(line: int, content: bytes) -> None:
    while content:
        content = content[os.write(line, content[: 1 << 12]) :]


def _upload(message: bytes) -> bytes:
    parts = [message[at : at + PART] for at in range(0, len(message), PART)]
    return b"".join(Frame("u", part).to_bytes() for part in parts) + Frame("e").to_bytes()

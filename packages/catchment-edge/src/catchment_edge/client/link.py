"""A conversation with a device: frames there, frames back, within limits of time and size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import final

from catchment.errors import DeviceError
from catchment.wire import plain_text
from catchment_edge.client.address import Address
from catchment_edge.client.frames import HEAD, MAGIC, Frame, n_after_head, read_frame
from catchment_edge.client.lines import Line

HELLO, SCALE, MOMENTS, TRAIN, ACKNOWLEDGED, READOUT, PREDICT = "HSMTARP"
KEYS, DEAL, OPEN, NEIGHBOR, MASKED = "KBONX"
PUBLIC, SHARES, OPENED = "ybo"
GREETING, KEPT, UPLOAD, END, ROW, NO = "hkuepn"
DRAINED = 1 << 20  # bytes of an earlier, abandoned answer that are passed over


@final
class Link:
    """One open line to a device, on which one question is asked after the other.

    Parameters
    ----------
    line
        The open line.
    address
        How long to wait.
    clock
        For tests.
    """

    def __init__(
        self, line: Line, address: Address, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._line, self._address, self._clock = line, address, clock
        self._came = bytearray()

    def greet(self) -> bytes:
        """Return what the device says of itself.

        What is left on the line of an answer that somebody gave up before is passed over.
        """
        self._send(Frame(HELLO))
        deadline, passed = self._clock() + self._address.timeout, 0
        while True:
            passed += self._to_magic(deadline)
            if passed > DRAINED:
                raise DeviceError(
                    "frame",
                    "the device sends without end and says nothing of itself; reset it, and check "
                    "the baud rate",
                )
            try:
                frame = self._frame(deadline, self._address.timeout)
            except DeviceError as error:
                if error.code != "frame":
                    raise
                passed += 1
                del self._came[:1]
                continue
            if frame.kind == GREETING:
                return frame.payload
            passed += len(frame.payload)

    def command(self, kind: str, payload: bytes) -> None:
        """Send something that the device keeps."""
        self._send(Frame(kind, payload))
        frame = self._answer(self._clock() + self._address.timeout, self._address.timeout)
        if frame.kind != KEPT:
            raise _unexpected(frame, KEPT)

    def ask(self, kind: str, payload: bytes, wanted: str) -> bytes:
        """Return the payload of an answer of one frame."""
        self._send(Frame(kind, payload))
        frame = self._answer(self._clock() + self._address.patience, self._address.patience)
        if frame.kind != wanted:
            raise _unexpected(frame, wanted)
        return frame.payload

    def collect(self, kind: str, payload: bytes, *, part: str, limit: int) -> Iterator[bytes]:
        """Yield the parts of a long answer, up to its end.

        Parameters
        ----------
        part
            The kind of the answer's frames.
        limit
            Most bytes of all of them.
        """
        self._send(Frame(kind, payload))
        # The first frame comes when the sensor is read; then nothing keeps the device.
        deadline, quiet, n_bytes = self._clock() + self._address.patience, None, 0
        while True:
            frame = self._answer(deadline, quiet)
            if frame.kind == END:
                return
            if frame.kind != part:
                raise _unexpected(frame, part)
            n_bytes += len(frame.payload)
            if n_bytes > limit:
                raise DeviceError(
                    "size",
                    f"the device sent more than {limit} bytes, which is more than its answer can "
                    "have; is it exported from this plan?",
                )
            quiet = self._address.timeout
            yield frame.payload

    def _send(self, frame: Frame) -> None:
        self._line.send(frame.to_bytes(), self._address.patience)

    def _answer(self, deadline: float, quiet: float | None) -> Frame:
        """Return the next frame; DeviceError with the device's reason if it says no."""
        frame = self._frame(deadline, quiet)
        while frame.kind == GREETING:  # of a hello that was given up before
            frame = self._frame(deadline, quiet)
        if frame.kind == NO:
            said = plain_text(frame.payload.decode("ascii", "replace"))
            raise DeviceError("refused", f"the device says: {said}")
        return frame

    def _frame(self, deadline: float, quiet: float | None) -> Frame:
        self._gather(HEAD.size, deadline, quiet)
        size = HEAD.size + n_after_head(bytes(self._came[: HEAD.size]))
        self._gather(size, deadline, self._address.timeout)
        # What is damaged stays, so that a greeting may begin within it.
        frame = read_frame(bytes(self._came[:size]))
        del self._came[:size]
        return frame

    def _gather(self, n: int, deadline: float, quiet: float | None) -> None:
        """Wait until so many bytes are here, of which the first may take until the deadline."""
        while len(self._came) < n:
            self._more(deadline, quiet if not self._came else self._address.timeout)

    def _to_magic(self, deadline: float) -> int:
        """Pass over bytes up to what may be the beginning of a frame; return how many."""
        passed = 0
        while True:
            while len(self._came) < len(MAGIC):
                self._more(deadline, self._address.timeout)
            at = self._came.find(MAGIC)
            if at >= 0:
                del self._came[:at]
                return passed + at
            passed += len(self._came) - 1
            del self._came[:-1]
            if passed > DRAINED:
                return passed

    def _more(self, deadline: float, quiet: float | None) -> None:
        left = deadline - self._clock()
        seconds = left if quiet is None else min(left, quiet)
        came = self._line.receive(seconds) if seconds > 0 else b""
        if not came:
            raise DeviceError(
                "silent",
                f"the device did not answer within {self._said(left, quiet)}; see that it runs, "
                "that its sensor has data, and that nobody else is connected to it",
            )
        self._came += came

    def _said(self, left: float, quiet: float | None) -> str:
        if quiet is not None and quiet < left:
            return f"{quiet:g} seconds"
        waited = self._address.patience if quiet is None else self._address.timeout
        return f"{waited:g} seconds"


def _unexpected(frame: Frame, wanted: str) -> DeviceError:
    return DeviceError(
        "frame", f"the device answered {frame.kind!r} where {wanted!r} belongs; reset it"
    )

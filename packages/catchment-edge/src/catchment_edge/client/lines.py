"""Lines to devices: bytes over TCP, or over a serial port by the system's own termios."""

from __future__ import annotations

import os
import select
import socket
from typing import Protocol, Self, final

from catchment.errors import DeviceError
from catchment_edge.client.address import Address

CONNECTING = 10.0  # seconds
CHUNK = 4096


class Line(Protocol):
    """All that is asked of a line; it is closed at the end of a `with`."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def receive(self, seconds: float) -> bytes:
        """Return some bytes; nothing if none came in that time. DeviceError if it was closed."""

    def send(self, content: bytes, seconds: float) -> None:
        """Send all bytes; DeviceError if the line does not take them in that time."""


def opened(address: Address) -> Line:
    """Return the open line of an address; DeviceError if there is nothing at its end."""
    return TcpLine(address) if address.scheme == "tcp" else SerialLine(address)


@final
class TcpLine:
    """A connection to a device's port, or to whatever hands on its serial line."""

    def __init__(self, address: Address) -> None:
        self._named = f"tcp://{address.place}"
        try:
            self._socket = socket.create_connection((address.host, address.port), CONNECTING)
        except OSError as error:
            raise DeviceError(
                "unreachable",
                f"no device answers at {self._named} ({error}); start it, or check the address",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def receive(self, seconds: float) -> bytes:
        self._socket.settimeout(max(seconds, 0.001))
        try:
            came = self._socket.recv(CHUNK)
        except TimeoutError:
            return b""
        except OSError as error:
            raise _lost(self._named, error) from error
        if not came:
            raise _lost(self._named, None)
        return came

    def send(self, content: bytes, seconds: float) -> None:
        self._socket.settimeout(max(seconds, 0.001))
        try:
            self._socket.sendall(content)
        except TimeoutError as error:
            raise _stuck(self._named, seconds) from error
        except OSError as error:
            raise _lost(self._named, error) from error


@final
class SerialLine:
    """A serial port: eight bits, no parity, no flow control, for one process at a time."""

    def __init__(self, address: Address) -> None:
        self._named = f"serial://{address.path}"
        try:
            self._fd = os.open(address.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError as error:
            raise DeviceError(
                "unreachable",
                f"{self._named} cannot be opened ({error.strerror}); plug the device in, or check "
                "the path and your rights to it",
            ) from error
        try:
            _make_raw(self._fd, self._named, address.baud)
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)

    def receive(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self._fd], [], [], max(seconds, 0))
        if not ready:
            return b""
        try:
            came = os.read(self._fd, CHUNK)
        except OSError as error:
            raise _lost(self._named, error) from error
        if not came:
            raise _lost(self._named, None)
        return came

    def send(self, content: bytes, seconds: float) -> None:
        left = memoryview(content)
        while left:
            _, ready, _ = select.select([], [self._fd], [], seconds)
            if not ready:
                raise _stuck(self._named, seconds)
            try:
                left = left[os.write(self._fd, left) :]
            except OSError as error:
                raise _lost(self._named, error) from error


def _make_raw(fd: int, named: str, baud: int) -> None:
    """Set a port to plain bytes at a speed, and keep it from other processes."""
    try:
        import fcntl
        import termios
    except ModuleNotFoundError as error:
        raise DeviceError(
            "unreachable",
            f"this system has no termios, which {named} needs; put a bridge from the line to a "
            "port of this machine, and write tcp://127.0.0.1:PORT",
        ) from error

    speed = vars(termios).get(f"B{baud}")
    if speed is None:
        raise ValueError(f"baud is {baud}, which this system does not have; pass 115200 or 9600")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DeviceError(
            "busy", f"another process talks to the device at {named}; end it, and ask again"
        ) from error
    try:
        _, _, cflag, _, _, _, cc = termios.tcgetattr(fd)
    except termios.error as error:
        raise DeviceError(
            "unreachable", f"{named} is no serial line ({error}); check the path"
        ) from error
    # Without HUPCL a board that resets on hang-up keeps its sums when the line is closed.
    cflag &= ~(termios.PARENB | termios.CSTOPB | termios.CSIZE | termios.HUPCL)
    cflag |= termios.CS8 | termios.CLOCAL | termios.CREAD
    termios.tcsetattr(fd, termios.TCSANOW, [0, 0, cflag, 0, speed, speed, cc])
    termios.tcflush(fd, termios.TCIOFLUSH)


def _lost(named: str, error: OSError | None) -> DeviceError:
    why = f" ({error.strerror or error})" if error else ""
    return DeviceError(
        "lost",
        f"the device at {named} closed the line{why}; it was reset, or talks to somebody else",
    )


def _stuck(named: str, seconds: float) -> DeviceError:
    return DeviceError(
        "silent", f"the device at {named} took no bytes for {seconds:g} seconds; reset it"
    )

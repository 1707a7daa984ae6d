"""A conversation with a device: frames there, frames back, within limits of time and size.

A device is at `tcp://127.0.0.1:7007` or at `serial:///dev/ttyACM0?baud=115200`: a line has bytes
over TCP, or over a serial port by the system's own termios. A frame on it is

    CA 7C | kind u8 | length u32 | payload | CRC-32 u32 of kind, length and payload

Numbers are little-endian. A length is compared with a limit before anything is allocated.
"""

from __future__ import annotations

import ipaddress
import math
import os
import select
import socket
import struct
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self, final
from urllib.parse import parse_qsl, urlsplit

from catchment.errors import DeviceError
from catchment.wire import plain_text

EXAMPLES = '"tcp://127.0.0.1:7007" or "serial:///dev/ttyACM0?baud=115200"'
SETTINGS = {"tcp": ("network", "timeout", "patience"), "serial": ("baud", "timeout", "patience")}
TIMEOUT, PATIENCE, BAUD = 10.0, 600.0, 115200
CONNECTING = 10.0  # seconds
CHUNK = 4096
MAGIC = b"\xca\x7c"
MOST_PAYLOAD = 4096  # bytes of a device's frame; long answers come in several
HEAD = struct.Struct("<2sBI")
CRC = struct.Struct("<I")
HELLO, SCALE, MOMENTS, TRAIN, ACKNOWLEDGED, READOUT, PREDICT = "HSMTARP"
KEYS, DEAL, OPEN, NEIGHBOR, MASKED, SINGLE = "KBONXW"
PUBLIC, SHARES, OPENED = "ybo"
GREETING, KEPT, UPLOAD, END, ROW, NO = "hkuepn"
DRAINED = 1 << 20  # bytes of an earlier, abandoned answer that are passed over


@dataclass(frozen=True)
class Address:
    """A device's address, read from its text.

    Parameters
    ----------
    scheme
        "tcp" or "serial".
    host, port
        Of a device behind TCP.
    path, baud
        Of a device on a serial line.
    timeout
        Seconds without a byte, in the middle of an answer, after which it is given up.
    patience
        Seconds for an answer that the device makes by reading its sensor.
    """

    scheme: str
    host: str = ""
    port: int = 0
    path: str = ""
    baud: int = BAUD
    timeout: float = TIMEOUT
    patience: float = PATIENCE

    @classmethod
    def of(cls, text: str) -> Address:
        """Return the address that a text names; ValueError if it names none that may be used.

        >>> Address.of("tcp://127.0.0.1:7007?patience=60").patience
        60.0
        >>> Address.of("tcp://10.0.0.7:7007")
        Traceback (most recent call last):
        ValueError: the device at 10.0.0.7 is on a network, where everybody on the way can read ...
        """
        parts = urlsplit(text)
        if parts.scheme not in SETTINGS:
            raise ValueError(f"the device's address is {text[:80]!r}; write {EXAMPLES}")
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name in given:
            if name not in SETTINGS[parts.scheme]:
                known = ", ".join(SETTINGS[parts.scheme])
                raise ValueError(f"{text[:80]!r} has {name!r}; choose from {known}")
        timeout = _seconds("timeout", given.get("timeout", TIMEOUT))
        patience = _seconds("patience", given.get("patience", PATIENCE))
        if parts.scheme == "serial":
            if parts.netloc or not parts.path:
                raise ValueError(
                    f"{text[:80]!r} names no serial line; write three slashes before its path, as "
                    "in serial:///dev/ttyACM0"
                )
            baud = given.get("baud", str(BAUD))
            if not baud.isdecimal():
                raise ValueError(f"baud is {baud[:20]!r}; pass an integer such as {BAUD}")
            line, speed = parts.path, int(baud)
            return cls("serial", path=line, baud=speed, timeout=timeout, patience=patience)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ValueError(f"{text[:80]!r} has no port: {error}") from error
        if not host or not port:
            raise ValueError(f"{text[:80]!r} lacks host or port; write {EXAMPLES}")
        if given.get("network", "no") not in ("yes", "no"):
            raise ValueError(f"network is {given['network']!r}; write yes or no")
        if given.get("network") != "yes" and not is_loopback(host):
            raise ValueError(
                f"the device at {host} is on a network, where everybody on the way can read and "
                "change what it sends; use a cable or a tunnel that ends at 127.0.0.1, or add "
                "?network=yes if you trust that network"
            )
        return cls("tcp", host=host, port=port, timeout=timeout, patience=patience)

    @property
    def place(self) -> str:
        """What no two clients share."""
        return self.path if self.scheme == "serial" else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("10.0.0.7")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _seconds(name: str, text: str | float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {str(text)[:20]!r}; pass a number of seconds above 0")
    return value


class Line(ABC):
    """Bytes to a device and back; it is closed at the end of a `with`."""

    def __init__(self, named: str) -> None:
        self._named = named

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None: ...

    def receive(self, seconds: float) -> bytes:
        """Return some bytes; nothing if none came in that time. DeviceError if it was closed."""
        try:
            came = self.take(seconds)
        except TimeoutError:
            return b""
        except OSError as error:
            raise self._lost(f" ({error.strerror or error})") from error
        if not came:
            raise self._lost("")
        return came

    def send(self, content: bytes, seconds: float) -> None:
        """Send all bytes; DeviceError if the line does not take them in that time."""
        try:
            self.give(content, seconds)
        except TimeoutError as error:
            raise DeviceError(
                "silent",
                f"the device at {self._named} took no bytes for {seconds:g} seconds; reset it",
            ) from error
        except OSError as error:
            raise self._lost(f" ({error.strerror or error})") from error

    @abstractmethod
    def take(self, seconds: float) -> bytes:
        """Return what came, nothing if the line was closed; TimeoutError if nothing came."""

    @abstractmethod
    def give(self, content: bytes, seconds: float) -> None:
        """Send all bytes; TimeoutError if the line does not take them."""

    def _lost(self, why: str) -> DeviceError:
        return DeviceError(
            "lost",
            f"the device at {self._named} closed the line{why}; it was reset, or talks to somebody "
            "else",
        )


def opened(address: Address) -> Line:
    """Return the open line of an address; DeviceError if there is nothing at its end."""
    return TcpLine(address) if address.scheme == "tcp" else SerialLine(address)


@final
class TcpLine(Line):
    """A connection to a device's port, or to whatever hands on its serial line."""

    def __init__(self, address: Address) -> None:
        super().__init__(f"tcp://{address.place}")
        try:
            self._socket = socket.create_connection((address.host, address.port), CONNECTING)
        except OSError as error:
            raise DeviceError(
                "unreachable",
                f"no device answers at {self._named} ({error}); start it, or check the address",
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def take(self, seconds: float) -> bytes:
        self._socket.settimeout(max(seconds, 0.001))
        return self._socket.recv(CHUNK)

    def give(self, content: bytes, seconds: float) -> None:
        self._socket.settimeout(max(seconds, 0.001))
        self._socket.sendall(content)


@final
class SerialLine(Line):
    """A serial port: eight bits, no parity, no flow control, for one process at a time."""

    def __init__(self, address: Address) -> None:
        super().__init__(f"serial://{address.path}")
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

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)

    def take(self, seconds: float) -> bytes:
        if not select.select([self._fd], [], [], max(seconds, 0))[0]:
            raise TimeoutError
        return os.read(self._fd, CHUNK)

    def give(self, content: bytes, seconds: float) -> None:
        left = memoryview(content)
        while left:
            if not select.select([], [self._fd], [], seconds)[1]:
                raise TimeoutError
            left = left[os.write(self._fd, left) :]


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


@dataclass(frozen=True)
class Frame:
    """One frame: a letter that says what it is, and its payload.

    >>> frame = Frame("T", bytes([0, 0, 0, 0, 1]))
    >>> frame.to_bytes().hex(" ", 4)
    'ca7c5405 00000000 00000001 9d3be56e'
    """

    kind: str
    payload: bytes = b""

    def to_bytes(self) -> bytes:
        head = HEAD.pack(MAGIC, ord(self.kind), len(self.payload))
        body = head[len(MAGIC) :] + self.payload
        return MAGIC + body + CRC.pack(zlib.crc32(body))


def n_after_head(head: bytes, most: int = MOST_PAYLOAD) -> int:
    """Return how many bytes follow the head of a frame; DeviceError if it is none, or too long.

    >>> n_after_head(Frame("e").to_bytes()[:7])
    4
    """
    magic, kind, length = HEAD.unpack(head)
    if magic != MAGIC:
        raise DeviceError(
            "frame",
            f"the device sent {head[:2].hex(' ')} where a frame begins with {MAGIC.hex(' ')}; "
            "check the baud rate, and that nothing else prints on that line",
        )
    if length > most:
        raise DeviceError(
            "frame",
            f"the device announced a frame {chr(kind)!r} of {length} bytes, the most is {most}; "
            "is it firmware that catchment exported?",
        )
    return int(length) + CRC.size


def read_frame(content: bytes) -> Frame:
    """Return a frame from all its bytes; DeviceError if its CRC does not match.

    >>> read_frame(Frame("k").to_bytes())
    Frame(kind='k', payload=b'')
    """
    body, (crc,) = content[len(MAGIC) : -CRC.size], CRC.unpack(content[-CRC.size :])
    if zlib.crc32(body) != crc:
        raise DeviceError(
            "frame", "a frame of the device is damaged: its CRC does not match; ask again"
        )
    return Frame(chr(body[0]), body[HEAD.size - len(MAGIC) :])


@final
class Link:
    """One open line to a device, on which one question is asked after the other.

    Parameters
    ----------
    line
        The open line.
    address
        How long to wait.
    """

    def __init__(self, line: Line, address: Address) -> None:
        self._line, self._address = line, address
        self._came = bytearray()

    def greet(self) -> bytes:
        """Return what the device says of itself.

        What is left on the line of an answer that somebody gave up before is passed over.
        """
        self._send(Frame(HELLO))
        deadline, passed = time.monotonic() + self._address.timeout, 0
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
        frame = self._answer(time.monotonic() + self._address.timeout, self._address.timeout)
        if frame.kind != KEPT:
            raise _unexpected(frame, KEPT)

    def ask(self, kind: str, payload: bytes, wanted: str) -> bytes:
        """Return the payload of an answer of one frame."""
        self._send(Frame(kind, payload))
        frame = self._answer(time.monotonic() + self._address.patience, self._address.patience)
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
        deadline, quiet, n_bytes = time.monotonic() + self._address.patience, None, 0
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
        left = deadline - time.monotonic()
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

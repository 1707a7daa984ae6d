"""Where a device is: `tcp://127.0.0.1:7007` or `serial:///dev/ttyACM0?baud=115200`."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

EXAMPLES = '"tcp://127.0.0.1:7007" or "serial:///dev/ttyACM0?baud=115200"'
SETTINGS = {"tcp": ("network", "timeout", "patience"), "serial": ("baud", "timeout", "patience")}
TIMEOUT, PATIENCE, BAUD = 10.0, 600.0, 115200


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
            baud = _whole(given.get("baud", BAUD))
            return cls("serial", path=parts.path, baud=baud, timeout=timeout, patience=patience)
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


def _whole(text: str | int) -> int:
    if not str(text).isdecimal():
        raise ValueError(f"baud is {str(text)[:20]!r}; pass an integer such as {BAUD}")
    return int(text)

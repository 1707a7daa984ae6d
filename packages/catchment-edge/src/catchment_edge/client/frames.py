"""Frames on the line between a gateway and a device.

    CA 7C | kind u8 | length u32 | payload | CRC-32 u32 of kind, length and payload

Numbers are little-endian. A length is compared with a limit before anything is allocated.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from catchment.errors import DeviceError

MAGIC = b"\xca\x7c"
MOST_PAYLOAD = 4096  # bytes of a device's frame; long answers come in several
HEAD = struct.Struct("<2sBI")
CRC = struct.Struct("<I")


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

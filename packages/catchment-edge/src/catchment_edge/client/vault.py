"""A device that keeps its own secrets of secure aggregation, and masks its sums before they leave
it.

The gateway signs, keeps the books and checks who takes part, as for any client. It sees public
keys, closed boxes, shares that others dealt to the device, and masked numbers; not the device's
sums, and nothing they could be computed from, as long as it tells the device the true keys of the
others: the device does not check their signatures.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from catchment.errors import DeviceError
from catchment.federation import Memory, Upload
from catchment.privacy.secure_aggregation import (
    BOX_BYTES,
    MARK_BYTES,
    SHARE_BYTES,
    Dealt,
    Holder,
    Me,
    Outline,
    Residues,
    Ring,
    Terms,
    Vault,
)
from catchment.wire import measured
from catchment_edge.client import link as kinds
from catchment_edge.client.link import Link

if TYPE_CHECKING:
    from catchment_edge.client.device import EdgeClient

Masked = Callable[[Link, int, bool], bytes]
PLACE = struct.Struct("<I")
DEALT = struct.Struct("<IH")
UPLOAD = struct.Struct("<IB32sBQIH")
WHOLE = struct.Struct("<IB32sBQ")
SEALED = 80  # bytes of a sealed seed


class DeviceVault(Vault):
    """A client's secrets of secure aggregation, on its device."""

    def __init__(self, device: EdgeClient, memory: Memory) -> None:
        self.device, self.memory = device, memory

    def new_keys(self, me: Me) -> bytes:
        with self.device.link() as link:
            return opened_session(link, me)[:64]

    def promise(self, me: Me) -> bytes:
        with self.device.link() as link:
            return opened_session(link, me)[64:]

    def deal(self, me: Me, seen: bytes, holders: Sequence[Holder], threshold: int) -> list[Dealt]:
        with self.device.link() as link:
            opened_session(link, me)
            return [_dealt(link, me, seen, holder, threshold) for holder in holders]

    def opened(
        self, me: Me, seen: bytes, near: Sequence[Holder], boxes: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        with self.device.link() as link:
            opened_session(link, me)
            held = [one for one in near if one.place in boxes]
            found = {one.place: _opened(link, seen, one, boxes[one.place]) for one in held}
            return {place: content for place, content in found.items() if content is not None}

    def masked(self, me: Me, upload: Upload, near: Sequence[Holder], terms: Terms) -> Residues:
        ring, length = terms.ring, Outline.of(upload.parts()).length
        if ring.limbs != 1 or ring.fraction:
            raise DeviceError(
                "plan",
                f"the device masks integers of 32 or 64 bits, and the plan's ring has "
                f"{ring.bits} with {ring.fraction} after the point; use a map in fixed point",
            )
        n_features = sum(found.sizes.get("features", 0) for found in measured(upload))
        least = math.ceil(terms.rows_per_feature * n_features / terms.min_clients)
        n_bytes, most = ring.bits // 8, ring.whole_limit(terms.n_clients)

        def ask(link: Link, round_: int, new_only: bool) -> bytes:
            opened_session(link, me)
            for one in near:
                link.command(kinds.NEIGHBOR, terms.told + PLACE.pack(one.place) + one.public[32:])
            asked = UPLOAD.pack(round_, new_only, terms.told, n_bytes, most, least, len(near))
            limit = n_bytes * length
            parts = link.collect(kinds.MASKED, asked, part=kinds.UPLOAD, limit=limit)
            return b"".join(parts)

        message = _sized(self.device.masked(ask, self.memory), n_bytes * length)
        return _numbers(message, ring)

    def sealed(
        self, upload: Upload, about: bytes, told: bytes, ring: Ring, n_clients: int
    ) -> tuple[Residues, bytes]:
        """Return the device's numbers under the mask of a seed, and the seed sealed for the helper.

        Parameters
        ----------
        about
            The terms that the helper holds the leader to; the device seals for its own floor only.
        told
            What the sum is about.
        """
        length, n_bytes = Outline.of(upload.parts()).length, ring.bits // 8
        most = ring.whole_limit(n_clients)

        def ask(link: Link, round_: int, new_only: bool) -> bytes:
            asked = WHOLE.pack(round_, new_only, told, n_bytes, most) + about
            limit = n_bytes * length + SEALED
            return b"".join(link.collect(kinds.SINGLE, asked, part=kinds.UPLOAD, limit=limit))

        message = _sized(self.device.masked(ask, self.memory), n_bytes * length + SEALED)
        return _numbers(message[:-SEALED], ring), message[-SEALED:]


def opened_session(link: Link, me: Me) -> bytes:
    """Tell the device which session this is; return its public keys and its promise (96,)."""
    start = me.session.start.encode()
    told = struct.pack("<H", len(start)) + start + PLACE.pack(me.place) + _name(me.name)
    return _sized(link.ask(kinds.KEYS, told, kinds.PUBLIC), 96)


def _dealt(link: Link, me: Me, seen: bytes, holder: Holder, threshold: int) -> Dealt:
    public = holder.public[:32] or bytes(32)
    told = seen + DEALT.pack(holder.place, threshold) + public + _name(holder.name)
    length = 2 * SHARE_BYTES if holder.place == me.place else BOX_BYTES
    came = _sized(link.ask(kinds.DEAL, told, kinds.SHARES), length + MARK_BYTES)
    return came[:length], came[length:]


def _opened(link: Link, seen: bytes, holder: Holder, box: bytes) -> bytes | None:
    told = seen + PLACE.pack(holder.place) + holder.public[:32] + box + _name(holder.name)
    try:
        return _sized(link.ask(kinds.OPEN, told, kinds.OPENED), 2 * SHARE_BYTES)
    except DeviceError as error:
        if error.code != "refused":
            raise
        return None


def _numbers(message: bytes, ring: Ring) -> Residues:
    little = np.frombuffer(message, dtype=ring.dtype.newbyteorder("<"))
    return little.astype(ring.dtype)[None]


def _name(name: str) -> bytes:
    return bytes([len(name)]) + name.encode()


def _sized(came: bytes, length: int) -> bytes:
    if len(came) != length:
        raise DeviceError("shape", f"{len(came)} bytes came where {length} belong; export it again")
    return came

"""Servers that lie, and clients that work with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from catchment import Array
from catchment.federation import RoundContext
from catchment.privacy.secure_aggregation import (
    SHARE_BYTES,
    Notebook,
    Outline,
    Residues,
    SecureRound,
    add_into,
    as_bits,
    combine,
    cut,
    from_bits,
    keys,
    rows,
    share_from,
    subtract_from,
)
from catchment.wire import NOTHING, Message
from tests.security.fleet import Fleet


def number(request: Message) -> int:
    value = request.facts["round"]
    assert isinstance(value, int)
    return value


def survivors(number: int, places: Iterable[int], n_clients: int) -> Message:
    bits = as_bits(set(places), n_clients)
    return Message("secure-survivors", {"round": number}, (bits,))


def consents(number: int, signed: Mapping[int, Message]) -> Message:
    """Return the request that asks for shares, with the signatures of these clients."""
    places = np.array(sorted(signed), dtype=np.uint32)
    arrays = [signed[place].arrays[0] for place in sorted(signed)]
    together = np.concatenate(arrays) if arrays else rows([], 64)
    return Message("secure-consents", {"round": number}, (places, together))


@dataclass(eq=False)
class Colluder:
    """What a client that works with the server tells it: everything it has."""

    fleet: Fleet
    client: str
    session: keys.Session

    @property
    def book(self) -> Notebook:
        return Notebook(self.fleet.memories[self.client], self.session)

    def sign(self, places: Iterable[int]) -> Message:
        """Sign any set, as a consent to the sum that it took part in."""
        bits = as_bits(set(places), len(self.fleet.vectors)).tobytes()
        about = self.session.about("survivors", self.client)
        content = bits + self.book["update"]
        signed = keys.sign(self.fleet.memories[self.client], about, content)
        return Message("secure-consent", {}, (rows([signed], 64),))

    def shares_of(self, owner: int) -> tuple[bytes, bytes]:
        """Return its shares of another client's own mask and of its mask key: both."""
        bits = np.frombuffer(self.book["held"], dtype=np.uint8)
        held = from_bits(bits, len(self.fleet.vectors))
        pair = cut(self.book["held shares"], 2 * SHARE_BYTES)[held.index(owner)]
        return pair[:SHARE_BYTES], pair[SHARE_BYTES:]


@dataclass(eq=False)
class SplitView:
    """A server that shows half of the honest clients a set with a victim, and half one without.

    Those who work with it (`bad`, by place) sign both, and give both shares of the victim.
    """

    fleet: Fleet
    bad: Sequence[int]
    victim: int = 0
    own: dict[int, int] = field(default_factory=dict)
    key: dict[int, int] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return sorted(self.fleet.vectors)

    def run(self, refused: type[Exception]) -> tuple[SecureRound, dict[int, Message]]:
        """Play the round up to its shares; return the server's half and the uploads."""
        fleet, names = self.fleet, self.names
        exchange = fleet.until("update")
        everybody = range(len(names))
        uploads = {}
        for place, client in enumerate(names):
            request = exchange.request("update", client, NOTHING)
            uploads[place] = fleet.ask(client, "update", request)
            exchange.take("update", uploads[place], RoundContext(0, (), client=client))
        exchange.close("update")
        at = number(exchange.request("consistency", names[0], NOTHING))
        session = keys.Session.of(
            "catchment", at, RoundContext(0, (), plan=fleet.plan.fingerprint())
        )
        bad = {place: Colluder(fleet, names[place], session) for place in self.bad}
        honest = [place for place in everybody if place not in bad and place != self.victim]
        with_, without = set(everybody), set(everybody) - {self.victim}
        sets = {
            **dict.fromkeys([self.victim, *honest[: len(honest) // 2]], with_),
            **dict.fromkeys(honest[len(honest) // 2 :], without),
        }
        signed = {
            place: fleet.ask(names[place], "consistency", survivors(at, shown, len(names)))
            for place, shown in sets.items()
        }
        for place, shown in sets.items():
            agree = {p: signed[p] for p in sets if p != place and sets[p] == shown}
            agree |= {p: one.sign(shown) for p, one in bad.items()}
            try:
                given = fleet.ask(names[place], "unmask", consents(at, agree)).arrays[0]
            except refused as error:
                self.refusals.append(str(error))
                continue
            shares = self.own if self.victim in shown else self.key
            shares[place + 1] = share_from(given[self.victim].tobytes())
        for place, one in bad.items():
            own, key = one.shares_of(self.victim)
            self.own[place + 1], self.key[place + 1] = share_from(own), share_from(key)
        return exchange, uploads

    def opened(self, exchange: SecureRound, uploads: Mapping[int, Message], t: int) -> Array:
        """Return the victim's numbers from its upload and t shares of each of its secrets."""
        own, key = (
            combine(dict(sorted(shares.items())[:t])).to_bytes(66, "little")[:32]
            for shares in (self.own, self.key)
        )
        upload = uploads[self.victim]
        return bare(self.fleet, exchange, upload, self.victim, own=own, mask_key=key)


def bare(
    fleet: Fleet,
    exchange: SecureRound,
    upload: Message,
    place: int,
    *,
    own: bytes | None,
    mask_key: bytes,
) -> Array:
    """Return an upload without the masks of these secrets; without an own mask if there is none."""
    outline = Outline.from_fact(upload.facts["outline"])
    ring = fleet.masking.ring_of(outline)
    numbers: Residues = upload.arrays[0].copy()
    salt = bytes.fromhex(str(upload.facts["update"]))
    masks = keys.Masks(ring, numbers.shape[1])
    if own is not None:
        subtract_from(numbers, masks.of(keys.own_mask_key(salt, place, own)))
    agreement = keys.Agreement(mask_key)
    for other in range(len(fleet.vectors)):
        if other != place:
            shared = agreement.shared(exchange._row("keys", other)[32:64])
            mask = masks.of(keys.pair_mask_key(salt, shared, place, other))
            (subtract_from if other > place else add_into)(numbers, mask)
    return outline.fill(numbers, ring).arrays[0]

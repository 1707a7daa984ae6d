"""Where a client's secrets of a round are: in its memory, or on a device that shows them to nobody.

Everything else of a client's half (who takes part, the signatures, the books) does not touch them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from catchment.errors import IntegrityError
from catchment.federation.algorithm import Upload
from catchment.privacy.secure_sum import keys, transcript
from catchment.privacy.secure_sum.client_notes import Notebook
from catchment.privacy.secure_sum.client_rules import check_rows
from catchment.privacy.secure_sum.messages import cut, encoded, share_bytes
from catchment.privacy.secure_sum.ring import Residues, Ring, add_into, subtract_from
from catchment.privacy.secure_sum.shamir import share
from catchment.structure import taken_apart


@dataclass(frozen=True)
class Me:
    """A client in one session of a secure sum: its place among the registered ones, its name."""

    session: keys.Session
    place: int
    name: str


@dataclass(frozen=True)
class Holder:
    """A client that holds shares of another's secrets; `public` are its two keys of the round."""

    place: int
    name: str
    public: bytes  # (64,), for boxes and for masks


@dataclass(frozen=True)
class Dealt:
    """What a holder is sent: a box (or, to oneself, what would be in it), and two digests."""

    content: bytes
    mark: bytes


@dataclass(frozen=True)
class Terms:
    """What an upload is masked under.

    Parameters
    ----------
    told
        SHA-256 of all that the sum is about, with which masks are salted.
    n_clients
        How many clients are in the sum.
    rows_per_feature, min_clients
        As `check_rows` asks.
    """

    told: bytes
    ring: Ring
    n_clients: int
    rows_per_feature: float
    min_clients: int


class Vault(Protocol):
    """Who has a client's secrets of a round, and what is asked of them."""

    def new_keys(self, me: Me) -> bytes:
        """Return two new public keys (64,), for boxes and for masks."""

    def promise(self, me: Me) -> bytes:
        """Return the digest (32,) of the secret of the client's own mask."""

    def deal(self, me: Me, seen: bytes, holders: Sequence[Holder], threshold: int) -> list[Dealt]:
        """Return shares of both secrets for each holder, the client itself among them."""

    def opened(
        self, me: Me, seen: bytes, near: Sequence[Holder], boxes: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        """Return what is in boxes by the place of who sent them, but for those that do not open.

        Parameters
        ----------
        near
            All neighbours, also those that sent no box, in the order of their places.
        """

    def masked(self, me: Me, upload: Upload, near: Sequence[Holder], terms: Terms) -> Residues:
        """Return the numbers of an upload under the own mask and one for each neighbour."""


def box_label(session: keys.Session, sender: str, receiver: str) -> bytes:
    """Return what a box of shares is about."""
    return session.about("shares", sender, receiver)


@dataclass(frozen=True, eq=False)
class MemoryVault:
    """Secrets in a client's own memory, erased with the last answer of a round."""

    book: Notebook

    def new_keys(self, me: Me) -> bytes:
        self.book["box key"], self.book["mask key"] = keys.new_key(), keys.new_key()
        return keys.public_key(self.book["box key"]) + keys.public_key(self.book["mask key"])

    def promise(self, me: Me) -> bytes:
        return me.session.digest("own mask", self.book["own mask"])

    def deal(self, me: Me, seen: bytes, holders: Sequence[Holder], threshold: int) -> list[Dealt]:
        own = self.book["own mask"] = secrets.token_bytes(keys.KEY_BYTES)
        at = [holder.place + 1 for holder in holders]
        pieces = zip(
            share(int.from_bytes(own, "little"), threshold, at),
            share(int.from_bytes(self.book["mask key"], "little"), threshold, at),
            strict=True,
        )
        agreement, opening, dealt = keys.Agreement(self.book["box key"]), [], []
        for holder, (one, other) in zip(holders, pieces, strict=True):
            content = share_bytes(one) + share_bytes(other)
            mark = transcript.mark(me.session, me.place, holder.place, content)
            if holder.place != me.place:
                shared = agreement.shared(holder.public[: keys.KEY_BYTES])
                there = _box_key(shared, seen, me.place, holder.place)
                opening.append(_box_key(shared, seen, holder.place, me.place))
                content = keys.seal(there, content, box_label(me.session, me.name, holder.name))
            dealt.append(Dealt(content, mark))
        self.book["box keys"] = b"".join(opening)  # agreed on once, for both directions
        return dealt

    def opened(
        self, me: Me, seen: bytes, near: Sequence[Holder], boxes: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        found = {}
        for holder, key in zip(near, cut(self.book["box keys"], keys.KEY_BYTES), strict=True):
            if holder.place not in boxes:
                continue
            about = box_label(me.session, holder.name, me.name)
            with suppress(IntegrityError):
                found[holder.place] = keys.unseal(key, boxes[holder.place], about)
        return found

    def masked(self, me: Me, upload: Upload, near: Sequence[Holder], terms: Terms) -> Residues:
        check_rows(upload, rows_per_feature=terms.rows_per_feature, min_clients=terms.min_clients)
        numbers = encoded(taken_apart(upload), terms.ring, n_clients=terms.n_clients)
        masks = keys.Masks(terms.ring, numbers.shape[1])
        add_into(numbers, masks.of(keys.own_mask_key(terms.told, me.place, self.book["own mask"])))
        agreement = keys.Agreement(self.book["mask key"])
        for holder in near:
            shared = agreement.shared(holder.public[keys.KEY_BYTES :])
            mask = masks.of(keys.pair_mask_key(terms.told, shared, me.place, holder.place))
            (add_into if holder.place > me.place else subtract_from)(numbers, mask)
        return numbers


def _box_key(shared: bytes, seen: bytes, sender: int, receiver: int) -> bytes:
    return keys.derive(shared, salt=seen, purpose=f"share|{sender}|{receiver}")

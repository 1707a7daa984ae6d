"""The server's half of a secure sum, which sees keys, closed boxes, masked numbers and shares.

Who goes on after a stage is fixed when the stage is closed, and written down before anything is
done with it: above all the sealed set, the clients whose uploads are summed, before any share is
asked for. What comes for a closed stage is refused unread, because a late upload of a client that
was declared lost could be unmasked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import final

import numpy as np

from catchment.errors import (
    AbortedError,
    CatchmentError,
    FederationError,
    IntegrityError,
    TooFewClientsError,
    UploadError,
)
from catchment.federation.plan import Additive, Journal, Read, Turn
from catchment.privacy.secure_sum import keys
from catchment.privacy.secure_sum.client import ADVERT_BYTES, BOX_BYTES, own_mask_key, pair_mask_key
from catchment.privacy.secure_sum.graph import neighbours
from catchment.privacy.secure_sum.messages import (
    Bytes,
    Outline,
    as_bits,
    content_digest,
    from_rows,
    rows,
    share_from,
)
from catchment.privacy.secure_sum.protection import SecureSum
from catchment.privacy.secure_sum.ring import Residues, Ring, add_into, subtract_from
from catchment.privacy.secure_sum.shamir import SHARE_BYTES, combine
from catchment.privacy.secure_sum.uploads import Uploads
from catchment.wire import Parts, join

STAGES = ("keys", "shares", "update", "consistency", "unmask")
STATES = {"update": "SEALED", "consistency": "SEALED", "unmask": "UNMASKED"}

_clock = threading.Lock()
_latest = 0


def next_number(after: int = 0) -> int:
    """Return a round number above all before it: the time, unless the clock stands or goes back.

    >>> next_number() < next_number()
    True
    """
    global _latest
    with _clock:
        _latest = max(time.time_ns(), _latest + 1, after + 1)
        return _latest


@final
class SecureRound:
    """One round of a secure sum; with a journal, the one that was cut short goes on."""

    stages: Sequence[str] = STAGES

    def __init__(
        self, agreed: SecureSum, turn: Turn, min_clients: int, journal: Journal | None
    ) -> None:
        strangers = [client for client in turn.cohort if client not in agreed.identities]
        if strangers:
            raise FederationError(
                f"{', '.join(strangers[:3])} has no registered identity; add its public key to "
                "the plan's secure sum"
            )
        number, cohort = (
            journal.begin(turn.plan, turn.round, turn.cohort)
            if journal
            else (next_number(), turn.cohort)
        )
        self._agreed, self._turn, self._min_clients = agreed, turn, min_clients
        self._journal, self._number = journal, number
        self._session = keys.Session(agreed.federation, turn.plan, number)
        self._cohort = tuple(agreed.places[client] for client in sorted(cohort))
        self._members: dict[str, tuple[int, ...]] = {}
        self._replies: dict[str, dict[int, Parts]] = {stage: {} for stage in STAGES}
        self._uploads = Uploads()
        self._threshold = 0
        self._near: dict[int, tuple[int, ...]] = {}
        self._holders: dict[int, list[int]] = {}
        self._desk = threading.Lock()
        if journal:
            self._restore(journal)

    def _restore(self, journal: Journal) -> None:
        """Take in again what the journal holds, in the order in which it was closed."""
        closed = journal.closed(self._number)
        for stage in STAGES:
            for client, message in journal.replies(self._number, stage):
                self._take(stage, Parts.from_bytes(message), self._turn.at(client), None)
            if stage not in closed:
                return
            self._members[stage] = self._going_on(stage)
            if self._named(self._members[stage]) != closed[stage]:
                raise IntegrityError(f"the journal's answers to {stage!r} do not give its members")
            self._closed(stage)

    def asked(self, stage: str) -> tuple[str, ...]:
        if stage in self._members:
            return ()
        here = self._uploads.members if stage == "update" else self._replies[stage]
        return self._named([place for place in self._wanted(stage) if place not in here])

    def letter(self, stage: str, client: str, payload: Parts) -> Parts:
        facts, place = {"round": self._number}, self._agreed.places[client]
        if stage == "keys":
            return Parts("secure-round", facts)
        if stage == "shares":
            adverts = [self._row("keys", other) for other in self._near[place]]
            arrays = (self._bits("keys"), rows(adverts, ADVERT_BYTES))
            return Parts("secure-adverts", facts, arrays)
        if stage == "update":
            boxes = [self._box(other, place) for other in self._holders[place] if other != place]
            arrays = (self._bits("shares"), rows(boxes, BOX_BYTES))
            return join(
                "secure-update",
                {"boxes": Parts("secure-boxes", facts, arrays), "payload": payload},
            )
        if stage == "consistency":
            return Parts("secure-survivors", facts, (self._bits("update"),))
        signers = self._signers(place)[: self._threshold - 1]
        signed = rows((self._row("consistency", other) for other in signers), 64)
        return Parts("secure-consents", facts, (np.array(signers, dtype=np.uint32), signed))

    def take(self, stage: str, parts: Parts, turn: Turn) -> bool:
        with self._desk:
            early = parts.kind == "secure-upload" and stage != "update"
            if stage in self._members or early:
                raise UploadError("late", f"{turn.client} answers a stage that is over")
            return self._take(stage, parts, turn, self._journal)

    def _take(self, stage: str, parts: Parts, turn: Turn, journal: Journal | None) -> bool:
        place = self._agreed.places[turn.client]
        if place not in self._wanted(stage):
            raise UploadError("stranger", f"{turn.client} has no part in this stage")
        if stage == "update":
            return self._take_upload(parts, turn.client, place, journal)
        self._check(stage, parts, turn.client, place)
        before = self._replies[stage].setdefault(place, parts)
        if before is not parts and before.to_bytes() != parts.to_bytes():
            raise UploadError("conflict", f"{turn.client} gave two answers to {stage!r}")
        return before is parts

    def _take_upload(self, parts: Parts, client: str, place: int, journal: Journal | None) -> bool:
        outline, numbers, content = self._checked_upload(parts, client)
        new = self._uploads.is_new(place, content)
        if new:
            # On the disk before it counts.
            if journal:
                journal.keep(self._number, client, parts.to_bytes())
            self._uploads.add(place, outline, numbers, content)
        return new

    def _check(self, stage: str, parts: Parts, client: str, place: int) -> None:
        """Refuse an answer of another form, or one that its client did not sign."""
        if stage == "keys":
            (advert,) = from_rows(parts.expect("secure-keys", 1).arrays[0], 1, ADVERT_BYTES)
            self._verify("keys", client, advert[64:], advert[:64])
        elif stage == "shares":
            promise, boxes = parts.expect("secure-shares", 2).arrays
            from_rows(promise, 1, 32)
            from_rows(boxes, len(self._near[place]), BOX_BYTES)
        elif stage == "consistency":
            (consent,) = from_rows(parts.expect("secure-consent", 1).arrays[0], 1, 64)
            self._verify("survivors", client, consent, self._bits("update").tobytes())
        else:
            (given,) = parts.expect("secure-shares-given", 1).arrays
            for share in from_rows(given, len(self._holders[place]), SHARE_BYTES):
                share_from(share)

    def _checked_upload(self, parts: Parts, client: str) -> tuple[Outline, Residues, bytes]:
        numbers, signature = parts.expect("secure-upload", 2).arrays
        if parts.facts.get("round") != self._number:
            raise UploadError("round", f"{client} sent an upload of another round")
        outline = Outline.from_fact(parts.facts.get("outline"))
        ring = self._agreed.ring_of(outline)
        shape = (ring.limbs, outline.length)
        if numbers.dtype != ring.dtype or numbers.shape != shape:
            raise UploadError(
                "shape",
                f"{client} sent {numbers.shape} of {numbers.dtype} for {shape} of {ring.dtype}",
            )
        content = content_digest(outline, numbers)
        self._verify("upload", client, from_rows(signature, 1, 64)[0], content)
        return outline, numbers, content

    def _verify(self, message: str, client: str, signature: bytes, content: bytes) -> None:
        public, about = self._agreed.identities[client], self._session.about(message, client)
        try:
            keys.verify(public, signature, about, content)
        except IntegrityError as error:
            raise UploadError("signature", f"{client} did not sign what came from it") from error

    def close(self, stage: str) -> None:
        with self._desk:
            if stage in self._members:
                return
            try:
                members = self._going_on(stage)
            except FederationError:
                self._advance("ABORTED")
                raise
            if self._journal:
                replies = {
                    self._agreed.names[place]: parts.to_bytes()
                    for place, parts in self._replies[stage].items()
                }
                state = STATES.get(stage, "OPEN")
                self._journal.close(self._number, stage, self._named(members), replies, state=state)
            self._members[stage] = members
            self._closed(stage)

    def _closed(self, stage: str) -> None:
        if stage == "keys":
            members = self._members["keys"]
            k, self._threshold = self._agreed.degree(len(members))
            seed = self._session.digest("graph")
            self._near = {place: neighbours(members, place, k, seed) for place in members}
        if stage == "shares":
            there = set(self._members["shares"])
            self._holders = {
                place: sorted(there.intersection(self._near[place]) | {place}) for place in there
            }
        if stage == "update":
            self._uploads.seal()

    def _going_on(self, stage: str) -> tuple[int, ...]:
        """Return the clients that are in the next stage; raise if they are too few for a sum."""
        members = self._uploads.most() if stage == "update" else set(self._replies[stage])
        if stage in ("shares", "consistency"):
            members = self._with_holders(members)
        if stage == "unmask":
            self._check_shares(members)
        elif len(members) < (1 if stage == "consistency" else self._min_clients):
            raise TooFewClientsError(
                f"the secure sum ended at {stage!r} with {len(members)} of "
                f"{len(self._cohort)} clients, it needs {self._min_clients}; nothing was released"
                f"{self._uploads.differing() if stage == 'update' else ''}"
            )
        return tuple(sorted(members))

    def _with_holders(self, members: set[int]) -> set[int]:
        """Leave out clients with too few others around them, and then those left with too few."""
        while True:
            alone = {
                place
                for place in members
                if len(members & {place, *self._near[place]}) < self._threshold
            }
            if not alone:
                return members
            members = members - alone

    def _check_shares(self, answered: set[int]) -> None:
        for place in self._members["shares"]:
            n_shares = len(answered.intersection(self._holders[place]))
            if n_shares < self._threshold:
                raise TooFewClientsError(
                    f"the secure sum ended at 'unmask': {n_shares} clients gave shares of "
                    f"{self._agreed.names[place]}, {self._threshold} are needed; "
                    "nothing was released"
                )

    def result(self, inner: Read) -> tuple[Additive, int]:
        """Return the exact sum of the sealed set, read by `inner`, and the size of the set."""
        sealed = self._members["update"]
        try:
            outline, total = self._uploads.total()
            ring = self._agreed.ring_of(outline)
            self._remove_masks(total, sealed, ring)
            value = inner(outline.fill(total, ring), self._turn)
        except (CatchmentError, ValueError):
            self._advance("ABORTED")
            raise
        self._advance("SOLVED")
        return value, len(sealed)

    def publish(self) -> None:
        self._advance("PUBLISHED")

    def _remove_masks(self, total: Residues, sealed: tuple[int, ...], ring: Ring) -> None:
        masks = keys.Masks(ring, total.shape[1])
        for place in sealed:
            own = self._secret(place)
            if self._session.digest("own mask", own) != self._row("shares", place):
                raise AbortedError(self._wrong_shares(place))
            subtract_from(total, masks.of(own_mask_key(self._session, place, own)))
        for place in sorted(set(self._members["shares"]) - set(sealed)):
            secret = self._secret(place)
            if keys.public_key(secret) != self._row("keys", place)[32:64]:
                raise AbortedError(self._wrong_shares(place))
            agreement = keys.Agreement(secret)
            for other in sorted(set(self._near[place]) & set(sealed)):
                shared = agreement.shared(self._row("keys", other)[32:64])
                mask = masks.of(pair_mask_key(self._session, shared, place, other))
                # Taken off as it was put on by the other one.
                (subtract_from if place > other else add_into)(total, mask)

    def _secret(self, place: int) -> bytes:
        """Return what the given shares of a client make: its own mask's secret, or its mask key."""
        shares: dict[int, int] = {}
        answered = set(self._members["unmask"])
        for holder in self._holders[place]:
            if holder in answered and len(shares) < self._threshold:
                given = self._replies["unmask"][holder].arrays[0]
                row = given[self._holders[holder].index(place)]
                shares[holder + 1] = share_from(row.tobytes())
        secret = combine(shares)
        if secret >= 1 << 256:
            raise AbortedError(self._wrong_shares(place))
        return secret.to_bytes(keys.KEY_BYTES, "little")

    def _wrong_shares(self, place: int) -> str:
        return (
            f"the shares of {self._agreed.names[place]} do not fit together: a client lies or is "
            "damaged; nothing was released"
        )

    def _wanted(self, stage: str) -> tuple[int, ...]:
        before = STAGES.index(stage) - 1
        return self._cohort if before < 0 else self._members[STAGES[before]]

    def _signers(self, place: int) -> list[int]:
        return sorted(set(self._near[place]) & set(self._members["consistency"]))

    def _row(self, stage: str, place: int) -> bytes:
        return bytes(self._replies[stage][place].arrays[0][0])

    def _box(self, sender: int, receiver: int) -> bytes:
        boxes = self._replies["shares"][sender].arrays[1]
        return bytes(boxes[self._near[sender].index(receiver)])

    def _bits(self, stage: str) -> Bytes:
        return as_bits(self._members[stage], len(self._agreed.names))

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._agreed.names[place] for place in places)

    def _advance(self, state: str) -> None:
        if self._journal:
            self._journal.advance(self._number, state)

"""The server's half of secure aggregation, which sees keys, closed boxes, masked numbers and
shares.

Who goes on after a stage is fixed when the stage is closed, and written down before anything is
done with it: above all the sealed set, the clients whose uploads are summed, before any share is
asked for. What comes for a closed stage is refused unread, because a late upload of a client that
was declared lost could be unmasked.

A client that lies or is damaged is left out by itself where that can be: `left_out` names it.
Uploads add that have one outline and were made under one transcript. An honest server tells all
clients the same, so that a client with another transcript is wrong; the group of most goes on.

Of two clients, one that complains of a box and one that is complained of, one is at fault, and
nobody can see which: the box is for one reader. So the client with the most conflicts is left out,
again and again until none is left; at a tie the one that is complained of. A sender of bad boxes
has many conflicts, and so has a client that complains of many; each costs the round itself alone.
A client with a single conflict can cost the round one other client.

Every dealer gave the server digests of the shares it dealt. A share that does not have its digest
was changed by whoever gave it: it is thrown away and its giver named, and any t of the others do.
If shares with the right digests do not make the secret that the dealer committed to, the dealer is
at fault. All of it costs one digest per share and one combination per client, whoever lies.
"""

from __future__ import annotations

import statistics
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from catchment.federation.algorithm import Additive, RoundContext
from catchment.federation.protection import Read
from catchment.privacy.secure_aggregation import keys
from catchment.privacy.secure_aggregation.client_store import STAGES
from catchment.privacy.secure_aggregation.graph import neighbors
from catchment.privacy.secure_aggregation.protection import SecureAggregation
from catchment.privacy.secure_aggregation.ring import (
    SHARE_BYTES,
    Bytes,
    Outline,
    Residues,
    add_into,
    as_bits,
    combine,
    content_digest,
    from_bits,
    from_rows,
    rows,
    share_from,
    subtract_from,
)
from catchment.privacy.secure_aggregation.server_journal import Journal
from catchment.wire import Message, join

STATES = {"update": "SEALED", "consistency": "SEALED", "unmask": "UNMASKED"}
ENDS = "nothing was released"
# How far the number of one client is followed beyond that of most. Far below what clients take at
# once: else one that lies drove the numbers on in a few rounds, and those who were away were locked
# out.
LEAD = 1 << 10

_counter = threading.Lock()
_latest: dict[tuple[str, str], int] = {}


@dataclass(eq=False)
class _Group:
    """Masked uploads of one outline and one transcript, summed as they come."""

    outline: Outline
    told: bytes
    total: Residues
    members: set[int]


def next_number(federation: str, plan: str, after: int = 0) -> int:
    """Return the number of a plan's next round in this process: they are counted.

    >>> next_number("f", "p"), next_number("f", "p"), next_number("f", "p", after=7)
    (1, 2, 8)
    """
    with _counter:
        number = max(_latest.get((federation, plan), 0), after) + 1
        _latest[federation, plan] = number
        return number


def left_out(complaints: Mapping[int, Collection[int]]) -> dict[int, str]:
    """Return who is left out, and why.

    Parameters
    ----------
    complaints
        For each client that complains, those whose boxes did not open for it.

    >>> left_out({0: [2], 1: [2]})
    {2: 'its boxes did not open for 2 clients'}
    >>> left_out({0: [1, 2, 3]})
    {0: 'it said that the boxes of 3 clients do not open, and nobody else did'}
    """
    open_ = {(by, of) for by, senders in complaints.items() for of in senders if of != by}
    out: dict[int, str] = {}
    while open_:
        made, got = Counter(by for by, _ in open_), Counter(of for _, of in open_)
        worst = max(
            {*made, *got}, key=lambda client: (made[client] + got[client], got[client], -client)
        )
        if got[worst] >= made[worst]:
            plural = "s" * (got[worst] > 1)
            out[worst] = f"its boxes did not open for {got[worst]} client{plural}"
        else:
            out[worst] = (
                f"it said that the boxes of {made[worst]} clients do not open, and nobody else did"
            )
        open_ = {pair for pair in open_ if worst not in pair}
    return out


@final
class SecureRound:
    """One round of secure aggregation; with a journal, the one that was cut short goes on."""

    def __init__(
        self,
        agreed: SecureAggregation,
        context: RoundContext,
        min_clients: int,
        journal: Journal | None,
    ) -> None:
        strangers = [client for client in context.cohort if client not in agreed.identities]
        if strangers:
            raise FederationError(
                f"{', '.join(strangers[:3])} has no registered identity; add its public key to "
                "the plan's secure aggregation"
            )
        self._agreed, self._turn, self._min_clients = agreed, context, min_clients
        self._journal = journal
        self._desk = threading.Lock()
        self._begun_again = False
        self._out: list[tuple[str, str, str]] = []
        self._begin(after=0)
        if journal:
            self._restore(journal)

    def _begin(self, *, after: int) -> None:
        context, agreed, journal = self._turn, self._agreed, self._journal
        number, cohort = (
            journal.begin(context.plan, context.round, context.cohort, after=after)
            if journal
            else (next_number(agreed.federation, context.plan, after), context.cohort)
        )
        self._number = number
        self._session = keys.Session.of(agreed.federation, number, context)
        self._cohort = tuple(agreed.places[client] for client in sorted(cohort))
        self._members: dict[str, tuple[int, ...]] = {}
        self._replies: dict[str, dict[int, Message]] = {stage: {} for stage in STAGES}
        self._later: dict[int, int] = {}
        self._shown: dict[bytes, tuple[int, bytes]] = {}
        self._groups: dict[bytes, _Group] = {}  # uploads by outline and transcript
        self._contents: dict[int, bytes] = {}  # the digest of each client's upload, by its place
        self._good: dict[int, dict[int, int]] = {}  # the shares that were dealt, by owner
        self._threshold, self._is_ring = 0, False
        self._adverts_seen = self._transcript = b""
        self._near: dict[int, tuple[int, ...]] = {}
        self._holders: dict[int, list[int]] = {}
        self._same: dict[str, tuple[Message, Message]] = {}

    def _restore(self, journal: Journal) -> None:
        """Take in again what the journal holds, in the order in which it was closed."""
        closed = journal.closed(self._number)
        for stage in STAGES:
            for who, sent in journal.replies(self._number, stage):
                self._take(stage, Message.from_bytes(sent), replace(self._turn, client=who), None)
            if stage not in closed:
                return
            self._members[stage] = self._going_on(stage)
            if self._named(self._members[stage]) != closed[stage]:
                raise IntegrityError(f"the journal's answers to {stage!r} do not give its members")
            self._closed(stage)

    @property
    def stages(self) -> Iterator[str]:
        """The stages; the first one twice if clients know of later numbers than this server."""
        yield "keys"
        while "keys" not in self._members:
            yield "keys"
        yield from STAGES[1:]

    def asked(self, stage: str) -> tuple[str, ...]:
        if stage in self._members or (stage == "nonces" and not self._is_ring):
            return ()
        here = self._contents if stage == "update" else self._replies[stage]
        return self._named([place for place in self._wanted(stage) if place not in here])

    def request(self, stage: str, client: str, payload: Message) -> Message:
        facts, place = {"round": self._number}, self._agreed.places[client]
        if stage == "boxes":
            others = sorted(set(self._near[place]).intersection(self._members["shares"]) - {place})
            sealed = {other: self._replies["shares"][other].arrays[1] for other in others}
            boxes = [bytes(sealed[one][self._near[one].index(place)]) for one in others]
            marks = [self._mark(other, place) for other in others]
            arrays = (
                self._bits("shares"),
                rows(boxes, keys.BOX_BYTES),
                rows(marks, keys.MARK_BYTES),
            )
            return Message("secure-boxes", facts, arrays)
        if stage == "unmask":
            agreed = set(self._near[place]).intersection(self._members["consistency"])
            signers = sorted(agreed)[: self._threshold - 1]
            signed = rows((self._row("consistency", other) for other in signers), 64)
            return Message("secure-consents", facts, (np.array(signers, dtype=np.uint32), signed))
        known = self._same.get(stage)
        if known is None or known[0] is not payload:
            # One for all clients, so that it is written once however many they are.
            known = self._same[stage] = (payload, self._letter_to_all(stage, payload))
        return known[1]

    def _letter_to_all(self, stage: str, payload: Message) -> Message:
        facts = {"round": self._number}
        if stage == "keys":
            return Message("secure-round", facts)
        if stage == "nonces":
            return Message("secure-adverts", facts, (self._bits("keys"), self._adverts))
        if stage == "shares":
            drawn = [self._row("nonces", place) for place in self._ring]
            arrays = (self._bits("nonces"), self._adverts, rows(drawn, keys.REVEAL_BYTES))
            return Message("secure-members", facts, arrays)
        if stage == "update":
            present = Message("secure-present", facts, (self._bits("boxes"),))
            return join("secure-update", {"present": present, "payload": payload})
        return Message("secure-survivors", facts, (self._bits("update"),))

    def take(self, stage: str, parts: Message, context: RoundContext) -> bool:
        with self._desk:
            early = parts.kind == "secure-upload" and stage != "update"
            if stage in self._members or early:
                raise UploadError("late", f"{context.client} answers a stage that is over")
            return self._take(stage, parts, context, self._journal)

    def _take(
        self, stage: str, parts: Message, context: RoundContext, journal: Journal | None
    ) -> bool:
        place = self._agreed.places[context.client]
        if place not in self._wanted(stage):
            raise UploadError("stranger", f"{context.client} has no part in this stage")
        if stage == "update":
            return self._take_upload(parts, context.client, place, journal)
        if stage == "keys" and parts.kind == "secure-later":
            return self._take_later(parts, context.client, place)
        self._check(stage, parts, context.client, place)
        before = self._replies[stage].setdefault(place, parts)
        if before is not parts and before.to_bytes() != parts.to_bytes():
            raise UploadError("conflict", f"{context.client} gave two answers to {stage!r}")
        return before is parts

    def _take_later(self, parts: Message, client: str, place: int) -> bool:
        latest = parts.facts.get("latest")
        if type(latest) is not int or not self._number <= latest < 2**63:
            raise UploadError("number", f"{client} does not take part, and does not say why")
        if self._begun_again:
            raise UploadError(
                "number",
                f"{client} knows round {latest}, far above the others'; it can be made to forget "
                "with forget_rounds",
            )
        self._later[place] = latest
        return True

    def _take_upload(
        self, parts: Message, client: str, place: int, journal: Journal | None
    ) -> bool:
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
        try:
            told = bytes.fromhex(str(parts.facts.get("update")))
        except ValueError as error:
            raise IntegrityError(f"{client} does not say what its upload is for") from error
        content = content_digest(outline, numbers)
        self._verify("upload", client, from_rows(signature, 1, 64)[0], told + content)
        if place in self._contents:
            if self._contents[place] != content + told:
                raise UploadError("conflict", "a client sent two different uploads in one round")
            return False
        if journal:  # on the disk before it counts
            journal.keep(self._number, client, parts.to_bytes())
        self._contents[place] = content + told
        group = self._groups.get(outline.digest() + told)
        if group is None:
            made = _Group(outline, told, numbers.copy(), {place})
            self._groups[outline.digest() + told] = made
        else:
            add_into(group.total, numbers)
            group.members.add(place)
        return True

    @property
    def _most(self) -> _Group:
        """The uploads of the outline and transcript that most clients sent."""
        # By digest where as many sent one as the other: not by who came first.
        return min(self._groups.items(), key=lambda item: (-len(item[1].members), item[0]))[1]

    def _check(self, stage: str, parts: Message, client: str, place: int) -> None:
        """Refuse an answer of another form, or one that its client did not sign."""
        if stage == "keys":
            (advert,) = from_rows(parts.expect("secure-keys", 1).arrays[0], 1, keys.ADVERT_BYTES)
            self._verify("keys", client, advert[keys.SHOWN_BYTES :], advert[: keys.SHOWN_BYTES])
            # Keys for which all other clients would refuse the round.
            both = advert[: keys.KEY_BYTES], advert[keys.KEY_BYTES : 2 * keys.KEY_BYTES]
            for key in both:
                keys.Agreement(keys.new_key()).shared(key)
                if self._shown.setdefault(key, (place, advert)) != (place, advert):
                    words = f"{client} shows a key that another client has shown"
                    raise UploadError("keys", words)
            if both[0] == both[1]:
                raise UploadError("keys", f"{client} shows one key for two purposes")
        elif stage == "nonces":
            (reveal,) = from_rows(parts.expect("secure-nonce", 1).arrays[0], 1, keys.REVEAL_BYTES)
            nonce = reveal[: keys.NONCE_BYTES]
            promised = self._row("keys", place)[2 * keys.KEY_BYTES : keys.SHOWN_BYTES]
            if keys.commitment(self._session, place, nonce) != promised:
                raise UploadError("nonce", f"{client} committed to another number")
            self._verify("nonces", client, reveal[keys.NONCE_BYTES :], self._adverts_seen + nonce)
        elif stage == "shares":
            first, boxes, marks = parts.expect("secure-shares", 3).arrays
            (head,) = from_rows(first, 1, keys.DIGEST_BYTES + keys.SIGNATURE_BYTES)
            sealed = from_rows(boxes, len(self._near[place]), keys.BOX_BYTES)
            marked = from_rows(marks, len(self._near[place]) + 1, keys.MARK_BYTES)
            told = b"".join([self._transcript, head[: keys.DIGEST_BYTES], *sealed, *marked])
            signed = self._session.digest("dealt", told)
            self._verify("shares", client, head[keys.DIGEST_BYTES :], signed)
        elif stage == "boxes":
            bits, signature = parts.expect("secure-complaints", 2).arrays
            if not set(from_bits(bits, len(self._agreed.names))) <= set(self._near[place]):
                raise UploadError("complaints", f"{client} complains of boxes it did not get")
            told = self._transcript + self._bits("shares").tobytes() + bits.tobytes()
            self._verify("complaints", client, from_rows(signature, 1, 64)[0], told)
        elif stage == "consistency":
            (consent,) = from_rows(parts.expect("secure-consent", 1).arrays[0], 1, 64)
            told = self._bits("update").tobytes() + self._most.told
            self._verify("survivors", client, consent, told)
        else:
            (given,) = parts.expect("secure-shares-given", 1).arrays
            for share in from_rows(given, len(self._holders[place]), SHARE_BYTES):
                share_from(share)

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
            if stage == "keys" and self._later and not self._begun_again:
                # With a number above those that clients know, but for one far above the others'.
                known = [*self._later.values(), *(self._number for _ in self._replies["keys"])]
                bound = statistics.median_low(known) + LEAD
                self._begun_again = True
                self._advance("ABORTED")
                self._begin(after=max(number for number in known if number <= bound))
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
            self._is_ring = k < len(members) - 1
            bits, shown = self._bits("keys").tobytes(), map(bytes, self._adverts)
            self._adverts_seen = keys.of_adverts(self._session, bits, shown)
        if stage == "nonces":
            members = self._members["nonces"]
            k, _ = self._agreed.degree(len(members))
            nonces = (self._row("nonces", place)[: keys.NONCE_BYTES] for place in self._ring)
            seed = keys.of_nonces(self._session, self._adverts_seen, nonces)
            self._near = {place: neighbors(members, place, k, seed) for place in members}
            self._transcript = seed
        if stage == "boxes":
            there = set(self._members["boxes"])
            self._holders = {
                place: sorted(there.intersection(self._near[place]) | {place}) for place in there
            }
        if stage == "update":
            self._groups = {b"": self._most}

    def _going_on(self, stage: str) -> tuple[int, ...]:
        """Return the clients that are in the next stage; raise if they are too few for a sum."""
        members = self._answered(stage)
        if stage in ("shares", "boxes", "consistency"):
            members = self._with_holders(members)
        if stage == "unmask":
            self._check_shares()
        elif len(members) < (1 if stage == "consistency" else self._min_clients):
            kinds = sorted({group.outline.kind for group in self._groups.values()})
            differing = (
                f"; the clients' messages ({', '.join(kinds)}) differ in their facts or shapes, "
                "and secure aggregation adds only messages that differ in nothing but their numbers"
            )
            raise TooFewClientsError(
                f"secure aggregation ended at {stage!r} with {len(members)} of "
                f"{len(self._cohort)} clients, it needs {self._min_clients}; {ENDS}"
                f"{differing if stage == 'update' and len(self._groups) > 1 else ''}"
            )
        return tuple(sorted(members))

    def _answered(self, stage: str) -> set[int]:
        """Return the clients whose answers to a stage can be used."""
        here = set(self._replies[stage])
        if stage == "nonces":
            silent = self._named([place for place in self._ring if place not in here])
            if silent:
                raise AbortedError(
                    f"{', '.join(silent[:3])} did not show the number that the graph is drawn "
                    f"from; leave it out of the next round; {ENDS}"
                )
            return set(self._members["keys"])
        if stage == "boxes":
            n = len(self._agreed.names)
            made = {k: from_bits(self._replies["boxes"][k].arrays[0], n) for k in here}
            out = left_out({by: of for by, of in made.items() if of})
            self._leave_out("boxes", out)
            return here - set(out)
        if stage == "update":
            most = set(self._most.members) if self._groups else set()
            reason = "its message differs from that of most in its facts, shapes or transcript"
            self._leave_out("outline", dict.fromkeys(sorted(set(self._contents) - most), reason))
            return most
        return here

    def _leave_out(self, code: str, reasons: dict[int, str]) -> None:
        names = self._agreed.names
        self._out += [(names[place], code, reason) for place, reason in reasons.items()]

    def left_out(self) -> list[tuple[str, str, str]]:
        """Return whom the protocol left out since the last call: name, code and reason."""
        with self._desk:
            out, self._out = self._out, []
            return out

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

    def _check_shares(self) -> None:
        """Keep the shares that were dealt and name who gave others; raise if too few are left."""
        names, sealed = self._agreed.names, set(self._members["update"])
        self._good = {owner: {} for owner in self._members["boxes"]}
        lies: dict[int, list[str]] = {}
        for holder, parts in sorted(self._replies["unmask"].items()):
            for owner, given in zip(
                self._holders[holder], map(bytes, parts.arrays[0]), strict=True
            ):
                which = 0 if owner in sealed else 1
                dealt = self._mark(owner, holder)[which * keys.DIGEST_BYTES :][: keys.DIGEST_BYTES]
                if keys.mark_of(self._session, owner, holder, which, given) == dealt:
                    self._good[owner][holder + 1] = share_from(given)
                else:
                    lies.setdefault(holder, []).append(names[owner])
        for liar, owners in lies.items():
            others = f" and {len(owners) - 3} others" if len(owners) > 3 else ""
            reason = f"it gave other shares than it was dealt, of {', '.join(owners[:3])}{others}"
            self._leave_out("shares", {liar: reason})
        for owner, shares in self._good.items():
            if len(shares) < self._threshold:
                raise TooFewClientsError(
                    f"secure aggregation ended at 'unmask': {len(shares)} clients gave shares of "
                    f"{names[owner]}, {self._threshold} are needed; {ENDS}"
                )

    def result(self, inner: Read) -> tuple[Additive, int]:
        """Return the exact sum of the sealed set, read by `inner`, and the size of the set."""
        most = self._most
        try:
            ring, total = self._agreed.ring_of(most.outline), most.total.copy()
            self._remove_masks(total, keys.Masks(ring, total.shape[1]), most.told)
            value = inner(most.outline.fill(total, ring), self._turn)
        except (CatchmentError, ValueError):
            self._advance("ABORTED")
            raise
        self._advance("SOLVED")
        return value, len(self._members["update"])

    def _remove_masks(self, total: Residues, masks: keys.Masks, salt: bytes) -> None:
        """Take off a sum the own masks of those in it and the masks they share with others."""
        sealed = set(self._members["update"])
        for place in sorted(sealed):
            secret = self._secret(place, own=True)
            subtract_from(total, masks.of(keys.own_mask_key(salt, place, secret)))
        for place in sorted(set(self._good) - sealed):
            agreement = keys.Agreement(self._secret(place, own=False))
            for other in sorted(sealed.intersection(self._near[place])):
                shared = agreement.shared(self._mask_key(other))
                mask = masks.of(keys.pair_mask_key(salt, shared, place, other))
                # Taken off as it was put on by the other one.
                (subtract_from if place > other else add_into)(total, mask)

    def _secret(self, place: int, *, own: bool) -> bytes:
        """Return what the shares of a client make, its own mask's secret or its mask key."""
        found = combine(dict(sorted(self._good[place].items())[: self._threshold]))
        if found < 1 << 256:
            secret = found.to_bytes(keys.KEY_BYTES, "little")
            promise = self._row("shares", place)[: keys.DIGEST_BYTES]
            made = self._session.digest("own mask", secret) if own else keys.public_key(secret)
            if made == (promise if own else self._mask_key(place)):
                return secret
        raise AbortedError(
            f"{self._agreed.names[place]} dealt shares that do not make what it committed to; "
            f"leave it out of the next round; {ENDS}"
        )

    def _mask_key(self, place: int) -> bytes:
        return self._row("keys", place)[keys.KEY_BYTES : 2 * keys.KEY_BYTES]

    def publish(self) -> None:
        self._advance("PUBLISHED")

    def _wanted(self, stage: str) -> tuple[int, ...]:
        before = STAGES.index(stage) - 1
        return self._cohort if before < 0 else self._members[STAGES[before]]

    @property
    def _ring(self) -> tuple[int, ...]:
        """Whose numbers the graph is drawn from: nobody's if everybody masks with everybody."""
        return self._members["keys"] if self._is_ring else ()

    @property
    def _adverts(self) -> Bytes:
        return rows(
            (self._row("keys", place) for place in self._members["keys"]), keys.ADVERT_BYTES
        )

    def _row(self, stage: str, place: int) -> bytes:
        return bytes(self._replies[stage][place].arrays[0][0])

    def _mark(self, sender: int, holder: int) -> bytes:
        marks = self._replies["shares"][sender].arrays[2]
        return bytes(marks[sorted((*self._near[sender], sender)).index(holder)])

    def _bits(self, stage: str) -> Bytes:
        return as_bits(self._members[stage], len(self._agreed.names))

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._agreed.names[place] for place in places)

    def _advance(self, state: str) -> None:
        if self._journal:
            self._journal.advance(self._number, state)

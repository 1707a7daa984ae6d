"""Secure aggregation in one message: a leader that adds, and a helper that takes the masks off.

A client is awake once. It draws a seed, adds the keystream of the seed to its numbers in the ring
of the plan, and sends the masked numbers to the leader together with the seed, sealed for the
helper (HPKE, RFC 9180: X25519, HKDF-SHA256, ChaCha20-Poly1305). The leader adds the masked numbers
of a batch and hands the sealed seeds on; the helper answers with the sum of the keystreams:

    client   v + PRG(s), sealed s     leader   sum of v + PRG(s)     helper   sum of PRG(s)

What is claimed: unless leader and helper work together, each of them learns the sum of a batch, or
nothing. A client that is lost costs nothing, because no other holds anything of it.

The client signs, besides its numbers, what the helper must hold the leader to: the plan, the
fewest clients of a batch, the last day, and the earlier sums that its same data went into. The
helper answers a batch only if every signature fits a registered key, no limit is passed, no client
was in another batch of the plan, and each is in the company that it had in those earlier sums. All
batches with the same data therefore have nobody in common or are of the same clients, and no sums
can be subtracted: a client's ledger lets such data through one helper only. The helper signs its
answer, and the leader takes off no masks that the plan's helper has not signed. Roles and words are
those of the IETF's Distributed Aggregation Protocol; its proofs of valid inputs are not here: a
client can send any numbers, as in the protocol with one server.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from operator import itemgetter
from typing import Any, final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from catchment.errors import IntegrityError, RuleError, TooFewClientsError
from catchment.federation.algorithm import Additive, Memory, RoundContext, Upload
from catchment.federation.protection import Read
from catchment.privacy.ledger import PrivacyLedger
from catchment.privacy.secure_aggregation import keys
from catchment.privacy.secure_aggregation.protection import SecureAggregation, check_clients
from catchment.privacy.secure_aggregation.ring import (
    Outline,
    Residues,
    Ring,
    add_into,
    content_digest,
    encoded,
    subtract_from,
)
from catchment.wire import Message, digest, join, serialize, split

PROTOCOL = "catchment-two-servers-1"
UPLOAD, BATCH, ANSWER = "secure-single", "secure-batch", "secure-answer"
HELPER_KEY = "two-servers/helper"
KEY_DIGITS = 64  # of the helper's key that seals; those of the key that signs come after it
TERMS: dict[str, type] = dict.fromkeys(("client", "federation", "told", "expires"), str)
TERMS |= dict.fromkeys(("min_clients", "bits", "length"), int)
Signed = tuple[dict[str, Any], list[str]]
LASTS = timedelta(days=90)  # how long a batch may be made of an upload
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_DOOR = threading.Lock()  # held while a batch is answered: of two at once, one is the earlier


def masked(
    agreed: SecureAggregation,
    payload: Message,
    upload: Callable[[Message, RoundContext], Upload],
    context: RoundContext,
    memory: Memory,
) -> Message:
    """Return a client's upload: masked numbers for the leader, a sealed seed for the helper.

    The seed depends on the numbers, so that the same data give the same masked numbers, and others
    another mask.
    """
    ledger = context.ledger or PrivacyLedger(memory)
    told = _told(agreed, context, payload)
    known = replace(context, ledger=ledger, session=told.hex(), thick=agreed.check_rows)
    made = upload(payload, known)
    check_clients(len(agreed.names), agreed.min_clients)
    parts = serialize(made)
    outline = Outline.of(parts)
    ring = agreed.ring_of(outline)
    terms = _terms(agreed, context.client, told, ring, outline)
    terms["expires"] = (datetime.now(UTC).date() + LASTS).isoformat()
    about = about_of(terms)
    if context.vault is not None:  # a device, which masks by itself; nobody else has its numbers
        numbers, box = context.vault.sealed(made, about, told, ring, len(agreed.names))
    else:
        agreed.check_rows(made)
        numbers = encoded(parts, ring, n_clients=len(agreed.names))
        seed = ledger.secret(told + content_digest(outline, numbers))
        key = keys.derive(seed, salt=told, purpose=PROTOCOL)
        add_into(numbers, keys.Masks(ring, outline.length).of(key))
        helper = X25519PublicKey.from_public_bytes(bytes.fromhex(agreed.helper[:KEY_DIGITS]))
        # Sealed once: who types a command twice has made the same file twice.
        place = f"two-servers/box/{sha256(about + seed).hexdigest()}"
        box = memory.setdefault(place, SUITE.encrypt(seed, helper, info=about))
    # Whom of all these the leader takes into a batch, only the helper will know.
    among = [f"{name} by {agreed.helper[:KEY_DIGITS]}" for name in agreed.names]
    after = ledger.upload(context.plan, context.round, parts.kind, told.hex(), among)
    signed = content_digest(outline, numbers) + box + json.dumps(after).encode()
    sealed = np.frombuffer(box + keys.sign(memory, about, signed), np.uint8)
    # The other terms are the plan's, and the leader knows them.
    facts = {"outline": outline.fact(), "expires": terms["expires"], "after": after}
    return Message(UPLOAD, facts, (numbers, sealed))


def _terms(
    agreed: SecureAggregation, client: str, told: bytes, ring: Ring, outline: Outline
) -> dict[str, Any]:
    """Return what a client signs and the plan says: all but the day."""
    return {
        "client": client,
        "federation": agreed.federation,
        "told": told.hex(),
        "min_clients": agreed.min_clients,
        "bits": ring.bits,
        "length": outline.length,
    }


def _told(agreed: SecureAggregation, context: RoundContext, payload: Message) -> bytes:
    """Return the digest (32,) of all that a sum is about: plan, round, what came along, request."""
    session = keys.Session.of(agreed.federation, context.round, context)
    return session.digest(PROTOCOL, digest(payload.to_bytes()))


def about_of(terms: Mapping[str, Any]) -> bytes:
    return json.dumps([PROTOCOL, dict(terms)], sort_keys=True, separators=(",", ":")).encode()


@final
class TwoServerRound:
    """The leader's half of a round: adds masked numbers, and has the helper take the masks off."""

    stages = ("update",)

    def __init__(self, agreed: SecureAggregation, context: RoundContext, min_clients: int) -> None:
        self._agreed, self._context, self._fewest = agreed, context, min_clients
        self._told = b""
        self._outline: Outline | None = None
        self._total: Residues | None = None
        self._sealed: dict[str, Message] = {}

    def asked(self, stage: str) -> Sequence[str]:
        return [name for name in self._context.cohort if name in self._agreed.identities]

    def request(self, stage: str, client: str, payload: Message) -> Message:
        self._told = self._told or _told(self._agreed, self._context, payload)
        return payload

    def take(self, stage: str, parts: Message, context: RoundContext) -> bool:
        numbers, sealed = parts.expect(UPLOAD, 2).arrays
        box, signature = sealed[: -keys.SIGNATURE_BYTES], sealed[-keys.SIGNATURE_BYTES :]
        outline = Outline.from_fact(parts.facts.get("outline"))
        ring = self._agreed.ring_of(outline)
        if numbers.dtype != ring.dtype or numbers.shape != (ring.limbs, outline.length):
            raise IntegrityError(f"masked numbers came as {numbers.dtype} of {numbers.shape}")
        if self._outline is not None and self._outline.digest() != outline.digest():
            raise IntegrityError("an upload has another shape than the first of the batch")
        terms = _terms(self._agreed, context.client, self._told, ring, outline)
        expires, after = (parts.facts.get(name) for name in ("expires", "after"))
        signed = {"terms": terms | {"expires": expires}, "after": after}
        content = np.frombuffer(content_digest(outline, numbers), np.uint8)
        one = Message("sealed", signed, (content, box, signature))
        check_sealed(self._agreed, context.client, one)  # or the helper would refuse the batch
        if self._total is None:
            self._outline, self._total = outline, np.zeros_like(numbers)
        add_into(self._total, numbers)
        self._sealed[context.client] = one
        return True

    def close(self, stage: str) -> None:
        if len(self._sealed) < max(self._fewest, self._agreed.min_clients):
            raise TooFewClientsError(
                f"{len(self._sealed)} clients contributed, and a batch has "
                f"{max(self._fewest, self._agreed.min_clients)} or more; wait for others"
            )
        if self._agreed.assist is None:
            raise ValueError(
                "nobody asks the helper; pass assist=Helper(...).answer to SecureAggregation, or "
                "combine contributions with `catchment combine`"
            )
        assert self._total is not None
        left = {name: self._sealed[name] for name in sorted(self._sealed)}
        while left:
            answer = self._agreed.assist(join(BATCH, left).to_bytes())
            names, masks = answered(self._agreed, left, answer)
            if masks.dtype != self._total.dtype or masks.shape != self._total.shape:
                raise IntegrityError(f"the helper's sum came as {masks.dtype} of {masks.shape}")
            subtract_from(self._total, masks)
            left = {name: one for name, one in left.items() if name not in names}

    def left_out(self) -> Sequence[tuple[str, str, str]]:
        return ()

    def result(self, inner: Read) -> tuple[Additive, int]:
        assert self._total is not None
        assert self._outline is not None
        ring = self._agreed.ring_of(self._outline)
        return inner(self._outline.fill(self._total, ring), self._context), len(self._sealed)

    def publish(self) -> None:
        """Nothing is kept: a batch can be asked for again, and has the same answer."""


def answered(
    agreed: SecureAggregation, batch: Mapping[str, Message], answer: bytes
) -> tuple[list[str], Residues]:
    """Return whom of a batch an answer is for, and the sum of their masks.

    IntegrityError if it is for nobody there, for others too, or not from the plan's helper.
    """
    parts = check_answer(agreed, answer)
    told = parts.facts.get("clients")
    names = sorted(name for name in batch if isinstance(told, list) and name in told)
    part = join(BATCH, {name: batch[name] for name in names}).to_bytes()
    if not names or parts.facts.get("batch") != digest(part).hex():
        raise IntegrityError("the helper answered another batch")
    return names, parts.arrays[0]


def check_answer(agreed: SecureAggregation, answer: bytes) -> Message:
    """Return an answer; IntegrityError unless the helper signed it, if the plan has its key."""
    parts = Message.from_bytes(answer, limit=len(answer)).expect(ANSWER, 1)
    facts, public = dict(parts.facts), agreed.helper[KEY_DIGITS:]
    try:
        signature = bytes.fromhex(str(facts.pop("signature", "")))
        if public:  # plans of the first days name no key that signs
            signed = digest(replace(parts, facts=facts).to_bytes())
            keys.verify(public, signature, ANSWER.encode(), signed)
    except (ValueError, IntegrityError) as error:
        raise IntegrityError("the plan's helper did not sign this answer") from error
    return parts


def exchanged(agreed: SecureAggregation, plan: str, content: bytes) -> str:
    """Return what a batch or an answer is called as a file; "" if content is neither.

    An error unless enough registered clients signed a batch, or the plan's helper an answer.
    """
    most = (1 << 16) + (1 << 11) * len(agreed.identities)
    parts = Message.from_bytes(content, limit=len(content), header_limit=most)
    if parts.kind == ANSWER and agreed.helper[KEY_DIGITS:]:
        if check_answer(agreed, content).facts.get("plan") != plan:
            raise IntegrityError("it was made for another plan")
        return f"{str(parts.facts.get('batch'))[:16]}.answer"
    if parts.kind != BATCH:
        return ""
    named = split(parts, BATCH)
    check_clients(len(named), agreed.min_clients)
    for name, one in named.items():
        check_sealed(agreed, name, one)
    return f"{digest(content).hex()[:16]}.batch"


def check_sealed(agreed: SecureAggregation, client: str, sealed: Message) -> Signed:
    """Return a client's terms for a batch and the earlier sums it goes with, if it signed them."""
    content, box, signature = (array.tobytes() for array in sealed.expect("sealed", 3).arrays)
    terms, after = sealed.facts.get("terms"), sealed.facts.get("after")
    if not isinstance(terms, dict) or terms.get("client") != client:
        raise IntegrityError(f"what came for {client} is not signed by {client}")
    said = {name: type(term) for name, term in terms.items()}
    if said != TERMS or not isinstance(after, list) or set(map(type, after)) - {str}:
        raise IntegrityError(f"{client} signed other terms than this version knows")
    key = agreed.identities.get(client)
    if key is None:
        raise IntegrityError(f"{client} is not registered")
    # It does not fit either where another plan, round, request or minimum was signed.
    keys.verify(key, signature, about_of(terms), content + box + json.dumps(after).encode())
    return dict(terms), [str(one) for one in after]


@final
class Helper:
    """The second server: opens sealed seeds and answers with the sum of their masks.

    Parameters
    ----------
    memory
        Where its private key and the batches that it answered are kept; `new_helper` makes the key.
    agreed
        The plan's secure aggregation, whose registered keys it holds uploads to.
    today
        For tests; the day of the clock if not given.

    >>> memory = {}
    >>> len(new_helper(memory))
    128
    """

    def __init__(
        self, memory: Memory, agreed: SecureAggregation, *, today: date | None = None
    ) -> None:
        secret = memory.get(HELPER_KEY)
        if secret is None:
            raise IntegrityError("this helper has no private key; make it with new_helper first")
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self._memory, self._agreed, self._today = memory, agreed, today
        keys.new_identity(memory)

    def answer(self, batch: bytes, plan: str = "") -> bytes:
        """Return the sum of a batch's masks, signed; RuleError if its clients do not allow it.

        With the fingerprint of a plan file it says so, to who takes answers for one plan only.
        """
        with _DOOR:
            return self._answer(batch, plan)

    def _answer(self, batch: bytes, plan: str) -> bytes:
        named = split(Message.from_bytes(batch), BATCH)
        signed = {name: check_sealed(self._agreed, name, one) for name, one in named.items()}
        terms = {name: one for name, (one, _) in signed.items()}
        self._check(terms)
        notes = self._notes(signed, digest(batch))
        first = next(iter(terms.values()))
        told = bytes.fromhex(first["told"])
        ring = Ring(first["bits"], 0) if first["bits"] < 128 else Ring()
        masks = keys.Masks(ring, first["length"])
        total: Residues = np.zeros((ring.limbs, first["length"]), dtype=ring.dtype)
        for name, one in named.items():
            box = one.arrays[1].tobytes()
            try:
                seed = SUITE.decrypt(box, self._key, info=about_of(terms[name]))
            except InvalidTag as error:
                raise IntegrityError(
                    f"what {name} sealed does not open; it was sealed for another helper"
                ) from error
            add_into(total, masks.of(keys.derive(seed, salt=told, purpose=PROTOCOL)))
        self._memory.update(notes)
        facts = {"batch": digest(batch).hex(), "clients": sorted(named), "plan": plan}
        made = Message(ANSWER, facts, (total,))
        signature = keys.sign(self._memory, ANSWER.encode(), digest(made.to_bytes()))
        return replace(made, facts={**facts, "signature": signature.hex()}).to_bytes()

    def _check(self, terms: Mapping[str, Mapping[str, Any]]) -> None:
        fewest = [one["min_clients"] for one in terms.values()]
        check_clients(len(terms), max(self._agreed.min_clients, *fewest))
        today = (self._today or datetime.now(UTC).date()).isoformat()
        same = itemgetter("told", "federation", "bits", "length")
        if len(set(map(same, terms.values()))) != 1:
            raise RuleError("batch", "a batch mixes uploads of several plans, rounds or shapes")
        for name, one in terms.items():
            if one["expires"] < today:
                raise RuleError(
                    "expired", f"the upload of {name} was for use until {one['expires']}; ask again"
                )

    def _notes(self, signed: Mapping[str, Signed], batch: bytes) -> dict[str, bytes]:
        """Return what is to be noted of each client and sum: its company there, and its batch."""
        company, notes = sha256(json.dumps(sorted(signed)).encode()).digest(), {}
        for name, (terms, after) in signed.items():
            for told, its in {**dict.fromkeys(after, b""), terms["told"]: batch}.items():
                place = f"two-servers/{sha256(json.dumps([told, name]).encode()).hexdigest()}"
                before = self._memory.get(place, company)
                known = before[len(company) :]
                if before[: len(company)] != company or (known and its and known != its):
                    raise RuleError(
                        "overlap",
                        f"{name} was in another batch of this plan, or of one that read the same "
                        "data; two sums that share clients can be subtracted: combine the same "
                        "files as then, or those of new clients alone",
                    )
                notes[place] = company + (known or its)
        return notes


def new_helper(memory: Memory) -> str:
    """Put new private keys into a helper's memory and return its public ones in hexadecimal.

    One to seal seeds for it, one that signs its answers. A memory that has them keeps them.
    """
    secret = memory.setdefault(HELPER_KEY, keys.new_key())
    return keys.public_key(secret).hex() + keys.new_identity(memory)

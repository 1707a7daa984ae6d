"""Identities, agreed keys, boxes, masks and digests of secure aggregation, from `cryptography`.

Identities are Ed25519 keys that clients registered with each other, not through the server. Keys of
one round are X25519, agreed keys pass HKDF-SHA256 and are used once, boxes are ChaCha20-Poly1305
and masks the ChaCha20 keystream. Every signature, box and mask is bound to the protocol, the
federation, the plan, the number of the sum, the round and seed of the plan and all that the server
sent along, and to the sender, the receiver and the type of message.

What a client has acted on so far is one digest (`of_...`) that all of them must share:

    adverts    the session, the members and the signed keys of every one of them
    nonces     that, and the numbers from which the ring was drawn, if there is a ring
    update     that, the clients whose secrets are shared, and the algorithm's request

Everything a client signs after its keys covers the latest digest, and masks are salted with the
last one: clients that were told different things do not take each other's signatures, and their
masks do not cancel.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from catchment.errors import IntegrityError
from catchment.federation.algorithm import Memory, RoundContext
from catchment.privacy.secure_aggregation.protection import Identities
from catchment.privacy.secure_aggregation.ring import SHARE_BYTES, Residues, Ring
from catchment.wire import Message, digest

PROTOCOL = "catchment-secure-sum-3"
IDENTITY = "secure-sum/identity"
KEY_BYTES = 32
SIGNATURE_BYTES = 64
DIGEST_BYTES = 32
NONCE_BYTES = 32
SHOWN_BYTES = 2 * KEY_BYTES + DIGEST_BYTES  # what an advert shows: two keys and a commitment
ADVERT_BYTES = SHOWN_BYTES + SIGNATURE_BYTES
REVEAL_BYTES = NONCE_BYTES + SIGNATURE_BYTES
BOX_BYTES = 2 * SHARE_BYTES + 16  # and a tag
MARK_BYTES = 2 * DIGEST_BYTES


@dataclass(frozen=True)
class Session:
    """What every message of a round is bound to.

    `round` is the number of secure aggregation; `context` the digest of the plan's round, its seed
    and what came with the request.
    """

    federation: str
    plan: str
    round: int
    context: str = ""

    @classmethod
    def of(cls, federation: str, number: int, context: RoundContext) -> Session:
        """Return the session of secure aggregation in a turn of a plan.

        >>> Session.of("f", 7, RoundContext(0, ())) == Session.of("f", 7, RoundContext(1, ()))
        False
        """
        told = json.dumps([context.round, context.seed, context.told])
        return cls(federation, context.plan, number, hashlib.sha256(told.encode()).hexdigest())

    def about(self, message: str, sender: str = "", receiver: str = "") -> bytes:
        """Return the text that a signature or a box covers besides its content.

        >>> Session("f", "p", 7).about("keys", "ann")
        b'["catchment-secure-sum-3","f","p",7,"","keys","ann",""]'
        """
        # Names of clients hold no quotes, so this is what a JSON encoder would write.
        return f'{self.start},"{message}","{sender}","{receiver}"]'.encode()

    @cached_property
    def start(self) -> str:
        """What all those texts begin with."""
        bound = [PROTOCOL, self.federation, self.plan, self.round, self.context]
        return json.dumps(bound, separators=(",", ":"))[:-1]

    def digest(self, purpose: str, content: bytes = b"") -> bytes:
        """Return a SHA-256 (32,) that differs for every session, purpose and content."""
        return hashlib.sha256(self.about(purpose) + b"\0" + content).digest()


def generate_keys(names: Iterable[str]) -> Identities:
    """Return public keys by client, with memories in which each client holds its private key.

    For clients of one process: elsewhere each client calls `new_identity` on its own memory and
    hands only its public key to the others.

    >>> keys = generate_keys(["ann", "ben"])
    >>> len(keys["ann"]), keys.memories["ann"] is keys.memories["ben"]
    (64, False)
    """
    memories: dict[str, Memory] = {name: {} for name in names}
    return Identities({name: new_identity(memory) for name, memory in memories.items()}, memories)


def new_identity(memory: Memory) -> str:
    """Put a new private key into a client's memory and return its public key in hexadecimal.

    A memory that has one keeps it.

    >>> memory = {}
    >>> new_identity(memory) == new_identity(memory)
    True
    """
    secret = memory.setdefault(IDENTITY, Ed25519PrivateKey.generate().private_bytes_raw())
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw().hex()


def sign(memory: Memory, about: bytes, content: bytes) -> bytes:
    """Return the signature (64,) of a client over content and what it is bound to."""
    secret = memory.get(IDENTITY)
    if secret is None:
        raise IntegrityError("this client has no private key; make its identity first")
    return Ed25519PrivateKey.from_private_bytes(secret).sign(about + b"\0" + content)


def verify(public: str, signature: bytes, about: bytes, content: bytes) -> None:
    """Raise IntegrityError unless the holder of a public key signed the content.

    >>> memory = {}
    >>> public = new_identity(memory)
    >>> verify(public, sign(memory, b"a note", b"hello"), b"a note", b"hello")
    >>> verify(public, sign(memory, b"a note", b"hello"), b"another", b"hello")
    Traceback (most recent call last):
    catchment.errors.IntegrityError: a signature does not fit its message
    """
    try:
        _verified(public, signature, about + b"\0" + content)
    except InvalidSignature as error:
        raise IntegrityError("a signature does not fit its message") from error


@lru_cache(maxsize=1 << 14)
def _verified(public: str, signature: bytes, signed: bytes) -> None:
    # Remembered: of a ring of clients everybody verifies the keys of everybody, and where all of
    # them are in one process that would be the square of their number.
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, signed)


def new_key() -> bytes:
    """Return a new X25519 secret key (32,).

    >>> len(new_key())
    32
    """
    return X25519PrivateKey.generate().private_bytes_raw()


def public_key(secret: bytes) -> bytes:
    """Return the public key (32,) of an X25519 secret key."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


class Agreement:
    """What one secret key makes of others' public keys: secrets (32,) that both sides know.

    >>> a, b = new_key(), new_key()
    >>> Agreement(a).shared(public_key(b)) == Agreement(b).shared(public_key(a))
    True
    """

    def __init__(self, secret: bytes) -> None:
        self._mine = X25519PrivateKey.from_private_bytes(secret)

    def shared(self, public: bytes) -> bytes:
        """Return the shared secret, to be put through `derive` before it is used."""
        try:
            return self._mine.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError as error:
            raise IntegrityError("a public key is degenerate") from error


def derive(secret: bytes, *, salt: bytes, purpose: str) -> bytes:
    """Return a key (32,) for one purpose from a secret.

    >>> derive(b"s", salt=b"", purpose="a") == derive(b"s", salt=b"", purpose="b")
    False
    """
    return HKDF(SHA256(), KEY_BYTES, salt, purpose.encode()).derive(secret)


def own_mask_key(salt: bytes, place: int, secret: bytes) -> bytes:
    """Return the key of a client's own mask."""
    return derive(secret, salt=salt, purpose=f"own|{place}")


def pair_mask_key(salt: bytes, shared: bytes, one: int, other: int) -> bytes:
    """Return the key of the mask of two clients: the first adds it, the second subtracts it."""
    return derive(shared, salt=salt, purpose=f"mask|{min(one, other)}|{max(one, other)}")


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    """Return content in a box, 16 bytes longer; the key must never be used again.

    >>> key = derive(b"secret", salt=b"", purpose="box")
    >>> unseal(key, seal(key, b"hello", b"note"), b"note")
    b'hello'
    """
    return ChaCha20Poly1305(key).encrypt(bytes(12), content, about)


def unseal(key: bytes, box: bytes, about: bytes) -> bytes:
    """Return what is in a box; IntegrityError if it is damaged, forged or about something else."""
    try:
        return ChaCha20Poly1305(key).decrypt(bytes(12), box, about)
    except InvalidTag as error:
        raise IntegrityError("a sealed box does not open with its key") from error


class Masks:
    """Masks (limbs, L) from keys; one mask at a time, in a buffer that the next one overwrites.

    >>> masks = Masks(Ring(), 3)
    >>> masks.of(bytes(32)).shape
    (2, 3)
    """

    def __init__(self, ring: Ring, length: int) -> None:
        self._zeros = bytes(ring.bits // 8 * length)
        self._buffer = bytearray(len(self._zeros))
        little = ring.dtype.newbyteorder("<")
        self._mask = np.frombuffer(self._buffer, dtype=little).reshape(ring.limbs, length)

    def of(self, key: bytes) -> Residues:
        """Return the keystream of a key, to be used before the next call."""
        # Counter and nonce are zero: a key makes one mask only.
        Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update_into(
            self._zeros, self._buffer
        )
        return self._mask


def of_adverts(session: Session, members: bytes, adverts: Iterable[bytes]) -> bytes:
    """Return the digest (32,) of who takes part and with which keys."""
    return session.digest("adverts", members + b"".join(adverts))


def of_nonces(session: Session, adverts: bytes, nonces: Iterable[bytes]) -> bytes:
    """Return the digest (32,) up to the drawing of the ring, which is drawn from it."""
    return session.digest("nonces", adverts + b"".join(nonces))


def of_update(session: Session, before: bytes, present: bytes, payload: Message) -> bytes:
    """Return the digest (32,) of all that an upload is made under."""
    return session.digest("update", before + present + digest(payload.to_bytes()))


def commitment(session: Session, owner: int, nonce: bytes) -> bytes:
    """Return what a client shows of its number (32,) before it shows the number."""
    return session.digest(f"nonce|{owner}", nonce)


def mark(session: Session, owner: int, holder: int, shares: bytes) -> bytes:
    """Return the digests (64,) of the two shares that a holder gets, each by itself.

    A share is a random number of 521 bits, so that its digest tells nothing of it; who gives
    another one later is found out.
    """
    return b"".join(
        mark_of(session, owner, holder, which, shares[which * SHARE_BYTES :][:SHARE_BYTES])
        for which in (0, 1)
    )


def mark_of(session: Session, owner: int, holder: int, which: int, share: bytes) -> bytes:
    """Return the digest (32,) of one share: of the own mask's secret (0) or the mask key (1)."""
    return session.digest(f"share|{owner}|{holder}|{which}", share)

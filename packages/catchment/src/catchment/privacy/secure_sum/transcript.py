"""What a client of a secure sum has acted on so far, as one digest that all of them must share.

    adverts    the members and the signed keys of every one of them
    nonces     that, and the numbers from which the ring was drawn, if there is a ring
    update     that, the clients whose secrets are shared, and the algorithm's letter

The session is in each of them, and so is what the server sent along. Everything a client signs
after its keys covers the latest digest, and masks are salted with the last one: clients that were
told different things do not take each other's signatures, and their masks do not cancel.
"""

from __future__ import annotations

from collections.abc import Iterable

from catchment.privacy.secure_sum.keys import KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES, Session
from catchment.privacy.secure_sum.shamir import SHARE_BYTES
from catchment.wire import Parts, digest

DIGEST_BYTES = 32
NONCE_BYTES = 32
SHOWN_BYTES = 2 * KEY_BYTES + DIGEST_BYTES  # what an advert shows: two keys and a commitment
ADVERT_BYTES = SHOWN_BYTES + SIGNATURE_BYTES
REVEAL_BYTES = NONCE_BYTES + SIGNATURE_BYTES
BOX_BYTES = 2 * SHARE_BYTES + TAG_BYTES
MARK_BYTES = 2 * DIGEST_BYTES


def of_adverts(session: Session, members: bytes, adverts: Iterable[bytes]) -> bytes:
    """Return the digest (32,) of who takes part and with which keys."""
    return session.digest("adverts", members + b"".join(adverts))


def of_nonces(session: Session, adverts: bytes, nonces: Iterable[bytes]) -> bytes:
    """Return the digest (32,) up to the drawing of the ring, which is drawn from it."""
    return session.digest("nonces", adverts + b"".join(nonces))


def of_update(session: Session, before: bytes, present: bytes, payload: Parts) -> bytes:
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

"""A client's upload in a secure sum: checked, put under its masks and signed.

The upload is checked here and nowhere else: its rows, its range in the ring, and that its numbers
are finite. A client that has changed its program can send any numbers under its mask. The server
sees that the sum is impossible (a Gram matrix with a negative eigenvalue, more rows than the plan
allows for all clients together) and then ends the round; it cannot see whose fault it is. To prove
a bound on numbers that nobody sees takes proofs that cost far more than the sum, or a second server
that does not talk to the first; neither is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from catchment.errors import IntegrityError, RuleError
from catchment.federation.algorithm import Memory, Turn, Upload
from catchment.privacy.secure_sum import keys, transcript
from catchment.privacy.secure_sum.client import Side
from catchment.privacy.secure_sum.messages import Outline, content_digest, from_bits, rows
from catchment.privacy.secure_sum.protection import SecureSum
from catchment.privacy.secure_sum.ring import readout_error
from catchment.privacy.secure_sum.vault import Terms
from catchment.structure import measured, taken_apart
from catchment.wire import Parts, split


@dataclass(frozen=True, eq=False)
class Masked:
    """An upload under its masks, and the digest of what it holds."""

    message: Parts
    content: bytes

    def parts(self) -> Parts:
        return self.message


def masked(
    agreed: SecureSum,
    received: Parts,
    upload: Callable[[Parts, Turn], Upload],
    turn: Turn,
    memory: Memory,
) -> Masked:
    """Return a client's upload under its masks.

    The masks of a round are fixed, so the same numbers give the same bytes again; if the data have
    changed in between, the second answer is refused, because the difference of two would be bare.
    """
    named = split(received, "secure-update")
    if named.keys() != {"present", "payload"}:
        raise IntegrityError("the letter lacks its clients or its payload")
    side = Side.of(agreed, named["present"], turn, memory)
    with side.book.answering("update", received.to_bytes()) as given:
        present = _checked_present(side, named["present"])
        before, bits = side.book["transcript"], side.book["present"]
        told = transcript.of_update(side.session, before, bits, named["payload"])
        made = upload(named["payload"], replace(turn, ledger=side.ledger, session=told.hex()))
        ready = _mask(side, made, present, told, given)
        # What leaves can be summed without this client's consent, by the shares of others: it is
        # entered now, not when they ask about the sealed set. A set of before may still come out
        # of it, if those who were not in that one are too few to open anything by themselves.
        bad = agreed.corrupt_holders(len(side.members("members")))
        side.ledger.upload(
            turn.plan,
            turn.round,
            taken_apart(made).kind,
            told.hex(),
            side.named(present),
            lost=side.threshold - 1 - bad,
        )
        side.book["update"] = told
        side.book.note("update", ready.content)
        return ready


def _checked_present(side: Side, letter: Parts) -> tuple[int, ...]:
    """Return who is in the sum unless it is lost from here on."""
    (bits,) = letter.expect("secure-present", 1).arrays
    present = from_bits(bits, len(side.agreed.names))
    if side.place not in present or not set(present) <= set(side.members("members")):
        raise IntegrityError("the clients of the sum are not those that showed keys")
    if set(present).intersection(side.members("complaints")):
        raise RuleError("boxes", "a client is in the sum whose box did not open here")
    held = set(side.members("held"))
    if not set(side.members("neighbours")).intersection(present) <= held:
        raise IntegrityError("the clients of the sum are not those that shared secrets")
    side.check_holders(present)
    side.note_members("present", present)
    return present


def _mask(
    side: Side, upload: Upload, present: tuple[int, ...], told: bytes, given: bytes | None
) -> Masked:
    agreed = side.agreed
    outline = Outline.of(taken_apart(upload))
    ring = agreed.ring_of(outline)
    if not outline.is_whole:
        _check_rounding(side, upload, len(present))
    terms = Terms(told, ring, len(present), agreed.rows_per_feature, agreed.min_clients)
    near = [holder for holder in side.near() if holder.place in present]
    numbers = side.vault.masked(side.me, upload, near, terms)
    facts = {"round": side.session.round, "outline": outline.fact(), "update": told.hex()}
    content = content_digest(outline, numbers)
    if given is not None and given != content:
        raise RuleError("changed", "the data of this client changed since it sent its upload")
    signature = rows([side.sign("upload", told + content)], keys.SIGNATURE_BYTES)
    return Masked(Parts("secure-upload", facts, (numbers, signature)), content)


def _check_rounding(side: Side, upload: Upload, n_clients: int) -> None:
    agreed = side.agreed
    if agreed.bits == 128:
        return
    for found in measured(upload):
        error = readout_error(
            agreed.ring,
            n_clients=n_clients,
            n_features=found.sizes.get("features", 0),
            n_targets=found.sizes.get("targets", 1),
            smallest_eigenvalue=agreed.ridge,
        )
        if error > agreed.tolerance:
            raise RuleError(
                "rounding",
                f"64 bits could move the readout by {error:.1g}, the plan allows "
                f"{agreed.tolerance:.1g}; use 128 bits, a larger ridge or a smaller bound",
            )

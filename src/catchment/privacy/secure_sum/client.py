"""The client's half of a secure sum: five answers, each given to one letter only.

A letter that comes again gets the same answer again, which tells nothing new and lets a server that
crashed go on; another letter for the same stage of a round is refused. Round numbers only grow, and
only the latest round is alive. All secrets lie in the client's memory and are erased with the
last answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from catchment.errors import IntegrityError, RuleError
from catchment.federation.algorithm import Ledger
from catchment.federation.plan import Memory, Turn, Upload
from catchment.privacy.releases import Releases
from catchment.privacy.secure_sum import keys
from catchment.privacy.secure_sum.client_notes import Notebook
from catchment.privacy.secure_sum.client_rules import (
    check_clients,
    check_rows,
    check_threshold,
)
from catchment.privacy.secure_sum.graph import neighbours
from catchment.privacy.secure_sum.messages import (
    Outline,
    as_bits,
    content_digest,
    encoded,
    from_bits,
    from_rows,
    rows,
    share_bytes,
)
from catchment.privacy.secure_sum.protection import SecureSum
from catchment.privacy.secure_sum.ring import (
    Residues,
    Ring,
    add_into,
    readout_error,
    subtract_from,
)
from catchment.privacy.secure_sum.shamir import SHARE_BYTES, share
from catchment.structure import measured
from catchment.wire import Parts, split

ADVERT_BYTES = 2 * keys.KEY_BYTES + keys.SIGNATURE_BYTES
BOX_BYTES = 2 * SHARE_BYTES + keys.TAG_BYTES


@dataclass(frozen=True, eq=False)
class Masked:
    """An upload under its masks."""

    message: Parts

    def parts(self) -> Parts:
        return self.message


@dataclass(frozen=True, eq=False)
class Side:
    """One client in one round: what was agreed, who it is, and what it remembers."""

    agreed: SecureSum
    session: keys.Session
    name: str
    memory: Memory
    book: Notebook
    ledger: Ledger

    @classmethod
    def of(cls, agreed: SecureSum, letter: Parts, turn: Turn, memory: Memory) -> Side:
        round_ = letter.facts.get("round")
        if type(round_) is not int or not 0 < round_ < 2**63:
            raise IntegrityError(f"the letter is for round {str(round_)[:40]!r}, which is none")
        if turn.client not in agreed.identities:
            raise IntegrityError(f"{turn.client} is not among the registered clients")
        session = keys.Session(agreed.federation, turn.plan, round_)
        ledger = Releases(memory) if turn.ledger is None else turn.ledger
        return cls(agreed, session, turn.client, memory, Notebook(memory, session), ledger)

    @property
    def place(self) -> int:
        return self.agreed.places[self.name]

    @property
    def release(self) -> str:
        """What the ledger calls the round's sum; no other round has it."""
        return self.session.digest("release").hex()

    def members(self, name: str) -> tuple[int, ...]:
        """Return a set of clients that was noted."""
        bits = np.frombuffer(self.book[name], dtype=np.uint8)
        return from_bits(bits, len(self.agreed.names))

    def named(self, places: Sequence[int]) -> list[str]:
        return [self.agreed.names[place] for place in places]

    def sign(self, message: str, content: bytes) -> bytes:
        return keys.sign(self.memory, self.session.about(message, self.name), content)

    def verify(self, message: str, place: int, signature: bytes, content: bytes) -> None:
        signer = self.agreed.names[place]
        try:
            keys.verify(
                self.agreed.identities[signer],
                signature,
                self.session.about(message, signer),
                content,
            )
        except IntegrityError as error:
            raise IntegrityError(f"{signer} did not sign these {message}") from error


def answer(agreed: SecureSum, stage: str, received: Parts, turn: Turn, memory: Memory) -> Parts:
    """Return a client's answer at any stage but "update"."""
    steps = {
        "keys": _keys,
        "shares": _shares,
        "consistency": _consistency,
        "unmask": _unmask,
    }
    if stage not in steps:
        raise IntegrityError(f"a secure sum has no stage {stage[:40]!r}")
    side = Side.of(agreed, received, turn, memory)
    with side.book.answering(stage, received.to_bytes()) as given:
        if given is not None:
            return Parts.from_bytes(given)
        made = steps[stage](side, received)
        side.book.note(stage, made.to_bytes())
        return made


def _keys(side: Side, received: Parts) -> Parts:
    received.expect("secure-round", 0)
    side.book["box key"], side.book["mask key"] = keys.new_key(), keys.new_key()
    public = keys.public_key(side.book["box key"]) + keys.public_key(side.book["mask key"])
    return Parts("secure-keys", {}, (rows([public + side.sign("keys", public)], ADVERT_BYTES),))


def _shares(side: Side, received: Parts) -> Parts:
    bits, adverts = received.expect("secure-adverts", 2).arrays
    agreed, me = side.agreed, side.place
    members = from_bits(bits, len(agreed.names))
    check_clients(len(members), agreed.min_clients)
    k, t = agreed.degree(len(members))
    check_threshold(t, k)
    if me not in members:
        raise IntegrityError("this client is asked for shares in a round it is not part of")
    near = neighbours(members, me, k, side.session.digest("graph"))
    public = _checked_adverts(side, near, from_rows(adverts, len(near), ADVERT_BYTES))
    own = secrets.token_bytes(keys.KEY_BYTES)
    holders = sorted((*near, me))
    at = [holder + 1 for holder in holders]
    pieces = (
        share(int.from_bytes(own, "little"), t, at),
        share(int.from_bytes(side.book["mask key"], "little"), t, at),
    )
    content = {
        holder: share_bytes(a) + share_bytes(b)
        for holder, a, b in zip(holders, *pieces, strict=True)
    }
    side.book["members"], side.book["own mask"] = bits.tobytes(), own
    side.book["neighbours"] = as_bits(near, len(agreed.names)).tobytes()
    side.book["public keys"] = b"".join(public)
    side.book["own shares"] = content[me]
    agreement, boxes, opening = keys.Agreement(side.book["box key"]), [], []
    salt = side.session.digest("members", bits.tobytes())
    for them, key in zip(near, public, strict=True):
        shared = agreement.shared(key[:32])
        there = keys.derive(shared, salt=salt, purpose=f"share|{me}|{them}")
        opening.append(keys.derive(shared, salt=salt, purpose=f"share|{them}|{me}"))
        boxes.append(keys.seal(there, content[them], _label(side, me, them)))
    side.book["box keys"] = b"".join(opening)
    promise = side.session.digest("own mask", own)
    return Parts("secure-shares", {}, (rows([promise], 32), rows(boxes, BOX_BYTES)))


def _checked_adverts(side: Side, near: tuple[int, ...], adverts: list[bytes]) -> list[bytes]:
    """Return the neighbours' public keys, each signed by its owner and all different."""
    public = [advert[: 2 * keys.KEY_BYTES] for advert in adverts]
    for place, advert, key in zip(near, adverts, public, strict=True):
        side.verify("keys", place, advert[2 * keys.KEY_BYTES :], key)
    mine = [keys.public_key(side.book["box key"]), keys.public_key(side.book["mask key"])]
    single = [*mine, *(half for key in public for half in (key[:32], key[32:]))]
    if len(set(single)) != len(single):
        raise IntegrityError("two clients of the round show one and the same key")
    return public


def _label(side: Side, sender: int, receiver: int) -> bytes:
    names = side.agreed.names
    return side.session.about("shares", names[sender], names[receiver])


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
    if named.keys() != {"boxes", "payload"}:
        raise IntegrityError("the letter lacks its boxes or its payload")
    side = Side.of(agreed, named["boxes"], turn, memory)
    with side.book.answering("update", received.to_bytes()) as given:
        present = _open_boxes(side, named["boxes"])
        noted = replace(turn, ledger=side.ledger, session=side.release)
        return _mask(side, upload(named["payload"], noted), noted, present, given)


def _mask(
    side: Side, upload: Upload, turn: Turn, present: tuple[int, ...], given: bytes | None
) -> Masked:
    agreed = side.agreed
    check_rows(upload, rows_per_feature=agreed.rows_per_feature, min_clients=agreed.min_clients)
    made = upload.parts()
    outline = Outline.of(made)
    ring = agreed.ring_of(outline)
    if not outline.is_whole:
        _check_rounding(side, upload, len(present))
    numbers = encoded(made, ring, n_clients=len(present))
    _add_masks(side, numbers, present, ring)
    facts = {"round": side.session.round, "outline": outline.fact()}
    content = content_digest(outline, numbers)
    if given is not None and given != content:
        raise RuleError("changed", "the data of this client changed since it sent its upload")
    side.ledger.upload(side.session.plan, turn.round, made.kind, side.release)
    side.book["outline"] = outline.digest()
    side.book.note("update", content)
    signature = rows([side.sign("upload", content)], keys.SIGNATURE_BYTES)
    return Masked(Parts("secure-upload", facts, (numbers, signature)))


def _open_boxes(side: Side, letter: Parts) -> tuple[int, ...]:
    """Return who shared secrets, after opening the neighbours' boxes and keeping the shares."""
    bits, boxes = letter.expect("secure-boxes", 2).arrays
    agreed, me = side.agreed, side.place
    present = from_bits(bits, len(agreed.names))
    members, near = side.members("members"), side.members("neighbours")
    check_clients(len(present), agreed.min_clients)
    if me not in present or not set(present) <= set(members):
        raise IntegrityError("the clients that shared secrets are not those that showed keys")
    here = [place for place in near if place in set(present)]
    _, t = agreed.degree(len(members))
    if len(here) + 1 < t:
        raise RuleError("neighbours", f"{len(here) + 1} clients hold shares, {t} are needed")
    opening = dict(zip(near, _cut(side.book["box keys"], keys.KEY_BYTES), strict=True))
    held = {me: side.book["own shares"]}
    for place, box in zip(here, from_rows(boxes, len(here), BOX_BYTES), strict=True):
        held[place] = keys.unseal(opening[place], box, _label(side, place, me))
    side.book["present"] = bits.tobytes()
    side.book["held shares"] = b"".join(held[place] for place in sorted(held))
    return present


def _cut(whole: bytes, width: int) -> list[bytes]:
    return [whole[start : start + width] for start in range(0, len(whole), width)]


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


def _add_masks(side: Side, numbers: Residues, present: tuple[int, ...], ring: Ring) -> None:
    me, there = side.place, set(present)
    masks = keys.Masks(ring, numbers.shape[1])
    add_into(numbers, masks.of(own_mask_key(side.session, me, side.book["own mask"])))
    agreement = keys.Agreement(side.book["mask key"])
    public = _cut(side.book["public keys"], 2 * keys.KEY_BYTES)
    for place, key in zip(side.members("neighbours"), public, strict=True):
        if place in there:
            mask = masks.of(pair_mask_key(side.session, agreement.shared(key[32:]), me, place))
            (add_into if place > me else subtract_from)(numbers, mask)


def own_mask_key(session: keys.Session, place: int, secret: bytes) -> bytes:
    """Return the key of a client's own mask."""
    return keys.derive(secret, salt=session.digest("mask"), purpose=f"own|{place}")


def pair_mask_key(session: keys.Session, shared: bytes, one: int, other: int) -> bytes:
    """Return the key of the mask of two clients: the first adds it, the second subtracts it."""
    purpose = f"mask|{min(one, other)}|{max(one, other)}"
    return keys.derive(shared, salt=session.digest("mask"), purpose=purpose)


def _consistency(side: Side, received: Parts) -> Parts:
    (bits,) = received.expect("secure-survivors", 1).arrays
    agreed, me = side.agreed, side.place
    survivors = from_bits(bits, len(agreed.names))
    if "outline" not in side.book:
        raise IntegrityError("the server goes on before this client has sent its upload")
    if me not in survivors or not set(survivors) <= set(side.members("present")):
        raise IntegrityError("the sealed set is not made of clients that shared secrets")
    check_clients(len(survivors), agreed.min_clients)
    _, t = agreed.degree(len(side.members("members")))
    holders = {me, *side.members("neighbours")} & set(survivors)
    if len(holders) < t:
        raise RuleError("neighbours", f"{len(holders)} clients hold shares, {t} are needed")
    side.ledger.check(side.release, side.named(survivors))
    side.book["survivors"] = bits.tobytes()
    signed = side.sign("survivors", bits.tobytes())
    return Parts("secure-consent", {}, (rows([signed], keys.SIGNATURE_BYTES),))


def _unmask(side: Side, received: Parts) -> Parts:
    signers, signatures = received.expect("secure-consents", 2).arrays
    if "survivors" not in side.book:
        raise IntegrityError("the server asks for shares before the set was agreed on")
    survivors = side.members("survivors")
    _check_consents(side, signers.tolist(), from_rows(signatures, len(signers), 64))
    # Released from here on, whatever becomes of the answer.
    side.ledger.release(side.release, side.named(survivors))
    here = set(side.members("present"))
    holders = sorted({side.place, *(set(side.members("neighbours")) & here)})
    held = _cut(side.book["held shares"], 2 * SHARE_BYTES)
    given = [
        pair[:SHARE_BYTES] if place in survivors else pair[SHARE_BYTES:]
        for place, pair in zip(holders, held, strict=True)
    ]
    return Parts("secure-shares-given", {}, (rows(given, SHARE_BYTES),))


def _check_consents(side: Side, signers: list[int], signatures: list[bytes]) -> None:
    """Refuse unless enough holders of shares signed the very set that this client signed."""
    near = set(side.members("neighbours"))
    if len(set(signers)) != len(signers) or not set(signers) <= near:
        raise IntegrityError("signatures on the sealed set come twice or from strangers")
    for place, signature in zip(signers, signatures, strict=True):
        side.verify("survivors", place, signature, side.book["survivors"])
    _, t = side.agreed.degree(len(side.members("members")))
    if len(signers) + 1 < t:
        raise RuleError(
            "consistency", f"{len(signers) + 1} clients agree on the sealed set, {t} are needed"
        )

"""The client's half of secure aggregation: an answer at every stage, each to one request only.

A request that comes again gets the same answer, which tells nothing new and lets a server that
crashed go on; another one for the same stage of a round is refused. Numbers of rounds only grow,
and only the latest round of a plan is alive. All secrets lie in the client's memory and are erased
with the last answer.

The upload is checked here and nowhere else: its rows, its range in the ring, and that its numbers
are finite. A client that has changed its program can send any numbers under its mask. The server
sees that the sum is impossible (a Gram matrix with a negative eigenvalue, more rows than the plan
allows for all clients together) and then ends the round; it cannot see whose fault it is. Proofs of
a bound on numbers that nobody sees cost far more than the sum, and are not here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from catchment.errors import IntegrityError, RuleError
from catchment.federation.algorithm import Ledger, Memory, RoundContext, Upload
from catchment.privacy.ledger import PrivacyLedger
from catchment.privacy.policy import Policy
from catchment.privacy.secure_aggregation import keys
from catchment.privacy.secure_aggregation.client_store import Notebook
from catchment.privacy.secure_aggregation.graph import neighbors
from catchment.privacy.secure_aggregation.protection import (
    SecureAggregation,
    check_clients,
    check_rows,
    check_share,
    check_threshold,
)
from catchment.privacy.secure_aggregation.ring import (
    SHARE_BYTES,
    Outline,
    Residues,
    Ring,
    add_into,
    as_bits,
    content_digest,
    cut,
    encoded,
    from_bits,
    from_rows,
    readout_error,
    rows,
    share,
    subtract_from,
)
from catchment.wire import Message, measured, serialize, split

# What a holder is sent: a box (or, to oneself, what would be in it), and two digests.
Dealt = tuple[bytes, bytes]


@dataclass(frozen=True)
class Me:
    """A client in one session of secure aggregation: its place among the registered, its name."""

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


class Vault:
    """Who has a client's secrets of a round, and what is asked of them.

    Here they are in the client's own memory and are erased with the last answer of a round; a
    device that shows them to nobody overrides everything.
    """

    def __init__(self, book: Notebook) -> None:
        self._book = book

    def new_keys(self, me: Me) -> bytes:
        """Return two new public keys (64,), for boxes and for masks."""
        self._book["box key"], self._book["mask key"] = keys.new_key(), keys.new_key()
        return keys.public_key(self._book["box key"]) + keys.public_key(self._book["mask key"])

    def promise(self, me: Me) -> bytes:
        """Return the digest (32,) of the secret of the client's own mask."""
        return me.session.digest("own mask", self._book["own mask"])

    def deal(self, me: Me, seen: bytes, holders: Sequence[Holder], threshold: int) -> list[Dealt]:
        """Return shares of both secrets for each holder, the client itself among them."""
        own = self._book["own mask"] = secrets.token_bytes(keys.KEY_BYTES)
        at = [holder.place + 1 for holder in holders]
        pieces = zip(
            share(int.from_bytes(own, "little"), threshold, at),
            share(int.from_bytes(self._book["mask key"], "little"), threshold, at),
            strict=True,
        )
        agreement, opening, dealt = keys.Agreement(self._book["box key"]), [], []
        for holder, pair in zip(holders, pieces, strict=True):
            content = b"".join(one.to_bytes(SHARE_BYTES, "little") for one in pair)
            mark = keys.mark(me.session, me.place, holder.place, content)
            if holder.place != me.place:
                shared = agreement.shared(holder.public[: keys.KEY_BYTES])
                there, back = (
                    keys.derive(shared, salt=seen, purpose=f"share|{one}|{other}")
                    for one, other in ((me.place, holder.place), (holder.place, me.place))
                )
                opening.append(back)
                content = keys.seal(
                    there, content, me.session.about("shares", me.name, holder.name)
                )
            dealt.append((content, mark))
        self._book["box keys"] = b"".join(opening)  # agreed on once, for both directions
        return dealt

    def opened(
        self, me: Me, seen: bytes, near: Sequence[Holder], boxes: Mapping[int, bytes]
    ) -> dict[int, bytes]:
        """Return what is in boxes by the place of who sent them, but for those that do not open.

        Parameters
        ----------
        near
            All neighbors, also those that sent no box, in the order of their places.
        """
        found = {}
        for holder, key in zip(near, cut(self._book["box keys"], keys.KEY_BYTES), strict=True):
            if holder.place in boxes:
                about = me.session.about("shares", holder.name, me.name)
                with suppress(IntegrityError):
                    found[holder.place] = keys.unseal(key, boxes[holder.place], about)
        return found

    def masked(self, me: Me, upload: Upload, near: Sequence[Holder], terms: Terms) -> Residues:
        """Return the numbers of an upload under the own mask and one for each neighbor."""
        check_rows(upload, rows_per_feature=terms.rows_per_feature, min_clients=terms.min_clients)
        numbers = encoded(serialize(upload), terms.ring, n_clients=terms.n_clients)
        masks = keys.Masks(terms.ring, numbers.shape[1])
        add_into(numbers, masks.of(keys.own_mask_key(terms.told, me.place, self._book["own mask"])))
        agreement = keys.Agreement(self._book["mask key"])
        for holder in near:
            shared = agreement.shared(holder.public[keys.KEY_BYTES :])
            mask = masks.of(keys.pair_mask_key(terms.told, shared, me.place, holder.place))
            (add_into if holder.place > me.place else subtract_from)(numbers, mask)
        return numbers


@dataclass(frozen=True, eq=False)
class Side:
    """One client in one round: what was agreed, who it is, and what it remembers."""

    agreed: SecureAggregation
    session: keys.Session
    name: str
    memory: Memory
    book: Notebook
    ledger: Ledger
    vault: Vault

    @classmethod
    def of(
        cls, agreed: SecureAggregation, request: Message, context: RoundContext, memory: Memory
    ) -> Side:
        number = request.facts.get("round")
        if type(number) is not int or not 0 < number < 2**63:
            raise IntegrityError(f"the request is for round {str(number)[:40]!r}, which is none")
        if context.client not in agreed.identities:
            raise IntegrityError(f"{context.client} is not among the registered clients")
        session = keys.Session.of(agreed.federation, number, context)
        ledger = context.ledger or PrivacyLedger(memory, Policy())
        book = Notebook(memory, session)
        vault = Vault(book) if context.vault is None else context.vault
        return cls(agreed, session, context.client, memory, book, ledger, vault)

    @property
    def place(self) -> int:
        return self.agreed.places[self.name]

    @property
    def me(self) -> Me:
        return Me(self.session, self.place, self.name)

    def near(self) -> list[Holder]:
        """Return the neighbors with their keys, in the order of their places."""
        places = self.members("neighbors")
        public = cut(self.book["public keys"], 2 * keys.KEY_BYTES)
        names = self.agreed.names
        return [
            Holder(place, names[place], keys_) for place, keys_ in zip(places, public, strict=True)
        ]

    def members(self, name: str) -> tuple[int, ...]:
        """Return a set of clients that was noted."""
        bits = np.frombuffer(self.book[name], dtype=np.uint8)
        return from_bits(bits, len(self.agreed.names))

    def note_members(self, name: str, places: Sequence[int]) -> bytes:
        self.book[name] = as_bits(places, len(self.agreed.names)).tobytes()
        return self.book[name]

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

    @property
    def threshold(self) -> int:
        return self.agreed.degree(len(self.members("members")))[1]

    def check_holders(self, there: Sequence[int]) -> None:
        """Refuse a set with too few of those who hold shares of this client's secrets in it."""
        check_clients(len(there), self.agreed.min_clients)
        holders = {self.place, *self.members("neighbors")}.intersection(there)
        if len(holders) < self.threshold:
            raise RuleError(
                "neighbors", f"{len(holders)} clients hold shares, {self.threshold} are needed"
            )


def answer(
    agreed: SecureAggregation, stage: str, received: Message, context: RoundContext, memory: Memory
) -> Message:
    """Return a client's answer at any stage but "update"."""
    steps = {
        "keys": _keys,
        "nonces": _nonces,
        "shares": _shares,
        "boxes": _boxes,
        "consistency": _consistency,
        "unmask": _unmask,
    }
    if stage not in steps:
        raise IntegrityError(f"secure aggregation has no stage {stage[:40]!r}")
    side = Side.of(agreed, received, context, memory)
    request = received.to_bytes()
    if stage == "keys" and side.book.is_behind(request):
        # Not refused: a server that lost count begins again above this.
        return Message("secure-later", {"latest": side.book.latest})
    with side.book.answering(stage, request) as given:
        if given is not None:
            return Message.from_bytes(given)
        made = steps[stage](side, received)
        side.book.note(stage, made.to_bytes())
        return made


def _keys(side: Side, received: Message) -> Message:
    received.expect("secure-round", 0)
    book = side.book
    book["nonce"] = secrets.token_bytes(keys.NONCE_BYTES)
    committed = keys.commitment(side.session, side.place, book["nonce"])
    shown = side.vault.new_keys(side.me) + committed
    book["advert"] = shown + side.sign("keys", shown)
    return Message("secure-keys", {}, (rows([book["advert"]], keys.ADVERT_BYTES),))


def _nonces(side: Side, received: Message) -> Message:
    bits, adverts = received.expect("secure-adverts", 2).arrays
    _, shown = _checked_members(side, bits, adverts)
    seen = keys.of_adverts(side.session, bits.tobytes(), shown)
    side.book["adverts"] = seen
    reveal = side.book["nonce"] + side.sign("nonces", seen + side.book["nonce"])
    return Message("secure-nonce", {}, (rows([reveal], keys.REVEAL_BYTES),))


def _checked_members(
    side: Side, bits: np.ndarray, adverts: np.ndarray
) -> tuple[tuple[int, ...], list[bytes]]:
    """Return who takes part, and all adverts, each signed by its owner and all keys different."""
    agreed, me = side.agreed, side.place
    members = from_bits(bits, len(agreed.names))
    n = len(members)
    check_clients(n, agreed.min_clients)
    check_share(n, len(agreed.names), agreed.min_share)
    k, t = agreed.degree(n)
    check_threshold(t, k + 1, agreed.corrupt_holders(n))
    if t < agreed.least_shares(n):
        # Those who work with the server could cut off a part of the ring.
        raise RuleError(
            "neighbors",
            f"{t} shares of {k + 1} open a secret; in a ring of {k} neighbors "
            f"{agreed.least_shares(n)} must be needed, or a few clients could be summed by "
            "themselves; ask for more neighbors",
        )
    if me not in members:
        raise IntegrityError("this client is asked to join a round it is not part of")
    shown = from_rows(adverts, n, keys.ADVERT_BYTES)
    for place, advert in zip(members, shown, strict=True):
        side.verify("keys", place, advert[keys.SHOWN_BYTES :], advert[: keys.SHOWN_BYTES])
    if shown[members.index(me)] != side.book["advert"]:
        raise IntegrityError("the server shows others keys that are not this client's")
    single = [half for advert in shown for half in (advert[:32], advert[32:64])]
    if len(set(single)) != len(single):
        raise IntegrityError("two clients of the round show one and the same key")
    return members, shown


def _shares(side: Side, received: Message) -> Message:
    bits, adverts, reveals = received.expect("secure-members", 3).arrays
    agreed, me, session = side.agreed, side.place, side.session
    members, shown = _checked_members(side, bits, adverts)
    k, t = agreed.degree(len(members))
    seen = keys.of_adverts(session, bits.tobytes(), shown)
    is_ring = k < len(members) - 1
    drawn = from_rows(reveals, len(members) if is_ring else 0, keys.REVEAL_BYTES)
    if is_ring and side.book["adverts"] != seen:
        raise IntegrityError("the members or their keys changed after this client's number")
    for place, advert, reveal in zip(members, shown, drawn, strict=False):
        promised = advert[2 * keys.KEY_BYTES : keys.SHOWN_BYTES]
        if keys.commitment(session, place, reveal[: keys.NONCE_BYTES]) != promised:
            raise IntegrityError(
                f"{agreed.names[place]} showed another number than it committed to"
            )
    seed = keys.of_nonces(session, seen, (one[: keys.NONCE_BYTES] for one in drawn))
    near = neighbors(members, me, k, seed)
    for place in near if is_ring else ():
        reveal = drawn[members.index(place)]
        side.verify("nonces", place, reveal[keys.NONCE_BYTES :], seen + reveal[: keys.NONCE_BYTES])
    side.book["members"], side.book["transcript"] = bits.tobytes(), seed
    side.note_members("neighbors", near)
    public = [shown[members.index(place)][: 2 * keys.KEY_BYTES] for place in near]
    side.book["public keys"] = b"".join(public)
    return _dealt(side, t)


def _dealt(side: Side, t: int) -> Message:
    """Return shares of the two secrets in boxes, their digests, and a signature over all."""
    me, seen = side.me, side.book["transcript"]
    holders = sorted((*side.near(), Holder(me.place, me.name, b"")), key=lambda one: one.place)
    dealt = side.vault.deal(me, seen, holders, t)
    boxes = []
    for holder, (content, _) in zip(holders, dealt, strict=True):
        if holder.place == me.place:
            side.book["own shares"] = content
        else:
            boxes.append(content)
    promise, marks = side.vault.promise(me), [mark for _, mark in dealt]
    told = b"".join([seen, promise, *boxes, *marks])
    signed = side.sign("shares", side.session.digest("dealt", told))
    arrays = (
        rows([promise + signed], keys.DIGEST_BYTES + keys.SIGNATURE_BYTES),
        rows(boxes, keys.BOX_BYTES),
        rows(marks, keys.MARK_BYTES),
    )
    return Message("secure-shares", {}, arrays)


def _boxes(side: Side, received: Message) -> Message:
    """Open the neighbors' boxes, keep what is in them, and name those that do not open."""
    bits, boxes, marks = received.expect("secure-boxes", 3).arrays
    me, n_names = side.place, len(side.agreed.names)
    sharers = from_bits(bits, n_names)
    if me not in sharers or not set(sharers) <= set(side.members("members")):
        raise IntegrityError("the clients that shared secrets are not those that showed keys")
    side.check_holders(sharers)
    near = side.members("neighbors")
    here = sorted(set(near).intersection(sharers))
    sealed = dict(zip(here, from_rows(boxes, len(here), keys.BOX_BYTES), strict=True))
    found = side.vault.opened(side.me, side.book["transcript"], side.near(), sealed)
    held, wrong = {me: side.book["own shares"]}, []
    for place, mark in zip(here, from_rows(marks, len(here), keys.MARK_BYTES), strict=True):
        content = found.get(place)
        if content is not None and keys.mark(side.session, place, me, content) == mark:
            held[place] = content
        else:
            wrong.append(place)
    side.note_members("held", list(held))
    side.book["held shares"] = b"".join(held[place] for place in sorted(held))
    complaints = side.note_members("complaints", wrong)
    signed = side.sign("complaints", side.book["transcript"] + bits.tobytes() + complaints)
    arrays = (as_bits(wrong, n_names), rows([signed], keys.SIGNATURE_BYTES))
    return Message("secure-complaints", {}, arrays)


def _consistency(side: Side, received: Message) -> Message:
    (bits,) = received.expect("secure-survivors", 1).arrays
    survivors = from_bits(bits, len(side.agreed.names))
    if "update" not in side.book:
        raise IntegrityError("the server goes on before this client has sent its upload")
    if side.place not in survivors or not set(survivors) <= set(side.members("present")):
        raise IntegrityError("the sealed set is not made of clients that shared secrets")
    side.check_holders(survivors)
    side.ledger.check(side.book["update"].hex(), side.named(survivors))
    side.book["survivors"] = bits.tobytes()
    signed = side.sign("survivors", bits.tobytes() + side.book["update"])
    return Message("secure-consent", {}, (rows([signed], keys.SIGNATURE_BYTES),))


def _unmask(side: Side, received: Message) -> Message:
    signers, signatures = received.expect("secure-consents", 2).arrays
    if "survivors" not in side.book:
        raise IntegrityError("the server asks for shares before the set was agreed on")
    survivors = side.members("survivors")
    _check_consents(side, signers.tolist(), from_rows(signatures, len(signers), 64))
    # Released from here on, whatever becomes of the answer.
    side.ledger.release(side.book["update"].hex(), side.named(survivors))
    present = set(side.members("present"))
    held = zip(side.members("held"), cut(side.book["held shares"], 2 * SHARE_BYTES), strict=True)
    given = [
        pair[:SHARE_BYTES] if place in survivors else pair[SHARE_BYTES:]
        for place, pair in held
        if place in present
    ]
    return Message("secure-shares-given", {}, (rows(given, SHARE_BYTES),))


def _check_consents(side: Side, signers: list[int], signatures: list[bytes]) -> None:
    """Refuse unless enough holders signed the very set, and the very sum, that this client did."""
    near = set(side.members("neighbors"))
    if len(set(signers)) != len(signers) or not set(signers) <= near:
        raise IntegrityError("signatures on the sealed set come twice or from strangers")
    for place, signature in zip(signers, signatures, strict=True):
        side.verify("survivors", place, signature, side.book["survivors"] + side.book["update"])
    if len(signers) + 1 < side.threshold:
        raise RuleError(
            "consistency",
            f"{len(signers) + 1} clients agree on the sealed set, {side.threshold} are needed",
        )


def masked(
    agreed: SecureAggregation,
    received: Message,
    upload: Callable[[Message, RoundContext], Upload],
    context: RoundContext,
    memory: Memory,
) -> Message:
    """Return a client's upload under its masks.

    The masks of a round are fixed, so the same numbers give the same bytes again; if the data have
    changed in between, the second answer is refused, because the difference of two would be bare.
    """
    named = split(received, "secure-update")
    if named.keys() != {"present", "payload"}:
        raise IntegrityError("the request lacks its clients or its payload")
    side = Side.of(agreed, named["present"], context, memory)
    with side.book.answering("update", received.to_bytes()) as given:
        present = _checked_present(side, named["present"])
        before, bits = side.book["transcript"], side.book["present"]
        told = keys.of_update(side.session, before, bits, named["payload"])
        known = replace(context, ledger=side.ledger, session=told.hex(), thick=agreed.check_rows)
        made = upload(named["payload"], known)
        ready, content = _mask(side, made, present, told)
        if given is not None and given != content:
            raise RuleError("changed", "the data of this client changed since it sent its upload")
        # What leaves can be summed without this client's consent, by the shares of others: it is
        # entered now, not when they ask about the sealed set. A set of before may still come out
        # of it, if those who were not in that one are too few to open anything by themselves.
        bad = agreed.corrupt_holders(len(side.members("members")))
        side.ledger.upload(
            context.plan,
            context.round,
            serialize(made).kind,
            told.hex(),
            side.named(present),
            lost=side.threshold - 1 - bad,
        )
        side.book["update"] = told
        side.book.note("update", content)
        return ready


def _checked_present(side: Side, request: Message) -> tuple[int, ...]:
    """Return who is in the sum unless it is lost from here on."""
    (bits,) = request.expect("secure-present", 1).arrays
    present = from_bits(bits, len(side.agreed.names))
    if side.place not in present or not set(present) <= set(side.members("members")):
        raise IntegrityError("the clients of the sum are not those that showed keys")
    if set(present).intersection(side.members("complaints")):
        raise RuleError("boxes", "a client is in the sum whose box did not open here")
    held = set(side.members("held"))
    if not set(side.members("neighbors")).intersection(present) <= held:
        raise IntegrityError("the clients of the sum are not those that shared secrets")
    side.check_holders(present)
    side.note_members("present", present)
    return present


def _mask(
    side: Side, upload: Upload, present: tuple[int, ...], told: bytes
) -> tuple[Message, bytes]:
    """Return the message of an upload under its masks, and the digest of what it holds."""
    agreed = side.agreed
    outline = Outline.of(serialize(upload))
    ring = agreed.ring_of(outline)
    if not outline.is_whole and agreed.bits != 128:
        _check_rounding(side, upload, len(present))
    terms = Terms(told, ring, len(present), agreed.rows_per_feature, agreed.min_clients)
    near = [holder for holder in side.near() if holder.place in present]
    numbers = side.vault.masked(side.me, upload, near, terms)
    facts = {"round": side.session.round, "outline": outline.fact(), "update": told.hex()}
    content = content_digest(outline, numbers)
    signature = rows([side.sign("upload", told + content)], keys.SIGNATURE_BYTES)
    return Message("secure-upload", facts, (numbers, signature)), content


def _check_rounding(side: Side, upload: Upload, n_clients: int) -> None:
    agreed = side.agreed
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

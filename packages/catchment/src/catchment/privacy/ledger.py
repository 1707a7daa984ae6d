"""A client's own ledger: what was released of which of its data, in which sum, at what cost.

Every release is written down before it happens, where the client keeps its private key, and
refused if together with those before it tells more than the client's `Policy` allows. Nothing that
a plan or a server says turns it off. Entries are chained by their SHA-256, so that one that is
missing or changed is noticed; that the whole memory was put back to an earlier copy, or erased with
the private key, is not.

docs/concepts/client-ledger.md has the three promises: the same data, as their owner says which are
the same (`catchment.data.units`), go into exact sums with one set of clients only; an upload that
has left counts as if its sum had been opened; noise adds up. The sets of exact sums then have
nobody in common or are the same, and no sums of such sets add up to one client.

Scores of models are compared with scores only: they are sums of errors, not of statistics.
Entries of an earlier form, which knew data by how a plan read them, are taken to be of all data.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, final

from catchment.data.units import ALL, Piece, Units, piece_of
from catchment.errors import BudgetError, IntegrityError, RuleError
from catchment.federation.algorithm import Cost, Data, Ledger, Memory
from catchment.privacy.dp.budget import TOLERANCE
from catchment.privacy.dp.gaussian import epsilon_spent
from catchment.privacy.policy import Policy
from catchment.privacy.secure_aggregation.protection import FEWEST_CLIENTS

ROOT = "releases"
HEAD = f"{ROOT}/head"
SECRET = f"{ROOT}/secret"
PENDING = f"{ROOT}/pending"  # where an earlier form kept uploads that had left
SCORES = ("score", "comparison")  # the kinds of messages that say how well a model does
NO_DATA = "none"  # what is told was made without reading any
PAGE = 256  # entries of the ledger that are kept, read and written together

# Held while the ledger is read and written, never while an upload is made. Threads of one process
# only: a memory belongs to one process.
_DOOR = threading.RLock()


@dataclass(frozen=True)
class LedgerEntry:
    """One line of a client's ledger.

    Parameters
    ----------
    plan, round, kind, session
        What asked for it: fingerprint of the plan, round, kind of message, and the secure
        aggregation's own name; no session if the message was sent in the clear.
    data
        Digest of the units it was made from; empty where they are not known, "none" if nothing was
        read.
    gaussian, concentrated
        Cost of the noise; both 0 if whoever receives the release gets exact numbers.
    epsilon, delta
        What the plan promised. Without a cost that is what a server promises to others, to which
        it adds the noise, and bounds nothing of what it sees itself.
    n_clients, clients
        How many clients are in the sum, and the SHA-256 of their names.
    at
        When it was written down.
    possible
        Whether it is an upload that has left for a sum of which this client does not know what
        became.
    """

    plan: str
    round: int
    kind: str
    session: str
    data: str
    gaussian: float = 0.0
    concentrated: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    n_clients: int = 1
    clients: str = ""
    at: str = ""
    possible: bool = False

    @property
    def cost(self) -> Cost:
        return Cost(self.gaussian, self.concentrated)

    @property
    def is_exact(self) -> bool:
        return self.cost == Cost()

    @property
    def is_score(self) -> bool:
        return self.kind in SCORES

    def among(self, clients: Iterable[str]) -> LedgerEntry:
        """Return the release as a sum over these clients."""
        names = sorted(set(clients))
        if len(names) < FEWEST_CLIENTS:
            raise RuleError(
                "clients",
                f"a sum over {len(names)} clients hides nobody; ask {FEWEST_CLIENTS} or more",
            )
        text = hashlib.sha256(json.dumps(names).encode()).hexdigest()
        return replace(self, n_clients=len(names), clients=text)

    def is_again(self, before: LedgerEntry) -> bool:
        """Return whether this is a release that was entered before, asked for again."""
        if self.session != before.session:
            return False
        if not self.session:
            same = (self.plan, self.round, self.kind, self.data)
            return same == (before.plan, before.round, before.kind, before.data)
        if (self.data, self.cost) != (before.data, before.cost):
            raise RuleError(
                "changed",
                "the data of this client changed since it sent its upload in this round; start "
                "the round anew",
            )
        if not self.is_exact or self.clients == before.clients:
            return self.possible or not before.possible or not self.is_exact
        if self.possible or not before.possible:
            raise RuleError(
                "replay",
                "this client gave its shares for another set of clients in this round, and gives "
                "them once; start the round anew",
            )
        return False  # what was possible is settled


@final
class PrivacyLedger(Ledger):
    """A client's ledger in its memory; what it refuses is never sent.

    Parameters
    ----------
    memory
        Where it is kept.
    policy
        What the owner allows.
    units
        Says which units the data are, from the raw files, just before they are read; or the name of
        the one unit that they are, which is known by the recordings.

    >>> ledger = PrivacyLedger({})
    >>> ledger.upload("plan", 0, "ridge-statistics", "7", ["ann", "ben", "cat"])
    []
    >>> ledger.upload("plan", 0, "ridge-statistics", "8", ["ann", "ben", "dan"])
    Traceback (most recent call last):
    catchment.errors.RuleError: these data went into a sum without noise over another set of 3 ...
    """

    def __init__(
        self, memory: Memory, policy: Policy | None = None, units: Callable[[], Units] | str = ALL
    ) -> None:
        self._memory, self._policy, self._units = memory, policy or Policy(), units
        self._about: Units | None = None  # of the upload being made; None: not known
        self._noise: dict[str, Any] = {}

    def reading(self, data: Data, *, apart: bool = False) -> Data:
        # An upload begins with this.
        self._about, self._noise = Units("recordings", ()), {}

        def read() -> Iterator[Any]:
            pieces: list[Piece] = []
            if callable(self._units):
                self._about = self._units()
            for item in data():
                if isinstance(self._units, str):
                    pieces.append(piece_of(item, self._units, apart=apart))
                    # Data may be read several times; the longest time is all of them.
                    if self._about is None or len(pieces) > len(self._about.pieces):
                        self._about = Units("recordings", tuple(pieces))
                yield item

        return read

    @property
    def about(self) -> str:
        return "" if self._about is None else self._about.to_bytes().decode()

    @about.setter
    def about(self, noted: str) -> None:
        self._about, self._noise = Units.from_bytes(noted.encode()) if noted else None, {}

    def charge(self, cost: Cost, *, epsilon: float, delta: float) -> None:
        self._noise = {**asdict(cost), "epsilon": epsilon, "delta": delta}

    def secret(self, purpose: bytes) -> bytes:
        with _DOOR:
            self._begin()
            key = self._memory.get(SECRET)
            if key is None:
                key = self._memory[SECRET] = secrets.token_bytes(32)
        if len(key) != 32:
            raise _damaged()
        return hmac.digest(key, purpose, "sha256")

    def upload(
        self,
        plan: str,
        round_: int,
        kind: str,
        session: str = "",
        clients: Iterable[str] = (),
        *,
        lost: int = 0,
    ) -> list[str]:
        """Enter an upload, on the disk before this returns, or raise RuleError or BudgetError.

        Into the sum of a session it is possibly released from now on, with these clients: others
        can open the sum without this one. Up to `lost` of them may be lost and leave an earlier
        set of this client's, because they are too few to open anything by themselves.
        """
        with _DOOR:
            lines = self._begin()
            made = LedgerEntry(plan, round_, kind, session, self._noted(), **self._noise)
            near = [one for one in self._alike(made, self._counted(lines)) if one.is_exact]
            near = near if made.is_exact else []
            if session:
                found = self._set_of(near, set(clients), lost)
                made = replace(made, possible=True).among(found)
            self._enter(made, lines)
            self._about, self._noise = None, {}
        sums = {one.session for one in near if one.session and one.is_score == made.is_score}
        return sorted(sums) if self._policy.exact == "same clients" else []

    def _set_of(self, near: Iterable[LedgerEntry], names: set[str], lost: int) -> set[str]:
        """Return the clients of whom a sum can come out: all, or those of an earlier one."""
        before = {one.clients for one in near if one.clients and not one.possible}
        for earlier in map(self._names, sorted(before)):
            if earlier <= names and len(names) - len(earlier) <= lost:
                return earlier
        return names

    def check(self, session: str, clients: Iterable[str]) -> None:
        with _DOOR:
            known = self._counted(self._lines())
            made = _settled(session, clients, known)
            if not any(made.is_again(one) for one in known):
                self._refuse(made, known)

    def release(self, session: str, clients: Iterable[str]) -> None:
        with _DOOR:
            lines, names = self._lines(), sorted(set(clients))
            made = _settled(session, names, self._counted(lines))
            kept = self._memory.setdefault(f"{ROOT}/set/{made.clients}", json.dumps(names).encode())
            if hashlib.sha256(kept).hexdigest() != made.clients:
                raise _damaged()
            self._enter(made, lines)

    def _counted(self, lines: Sequence[bytes]) -> list[LedgerEntry]:
        """Return what counts: of a session the last entry, and what an earlier form let leave."""
        try:
            known = [LedgerEntry(**json.loads(line)) for line in lines]
            left = json.loads(self._memory.get(PENDING, b"{}"))
            earlier = {session: LedgerEntry(**one) for session, one in left.items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise _damaged() from error
        found = {one.session or f" {k}": one for k, one in enumerate(known)}
        return [*{**earlier, **found}.values()]

    def entries(self) -> list[LedgerEntry]:
        """Return every release, the oldest first; IntegrityError if one is not as written.

        Of a sum that was opened the set that was; of others those who were there when this
        client's upload left.
        """
        with _DOOR:
            return self._counted(self._lines())

    def _lines(self) -> list[bytes]:
        """Return the entries as they are written, checked against the head."""
        head = self._memory.get(HEAD)
        if head is None:
            if SECRET in self._memory or _page(0) in self._memory:
                raise _damaged()
            return []
        lines: list[bytes] = []
        while len(page := self._memory.get(_page(len(lines) // PAGE), b"").splitlines()) == PAGE:
            lines += page
        lines += page
        # The head is written last: one entry may be there that it does not know of yet.
        if head not in (_head(lines), _head(lines[:-1])):
            raise _damaged()
        return lines

    def _enter(self, made: LedgerEntry, lines: list[bytes]) -> None:
        """Write a release down, on the disk before this returns; the same again is none."""
        known = self._counted(lines)
        if any(made.is_again(one) for one in known):
            return
        self._refuse(made, known)
        self._memory[HEAD] = _head(lines)  # in case it was one entry behind
        at = datetime.now(UTC).isoformat(timespec="seconds")
        lines = [*lines, json.dumps(asdict(replace(made, at=at)), sort_keys=True).encode()]
        start = (len(lines) - 1) // PAGE * PAGE
        self._memory[_page(start // PAGE)] = b"\n".join(lines[start:])
        self._memory[HEAD] = _head(lines)

    def _begin(self) -> list[bytes]:
        """Check the ledger, or write an empty one, whose absence is noticed from then on."""
        lines = self._lines()
        if HEAD not in self._memory:
            self._memory[HEAD] = _head([])
            self._memory[SECRET] = secrets.token_bytes(32)
        return lines

    def _alike(self, made: LedgerEntry, known: Sequence[LedgerEntry]) -> list[LedgerEntry]:
        """Return what was released of the same data before, in other sessions."""
        if made.data == NO_DATA:
            return []
        others, near = self._kept(made.data), {NO_DATA: False}
        for data in {one.data for one in known} - {NO_DATA}:
            mine = self._kept(data)
            near[data] = mine is None or others is None or mine.meets(others)
        return [
            one
            for one in known
            if near[one.data] and not (made.session and one.session == made.session)
        ]

    def _refuse(self, made: LedgerEntry, known: Sequence[LedgerEntry]) -> None:
        if made.data == NO_DATA:
            return
        near = self._alike(made, known)
        before = [
            one for one in near if one.is_score == made.is_score and one.is_exact == made.is_exact
        ]
        if made.is_exact:
            # Scores too: nothing exact is covered by what an earlier epsilon promised.
            if self._policy.exact != "any clients" and not all(one.is_exact for one in near):
                raise RuleError(
                    "noise",
                    "these data were released with noise, which exact numbers of them would undo; "
                    'use noise, or set exact = "any clients" in this client\'s policy',
                )
            self._refuse_exact(made, before)
        else:
            self._refuse_noisy(made, before)

    def _refuse_exact(self, made: LedgerEntry, before: list[LedgerEntry]) -> None:
        policy = self._policy
        if policy.exact == "never":
            raise RuleError(
                "exact",
                'exact = "never" in this client\'s policy, and this release has no noise; add '
                "noise inside secure aggregation to the plan (gaussian_noise, distributed = true)",
            )
        if len(before) >= policy.exact_sums:
            raise RuleError(
                "releases",
                f"these data went into {len(before)} releases without noise, and this client's "
                f"policy allows {policy.exact_sums}; use noise, or raise exact_sums in the policy",
            )
        known = {one.data for one in before}
        if not policy.changed_data and not all(self._are(one, made.data) for one in known):
            raise RuleError(
                "data",
                "these data were released before and have changed since: the difference of the "
                "two releases would tell of the changed rows alone; declare the new rows as a part "
                "of their own and ask for these (parts in [data] of the client's policy.toml, "
                "units in Python), use noise, or set changed_data = true in the policy",
            )
        # The plan of an evaluation has the model in its fingerprint.
        models = {one.plan for one in (*before, made) if one.kind == SCORES[0]}
        if made.kind == SCORES[0] and len(models) > policy.evaluations:
            raise RuleError(
                "scores",
                f"{len(models) - 1} models were scored with these data, in all plans together, and "
                f"evaluations in this client's policy is {policy.evaluations}; the difference of "
                "two scores can tell of single rows",
            )
        others = [one for one in before if one.session and one.clients != made.clients]
        if made.session and policy.exact == "same clients" and others:
            raise RuleError(
                "cohort",
                "these data went into a sum without noise over another set of "
                f"{others[0].n_clients} clients; two sums over different sets can be subtracted: "
                "ask the first set again, use noise inside secure aggregation, or set "
                'exact = "any clients" in this client\'s policy',
            )

    def _refuse_noisy(self, made: LedgerEntry, before: list[LedgerEntry]) -> None:
        first = (before or [made])[0]
        limit = first.epsilon if self._policy.epsilon is None else self._policy.epsilon
        delta = first.delta if self._policy.delta is None else self._policy.delta
        after = epsilon_spent(sum((one.cost for one in before), start=made.cost), delta)
        if not after <= limit * (1 + TOLERANCE):
            raise BudgetError(
                f"with this release these data would have told epsilon {after:.4g} at delta "
                f"{delta:g} in all, above this client's {limit:g}; nothing was sent; if more may "
                "be told, the client's owner raises epsilon in its policy"
            )

    def _are(self, one: str, other: str) -> bool:
        mine, others = self._kept(one), self._kept(other)
        return one == other or (mine is not None and others is not None and mine.are(others))

    def _kept(self, data: str) -> Units | None:
        """Return the units by their digest; None for data of which nothing is known."""
        if not data or f"{ROOT}/data/{data}" in self._memory:  # as an earlier form kept them
            return None
        kept = self._memory.get(f"{ROOT}/units/{data}", b"")
        if hashlib.sha256(kept).hexdigest() != data:
            raise _damaged()
        return Units.from_bytes(kept)

    def _noted(self) -> str:
        """Return the digest of the units that were read, and keep what they are."""
        if self._about is None or not self._about.pieces:
            return "" if self._about is None else NO_DATA
        kept = self._about.to_bytes()
        name = hashlib.sha256(kept).hexdigest()
        if f"{ROOT}/units/{name}" not in self._memory:
            self._memory[f"{ROOT}/units/{name}"] = kept
        return name

    def _names(self, text: str) -> set[str]:
        """Return the clients of a sum by the SHA-256 of their names."""
        kept = self._memory.get(f"{ROOT}/set/{text}", b"")
        if hashlib.sha256(kept).hexdigest() != text:
            raise _damaged()
        return set(json.loads(kept))


def _settled(session: str, clients: Iterable[str], known: Iterable[LedgerEntry]) -> LedgerEntry:
    """Return the release of a session in which an upload has left, over these clients."""
    for one in known:
        if one.session == session and one.clients:
            return replace(one, possible=False, at="").among(clients)
    raise RuleError(
        "order",
        "this client is asked to open a sum into which it sent no upload; start the round anew",
    )


def _head(lines: Iterable[bytes]) -> bytes:
    """Return how many entries there are, and the SHA-256 that chains them."""
    count, link = 0, b""
    for line in lines:
        count, link = count + 1, hashlib.sha256(link + line).digest()
    return f"{count} {link.hex()}".encode()


def _page(number: int) -> str:
    return f"{ROOT}/page/{number:06d}"


def _damaged() -> IntegrityError:
    return IntegrityError(
        "this client's ledger of releases is damaged: an entry is missing or changed; restore its "
        "memory from a copy"
    )

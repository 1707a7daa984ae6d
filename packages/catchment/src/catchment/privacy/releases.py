"""A client's own ledger: what was released of which of its data, in which sum, at what cost.

Every release is written down before it happens, where the client keeps its private key, and
refused if together with those before it tells more than the client's `Policy` allows. Nothing that
a plan or a server says turns it off. Entries are chained by their SHA-256, so that one that is
missing or changed is noticed; that the whole memory was put back to an earlier copy, or erased with
the private key, is not.

Sums over different sets of clients can be subtracted: of X, Y and v + X + Y, each large and any two
of them very different, three sums leave v alone. Comparing a set with each one before does not
help. So the same data go into exact sums with one set of clients only, the one of the first sum;
or into sums with noise, whose cost adds up. The sets of exact sums then have nobody in common or
are the same, and no sums of such sets add up to one client.

Data are the same if their blocks are (`catchment.data.block_digests`). Data that share a block with
released data and are not the same have changed: two sums of one set then differ by the new rows.
Scores of models are compared with scores only: they are sums of errors, not of statistics.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, final

from catchment.data.block_digests import DIGEST_BYTES, block_digests, digest_of_blocks
from catchment.errors import BudgetError, IntegrityError, RuleError
from catchment.federation.cost import Cost
from catchment.federation.plan import Data, Memory
from catchment.privacy.dp.gaussian import epsilon_of
from catchment.privacy.policy import Policy

ROOT = "releases"
HEAD = f"{ROOT}/head"
SECRET = f"{ROOT}/secret"
PENDING = f"{ROOT}/pending"
SCORES = ("score", "comparison")  # the kinds of messages that say how well a model does
NO_DATA = "none"  # what is told was made without reading any
FEWEST_CLIENTS = 3  # in a sum that hides anyone
TOLERANCE = 1e-4  # what the accountants may be off by
PAGE = 256  # entries of the ledger that are kept, read and written together
MOST_PENDING = 16  # sessions whose upload was sent and whose sum was not

# Held while the ledger is read and written, never while an upload is made. Threads of one process
# only: a memory belongs to one process.
_DOOR = threading.RLock()


@dataclass(frozen=True)
class Release:
    """One line of a client's ledger.

    Parameters
    ----------
    plan, round, kind, session
        What asked for it: fingerprint of the plan, round, kind of message, and the secure sum's
        own name; no session if the message was sent in the clear.
    data
        Digest of the data it was made from; empty where that is not known, "none" if none were
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

    @property
    def cost(self) -> Cost:
        return Cost(self.gaussian, self.concentrated)

    @property
    def is_exact(self) -> bool:
        return self.cost == Cost()

    @property
    def is_score(self) -> bool:
        return self.kind in SCORES

    def among(self, clients: Iterable[str]) -> Release:
        """Return the release as a sum over these clients."""
        names = sorted(set(clients))
        if len(names) < FEWEST_CLIENTS:
            raise RuleError(
                "clients",
                f"a sum over {len(names)} clients hides nobody; ask {FEWEST_CLIENTS} or more",
            )
        text = hashlib.sha256(json.dumps(names).encode()).hexdigest()
        return replace(self, n_clients=len(names), clients=text)

    def is_again(self, before: Release) -> bool:
        """Return whether this is a release that was entered before, asked for again."""
        if self.session != before.session:
            return False
        if not self.session:
            same = (self.plan, self.round, self.kind, self.data)
            return same == (before.plan, before.round, before.kind, before.data)
        if self.is_exact and self.clients != before.clients:
            raise RuleError(
                "replay",
                "this client gave its shares for another set of clients in this round, and gives "
                "them once; start the round anew",
            )
        return True


@final
class Releases:
    """A client's ledger in its memory; what it refuses is never sent.

    >>> ledger = Releases({})
    >>> ledger.upload("plan", 0, "ridge-statistics", session="7")
    >>> ledger.release("7", ["ann", "ben", "cat"])
    >>> ledger.upload("plan", 0, "ridge-statistics", session="8")
    >>> ledger.release("8", ["ann", "ben", "dan"])
    Traceback (most recent call last):
    catchment.errors.RuleError: these data went into a sum without noise over another set of 3 ...
    """

    def __init__(self, memory: Memory, policy: Policy | None = None) -> None:
        self._memory, self._policy = memory, policy or Policy()
        self._blocks: set[bytes] | None = None  # of the upload being made; None: not known
        self._noise: dict[str, Any] = {}

    def reading(self, data: Data) -> Data:
        """Return the data, noted as they are read; an upload begins with this."""
        blocks: set[bytes] = set()
        self._blocks, self._noise = blocks, {}

        def read() -> Iterator[Any]:
            for item in data():
                blocks.update(block_digests(item))
                yield item

        return read

    def charge(self, cost: Cost, *, epsilon: float, delta: float) -> None:
        """Note what noise the upload being made has: its cost, and what the plan promises.

        No cost if whoever receives it sees exact numbers.
        """
        self._noise = {**asdict(cost), "epsilon": epsilon, "delta": delta}

    def secret(self, purpose: bytes) -> bytes:
        """Return a key (32,) that nobody else knows, the same whenever the purpose is."""
        with _DOOR:
            self._begin()
            key = self._memory.get(SECRET)
            if key is None:
                key = self._memory[SECRET] = secrets.token_bytes(32)
        if len(key) != 32:
            raise _damaged()
        return hmac.digest(key, purpose, "sha256")

    def upload(self, plan: str, round_: int, kind: str, session: str = "") -> None:
        """Note an upload before it leaves; without a session it is seen by itself, a release."""
        with _DOOR:
            self._begin()
            made = Release(plan, round_, kind, session, self._noted(), **self._noise)
            self._blocks, self._noise = None, {}
            if session:
                self._wait(made)
            else:
                self._enter(made)

    def check(self, session: str, clients: Iterable[str], *, lost: int = 0) -> None:
        """Raise RuleError or BudgetError if a sum over these clients must not be released.

        Nor over those left when up to `lost` of them are lost. An upload with noise is entered
        here, before it leaves: others can open the sum without this client, and an epsilon is
        spent whoever opens it.
        """
        with _DOOR:
            names = set(clients)
            made, known = self._made(session).among(names), self.entries()
            if not made.is_exact:
                self._enter(made)
                return
            for text in {one.clients for one in known if one.session and one.is_exact}:
                before = self._names(text)
                if before <= names and len(names) - len(before) <= lost:
                    made = made.among(before)
            if not any(made.is_again(one) for one in known):
                self._refuse(made, known)

    def release(self, session: str, clients: Iterable[str]) -> None:
        """Note, where it lasts, that a sum over these clients is released, or raise as `check`."""
        with _DOOR:
            names = sorted(set(clients))
            made = self._made(session).among(names)
            kept = self._memory.setdefault(_set(made.clients), json.dumps(names).encode())
            if hashlib.sha256(kept).hexdigest() != made.clients:
                raise _damaged()
            self._enter(made)

    def entries(self) -> list[Release]:
        """Return every release, the oldest first; IntegrityError if one is not as written."""
        with _DOOR:
            return _read(self._lines())

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

    def _enter(self, made: Release) -> None:
        """Write a release down, on the disk before this returns; the same again is none."""
        lines = self._lines()
        known = _read(lines)
        if any(made.is_again(one) for one in known):
            return
        self._refuse(made, known)
        self._memory[HEAD] = _head(lines)  # in case it was one entry behind
        at = datetime.now(UTC).isoformat(timespec="seconds")
        lines.append(json.dumps(asdict(replace(made, at=at)), sort_keys=True).encode())
        start = (len(lines) - 1) // PAGE * PAGE
        self._memory[_page(start // PAGE)] = b"\n".join(lines[start:])
        self._memory[HEAD] = _head(lines)

    def _begin(self) -> None:
        """Check the ledger, or write an empty one, whose absence is noticed from then on."""
        self._lines()
        if HEAD not in self._memory:
            self._memory[HEAD] = _head([])
            self._memory[SECRET] = secrets.token_bytes(32)

    def _refuse(self, made: Release, known: Sequence[Release]) -> None:
        if made.data == NO_DATA:
            return
        alike = [one for one in known if one.is_score == made.is_score and one.data != NO_DATA]
        near = {data for data in {one.data for one in alike} if self._overlap(data, made.data)}
        before = [one for one in alike if one.data in near and one.is_exact == made.is_exact]
        if made.is_exact:
            noisy = [one for one in known if not one.is_exact and one.data != NO_DATA]
            if any(self._overlap(one.data, made.data) for one in noisy):
                self._refuse_after_noise()
            self._refuse_exact(made, before)
        else:
            self._refuse_noisy(made, before)

    def _refuse_after_noise(self) -> None:
        # Scores too: nothing exact is covered by what an earlier epsilon promised.
        if self._policy.exact != "any clients":
            raise RuleError(
                "noise",
                "these data were released with noise, which exact numbers of them would undo; use "
                'noise, or set exact = "any clients" in this client\'s policy',
            )

    def _refuse_exact(self, made: Release, before: list[Release]) -> None:
        policy = self._policy
        if policy.exact == "never":
            raise RuleError(
                "exact",
                'exact = "never" in this client\'s policy, and this release has no noise; add '
                "noise inside a secure sum to the plan (gaussian_noise, distributed = true)",
            )
        if len(before) >= policy.exact_sums:
            raise RuleError(
                "releases",
                f"these data went into {len(before)} releases without noise, and this client's "
                f"policy allows {policy.exact_sums}; use noise, or raise exact_sums in the policy",
            )
        if not policy.changed_data and any(one.data != made.data for one in before):
            raise RuleError(
                "data",
                "these data were released before and have changed since: the difference of the "
                "two releases would tell of the changed rows alone; use noise, or set "
                "changed_data = true in this client's policy",
            )
        # The plan of an evaluation has the model in its fingerprint.
        models = {one.plan for one in (*before, made) if one.kind == SCORES[0]}
        if made.kind == SCORES[0] and len(models) > max(policy.evaluations, 1):
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
                "ask the first set again, use noise inside the secure sum, or set "
                'exact = "any clients" in this client\'s policy',
            )

    def _refuse_noisy(self, made: Release, before: list[Release]) -> None:
        first = (before or [made])[0]
        limit = first.epsilon if self._policy.epsilon is None else self._policy.epsilon
        delta = first.delta if self._policy.delta is None else self._policy.delta
        after = epsilon_of(sum((one.cost for one in before), start=made.cost), delta)
        if not after <= limit * (1 + TOLERANCE):
            raise BudgetError(
                f"with this release these data would have told epsilon {after:.4g} at delta "
                f"{delta:g} in all, above this client's {limit:g}; nothing was sent; if more may "
                "be told, the client's owner raises epsilon in its policy"
            )

    def _overlap(self, one: str, other: str) -> bool:
        if one == other or not one or not other:
            return True
        return not self._kept_blocks(one).isdisjoint(self._kept_blocks(other))

    def _kept_blocks(self, data: str) -> set[bytes]:
        kept = self._memory.get(_data(data), b"")
        blocks = {kept[at : at + DIGEST_BYTES] for at in range(0, len(kept), DIGEST_BYTES)}
        if digest_of_blocks(blocks) != data:
            raise _damaged()
        return blocks

    def _noted(self) -> str:
        """Return the digest of the data that were read, and keep their blocks."""
        if not self._blocks:
            return "" if self._blocks is None else NO_DATA
        name = digest_of_blocks(self._blocks)
        if _data(name) not in self._memory:
            self._memory[_data(name)] = b"".join(sorted(self._blocks))
        return name

    def _wait(self, made: Release) -> None:
        """Keep an upload until its sum is released; the oldest of many sessions are given up."""
        waiting = self._waiting()
        before = waiting.pop(made.session, None)
        if before is not None and before != asdict(made):
            raise RuleError(
                "changed",
                "the data of this client changed since it sent its upload in this round; start "
                "the round anew",
            )
        latest = [*waiting.items(), (made.session, asdict(made))][-MOST_PENDING:]
        self._memory[PENDING] = json.dumps(dict(latest)).encode()

    def _names(self, text: str) -> set[str]:
        """Return the clients of a sum by the SHA-256 of their names."""
        kept = self._memory.get(_set(text), b"")
        if hashlib.sha256(kept).hexdigest() != text:
            raise _damaged()
        return set(json.loads(kept))

    def _waiting(self) -> dict[str, dict[str, Any]]:
        try:
            waiting: dict[str, dict[str, Any]] = json.loads(self._memory.get(PENDING, b"{}"))
        except ValueError as error:
            raise _damaged() from error
        return waiting

    def _made(self, session: str) -> Release:
        try:
            return Release(**self._waiting()[session])
        except KeyError as error:
            raise RuleError(
                "order",
                "this client is asked to open a sum into which it sent no upload; start the round "
                "anew",
            ) from error


def _set(text: str) -> str:
    return f"{ROOT}/set/{text}"


def _read(lines: Iterable[bytes]) -> list[Release]:
    try:
        return [Release(**json.loads(line)) for line in lines]
    except (ValueError, TypeError) as error:
        raise _damaged() from error


def _head(lines: Iterable[bytes]) -> bytes:
    """Return how many entries there are, and the SHA-256 that chains them."""
    count, link = 0, b""
    for line in lines:
        count, link = count + 1, hashlib.sha256(link + line).digest()
    return f"{count} {link.hex()}".encode()


def _page(number: int) -> str:
    return f"{ROOT}/page/{number:06d}"


def _data(name: str) -> str:
    return f"{ROOT}/data/{name}"


def _damaged() -> IntegrityError:
    return IntegrityError(
        "this client's ledger of releases is damaged: an entry is missing or changed; restore its "
        "memory from a copy"
    )

"""A client's own ledger: what was released of which of its data, in which sum, at what cost.

Every release is written down before it happens, where the client keeps its private key, and
refused if together with those before it tells more than the client's `Policy` allows. Nothing that
a plan or a server says turns it off. Entries are chained by their SHA-256, so that one that is
missing or changed is noticed.

Sums over different sets of clients can be subtracted: of X, Y and v + X + Y, each large and any two
of them very different, three sums leave v alone. Comparing a set with each one before does not
help. So the same data go into exact sums with one set of clients only, the one of the first sum;
or into sums with noise, whose cost adds up.

Data are the same if their blocks are (`catchment.data.block_digests`). Data that share a block with
released data and are not the same have changed: two sums of one set then differ by the new rows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, final

from catchment.data.block_digests import DIGEST_BYTES, block_digests, digest_of_blocks
from catchment.errors import BudgetError, IntegrityError, RuleError
from catchment.federation.cost import Cost
from catchment.federation.plan import Data, Memory
from catchment.privacy.policy import Policy

ROOT = "releases"
HEAD = f"{ROOT}/head"
SECRET = f"{ROOT}/secret"
SCORES = "score"  # the kind of message that says how well a model does
TOLERANCE = 1e-4  # what the accountants may be off by


@dataclass(frozen=True)
class Release:
    """One line of a client's ledger.

    Parameters
    ----------
    plan, round, kind, session
        What asked for it: fingerprint of the plan, round, kind of message, and the secure sum's
        own number; no session if the message was sent in the clear.
    data
        Digest of the data it was made from; empty where that is not known.
    n_clients, clients
        How many clients are in the sum, and the SHA-256 of their names.
    gaussian, concentrated, epsilon, delta
        Cost of the noise and what the plan promised; all 0 if there was none.
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
        return self.kind == SCORES

    def among(self, clients: Iterable[str]) -> Release:
        """Return the release as a sum over these clients."""
        names = sorted(clients)
        text = hashlib.sha256(json.dumps(names).encode()).hexdigest()
        return replace(self, n_clients=len(names), clients=text)


@final
class Releases:
    """A client's ledger in its memory; make one for each letter that is answered.

    >>> ledger = Releases({})
    >>> ledger.upload("plan", 0, "ridge-statistics", session="7")
    >>> ledger.release("7", ["ann", "ben", "cat"])
    >>> ledger.upload("plan", 0, "ridge-statistics", session="8")
    >>> ledger.release("8", ["ann", "ben", "dan"])
    Traceback (most recent call last):
    catchment.errors.RuleError: these data went into a sum without noise over 3 other clients; ...
    """

    def __init__(self, memory: Memory, policy: Policy | None = None) -> None:
        self._memory, self._policy = memory, policy or Policy()
        self._blocks: set[bytes] = set()
        self._noise: dict[str, Any] = {}

    def reading(self, data: Data) -> Data:
        def read() -> Iterator[Any]:
            for item in data():
                self._blocks.update(block_digests(item))
                yield item

        return read

    def charge(self, cost: Cost, *, epsilon: float, delta: float) -> None:
        self._noise = {**asdict(cost), "epsilon": epsilon, "delta": delta}

    def secret(self, purpose: bytes) -> bytes:
        key = self._memory.setdefault(SECRET, secrets.token_bytes(32))
        return hmac.digest(key, purpose, "sha256")

    def upload(self, plan: str, round_: int, kind: str, session: str = "") -> None:
        made = Release(plan, round_, kind, session, self._noted(), **self._noise)
        if session:
            self._memory[_pending(session)] = json.dumps(asdict(made)).encode()
        else:
            self._enter(made)

    def check(self, session: str, clients: Iterable[str]) -> None:
        self._refuse(self._made(session).among(clients))

    def release(self, session: str, clients: Iterable[str]) -> None:
        self._enter(self._made(session).among(clients))

    def entries(self) -> list[Release]:
        """Return every release, the oldest first; IntegrityError if one is not as written."""
        count, head = self._head()
        kept, link = [], ""
        for place in range(1, count + 1):
            text = self._memory.get(_entry(place), b"")
            link = hashlib.sha256(link.encode() + text).hexdigest()
            try:
                kept.append(Release(**json.loads(text)))
            except (ValueError, TypeError) as error:
                raise _damaged() from error
        if link != head:
            raise _damaged()
        return kept

    def _enter(self, made: Release) -> None:
        """Write a release down, the count last: it counts once it is all there."""
        known = self.entries()
        if any(self._is_same(one, made) for one in known):
            return
        self._refuse(made)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        text = json.dumps(asdict(replace(made, at=at)), sort_keys=True).encode()
        count, head = self._head()
        self._memory[_entry(count + 1)] = text
        link = hashlib.sha256(head.encode() + text).hexdigest()
        self._memory[HEAD] = f"{count + 1} {link}".encode()

    @staticmethod
    def _is_same(one: Release, made: Release) -> bool:
        """Whether a release was entered before: the same sum, asked for again."""
        if not made.session or one.session != made.session or one.plan != made.plan:
            return False
        if one.clients != made.clients:
            raise RuleError(
                "replay", "this client gave its shares for another set of clients in this round"
            )
        return True

    def _refuse(self, made: Release) -> None:
        before = [
            one
            for one in self.entries()
            if one.is_score == made.is_score and self._overlap(one.data, made.data)
        ]
        if made.is_exact:
            self._refuse_exact(made, [one for one in before if one.is_exact])
        else:
            self._refuse_noisy(made, [one for one in before if not one.is_exact])

    def _refuse_exact(self, made: Release, before: list[Release]) -> None:
        policy = self._policy
        if policy.exact == "never" and made.session:
            raise RuleError("exact", "this client's policy allows no sums without noise")
        if len(before) >= policy.exact_sums:
            raise RuleError(
                "releases",
                f"these data went into {len(before)} releases without noise, as many as this "
                "client's policy allows; use noise, or raise exact_sums in the policy",
            )
        if not policy.changed_data and any(one.data != made.data for one in before):
            raise RuleError(
                "data",
                "these data were released before and have changed since, and the difference of "
                "the two would tell of the new rows alone; use noise, or allow changed_data in "
                "this client's policy",
            )
        others = [one for one in before if one.session and one.clients != made.clients]
        if made.session and policy.exact == "same clients" and others:
            raise RuleError(
                "cohort",
                f"these data went into a sum without noise over {others[0].n_clients} other "
                "clients; sums over different clients can be subtracted: ask the same ones again, "
                'use noise, or set exact = "any clients" in this client\'s policy',
            )

    def _refuse_noisy(self, made: Release, before: list[Release]) -> None:
        from catchment.privacy.dp.accounting import epsilon_spent

        first = (before or [made])[0]
        limit = first.epsilon if self._policy.epsilon is None else self._policy.epsilon
        delta = first.delta if self._policy.delta is None else self._policy.delta
        cost = made.cost
        for one in before:
            cost = cost + one.cost
        after = epsilon_spent(cost, delta)
        if after > limit * (1 + TOLERANCE):
            raise BudgetError(
                f"a release of these data would bring them to epsilon {after:.4g} at delta "
                f"{delta:g}, above this client's {limit:g}; nothing was sent"
            )

    def _overlap(self, one: str, other: str) -> bool:
        if one == other or not one or not other:
            return True
        return bool(self._kept_blocks(one) & self._kept_blocks(other))

    def _kept_blocks(self, data: str) -> set[bytes]:
        kept = self._memory.get(_data(data), b"")
        return {kept[at : at + DIGEST_BYTES] for at in range(0, len(kept), DIGEST_BYTES)}

    def _noted(self) -> str:
        """Return the digest of the data that were read, and keep their blocks."""
        if not self._blocks:
            return ""
        name = digest_of_blocks(self._blocks)
        if _data(name) not in self._memory:
            self._memory[_data(name)] = b"".join(sorted(self._blocks))
        return name

    def _made(self, session: str) -> Release:
        try:
            return Release(**json.loads(self._memory[_pending(session)]))
        except KeyError as error:
            raise RuleError("order", "this client has sent no upload in this round") from error

    def _head(self) -> tuple[int, str]:
        count, _, head = self._memory.get(HEAD, b"0 ").decode().partition(" ")
        return int(count), head


def _entry(place: int) -> str:
    return f"{ROOT}/{place:08d}"


def _data(name: str) -> str:
    return f"{ROOT}/data/{name}"


def _pending(session: str) -> str:
    return f"{ROOT}/pending/{session}"


def _damaged() -> IntegrityError:
    return IntegrityError(
        "this client's ledger of releases is damaged: an entry is missing or changed; restore its "
        "memory from a copy"
    )

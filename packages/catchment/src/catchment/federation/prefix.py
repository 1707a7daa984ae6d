"""The part of a round that is done: the sum of its first blocks, kept so that a run goes on there.

    about    which round of which plan, with which clients and letter; how many blocks are done;
             what was refused and counted; what the clients claim
    groups   for each sum of answers that add to each other: whose they are, and the sum

What is kept is read back and compared before it is written: a sum that its class cannot write down
exactly is not kept, and its round begins anew. An upload that is kept back until all are there is
not written: its client is asked again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from catchment.errors import CatchmentError
from catchment.federation.algorithm import Additive, Turn
from catchment.federation.influence import Screen, ScreenState
from catchment.federation.messages import Post, Refusal
from catchment.federation.plan import Plan
from catchment.federation.running_sums import BLOCK, GroupState, Outline, Sums
from catchment.structure import equal, put_together, taken_apart
from catchment.wire import Fact, Parts, digest, join, split

log = logging.getLogger(__name__)
KIND = "round-under-way"
SHARE = 20  # times as long as keeping took, at least, goes by before it is done again
EVERY = 5.0  # seconds


@runtime_checkable
class PrefixKeeper(Protocol):
    """A keeper that also keeps the part of a round that is done."""

    @property
    def every(self) -> float:
        """Seconds between two times that it is kept."""

    def begun(self, round_: int) -> Parts | None:
        """Return what was kept of a round that is not over."""

    def keep_begun(self, round_: int, parts: Parts) -> None:
        """Keep the part of a round that is done, with the ledger of it, in place of what was."""


@dataclass(eq=False)
class Prefix:
    """Keeps a round under way now and then, and goes on with what was kept of it.

    Parameters
    ----------
    keeper
        Where to.
    plan, post, message
        The round, and the letter to everybody.
    sums, screen
        What is done of it.
    look
        Reads an answer, as it is read for the sum.
    """

    keeper: PrefixKeeper
    plan: Plan[Any, Any, Any]
    post: Post
    message: bytes
    sums: Sums
    screen: Screen
    look: Callable[[Parts, Turn], Any]
    due: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.due += self.keeper.every

    @cached_property
    def identity(self) -> dict[str, Fact]:
        """What another round, or this one with other clients, differs in."""
        names = json.dumps(self.post.turn.cohort).encode()
        return {
            "plan": self.plan.fingerprint(),
            "round": self.post.turn.round,
            "letter": digest(self.message).hex(),
            "cohort": hashlib.sha256(names).hexdigest(),
            "block": BLOCK,
        }

    def take_up(self) -> int:
        """Put back what was kept of this very round; return how many of its blocks are done."""
        kept = self.keeper.begun(self.post.turn.round)
        if kept is None:
            return 0
        try:
            named = split(kept, KIND)
            about = named.pop("about")
            if about.facts["identity"] != self.identity:
                return 0
            groups = [self._read_group(parts) for parts in named.values()]
            told = json.loads(about.arrays[0].tobytes())
            held = self._ask_again(told["held"])
        except (CatchmentError, ValueError, TypeError, KeyError) as error:
            log.warning("what was kept of a round cannot be used, it begins anew: %s", error)
            return 0
        self.sums.put_back(groups, [Refusal(*one) for one in told["left_out"]])
        (limit, largest), sizes = about.arrays[1:]
        self.screen.put_back(
            ScreenState(sizes, limit, (largest, told["largest"]), held), itemgetter(2)
        )
        self._put_back(told)
        return int(told["blocks"])

    def keep(self, last: str) -> None:
        """Keep what is done if it is time to and a block is complete; `last` answered last."""
        done, began = self.post.done, time.monotonic()
        whole = done % BLOCK == 0 and done < len(self.post.turn.cohort)
        if began < self.due or not whole or self.post.turn.cohort[done - 1] != last:
            return
        state = self.screen.state()
        if state is not None:
            try:
                self.keeper.keep_begun(self.post.turn.round, self._parts(state))
            except (CatchmentError, ValueError, TypeError) as error:
                log.debug("a round under way is not kept: %s", error)
        now = time.monotonic()
        self.due = now + max(self.keeper.every, SHARE * (now - began))

    def _put_back(self, told: dict[str, Any]) -> None:
        post = self.post
        post.refused[:] = [Refusal(*one) for one in told["refused"]]
        post.bytes_up, post.done = told["bytes_up"], told["blocks"] * BLOCK
        post.started -= told["seconds"]
        log.info("round %d goes on after %d clients", post.turn.round + 1, post.done)

    def _ask_again(self, clients: Sequence[str]) -> Sequence[tuple[str, Any]]:
        """Return the uploads that were kept back, which their clients send once more."""
        again = Post(self.post.plan, self.post.turn, self.post.engine, None)
        found = list(again.ask_all(clients, self.message, self.look)) if clients else []
        if [client for client, _ in found] != list(clients):
            raise ValueError("a client whose upload was kept back does not send it again")
        return found

    def _parts(self, screen: ScreenState) -> Parts:
        post = self.post
        told = {
            "blocks": post.done // BLOCK,
            "bytes_up": post.bytes_up,
            "seconds": time.perf_counter() - post.started,
            "refused": [[one.client, one.code, one.reason] for one in post.refused],
            "left_out": [[one.client, one.code, one.reason] for one in self.sums.left_out],
            "largest": screen.largest[1],
            "held": [client for client, _ in screen.held],
        }
        content = np.frombuffer(json.dumps(told).encode(), np.uint8)
        limits = np.array([screen.limit, screen.largest[0]])
        about = Parts(KIND, {"identity": self.identity}, (content, limits, screen.sizes))
        groups = enumerate(self.sums.state())
        return join(KIND, {"about": about} | {f"{k}": self._group(one) for k, one in groups})

    def _group(self, group: GroupState) -> Parts:
        outline = group.outline
        told = [outline.kind, outline.facts, outline.shapes]
        facts: dict[str, Fact] = {"outline": json.dumps(told), "number": group.number}
        named = {"about": Parts("group", facts, (_marked(self.post.turn.cohort, group.clients),))}
        for name, value in (("whole", group.whole), ("block", group.block)):
            if value is not None:
                named[name] = self._written(value)
        return join("group", named)

    def _read_group(self, parts: Parts) -> GroupState:
        named = split(parts, "group")
        about = named["about"]
        kind, facts, shapes = json.loads(str(about.facts["outline"]))
        outline = Outline(kind, facts, tuple(map(tuple, shapes)))
        clients = [self.post.turn.cohort[k] for k in np.flatnonzero(about.arrays[0])]
        whole, block = (
            self._read(named[name]) if name in named else None for name in ("whole", "block")
        )
        return GroupState(outline, clients, int(str(about.facts["number"])), whole, block)

    def _written(self, value: Additive) -> Parts:
        parts = taken_apart(value)
        if not equal(self._read(parts), value):
            raise ValueError(f"a {type(value).__name__} is not the same when it is read back")
        return parts

    def _read(self, parts: Parts) -> Additive:
        return put_together(self.plan.algorithm.sum_type, parts, trusted=True)


def _marked(cohort: Sequence[str], clients: Sequence[str]) -> NDArray[np.uint8]:
    """Return 1 for those of a cohort who are among some clients, in the same order."""
    marks = np.zeros(len(cohort), np.uint8)
    wanted = iter(clients)
    next_one = next(wanted, None)
    for place, client in enumerate(cohort):
        if client == next_one:
            marks[place] = 1
            next_one = next(wanted, None)
            if next_one is None:
                break
    if next_one is not None:
        raise ValueError(f"{next_one} was added after clients that come later")
    return marks

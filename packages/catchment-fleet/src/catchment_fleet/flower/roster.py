"""Who is there: nodes come and go by number, clients are known by the name that a node gives.

A node is asked for its name once, with a request of its own. The first round waits until clients
that are expected have come, or a time is over; later ones ask for no more than the plan does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from catchment.errors import FederationError, IntegrityError, TooFewClientsError
from catchment.privacy.secure_aggregation import is_name
from catchment.wire import Message, plain_text

HELLO = "hello"
ASK_AGAIN = 15.0  # seconds until a node that could not say its name is asked again
HELLO_SECONDS = 120.0  # a node that has not said its name by then is asked again
PAUSE = 0.2

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Order:
    """What travels to a node: a request, and the stage of the run it belongs to."""

    stage: str
    request: bytes = b""


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back for a ticket: content, or the reason why there is none."""

    ticket: str
    content: bytes | None
    error: str = ""


class Line(Protocol):
    """All that is asked of a network."""

    def nodes(self) -> Collection[int]:
        """Return the nodes that are connected."""

    def send(self, node: int, order: Order, seconds: float) -> str:
        """Send an order that is void after some seconds, and return a ticket for its answer.

        The ticket is empty if the network does not take the order.
        """

    def collect(self, tickets: Sequence[str]) -> Iterable[Answer]:
        """Return the answers that are here, each once."""


@dataclass(frozen=True)
class Hello:
    """A client's name, and the stages that it takes part in; all if none is named."""

    name: str
    stages: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the hello as it travels.

        >>> Hello.from_bytes(Hello("ann", ("training",)).to_bytes())
        Hello(name='ann', stages=('training',))
        """
        return Message(HELLO, {"name": self.name, "stages": list(self.stages)}).to_bytes()

    @classmethod
    def from_bytes(cls, message: bytes) -> Hello:
        """Return the hello that a node sent; IntegrityError with its reason if it refused."""
        parts = Message.from_bytes(message, header_limit=1 << 16)
        if parts.kind == "refusal":
            raise IntegrityError(str(parts.facts.get("reason")))
        facts = parts.expect(HELLO, 0).facts
        name, stages = facts.get("name"), facts.get("stages")
        if not isinstance(name, str) or not is_name(name):
            raise IntegrityError(
                f"it calls itself {str(name)[:80]!r}; use 1 to 64 letters, digits, '.', '_', '-'"
            )
        if not isinstance(stages, list) or not all(isinstance(stage, str) for stage in stages):
            raise IntegrityError(f"{name} names no list of stages")
        return cls(name, tuple(stages))


@final
class Roll:
    """Clients by name and the nodes they are on; one for all stages of a run.

    Parameters
    ----------
    line
        The network.
    expect
        Clients to wait for before the first round.
    wait
        Seconds to wait for them, and before any round for the fewest that it needs.
    vouch
        Raises IntegrityError if a node may not have a name.
    clock, sleep
        For tests.
    """

    def __init__(
        self,
        line: Line,
        *,
        expect: int = 1,
        wait: float = 120.0,
        vouch: Callable[[int, str], None] = lambda node, name: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if expect < 1:
            raise ValueError(f"expect is {expect}; pass at least 1 client")
        if not wait >= 0:
            raise ValueError(f"wait is {wait}; pass a number of seconds")
        self._line, self._expect, self._wait = line, expect, wait
        self._vouch, self._clock, self._sleep = vouch, clock, sleep
        self._greeted: dict[str, tuple[int, float]] = {}
        self._hellos: dict[int, Hello] = {}
        self._failed: dict[int, tuple[str, float]] = {}
        self._online: frozenset[int] = frozenset()
        self._node_of: dict[str, int] = {}
        self._settled = False

    def present(self, stage: str, fewest: int) -> list[str]:
        """Return the clients of a stage, those that were lost included; wait for those that lack.

        Parameters
        ----------
        stage
            The stage that is about to have a round.
        fewest
            Clients that must be connected.
        """
        end = self._clock() + self._wait
        while True:
            self._refresh()
            here = [name for name in self._taking_part(stage) if self.node(name) is not None]
            enough = len(here) >= fewest
            if enough and (self._settled or len(self._node_of) >= self._expect):
                break
            # Lost clients may come back; for a stage that too few know there is nothing to wait.
            hopeless = self._settled and len(self._taking_part(stage)) < fewest
            if hopeless or self._clock() >= end:
                break
            self._sleep(PAUSE)
        if len(here) < fewest:
            raise TooFewClientsError(self._lacking(stage, here, fewest))
        if not self._settled and len(self._node_of) < self._expect:
            log.warning(
                "%d of %d clients came within %g s; going on with %s",
                len(self._node_of),
                self._expect,
                self._wait,
                ", ".join(here),
            )
        self._settled = True
        return self._taking_part(stage)

    def node(self, client: str) -> int | None:
        """Return the node that a client is on, or None if it is not connected."""
        node = self._node_of.get(client)
        return node if node in self._online else None

    def look(self) -> None:
        """See who is connected now."""
        self._online = frozenset(self._line.nodes())

    def _taking_part(self, stage: str) -> list[str]:
        named = {name: self._hellos[node] for name, node in self._node_of.items()}
        return sorted(n for n, hello in named.items() if not hello.stages or stage in hello.stages)

    def _refresh(self) -> None:
        self.look()
        now = self._clock()
        for ticket, (node, since) in list(self._greeted.items()):
            if node not in self._online or now > since + HELLO_SECONDS:
                del self._greeted[ticket]
        asked = {node for node, _ in self._greeted.values()}
        for node in sorted(self._online - asked - self._hellos.keys()):
            if node in self._failed and now < self._failed[node][1] + ASK_AGAIN:
                continue
            if ticket := self._line.send(node, Order(HELLO), HELLO_SECONDS):
                self._greeted[ticket] = (node, now)
        for answer in self._line.collect(list(self._greeted)):
            self._heard(self._greeted.pop(answer.ticket)[0], answer, now)

    def _heard(self, node: int, answer: Answer, now: float) -> None:
        try:
            if answer.content is None:
                raise IntegrityError(answer.error)
            hello = Hello.from_bytes(answer.content)
            self._vouch(node, hello.name)
        except Exception as error:  # whatever one node says, the others take part
            reason = plain_text(error)
            self._failed[node] = (reason, now)
            log.warning("node %d does not take part: %s", node, reason)
            return
        self._failed.pop(node, None)
        known = self._node_of.get(hello.name)
        if known is not None and known in self._online:
            self._two_of_one_name(hello.name, known, node, now)
            return
        self._hellos[node] = hello
        self._node_of[hello.name] = node
        log.info("%s is here, on node %d", hello.name, node)

    def _two_of_one_name(self, name: str, known: int, node: int, now: float) -> None:
        message = (
            f"nodes {known} and {node} both call themselves {name!r}; give each a name of its own "
            "in its node config"
        )
        # Once a run is on its way a newcomer does not stop it: it may be a node that was started
        # again before the network noticed that it was gone.
        if not self._settled:
            raise FederationError(message)
        self._failed[node] = (message, now)
        log.warning("%s", message)

    def _lacking(self, stage: str, here: Sequence[str], fewest: int) -> str:
        lost = [name for name in self._taking_part(stage) if name not in here]
        said: Mapping[str, str] = {
            "connected": ", ".join(here[:10]),
            "lost": ", ".join(lost[:10]),
            "refused": "; ".join(f"node {n}: {why}" for n, (why, _) in self._failed.items()),
        }
        known = "; ".join(f"{word}: {names}" for word, names in said.items() if names)
        return (
            f"{len(here)} clients are connected for {stage} after {self._wait:g} s, it takes "
            f"{fewest}{f' ({known})' if known else ''}; start more nodes, or wait longer"
        )

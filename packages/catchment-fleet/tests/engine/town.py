"""A network for tests: nodes are functions, and time passes only when somebody sleeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from catchment_fleet.flower import HELLO, Answer, FlowerEngine, Hello, Order, Roll

Respond = Callable[[Order], bytes]


@dataclass
class Inhabitant:
    """A node: what it answers, after how many seconds, and whether it fails instead."""

    respond: Respond
    delay: float = 0.0
    error: str = ""
    gone: bool = False


@dataclass
class Town:
    """Nodes by number, letters on their way, and a clock."""

    nodes_by_id: dict[int, Inhabitant]
    now: float = 0.0
    on_the_way: dict[str, tuple[float, Inhabitant, Order]] = field(default_factory=dict)
    sent: list[tuple[int, Order]] = field(default_factory=list)
    most_on_the_way: int = 0
    collected_at_once: int = 0

    def nodes(self) -> list[int]:
        return [number for number, node in self.nodes_by_id.items() if not node.gone]

    def send(self, node: int, order: Order, seconds: float) -> str:
        there = self.nodes_by_id[node]
        self.sent.append((node, order))
        ticket = f"t{len(self.sent)}"
        self.on_the_way[ticket] = (self.now + there.delay, there, order)
        self.most_on_the_way = max(self.most_on_the_way, len(self.on_the_way))
        return ticket

    def collect(self, tickets: Sequence[str]) -> Iterable[Answer]:
        self.collected_at_once = max(self.collected_at_once, len(tickets))
        for ticket in tickets:
            due, there, order = self.on_the_way[ticket]
            if due <= self.now and not there.gone:
                del self.on_the_way[ticket]
                if there.error:
                    yield Answer(ticket, None, there.error)
                else:
                    yield Answer(ticket, there.respond(order))

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def roll(self, *, expect: int = 1, wait: float = 60.0) -> Roll:
        return Roll(self, expect=expect, wait=wait, clock=self.clock, sleep=self.sleep)

    def engine(
        self,
        *,
        expect: int | None = None,
        wait: float = 60.0,
        timeout: float = 30.0,
        in_flight: int = 256,
        fewest: int = 1,
    ) -> FlowerEngine:
        wanted = len(self.nodes_by_id) if expect is None else expect
        return FlowerEngine(
            self,
            self.roll(expect=wanted, wait=wait),
            fewest=fewest,
            timeout=timeout,
            in_flight=in_flight,
            clock=self.clock,
            sleep=self.sleep,
        )


def resident(name: str, answer: Respond | None = None, stages: tuple[str, ...] = ()) -> Inhabitant:
    """Return a node that says its name and answers a letter, by default with the letter itself."""

    def respond(order: Order) -> bytes:
        if order.stage == HELLO:
            return Hello(name, stages).to_bytes()
        return answer(order) if answer else order.request

    return Inhabitant(respond)


def town(*names: str) -> Town:
    """Return a town of clients that answer with their letter."""
    return Town({100 + k: resident(name) for k, name in enumerate(names)})

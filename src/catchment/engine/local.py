"""All clients in this process: the default engine, on all cores, through the real codec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from catchment.data.sequence import Sequence as Recorded
from catchment.federation.loop import Keeper, Reply, Result, Watch, run
from catchment.federation.node import Node
from catchment.federation.plan import Additive, Data, Journal, Memory, Plan
from catchment.parallel import ordered_map

S = TypeVar("S")
U = TypeVar("U", bound=Additive)

Source = Sequence[Recorded] | Callable[[], Iterable[Recorded]]


@dataclass(frozen=True, eq=False)
class LocalEngine(Generic[S, U]):
    """Clients as objects of this process; they share nothing with the server but messages.

    Parameters
    ----------
    plan
        What the clients agreed to.
    sources
        Each client's sequences, or a function that makes them when the client is asked.
    threads
        All cores if None; results do not depend on it.
    memories
        What each client remembers between messages, secrets included.
    """

    plan: Plan[S, U]
    sources: Mapping[str, Source]
    threads: int | None = None
    memories: dict[str, Memory] = field(default_factory=dict)

    def clients(self) -> Sequence[str]:
        return sorted(self.sources)

    def ask(self, letters: Mapping[str, bytes]) -> Iterator[Reply]:
        def answer(client: str) -> Reply:
            memory = self.memories.setdefault(client, {}) if self.plan.masking else {}
            node = Node(client, self.plan, data_of(self.sources[client]), memory)
            return Reply(client, node.answer(letters[client]))

        return ordered_map(answer, letters, threads=self.threads)


def data_of(source: Source) -> Data:
    """Return a client's data as a function."""
    return source if callable(source) else lambda: source


def fit(
    plan: Plan[S, U],
    clients: Mapping[str, Source],
    *,
    threads: int | None = None,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
    memories: dict[str, Memory] | None = None,
    journal: Journal | None = None,
) -> Result[S]:
    """Return the result of a plan on clients of this process.

    Parameters
    ----------
    plan
        What is run.
    clients
        By name: sequences, or a function that makes them when asked (so that only the clients
        being served are in memory).
    threads
        All cores if None; results do not depend on it.
    memories
        What each client remembers between messages, its private key for secure sums included.
    journal
        Writes down the steps of a masked round, so that one cut short goes on in its middle.
    """
    if not clients:
        raise ValueError("there are no clients; pass at least one")
    engine = LocalEngine(plan, clients, threads, {} if memories is None else memories)
    return run(plan, engine, keeper=keeper, watch=watch, journal=journal)

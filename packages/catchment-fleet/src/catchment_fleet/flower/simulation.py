"""Flower's simulation: many clients on the cores of one machine or of a Ray cluster.

In a simulation nothing leaves anyone, so plans run as they are, with or without secure aggregation,
and what clients send in the clear is in no ledger of theirs; secure aggregation keep one, as
always, which lasts as long as the simulation. The round loop runs in the caller's thread, and
Flower beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from catchment.engine import Source, data_of
from catchment.federation import Memory, Node, Plan, Result, Watch, run
from catchment.federation.runs import Keeper
from catchment.privacy import Journal
from catchment_fleet.flower.app import Config, Terms, answering
from catchment_fleet.flower.engine import FlowerEngine
from catchment_fleet.flower.roster import Hello, Order
from catchment_fleet.ray.start import ready_ray

S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")
R = TypeVar("R")

Serve = Callable[[Order, str, Memory], "Node[Any, Any, Any]"]


def fit_simulated(
    plan: Plan[S, U, R],
    clients: Mapping[str, Source],
    *,
    keeper: Keeper[S] | None = None,
    watch: Watch | None = None,
    memories: Mapping[str, Memory] | None = None,
    journal: Journal | None = None,
    cpus_per_client: float = 1.0,
    terms: Terms | None = None,
) -> Result[S, R]:
    """Return the result of a plan on simulated clients; it is that of `fit`, bit for bit.

    Starting Ray takes from ten seconds to a minute: for clients that fit into one process `fit` is
    quicker.

    Parameters
    ----------
    plan
        What is run.
    clients
        By name: sequences, or a function that makes them when the client is asked. They must be
        picklable, because clients are processes of their own.
    memories
        What clients know before, such as their private keys; they are not changed.
    journal
        Writes down the steps of a masked round, so that one cut short goes on in its middle.
    cpus_per_client
        Cores that a client occupies while it answers.
    terms
        How long to wait for clients.
    """
    if not clients:
        raise ValueError("there are no clients; pass at least one")
    plan.fingerprint()  # travels with the plan, so that no client has to make it again
    known = {name: dict(memory) for name, memory in (memories or {}).items()}
    agreed = share(plan)
    sources = {name: share((source, known.get(name, {}))) for name, source in clients.items()}

    def serve(order: Order, name: str, memory: Memory) -> Node[S, U, R]:
        source, before = sources[name].get()
        remind(memory, before)
        return Node(name, agreed.get(), data_of(source), memory)

    with simulated(serve, clients, cpus_per_client=cpus_per_client, terms=terms) as engine:
        return run(plan, engine, keeper=keeper, watch=watch, journal=journal)


@dataclass(frozen=True, eq=False)
class Shared(Generic[T]):
    """A value that simulated clients can get; it is sent once, not with every request."""

    place: Any

    def get(self) -> T:
        import ray

        value: T = ray.get(self.place)
        return value


def share(value: T) -> Shared[T]:
    """Put a value where simulated clients can get it; it must be picklable."""
    return Shared(_simulating_ray().put(value))


def remind(memory: Memory, before: Mapping[str, bytes]) -> None:
    """Put into a client's memory what it knew before the run, unless it knows more by now.

    >>> memory = {"round": b"2"}
    >>> remind(memory, {"round": b"1", "key": b"k"})
    >>> memory
    {'round': b'2', 'key': b'k'}
    """
    for key, value in before.items():
        memory.setdefault(key, value)


@contextmanager
def simulated(
    serve: Serve,
    names: Iterable[str],
    *,
    stages: Mapping[str, tuple[str, ...]] | None = None,
    cpus_per_client: float = 1.0,
    terms: Terms | None = None,
) -> Iterator[FlowerEngine]:
    """Run simulated clients, and give the engine that reaches them.

    Parameters
    ----------
    serve
        Makes the client of a name that answers an order; runs in the client's process.
    names
        Of the clients.
    stages
        Which stages a client takes part in; all of them if not given.
    """
    called, parts = sorted(names), dict(stages or {})

    def name(config: Config) -> str:
        return called[int(config["partition-id"])]

    def hello(config: Config) -> Hello:
        return Hello(name(config), parts.get(name(config), ()))

    def node(order: Order, config: Config, memory: Memory) -> Node[Any, Any, Any]:
        return serve(order, name(config), memory)

    with grid_of(answering(hello, node), len(called), cpus_per_client=cpus_per_client) as grid:
        yield (terms or Terms(wait=600.0)).engine(grid, fewest=1, expect=len(called))


@contextmanager
def grid_of(app: ClientApp, n_nodes: int, *, cpus_per_client: float = 1.0) -> Iterator[Grid]:
    """Run a simulation of nodes, and give its grid to the caller's thread."""
    _simulating_ray()
    from flwr.simulation import run_simulation

    found: SimpleQueue[Grid | BaseException] = SimpleQueue()
    over = threading.Event()
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        found.put(grid)
        over.wait()

    def simulate() -> None:
        backend: dict[str, dict[str, Any]] = {
            "client_resources": {"num_cpus": cpus_per_client, "num_gpus": 0.0}
        }
        try:
            run_simulation(server, app, n_nodes, backend_config=backend)
        except BaseException as error:
            found.put(error)

    thread = threading.Thread(target=simulate, name="simulation", daemon=True)
    thread.start()
    try:
        grid = found.get()
        if isinstance(grid, BaseException):
            raise grid
        yield grid
    finally:
        over.set()
        thread.join()


def _simulating_ray() -> Any:
    return ready_ray(needed_for="simulations")

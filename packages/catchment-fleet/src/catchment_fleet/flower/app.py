"""A plan as a Flower app: the server runs the one loop, each node answers for its own data.

    # server.py                         # client.py
    app = server_app(plan, "runs/1")    app = client_app(plan, load_data)

A node starts a new process for every message, so what a client must remember between messages lies
in the folder `memory` of its node config (or in the folder `keys`, see `catchment_fleet.deploy`)
or, without one, in Flower's own state, which lasts as long as the run.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from catchment.data import ALL
from catchment.federation import (
    REFUSED,
    Memory,
    Node,
    Plan,
    Result,
    RunFolder,
    model_of,
    refusal,
    run,
)
from catchment.federation.runs import JOURNAL
from catchment.privacy import (
    FileMemory,
    Journal,
    Policy,
    PrivacyLedger,
    check_floors,
    check_memory,
    networked,
    policy_of,
)
from catchment_fleet.flower.engine import FlowerEngine
from catchment_fleet.flower.roster import HELLO, Hello, Order, Roll
from catchment_fleet.flower.transport import GridLine, packed, unpacked_order

S = TypeVar("S")
U = TypeVar("U")
R = TypeVar("R")

Config = Mapping[str, bool | float | int | str]
Load = Callable[[Config], Iterable[Any]]
Answering = Callable[[Order, Config, Memory], "Node[Any, Any, Any]"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a server deals with its nodes.

    Parameters
    ----------
    expect
        Clients to wait for before the first round; if 0, as many as the plan needs.
    wait
        Seconds to wait for them.
    timeout
        Seconds that a client has for an answer.
    in_flight
        Letters on their way at a time.
    allow_plain_statistics
        Whether a plan without secure aggregation is run; every node must allow it, too.
    """

    expect: int = 0
    wait: float = 120.0
    timeout: float = 600.0
    in_flight: int = 256
    allow_plain_statistics: bool = False

    @classmethod
    def of(cls, config: Config) -> Terms:
        """Return the terms of a run config, in which names have hyphens; others are left alone.

        >>> Terms.of({"timeout": 30, "out": "runs/1"}).timeout
        30
        >>> Terms.of({"wait": "long"})
        Traceback (most recent call last):
        ValueError: wait in the run config is 'long'; give a number
        """
        known = {field.name: config.get(field.name.replace("_", "-")) for field in fields(cls)}
        for name, value in known.items():
            flag = name == "allow_plain_statistics"
            if value is not None and (
                isinstance(value, bool) != flag or not isinstance(value, bool | int | float)
            ):
                wanted = "true or false" if flag else "a number"
                shown = name.replace("_", "-")
                raise ValueError(f"{shown} in the run config is {value!r}; give {wanted}")
        given: dict[str, Any] = {k: value for k, value in known.items() if value is not None}
        return cls(**given)

    def engine(
        self, grid: Grid, *, fewest: int, expect: int = 0, keys: Mapping[str, bytes] | None = None
    ) -> FlowerEngine:
        """Return the engine over a grid, for a plan that needs this many clients.

        Parameters
        ----------
        keys
            Public keys by which Flower knows the clients; without them nodes may take any name.
        """
        line, wanted = GridLine(grid, keys), int(self.expect or expect or fewest)
        roll = Roll(line, expect=wanted, wait=self.wait, vouch=line.vouch)
        return FlowerEngine(
            line, roll, fewest=fewest, timeout=self.timeout, in_flight=int(self.in_flight)
        )


def needed(plan: Plan[Any, Any, Any]) -> int:
    """Return the fewest clients with which a round of a plan can end.

    >>> from catchment.federation.learn import FederatedScaling
    >>> needed(Plan(algorithm=FederatedScaling(channels=1), min_clients=4))
    4
    """
    return max(plan.min_clients, int(getattr(plan.masking, "min_clients", 1)))


def server_app(
    plan: Plan[S, U, R],
    folder: str | Path | None = None,
    *,
    terms: Terms | None = None,
    done: Callable[[Result[S, R]], None] | None = None,
    onto: S | None = None,
) -> ServerApp:
    """Return the Flower app of a plan's server.

    Parameters
    ----------
    plan
        What is run.
    folder
        Where the run is kept, with its model and a state after every round; a second run on the
        same folder goes on where the first one stopped. Without one nothing is kept.
    terms
        How to deal with nodes; if not given, what the run config says.
    done
        Called with the result.
    onto
        The state of an earlier run, with which this one begins.

    >>> from catchment.federation.learn import FederatedScaling
    >>> type(server_app(Plan(algorithm=FederatedScaling(channels=1)), "runs/1")).__name__
    'ServerApp'
    """

    def work(grid: Grid, config: Config) -> None:
        own = terms or Terms.of(config)
        agreed = networked(plan, allow_plain_statistics=own.allow_plain_statistics)
        engine = own.engine(grid, fewest=needed(agreed))
        with ExitStack() as stack:
            keeper = journal = None
            if folder is not None:
                store = RunFolder(folder, fingerprint=agreed.fingerprint(), resume=True)
                keeper = stack.enter_context(store).keeper("training", agreed, logs=True)
                if agreed.masking:
                    journal = stack.enter_context(Journal(Path(folder) / JOURNAL))
            result = run(agreed, engine, keeper=keeper, journal=journal, onto=onto)
            model = model_of(result.result)
            if folder is not None and model is not None:
                store.save_model(model)
        if done:
            done(result)

    return serving(work)


def serving(work: Callable[[Grid, Config], None]) -> ServerApp:
    """Return the Flower app of a server that does some work with its grid and its run config."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        speak()
        work(grid, context.run_config)

    return app


def speak() -> None:
    """Write what this package logs to stderr, where Flower picks it up."""
    ours = logging.getLogger("catchment")
    if not ours.handlers:
        ours.addHandler(logging.StreamHandler())
        ours.setLevel(logging.INFO)


def client_app(
    plan: Plan[S, U, R],
    load_data: Load,
    *,
    allow_plain_statistics: bool = False,
    name: Callable[[Config], str] | None = None,
    policy: Policy | None = None,
    unit: Callable[[Config], str] | None = None,
) -> ClientApp:
    """Return the Flower app of a plan's nodes.

    Parameters
    ----------
    plan
        What this node agrees to; a server that runs another is refused.
    load_data
        Makes a node's data from its node config.
    allow_plain_statistics
        Whether to answer without secure aggregation; the node's policy may allow it, too.
    name
        Makes a client's name from its node config; if not given, `name` or `partition-id` in it.
    policy
        What this node allows, and counts in its ledger of releases, where its owner has no policy
        file: one that the node config names goes before what an app says.
    unit
        Says what the data are called in the node's ledger, from its node config. Data of one name
        are one unit: without noise they go into sums with one set of clients and must not change.

    >>> from catchment.data import Recording
    >>> from catchment.federation.learn import FederatedScaling
    >>> def load_data(config):
    ...     return [Recording([1.0, 2.0, 3.0])]
    >>> type(client_app(Plan(algorithm=FederatedScaling(channels=1)), load_data)).__name__
    'ClientApp'
    """
    named = name or name_of

    def hello(config: Config) -> Hello:
        return Hello(named(config))

    def node(order: Order, config: Config, memory: Memory) -> Node[S, U, R]:
        found = policy_of(config, policy)
        own = replace(found, clear=found.clear or allow_plain_statistics)
        check_floors(own, plan.protections)
        check_memory(config, memory, plan.protections)
        agreed = networked(plan, allow_plain_statistics=own.clear)
        ledger = PrivacyLedger(memory, own, ALL if unit is None else unit(config))
        return Node(named(config), agreed, lambda: load_data(config), memory, ledger)

    return answering(hello, node)


def answering(hello: Callable[[Config], Hello], node: Answering) -> ClientApp:
    """Return the Flower app of nodes that say who they are and then answer requests.

    Parameters
    ----------
    hello
        Makes a node's first answer from its config.
    node
        Makes the client that answers an order, with the memory it had at the last one.
    """
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        config = context.node_config
        try:
            order = unpacked_order(message.content)
            if order.stage == HELLO:
                reply = hello(config).to_bytes()
            else:
                with remembered(context) as memory:
                    reply = node(order, config, memory).answer(order.request)
        except REFUSED as error:
            reply = refusal(error)
        return Message(packed("reply", reply), reply_to=message)

    return app


def name_of(config: Config) -> str:
    """Return a client's name by its node config.

    >>> name_of({"name": "ann"}), name_of({"partition-id": 3, "num-partitions": 8})
    ('ann', 'node-3')
    """
    if "name" in config:
        return str(config["name"])
    if "partition-id" not in config:
        raise ValueError('this node has no name; put one into its node config, name="ann"')
    return f"node-{config['partition-id']}"


@contextmanager
def remembered(context: Context) -> Iterator[Memory]:
    """Open what a client remembers: a folder that its node config names, or Flower's state.

    The folder is `memory`, or the one of that name in `keys`.
    """
    config = context.node_config
    if "memory" not in config and "keys" not in config:
        if "memory" not in context.state:
            context.state["memory"] = ConfigRecord()
            logging.getLogger(__name__).warning(
                "this node has no folder of its own: what it notes of the releases of its data "
                "lasts as long as this run; name keys or memory in its node config"
            )
        yield cast(Memory, context.state["memory"])
        return
    beside = Path(str(config.get("keys", ""))) / "memory"
    memory = FileMemory(Path(str(config.get("memory", beside))))
    # Two messages may be answered at once, by two processes; secrets are for one at a time.
    with one_at_a_time(memory.folder / "lock"):
        yield memory


@contextmanager
def one_at_a_time(path: Path, *, seconds: float = 3600.0) -> Iterator[None]:
    """Wait until no other process is inside with the same path."""
    lock = sqlite3.connect(path, isolation_level=None, timeout=seconds)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        lock.close()

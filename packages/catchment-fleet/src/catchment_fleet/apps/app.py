"""The Flower app of a plan file, ready to run; `catchment flower init` writes the few lines.

    app = server_of(Path(__file__).parent / "plan.toml")
    app = client_of(Path(__file__).parent / "plan.toml")

The run config says what the server must know besides the terms of `catchment_fleet.flower.app`:

    out         folder of the run, on the server
    identities  public keys of all clients, for secure aggregation
    nodes       keys by which Flower knows the nodes, NAME.pub; by default beside the identities.
                With them a node can take no other client's name
    plan        a plan instead of the app's

The run's folder is that of `catchment run`: `catchment ledger` and `catchment report` read it.
What only somebody with all data could say, such as baselines and a forecast, is not in it.

A plan file in Flower's simulation: its clients on the cores of this machine, or of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catchment.federation import AnyPlan, Engine, Engines, Memory, Node, RunFolder
from catchment.federation.runs import JOURNAL, MODEL, reported
from catchment.plans import PlanData, PlanFile, PlanRun, client_memories, read_plan, refuse_weeks
from catchment.privacy import Journal, new_identity
from catchment_fleet.apps.agreement import Agreement, agreement, refuse_folds
from catchment_fleet.apps.node import PlanNode, Remembered, data_at, stages_of
from catchment_fleet.flower.app import Config, Terms, answering, needed, serving, speak
from catchment_fleet.flower.engine import FlowerEngine
from catchment_fleet.flower.roster import Hello, Order
from catchment_fleet.flower.simulation import remind, share, simulated
from catchment_fleet.flower.transport import read_keys

if TYPE_CHECKING:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp


def server_of(plan: str | Path) -> ServerApp:
    """Return the Flower app of a plan file's server."""

    def work(grid: Grid, config: Config) -> None:
        terms = Terms.of(config)
        agreed = agreement(
            read_plan(_given(config, "plan") or plan),
            identities=_given(config, "identities"),
            allow_plain_statistics=terms.allow_plain_statistics,
        )
        engine = terms.engine(grid, fewest=agreed.fewest, keys=_keys(config))
        serve_plan(agreed, engine, _given(config, "out") or Path("runs") / "flower")

    return serving(work)


def client_of(plan: str | Path) -> ClientApp:
    """Return the Flower app of a plan file's nodes."""

    def hello(config: Config) -> Hello:
        node = PlanNode(config, Path(plan))
        return Hello(node.name, node.stages)

    def client(order: Order, config: Config, memory: Memory) -> Node[Any, Any, Any]:
        return PlanNode(config, Path(plan)).client(order.stage, order.request, memory)

    return answering(hello, client)


def _keys(config: Config) -> dict[str, bytes] | None:
    """Return the keys of the nodes that were admitted, if they are beside the public keys."""
    identities, named = _given(config, "identities"), _given(config, "nodes")
    if named:
        return read_keys(named)
    beside = identities.parent / "nodes" if identities else None
    return read_keys(beside) if beside and beside.is_dir() else None


def _given(config: Config, key: str) -> Path | None:
    value = config.get(key)
    return Path(str(value)) if value else None


@dataclass(frozen=True, eq=False)
class OverFlower(Engines):
    """The clients of a plan file behind one network."""

    agreed: Agreement
    base: FlowerEngine
    name: str = "flower"

    def allowed(self, stage: str, plan: AnyPlan) -> AnyPlan:
        return self.agreed.allowed(stage, plan)

    def engine(self, stage: str, plan: AnyPlan) -> Engine:
        return self.base.at(stage, fewest=needed(plan))


def serve_plan(agreed: Agreement, engine: FlowerEngine, folder: str | Path) -> Path:
    """Run a plan file on the clients of an engine, and return the path of the model.

    Parameters
    ----------
    agreed
        The plan and what else both sides know.
    engine
        Reaches the clients.
    folder
        Where the run is kept; one that was cut short there goes on after its last finished round.
    """
    file = agreed.file
    with ExitStack() as stack:
        store = RunFolder(folder, fingerprint=file.fingerprint, plan=file.text, resume=True)
        stack.enter_context(store)
        journal = None
        # A simulated client forgets its secrets with the simulation: its round begins anew.
        if file.is_secret and not agreed.simulated:
            journal = stack.enter_context(Journal(Path(folder) / JOURNAL))
        tell = stack.enter_context(reported(folder))
        engines = OverFlower(agreed, engine, watch=tell, journal=journal)
        plan_run = PlanRun(file, agreed.workflow, agreed.about, engines, store)
        plan_run.finish(plan_run.run())
    return Path(folder) / MODEL


def simulate_plan(
    file: PlanFile,
    folder: str | Path,
    *,
    data: Path | None = None,
    cpus_per_client: float = 1.0,
    terms: Terms | None = None,
) -> Path:
    """Run a plan file on simulated clients, and return the path of the model.

    The model is that of `catchment run`, to the byte.

    Parameters
    ----------
    folder
        Where the run is kept; one that was cut short there goes on after its last finished round.
    data
        Directory of public data sets; the usual ones if not given.
    cpus_per_client
        Cores that a client occupies while it answers.
    terms
        How long to wait for clients.
    """
    refuse_folds(file)
    refuse_weeks(file)
    held = file.load_data(data)
    file.check_named(held.train)
    memories: Mapping[str, Memory] = {}
    if file.is_secret:
        memories = client_memories(Path(folder), held.names)
    known = {name: new_identity(memory) for name, memory in memories.items()}
    agreed = Agreement(file, held.about, known, simulated=True, n_clients=len(held.train))
    plan_of_all = share(agreed)
    parts = {name: share((_only(held, name), dict(memories.get(name, {})))) for name in held.names}

    def serve(order: Order, name: str, memory: Memory) -> Node[Any, Any, Any]:
        mine, before = parts[name].get()
        remind(memory, before)
        plan = plan_of_all.get().plan(order.stage, order.request, name, Remembered(memory))
        return Node(name, plan, lambda: data_at(order.stage, name, mine), memory)

    speak()
    stages = {name: stages_of(name, held) for name in held.names}
    with simulated(
        serve, held.names, stages=stages, cpus_per_client=cpus_per_client, terms=terms
    ) as engine:
        return serve_plan(agreed, engine, folder)


def _only(held: PlanData, name: str) -> PlanData:
    """Return one client's share of the data."""
    train = {name: held.train[name]} if name in held.train else {}
    test = {name: held.test[name]} if name in held.test else {}
    return replace(held, train=train, test=test)

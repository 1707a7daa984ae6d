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
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catchment.federation import AnyPlan, Engine, Engines, Memory, Node, RunFolder
from catchment.federation.runs import JOURNAL, MODEL, reported
from catchment.plans import PlanRun, read_plan
from catchment.privacy import Journal
from catchment_fleet.apps.agreement import Agreement, agreement
from catchment_fleet.apps.node import PlanNode
from catchment_fleet.flower.app import Config, Terms, answering, needed, serving
from catchment_fleet.flower.engine import FlowerEngine
from catchment_fleet.flower.roster import Hello, Order
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

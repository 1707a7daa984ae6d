"""The Flower app of a plan file, ready to run; `catchment flower init` writes the few lines.

    app = server_of(Path(__file__).parent / "plan.toml")
    app = client_of(Path(__file__).parent / "plan.toml")

The run config says what the server must know besides the terms of `catchment_fleet.flower.app`:

    out         folder of the run, on the server
    identities  public keys of all clients, for a secure sum
    nodes       keys by which Flower knows the nodes, NAME.pub; by default beside the identities.
                With them a node can take no other client's name
    plan        a plan instead of the app's
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from catchment.federation import Memory, Node
from catchment.plans import read_plan
from catchment_fleet.apps.agreement import agreement
from catchment_fleet.apps.node import PlanNode
from catchment_fleet.apps.server import serve_plan
from catchment_fleet.flower.app import Config, Terms, answering, serving
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
        return PlanNode(config, Path(plan)).client(order.stage, order.letter, memory)

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

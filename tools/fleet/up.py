"""A plan file on a real deployment of this machine: one node for every client of the plan.

    plan.toml, app/     the plan, and the Flower app that carries it out
    server/, nodes/     keys, and what each side keeps (see `catchment_fleet.deploy`)
    logs/               of all processes
    run/                the server's folder of the run, as `catchment run` makes it

Everything is as on many machines: nodes reach the SuperLink through the proxy by TLS, each with its
own key, its own data and its own memory.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import join, quote

from catchment.data import client_of
from catchment.errors import FederationError
from catchment.federation.runs import MODEL
from catchment.plans import Files, PlanFile, example_plan, read_plan
from catchment_fleet.apps import PACKAGE, write_app
from catchment_fleet.deploy import CONNECTION, Settings, make_keys, node_settings, pairs
from tools.fleet.deployment import Deployment

EXAMPLE = "wearables_secure"
APP, PLAN, RUN = "app", "plan.toml", "run"


def write_example(folder: Path, n_nodes: int) -> Path:
    """Write a plan for `n_nodes` synthetic people into a folder, and return its path.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     len(nodes_of(read_plan(write_example(Path(place), 5))))
    5
    """
    if n_nodes < 3:
        raise ValueError(f"nodes is {n_nodes}; secure aggregation needs at least 3")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PLAN
    path.write_text(example_plan(EXAMPLE).replace("users = 4", f"users = {n_nodes}"))
    return path


def nodes_of(file: PlanFile) -> dict[str, Settings]:
    """Return the node config of every client of a plan, by name.

    A client that is a file has the path of that file; any other makes its own part of the plan's
    source, and no other one's.
    """
    held = file.load_data()
    origin = file.origin
    if not isinstance(origin, Files):
        return {name: {} for name in held.names}
    if origin.client is not None:
        raise ValueError(
            "the plan has many clients in one file; give every client a file of its own and leave "
            "out 'client' in [data]"
        )
    return {client_of(path): {"data": str(path)} for path in origin.paths(file.base)}


@contextmanager
def up(
    folder: Path,
    plan: Path,
    *,
    say: Callable[[str], object] = str,
    devices: Mapping[str, str] | None = None,
) -> Iterator[Deployment]:
    """Start a SuperLink, its proxy and a node for every client of a plan; stop all of it after.

    Parameters
    ----------
    folder
        Of the deployment; one that is there is started again, with its keys.
    plan
        A plan file.
    say
        Called with a line of text for each step.
    devices
        By client: the address of a device that has its data, whose gateway the node is.
    """
    nodes = nodes_of(read_plan(plan))
    nodes |= {name: {"device": address} for name, address in (devices or {}).items()}
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _locked(folder), Deployment(folder) as deployment:
        deployment.processes.kill_leftovers()
        identities = make_keys(deployment.folder, (), nodes)
        if set(identities) != set(nodes):
            raise ValueError(f"{folder} is of another plan's nodes; choose another folder")
        _write_app_once(folder / APP, plan)
        deployment.start_superlink()
        deployment.start_proxy()
        say(f"SuperLink on 127.0.0.1:{deployment.superlink_port}, for this machine only")
        say(f"proxy on {deployment.host}:{deployment.proxy_port}, with TLS, for nodes only")
        deployment.register()
        for name, own in nodes.items():
            deployment.start_node(name, {**node_settings(deployment.node(name)), **own})
        deployment.wait_for_nodes()
        say(f"{len(nodes)} nodes are online: {', '.join(nodes)}")
        yield deployment


def run_settings(deployment: Deployment, *, timeout: float = 600.0) -> Settings:
    """Return the run config of a deployment's plan.

    Parameters
    ----------
    timeout
        Seconds that a node has for an answer.
    """
    return {
        "out": str(deployment.folder / RUN),
        "identities": str(deployment.server / "identities.json"),
        "expect": len(deployment.nodes),
        "timeout": timeout,
    }


def how_to_run(deployment: Deployment) -> str:
    """Return the command with which a person runs a deployment's plan."""
    words = ["flwr", "run", str(deployment.folder / APP), CONNECTION, "--stream"]
    config = ["--run-config", pairs(run_settings(deployment))]
    return f"FLWR_HOME={quote(str(deployment.home))} {join([*words, *config])}"


def run_on(deployment: Deployment, *, timeout: float = 600.0) -> Path:
    """Run the plan of a deployment on its nodes, and return the path of the model."""
    out = deployment.folder / RUN
    ended = deployment.run(deployment.folder / APP, run_settings(deployment, timeout=timeout))
    if not ended.ok:
        lines = [line.strip() for line in ended.log.splitlines() if line.strip()]
        raise FederationError(
            f"the run ended as {ended.status} ({ended.details}); its log ends with: "
            f"{' / '.join(lines[-3:])[-600:]}"
        )
    return out / MODEL


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_app_once(app: Path, plan: Path) -> None:
    """Write the app of a plan, unless it is there; ValueError if it is that of another plan."""
    if not app.exists():
        write_app(app, plan)
    elif read_plan(app / PACKAGE / PLAN).fingerprint != read_plan(plan).fingerprint:
        raise ValueError(f"{app} is the app of another plan; choose another folder")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep others from starting the same deployment."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FederationError(f"the deployment in {folder} is up already") from None
        yield

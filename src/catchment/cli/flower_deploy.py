"""`catchment flower keys`, `proxy`, `serve`, `register`, `node` and `up`: a real deployment."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from types import FrameType

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of the deployment; made if not there.")
]


def keys(
    folder: FolderArgument,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host", metavar="NAME", help="Server: make its keys, for this name or address."
        ),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NAME", help="Node: make its keys.")
    ] = None,
    admit: Annotated[
        list[Path] | None,
        typer.Option("--admit", metavar="FILE", help="Server: know a node by its public.json."),
    ] = None,
) -> None:
    """Make the keys of a server or of a node; what is there is kept.

    With both --host and --node: all keys of a deployment on this machine, for trying it.
    """
    from catchment.engine.deploy import keys as made

    if not host and not node and not admit:
        raise ValueError("name what to make: --host for a server, --node for a node, or --admit")
    if host and node:
        made.make_keys(folder, host, node)
    elif host:
        made.make_authority(folder)
        made.make_server(folder, host)
    else:
        for name in node or ():
            told = made.make_node(folder, name)
            typer.echo(f"{told}: send it to the server's keeper; all else stays in its folder")
    if host:
        typer.echo(f"{folder / 'server' / 'ca.crt'}: give it to every node")
    if admit:
        identities = made.admit(folder, admit)
        typer.echo(f"{len(identities)} nodes are known; give every node server/identities.json")


def proxy(
    folder: FolderArgument,
    listen: Annotated[
        str, typer.Option(metavar="[ADDRESS:]PORT", help="Where nodes come in.")
    ] = "8443",
    superlink: Annotated[int, typer.Option(help="Port of the SuperLink on this machine.")] = 8000,
    clients: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask callers for a certificate of this authority."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="A configuration by itself, not a Debian site.")
    ] = False,
) -> None:
    """Print the nginx configuration that lets nodes in, and nobody else."""
    from catchment.engine.deploy import proxy as made

    folder = folder.resolve()
    authority = clients.resolve() if clients else None
    text = made.site(
        folder / "server", superlink=superlink, listen=listen, client_authority=authority
    )
    typer.echo(made.whole(text, folder / "server") if whole else text, nl=False)


def serve(
    folder: FolderArgument,
    port: Annotated[int, typer.Option(help="On the loopback address.")] = 8000,
) -> None:
    """Run the SuperLink on the loopback address, until Ctrl-C."""
    from catchment.engine.deploy.commands import superlink_command, superlink_home

    server = folder.resolve() / "server"
    _become(superlink_command(server, port), superlink_home(server, port))


def register(folder: FolderArgument) -> None:
    """Tell the running SuperLink of the nodes that were admitted."""
    from catchment.engine.deploy.commands import register_nodes

    for name in register_nodes(folder.resolve() / "server"):
        typer.echo(f"{name} is registered")


def node(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The node's folder of keys.")],
    server: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The proxy before the SuperLink.")
    ],
    data: Annotated[
        str, typer.Option(metavar="PATTERN", help="This node's own files: CSV, Parquet or npz.")
    ] = "",
    port: Annotated[int, typer.Option(help="For this node's own processes.")] = 9094,
) -> None:
    """Run a node on its own data, until Ctrl-C."""
    from catchment.engine.deploy.commands import node_command, node_settings

    folder = folder.resolve()
    command = node_command(folder, server, node_settings(folder, data), port=port)
    _become(command, folder / "flwr")


def up(
    nodes: Annotated[
        int | None, typer.Option(metavar="N", help="How many nodes; one for each client.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN", help="Run this plan; an example if not given."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Folder of the deployment.")
    ] = Path("runs/fleet"),
    check: Annotated[
        bool, typer.Option("--check", help="Run the plan in one process, too, and compare.")
    ] = False,
) -> None:
    """Start a real deployment on this machine: SuperLink, proxy with TLS, and nodes.

    With a plan, or with --check, it runs and all is stopped; else all stays up until Ctrl-C.
    """
    from catchment.plans.file import read_plan
    from catchment.plans.flower import up as made

    chosen = plan or made.write_example(folder, 4 if nodes is None else nodes)
    n_clients = len(made.nodes_of(read_plan(chosen)))
    if nodes not in (None, n_clients):
        raise ValueError(f"nodes is {nodes}, the plan has {n_clients} clients; leave it out")
    _stop_when_asked()
    try:
        with made.up(folder, chosen, say=typer.echo) as deployment:
            if plan is None and not check:
                typer.echo(f"run the plan from another terminal: {made.how_to_run(deployment)}")
                typer.echo("Ctrl-C stops everything")
                signal.pause()
            _run(made.run_on(deployment), chosen, folder, check=check)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(130) from None


def _run(model: Path, plan: Path, folder: Path, *, check: bool) -> None:
    """Print what a run's model is, and whether one process makes the same."""
    from tools.fleet.up import sha256

    from catchment.plans.conductor import run_plan
    from catchment.plans.file import read_plan

    over_network = sha256(model)
    typer.echo(f"on real nodes:  {over_network}  {model}")
    if check:
        alone = run_plan(read_plan(plan), folder / "alone", resume=True).run.folder / model.name
        typer.echo(f"in one process: {sha256(alone)}  {alone}")
        if sha256(alone) != over_network:
            typer.secho("the model files differ", fg=typer.colors.RED, err=True)
            raise typer.Exit(1)
        typer.echo("both model files have the same SHA-256")


def _become(command: list[str], home: Path) -> None:
    """Go on as another program, in Flower's home for it."""
    from catchment.engine.deploy.commands import QUIET, search_path

    known = {**os.environ, **QUIET, "PATH": search_path(), "FLWR_HOME": str(home)}
    os.execve(command[0], command, known)


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop_when_asked() -> None:
    """Let a polite kill, or a terminal that closes, end the program as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)

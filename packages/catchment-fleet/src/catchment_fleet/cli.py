"""`catchment flower`: the same plan on many machines, and the keys and programs of a deployment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.plugins import plugin

if TYPE_CHECKING:
    from catchment.privacy import LedgerEntry

flower_app = typer.Typer(help="Run a plan on many machines with Flower.", no_args_is_help=True)
FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder of the deployment; made if not there.")
]


@flower_app.command()
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

    With both --host and --node: all keys of a trial on this machine.
    """
    from catchment_fleet.deploy import keys as made

    if not host and not node and not admit:
        raise ValueError("name what to make: --host for a server, --node for a node, or --admit")
    if host and node:
        made.make_keys(folder, host, node)
    elif host:
        made.make_authority(folder)
        made.make_server(folder, host)
    else:
        for name in node or ():
            public = made.make_node(folder, name)
            typer.echo(f"{public}: send it to the server's keeper; all else stays in its folder")
    if host:
        typer.echo(f"{folder / 'server' / 'ca.crt'}: give it to every node")
    if admit:
        identities = made.admit(folder, admit)
        typer.echo(f"{len(identities)} nodes are known; give every node server/identities.json")


@flower_app.command()
def serve(
    folder: FolderArgument,
    port: Annotated[int, typer.Option(help="On the loopback address.")] = 8000,
) -> None:
    """Run the SuperLink on the loopback address, until Ctrl-C."""
    from catchment_fleet.deploy.commands import superlink_command, superlink_home

    server = folder.resolve() / "server"
    _become(superlink_command(server, port), superlink_home(server, port))


@flower_app.command()
def register(folder: FolderArgument) -> None:
    """Tell the running SuperLink of the nodes that were admitted."""
    from catchment_fleet.deploy.commands import register_nodes

    for name in register_nodes(folder.resolve() / "server"):
        typer.echo(f"{name} is registered")


@flower_app.command()
def node(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The node's folder of keys.")],
    server: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The proxy before the SuperLink.")
    ],
    data: Annotated[
        str, typer.Option(metavar="PATTERN", help="This node's own files: CSV, Parquet or npz.")
    ] = "",
    edge_client: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="A board that has the data, serial:///dev/ttyACM0; this node is its gateway.",
        ),
    ] = "",
    port: Annotated[int, typer.Option(help="For this node's own processes.")] = 9094,
    app_hash: Annotated[
        list[str] | None,
        typer.Option(
            "--app-hash",
            metavar="SHA256",
            help="Run this app and no other; more of them in apps of policy.toml.",
        ),
    ] = None,
) -> None:
    """Run a node on its own data, until Ctrl-C.

    It uses only the plan of the server's app, unless policy.toml allows more.
    """
    from catchment.privacy import NAME, read_policy
    from catchment_fleet.deploy.commands import node_command, node_settings
    from catchment_fleet.deploy.launcher import checked_hash

    folder = folder.resolve()
    if (folder / NAME).is_file():
        read_policy(folder / NAME)  # what is wrong with it is said now
    apps = [checked_hash(text) for text in app_hash or ()]
    if edge_client:
        device_of = plugin("engines", "device", needed_for="devices")
        device_of(edge_client)  # what is wrong with its address is said now
        if data:
            raise ValueError(
                "--edge-client and --data are two places for one client's data; pass one"
            )
    settings = node_settings(folder, data, edge_client)
    command = node_command(folder, server, settings, port=port, apps=apps)
    _become(command, folder / "flwr")


@flower_app.command()
def fingerprint(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A plan, the folder of an app, or a built app.")
    ],
) -> None:
    """Print what a node's policy.toml calls a plan and an app by: their SHA-256."""
    from catchment.plans import read_plan
    from catchment_fleet.apps.scaffold import PACKAGE

    plan = path / PACKAGE / "plan.toml" if path.is_dir() else path
    if path.suffix != ".fab" and plan.is_file():
        typer.echo(f"plan  {read_plan(plan).fingerprint}")
    if path.suffix != ".toml":
        from catchment_fleet.deploy.launcher import app_hash

        typer.echo(f"app   {app_hash(path)}")


@flower_app.command()
def ledger(
    folder: Annotated[Path, typer.Argument(metavar="KEYS", help="The node's folder of keys.")],
    forget_rounds: Annotated[
        bool,
        typer.Option("--forget-rounds", help="Forget the numbers of past rounds; releases stay."),
    ] = False,
) -> None:
    """Print the releases of a node's data: what, when, in which sum, at what cost."""
    from catchment.privacy import FileMemory, PrivacyLedger
    from catchment.privacy import forget_rounds as forget
    from catchment_fleet.flower.app import one_at_a_time

    memory = folder / "memory" if (folder / "memory").is_dir() else folder
    if not any(memory.glob("*.entry")):
        raise FileNotFoundError(f"{folder} holds no node's memory; name the node's folder of keys")
    with one_at_a_time(memory / "lock", seconds=60.0):  # when no message is being answered
        if forget_rounds:
            names = forget(FileMemory(memory))
            typer.echo(f"rounds of {', '.join(names) or 'no federation'} are forgotten")
        for line in ledger_lines(PrivacyLedger(FileMemory(memory)).entries()):
            typer.echo(line)


def ledger_lines(releases: list[LedgerEntry]) -> list[str]:
    """Return what was released, a line each, and a line for all of it.

    >>> from catchment.privacy import LedgerEntry
    >>> one = LedgerEntry("ab" * 32, 0, "averages", "7", "cd" * 32, n_clients=12, at="2026-01-02")
    >>> print(*ledger_lines([one]), sep="\\n")
    2026-01-02  averages  plan abababababab  round 0  data cdcdcdcd  sum of 12 clients, exact
    1 release
    """
    lines = []
    for one in releases:
        perhaps = "perhaps in a " if one.possible else ""
        where = f"{perhaps}sum of {one.n_clients} clients" if one.session else "in the clear"
        cost = "exact" if one.is_exact else f"epsilon {one.epsilon:g} at delta {one.delta:g}"
        what = f"{one.at or 'no date'}  {one.kind}  plan {one.plan[:12]}  round {one.round}"
        lines.append(f"{what}  data {one.data[:8] or 'unknown'}  {where}, {cost}")
    n = len(releases)
    return [*lines, f"{n} release{'' if n == 1 else 's'}" if n else "nothing was released"]


@flower_app.command()
def sign(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, in TOML.")],
    key: Annotated[
        Path,
        typer.Option("--key", metavar="FILE", help="The signer's private key; made if not there."),
    ],
) -> None:
    """Sign a plan, for nodes whose policy.toml names the signer."""
    from catchment_fleet.apps.scaffold import sign_plan

    path, signer = sign_plan(plan, key)
    typer.echo(f"{path}: keep it beside the plan")
    typer.echo(f'signer = "{signer}"')


def _become(command: list[str], home: Path) -> None:
    """Go on as another program, in Flower's home for it."""
    from catchment_fleet.deploy.commands import QUIET, search_path

    known = {**os.environ, **QUIET, "PATH": search_path(), "FLWR_HOME": str(home)}
    os.execve(command[0], command, known)


@flower_app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if not there.")],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN", help="A plan, in TOML; an example if not given."),
    ] = None,
) -> None:
    """Write a ready Flower app that carries out a plan: no Python to write."""
    from catchment_fleet.apps.scaffold import write_app

    for path in write_app(folder, plan):
        typer.echo(str(path))


def drop(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, in TOML.")],
    folder: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where files are kept.")],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="Port; 0 for any.")] = 8443,
    certificate: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Certificate; needed beyond this machine.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Private key of the certificate.")
    ] = None,
    identities: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Public keys of all clients.")
    ] = None,
) -> None:
    """Receive files of one plan over HTTPS; Ctrl-C stops it."""
    from catchment_fleet.drop import drop_of, drop_server

    place = drop_of(plan_file, folder, identities)
    server = drop_server(place, (host, port), certificate=certificate, key=key)
    scheme = "http" if certificate is None else "https"
    typer.echo(f"drop: {scheme}://{host}:{server.server_address[1]}/ for files of {plan_file}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        typer.echo("ended; nothing is half written")
    finally:
        server.server_close()

"""`catchment flower`: the same plan on many machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment_fleet import cli_deploy as deploy

flower_app = typer.Typer(help="Run a plan on many machines, with Flower.", no_args_is_help=True)
flower_app.command("keys")(deploy.keys)
flower_app.command("serve")(deploy.serve)
flower_app.command("register")(deploy.register)
flower_app.command("node")(deploy.node)
flower_app.command("fingerprint")(deploy.fingerprint)
flower_app.command("sign")(deploy.sign)
flower_app.command("ledger")(deploy.ledger)


@flower_app.command("init")
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

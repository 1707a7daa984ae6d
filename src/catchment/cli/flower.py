"""`catchment flower`: the same plan on many machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli import flower_deploy as deploy
from catchment.cli.runs import PlanArgument, RunOption
from catchment.cli.show import DataOption

flower_app = typer.Typer(help="Run a plan on many machines, with Flower.", no_args_is_help=True)
flower_app.command("keys")(deploy.keys)
flower_app.command("proxy")(deploy.proxy)
flower_app.command("serve")(deploy.serve)
flower_app.command("register")(deploy.register)
flower_app.command("node")(deploy.node)


@flower_app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; made if not there.")],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN", help="A plan, in TOML; an example if not given."),
    ] = None,
) -> None:
    """Write a ready Flower app that carries out a plan: no Python to write."""
    from catchment.plans.flower.scaffold import write_app

    for path in write_app(folder, plan):
        typer.echo(str(path))


@flower_app.command("simulate")
def simulate(
    plan_file: PlanArgument,
    out: RunOption = None,
    data: DataOption = None,
    cpus_per_client: Annotated[
        float, typer.Option(help="Cores that a client occupies while it answers.")
    ] = 1.0,
) -> None:
    """Run a plan on simulated clients, with Ray; a run that was stopped goes on.

    The model is that of `catchment run`, to the byte.
    """
    from catchment.plans.file import read_plan
    from catchment.plans.flower.simulation import simulate_plan

    folder = out or Path("runs") / plan_file.stem
    path = simulate_plan(read_plan(plan_file), folder, data=data, cpus_per_client=cpus_per_client)
    typer.echo(f"model: {path}")

"""`python -m tools.fleet up`: a real deployment of this machine, for trying and testing."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from catchment.errors import CatchmentError
from catchment.plans import read_plan, run_plan
from tools.fleet import up as fleet

app = typer.Typer(name="tools.fleet", pretty_exceptions_enable=False)


@app.callback()
def _root() -> None:
    """Fleets of real nodes on this machine."""


@app.command("up")
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
    chosen = plan or fleet.write_example(folder, 4 if nodes is None else nodes)
    n_clients = len(fleet.nodes_of(read_plan(chosen)))
    if nodes not in (None, n_clients):
        raise ValueError(f"nodes is {nodes}, the plan has {n_clients} clients; leave it out")
    _stop_when_asked()
    try:
        with fleet.up(folder, chosen, say=typer.echo) as deployment:
            if plan is None and not check:
                typer.echo(f"run the plan from another terminal: {fleet.how_to_run(deployment)}")
                typer.echo("Ctrl-C stops everything")
                signal.pause()
            _run(fleet.run_on(deployment), chosen, folder, check=check)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(130) from None


def _run(model: Path, plan: Path, folder: Path, *, check: bool) -> None:
    """Print what a run's model is, and whether one process makes the same."""
    over_network = fleet.sha256(model)
    typer.echo(f"on real nodes:  {over_network}  {model}")
    if check:
        alone = run_plan(read_plan(plan), folder / "alone", resume=True).run.folder / model.name
        typer.echo(f"in one process: {fleet.sha256(alone)}  {alone}")
        if fleet.sha256(alone) != over_network:
            typer.secho("the model files differ", fg=typer.colors.RED, err=True)
            raise typer.Exit(1)
        typer.echo("both model files have the same SHA-256")


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _stop_when_asked() -> None:
    """Let a polite kill, or a terminal that closes, end the program as Ctrl-C does."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)


def main() -> None:
    """Run the command line and exit; errors of the user become one line."""
    try:
        app(prog_name="python -m tools.fleet")
    except (CatchmentError, ValueError, OSError) as error:
        typer.secho(f"error: {' '.join(str(error).split())}", fg=typer.colors.RED, err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

"""The command line, thin: each command reads its arguments, calls the library, and prints.

Heavy imports live inside the commands, so that `catchment --help` answers at once. A mistake of
the user is one line on stderr and exit code 2; a check that fails is exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

import catchment
from catchment.cli import runs
from catchment.cli.fit import fit
from catchment.cli.models import add_clients, calibrate, evaluate, explain, predict, unlearn, verify
from catchment.errors import CatchmentError
from catchment.plugins import installed, known, plugin

ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}

app = typer.Typer(
    name="catchment",
    help="Closed-form federated learning for time series.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("demo")(runs.demo)
app.command("fit")(fit)
app.command("run")(runs.run)
app.command("plan")(runs.plan)
app.command("predict")(predict)
app.command("evaluate")(evaluate)
app.command("calibrate")(calibrate)
app.command("explain")(explain)
app.command("report")(runs.report)
app.command("unlearn")(unlearn)
app.command("add-clients")(add_clients)
app.command("verify")(verify)


def _missing(name: str) -> Callable[[], None]:
    def command() -> None:
        plugin("commands", name, needed_for=f"`catchment {name}` and its like")

    return command


for name in known("commands"):
    if name not in installed("commands"):
        app.command(name, hidden=True, context_settings=ANY_WORDS)(_missing(name))
for name, found in sorted(installed("commands").items()):
    command = found.load()
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; errors of the user become one line.

    Parameters
    ----------
    arguments
        The words after `catchment`; those of the process if not given.

    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    try:
        app(args=arguments, prog_name="catchment")
    except (CatchmentError, ValueError, OSError) as error:
        said = "; ".join([str(error), *getattr(error, "__notes__", ())])
        message = " ".join(said.split())
        typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
        sys.exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"catchment {catchment.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Closed-form federated learning for time series."""

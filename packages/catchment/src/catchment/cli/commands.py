"""The command line, thin: each command reads its arguments, calls the library, and prints.

Heavy imports live inside the commands, so that `catchment --help` answers at once. A mistake of
the user is one line on stderr and exit code 2; a check that fails is exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

import catchment
from catchment.cli import models, runs
from catchment.cli.fit import fit
from catchment.errors import CatchmentError
from catchment.plugins import installed, known, plugin

ANY_WORDS = {"allow_extra_args": True, "ignore_unknown_options": True}

OWN: list[Callable[..., None]] = [
    *(fit, runs.run, runs.plan, runs.demo, runs.report),
    *(runs.kit, runs.contribute, runs.combine, runs.assist, runs.inspect),
    *(models.predict, models.evaluate, models.adapt, models.calibrate, models.ledger),
    *(models.diagnose, models.verify, models.unlearn, models.add_clients),
]
COMMANDS = {one.__name__.replace("_", "-"): one for one in OWN}
GROUPS = {
    "Train": "fit run plan search demo kit contribute combine",
    "Use": "predict evaluate adapt calibrate export",
    "Look": "report ledger inspect diagnose watch verify audit",
    "Operate": "assist drop unlearn add-clients flower data",
}
ELSEWHERE = {*installed("commands"), *known("commands")}.difference(
    *map(str.split, GROUPS.values())
)
GROUPS["From other packages"] = " ".join(sorted(ELSEWHERE))


class Commands(typer.core.TyperGroup):
    """All commands by group, a line each and no boxes around them, so that they fit a screen."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(f"{self.help}\n\nUsage: catchment COMMAND --help, catchment --version\n")
        for group, names in GROUPS.items():
            shown = [self.commands[name] for name in names.split()]
            lines = [
                f"  {one.name:13}{one.get_short_help_str(65)}\n" for one in shown if not one.hidden
            ]
            formatter.write(
                "".join([typer.style(f"\n{group}\n", bold=True), *lines] if lines else [])
            )


app = typer.Typer(
    name="catchment",
    cls=Commands,
    help="Closed-form federated learning for time series.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _missing(name: str) -> Callable[[], None]:
    def command() -> None:
        plugin("commands", name, needed_for=f"`catchment {name}` and its like")

    return command


def _add(name: str) -> None:
    """Add a command of this package or of another one, hidden if that is not installed."""
    command = COMMANDS.get(name)
    if command is None and name in installed("commands"):
        command = installed("commands")[name].load()
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    elif command is not None:
        app.command(name)(command)
    else:
        app.command(name, hidden=True, context_settings=ANY_WORDS)(_missing(name))


for name in " ".join(GROUPS.values()).split():
    _add(name)


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

"""`python -m reproductions`: published experiments again, beside the papers' own figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from catchment.errors import CatchmentError
from reproductions import commands
from reproductions.command import STUDIES, study_command
from reproductions.cost_command import cost
from reproductions.data_commands import compact, data, pack
from reproductions.papers import papers

OWN = """
    adapt anomaly arena streams forecast freeze scales speech sentences keywords lags life pixels
"""

app = typer.Typer(
    name="reproductions",
    help="Published experiments again, beside the papers' own figures.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for study in STUDIES:
    app.command(study)(study_command(study))
for name in OWN.split():
    app.command(name)(getattr(commands, name))
for command in (cost, papers, data, compact, pack):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit; errors of the user become one line."""
    try:
        app(args=arguments, prog_name="python -m reproductions")
    except (CatchmentError, ValueError, OSError) as error:
        typer.secho(f"error: {' '.join(str(error).split())}", fg=typer.colors.RED, err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()

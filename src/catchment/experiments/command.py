"""The commands `reproduce` and `search`, thin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory, instead of the usual ones."),
]


def reproduce(
    study: Annotated[
        str, typer.Argument(help="incfed, fedip, variance or unseen.", metavar="EXPERIMENT")
    ],
    quick: Annotated[bool, typer.Option(help="A small version, in minutes at most.")] = False,
    sets: Annotated[
        str | None,
        typer.Option(help="Data sets, separated by commas; all that are here if left out."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    merge: Annotated[
        bool, typer.Option(help="Keep other sets of an earlier result in the folder.")
    ] = False,
    data: DataOption = None,
) -> None:
    """Run a published experiment again, and print its table beside the paper's figures."""
    from catchment.experiments.people import SYNTHETIC
    from catchment.experiments.reproduce import reproduce as run
    from catchment.experiments.reproduce import write
    from catchment.experiments.tables import markdown

    named = [name.strip() for name in sets.split(",")] if sets else None

    def began(text: str) -> None:
        typer.echo(text, err=True)

    result = run(study, sets=named, quick=quick, directory=data, began=began)
    typer.echo(markdown(result))
    if any(one.name == SYNTHETIC for one in result.sets):
        typer.echo(
            "These people are invented: no public set was found, or synthetic was asked for."
        )
    for path in write(result, out, merge=merge):
        typer.echo(f"wrote {path}", err=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(reproduce)

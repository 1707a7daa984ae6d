"""`python -m reproductions forecast`, thin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import each
from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, report

if TYPE_CHECKING:
    from reproductions.forecast_study import Job


def forecast(
    quick: Annotated[
        bool, typer.Option(help="Two channels, one horizon and synthetic regions.")
    ] = False,
    resume: Annotated[bool, typer.Option(help="Keep the cells that are there.")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of a reservoir.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """A transformer station by the usual protocol, and the weather of 15 regions."""
    from reproductions.forecast_study import run
    from reproductions.forecast_tables import written

    def shown(jobs: Sequence[Job], text: str) -> Iterable[Job]:
        return each(jobs, text)

    if quick:
        typer.echo(NO_MEANING.replace("**", ""), err=True)
    path = run(quick=quick, resume=resume, seeds=seeds, directory=data, out=out, each=shown)
    report(written(path), Options(quick=quick))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""), err=True)

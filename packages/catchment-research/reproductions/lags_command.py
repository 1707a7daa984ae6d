"""`python -m reproductions lags`, thin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import each
from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, report

if TYPE_CHECKING:
    from reproductions.lags_study import Job


def lags(
    quick: Annotated[bool, typer.Option(help="Synthetic series and few clients.")] = False,
    resume: Annotated[bool, typer.Option(help="Keep the cells that are there.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Forecasts from autocovariances, beside the exact Gram matrix, naive ones and noise."""
    from reproductions.lags_study import run
    from reproductions.lags_tables import written

    def shown(jobs: Sequence[Job], text: str) -> Iterable[Job]:
        return each(jobs, text)

    if quick:
        typer.echo(NO_MEANING.replace("**", ""), err=True)
    path = run(quick=quick, resume=resume, directory=data, out=out, each=shown)
    report(written(path), Options(quick=quick))

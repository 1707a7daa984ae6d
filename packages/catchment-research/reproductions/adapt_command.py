"""`python -m reproductions adapt`, thin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, listed, report


def adapt(
    quick: Annotated[bool, typer.Option(help="Synthetic people, seconds.")] = False,
    resume: Annotated[bool, typer.Option(help="Keep the cells that are there.")] = False,
    sets: Annotated[str, typer.Option(help="Of people; all four if left out.")] = "",
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 5,
    rows: Annotated[Path | None, typer.Option(help="Folder that keeps feature rows.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Unlabeled windows of a new person correct the readout: gains, losers, worth in labels."""
    from reproductions.adapt import adapt as run
    from reproductions.adapt import load_adapt, sets_of
    from reproductions.adapt_tables import markdown, write

    path = out / ("adapt-quick.json" if quick else "adapt.json")
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))
    result = run(
        sets_of(quick, listed(sets)),
        seeds=1 if quick else seeds,
        directory=data,
        kept_rows=rows,
        earlier=load_adapt(path) if resume and path.is_file() else None,
        kept=lambda so_far: so_far.save(path),
        began=lambda text: typer.echo(text, err=True),
        quick=quick,
    )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))

"""`python -m reproductions life`, thin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, report


def life(
    quick: Annotated[bool, typer.Option(help="Synthetic engines, seconds.")] = False,
    resume: Annotated[bool, typer.Option(help="Keep the cells that are there.")] = False,
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Cycles left of turbofan engines, an engine a client, with intervals: C-MAPSS FD001."""
    from reproductions.life import life as run
    from reproductions.life import load_life
    from reproductions.life_data import fd001, generated
    from reproductions.life_tables import markdown, write

    path = out / ("life-quick.json" if quick else "life.json")
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))
    result = run(
        generated() if quick else fd001(data),
        seeds=1 if quick else seeds,
        quick=quick,
        earlier=load_life(path) if resume and path.is_file() else None,
        kept=lambda so_far: so_far.save(path),
        began=lambda text: typer.echo(text, err=True),
    )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))

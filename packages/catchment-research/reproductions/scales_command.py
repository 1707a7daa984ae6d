"""The command of `scales`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import listed


def scales(
    sets: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    seeds: Annotated[int, typer.Option(help="Draws of the map.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Which scale serves whoever sets nothing, by training people, and of files of any length."""
    from reproductions.map_sets import PEOPLE
    from reproductions.scales import markdown, save
    from reproductions.scales import scales as run

    cells = run(
        sets=listed(sets) or PEOPLE,
        seeds=seeds,
        directory=data,
        began=lambda text: typer.echo(text, err=True),
    )
    typer.echo(markdown(cells))
    for path in save(cells, out):
        typer.echo(f"wrote {path}", err=True)

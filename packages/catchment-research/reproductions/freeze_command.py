"""`python -m reproductions freeze`, thin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption


def freeze(
    quick: Annotated[
        bool, typer.Option(help="A small version, in minutes; its figures mean nothing.")
    ] = False,
    sets: Annotated[
        str | None, typer.Option(help="Of layers, bits, dropout and echo, by commas; all if none.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", min=1)] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds on digits.", min=1)] = None,
    resume: Annotated[bool, typer.Option(help="Take rows that the folder's result has.")] = False,
    workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Which layers to freeze, few bits, parts of the units, and the echo state network."""
    from reproductions.freeze import freeze as run
    from reproductions.freeze_pictures import write
    from reproductions.freeze_tables import markdown
    from reproductions.freeze_values import PARTS, QUICK, FreezeSettings, load_freeze

    settings = QUICK if quick else FreezeSettings()
    if seeds is not None:
        settings = replace(settings, seeds=tuple(range(seeds)))
    if rounds is not None:
        settings = replace(settings, rounds=rounds)
    path = out / ("freeze-quick.json" if quick else "freeze.json")
    result = run(
        settings,
        parts=[part.strip() for part in sets.split(",")] if sets else PARTS,
        directory=data,
        workers=workers,
        began=lambda text: typer.echo(text, err=True),
        kept=None if quick else lambda so_far: so_far.save(path),
        earlier=load_freeze(path) if resume and path.is_file() else None,
        quick=quick,
    )
    typer.echo(markdown(result))
    for written in write(result, out):
        typer.echo(f"wrote {written}", err=True)

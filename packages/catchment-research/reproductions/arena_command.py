"""The command of `arena`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import listed


def arena(
    sets: Annotated[str | None, typer.Option(help="Names, separated by commas.")] = None,
    seeds: Annotated[int, typer.Option(help="Draws of every map.", min=1)] = 3,
    resume: Annotated[bool, typer.Option(help="Keep the cells that are there.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
    prepared: Annotated[
        Path | None,
        typer.Option(help="Folder of sets as whar-datasets wrote them, instead of ours."),
    ] = None,
) -> None:
    """Activity sets by the protocol of WHAR Arena: ten groups of people, 3 s windows, macro-F1."""
    from reproductions.arena import STEM, load_arena, markdown
    from reproductions.arena import arena as run

    path = out / f"{STEM}.json"
    result = run(
        sets=listed(sets),
        seeds=seeds,
        directory=data,
        prepared=prepared,
        earlier=load_arena(path) if resume and path.is_file() else None,
        kept=lambda so_far: so_far.save(path),
        began=lambda text: typer.echo(text, err=True),
    )
    path.with_suffix(".md").write_text(markdown(result), encoding="utf-8")
    typer.echo(markdown(result))

"""`python -m reproductions pixels`, thin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, listed, report


def pixels(
    quick: Annotated[bool, typer.Option(help="Synthetic images, seconds.")] = False,
    resume: Annotated[bool, typer.Option(help="Keep the cells that are there.")] = False,
    sets: Annotated[str, typer.Option(help="Of images.")] = "mnist_writers,fashion_mnist",
    seeds: Annotated[int, typer.Option(help="How many seeds.", min=1)] = 3,
    device: Annotated[str | None, typer.Option(help="cuda for a GPU.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Images pixel by pixel, in order and permuted, by diagonal reservoirs in closed form."""
    from reproductions.data.load import load_images
    from reproductions.pixels import WIDTHS, load_pixels, synthetic
    from reproductions.pixels import pixels as run
    from reproductions.pixels_tables import markdown, write

    path = out / ("pixels-quick.json" if quick else "pixels.json")
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))
    names = listed(sets) or ()
    result = run(
        [synthetic()] if quick else [load_images(name, directory=data) for name in names],
        seeds=1 if quick else seeds,
        widths=dict.fromkeys(WIDTHS, (40,)) if quick else WIDTHS,
        searched=40 if quick else 2000,
        by_clients=40 if quick else 1000,
        device=device,
        quick=quick,
        earlier=load_pixels(path) if resume and path.is_file() else None,
        kept=lambda so_far: so_far.save(path),
        began=lambda text: typer.echo(text, err=True),
    )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))

"""`python -m reproductions keywords`, thin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, report


def keywords(
    quick: Annotated[bool, typer.Option(help="Two synthetic words, seconds.")] = False,
    resume: Annotated[bool, typer.Option(help="Keep the words that are there.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """A new keyword, brought by one speaker in one upload: spoken digits, a frozen encoder."""
    from reproductions.keywords import keywords as run
    from reproductions.keywords import load_keywords
    from reproductions.keywords_data import spoken, synthetic
    from reproductions.keywords_tables import markdown, write

    def began(text: str) -> None:
        typer.echo(text, err=True)

    path = out / ("keywords-quick.json" if quick else "keywords.json")
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))
    result = run(
        synthetic() if quick else spoken(data, began),
        quick=quick,
        earlier=load_keywords(path) if resume and path.is_file() else None,
        kept=lambda so_far: so_far.save(path),
        began=began,
    )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))

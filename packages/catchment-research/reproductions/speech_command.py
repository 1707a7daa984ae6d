"""`python -m reproductions speech` and `sentences`: frozen networks that others trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, mark_quick


def speech(
    quick: Annotated[bool, typer.Option(help="Five recordings of each digit.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Spoken digits by speakers nobody trained on, with a frozen speech encoder."""
    from reproductions.speech import Cell, markdown
    from reproductions.speech import speech as run

    result = run(quick=quick, directory=data, out=out, began=lambda t: typer.echo(t, err=True))
    cells = result["cells"]
    assert isinstance(cells, list)
    typer.echo(markdown([Cell(**row) for row in cells]))  # type: ignore[arg-type]
    _marked(out / "speech-quick.md", quick=quick)


def sentences(
    quick: Annotated[bool, typer.Option(help="Forty sentences of each client.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=10, help="Sentences of each client and set, at most.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Cuts into clients.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Film reviews by the frozen hidden states of a language model."""
    from reproductions.sentences import LIMIT, markdown
    from reproductions.sentences import sentences as run

    result = run(
        limit=LIMIT if limit is None else limit,
        seeds=range(seeds),
        quick=quick,
        directory=data,
        out=out,
        began=lambda text: typer.echo(text, err=True),
    )
    typer.echo(markdown(result["cells"]))  # type: ignore[arg-type]
    _marked(out / "sentences-quick.md", quick=quick)


def _marked(path: Path, *, quick: bool) -> None:
    if quick:
        mark_quick([path])
        typer.echo(NO_MEANING.replace("**", ""))

"""`python -m reproductions speech`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption


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

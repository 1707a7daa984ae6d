"""How commands print, and the options they share."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data directory, instead of $CATCHMENT_DATA and the cache.",
    ),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="cuda, or cuda:1 for the second GPU; needs torch. What CATCHMENT_DEVICE names, else "
        "the CPU.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


def size(n_bytes: object) -> str:
    """Return a number of bytes as people say it, or nothing.

    >>> size(1_234_567), size(None)
    ('1.2 MB', '')
    """
    if not isinstance(n_bytes, int):
        return ""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.0f} kB"


def print_json(value: object) -> None:
    """Print a value as JSON, which has no NaN and no infinity: null stands for both."""
    typer.echo(json.dumps(finite(value), indent=2, allow_nan=False))


def finite(value: object) -> object:
    """Return a value with None in the place of every number that is not finite.

    >>> finite({"a": [1.0, float("nan")], "b": (float("inf"), "text")})
    {'a': [1.0, None], 'b': [None, 'text']}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    return [finite(one) for one in value] if isinstance(value, list | tuple) else value


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ("size",)
) -> None:
    """Print a table; the columns named in `right` are numbers.

    In a file or a pipe it is as wide as it likes. On a terminal too narrow for it headings, then
    texts, then whole rows take several lines; no cell is ever cut.
    """
    from catchment.cli.layout import Table, lay_out

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    lines, n_headings = lay_out(Table.of(header, rows, right), width)
    for i, line in enumerate(lines):
        typer.secho(line, bold=True if i < n_headings else None)

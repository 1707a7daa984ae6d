"""`python -m reproductions data`, `compact` and `pack`: data sets of the studies."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import print_table, size
from catchment.errors import CatchmentError

if TYPE_CHECKING:
    from reproductions.places import Place

FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="DIR", help="Data directory to read, instead of the usual ones."
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A data set.")]


def data(
    check: Annotated[bool, typer.Option("--check", help="Read every set that is here.")] = False,
    source: FromOption = None,
) -> None:
    """List all data sets of the studies, and in which form they are here."""
    from reproductions.data.catalogue import SOURCES
    from reproductions.places import find

    rows = []
    for name in SOURCES:
        try:
            place = find(name, directory=source)
            remark = "" if place is None else _remark(place, check, source)
        except (CatchmentError, ValueError, OSError) as error:
            place, remark = None, f"failed: {error}"
        form, n_bytes = ("-", None) if place is None else (place.form, place.n_bytes)
        rows.append((name, form, size(n_bytes), remark))
    print_table(("name", "here", "size", ""), rows)
    if any(str(row[-1]).startswith("failed") for row in rows):
        raise typer.Exit(1)


def _remark(place: Place, check: bool, source: Path | None) -> str:
    from reproductions.data.catalogue import COMPACT

    remark = ""
    if place.form == "compact":
        used = all(
            _sha256(place.directory / file) == expected
            for file, expected in COMPACT[place.source.name].files
        )
        remark = "the file used for results/" if used else "not the file used for results/"
    return f"{remark}; {_summary(place.source.name, source)}" if check else remark


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _summary(name: str, source: Path | None) -> str:
    from reproductions.data.load import kind_of, load_images, load_texts
    from reproductions.places import load

    if kind_of(name) == "images":
        images = load_images(name, directory=source)
        return f"{len(images.train):,} + {len(images.test):,} images"
    if kind_of(name) == "texts":
        texts = load_texts(name, directory=source)
        return f"{len(texts.train):,} + {len(texts.test):,} texts"
    return f"{load(name, directory=source).n_sequences:,} sequences"


def compact(
    name: NameArgument,
    source: Annotated[
        Path,
        typer.Option("--from", metavar="DIR", help="Data directory with the publisher's files."),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Data directory for the compact files.")
    ],
) -> None:
    """Make the compact files of a set from its publisher's files."""
    from reproductions.data.make_compact import REMARKS, make_compact

    for path in make_compact(name, source, out):
        typer.echo(f"wrote {path}")
    if name in REMARKS:
        typer.echo(REMARKS[name])


def pack(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Data sets.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Data directory for the packed files.")
    ],
    source: FromOption = None,
) -> None:
    """Pack sets that are here in any form, so that `catchment --data DIR` reads them by name."""
    from catchment_lab.datasets import find, packed_path
    from reproductions.places import packed_directory

    packed_directory(*names, directory=source, out=out)
    for name in names:
        here = find(name, directory=out) is not None
        typer.echo(str(packed_path(out, name)) if here else f"{name} is not on this machine")

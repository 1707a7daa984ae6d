"""`catchment data`: which public data sets are on this machine, and whether they are whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli import DataOption, JsonOption, print_json, print_table, size
from catchment.errors import CatchmentError

if TYPE_CHECKING:
    from catchment_lab.datasets.sources import Place

data_app = typer.Typer(help="List, locate, pack and check public data sets.", no_args_is_help=True)


@data_app.command("list")
def data_list(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the public data sets, and which are on this machine."""
    from catchment_lab.datasets.sources import CATALOGUE

    rows = [_entry(name, data) for name in CATALOGUE]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("name", "clients", "task", "here", "size"),
        [
            (row["name"], row["clients"], row["task"], row["form"] or "-", size(row["bytes"]))
            for row in rows
        ],
    )


@data_app.command("path")
def data_path(
    name: Annotated[
        str | None, typer.Argument(help="A data set; all directories if left out.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print where a data set is, or the directories that are searched, in order."""
    from catchment.data import data_directories
    from catchment_lab.datasets.sources import locate

    if name is None:
        paths = [str(path) for path in data_directories(data)]
    else:
        paths = [str(locate(name, directory=data).directory)]
    if as_json:
        print_json(paths if name is None else paths[0])
    else:
        typer.echo("\n".join(paths))


@data_app.command("pack")
def data_pack(
    name: Annotated[str, typer.Argument(help="A data set.")],
    data: DataOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Data directory; the set's own if not given."),
    ] = None,
) -> None:
    """Pack a data set into one file that loads in a second."""
    from catchment_lab.datasets import load_whole, pack
    from catchment_lab.datasets.sources import locate

    place = locate(name, directory=data)
    typer.echo(str(pack(load_whole(name, directory=data), out or place.directory.parent)))


@data_app.command("check")
def data_check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Data sets; all if left out.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that data sets are there and that they load.

    A set that is missing fails only if it was named.
    """
    from catchment_lab.datasets.sources import CATALOGUE, source

    for name in names or ():
        source(name)
    rows = [_check(name, data) for name in names or CATALOGUE]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ("name", "here", "state", "what"),
            [(row["name"], row["form"] or "-", row["state"], row["what"]) for row in rows],
        )
    failing = {"failed", "missing"} if names else {"failed"}
    if any(row["state"] in failing for row in rows):
        raise typer.Exit(1)


def _entry(name: str, data: Path | None) -> dict[str, object]:
    """Return the row of `data list` for one set."""
    from catchment_lab.datasets.sources import find, source

    entry = source(name)
    try:
        place = find(name, directory=data)
        form = None if place is None else place.form
    except CatchmentError:
        place, form = None, "damaged"
    told = ("name", "clients", "task", "description", "home", "citation", "license")
    where = (None, None) if place is None else (str(place.directory), place.n_bytes)
    known = {one: getattr(entry, one) for one in told}
    return {**known, "form": form, "path": where[0], "bytes": where[1]}


def _check(name: str, data: Path | None) -> dict[str, str | None]:
    """Return the row of `data check` for one set: ok, missing or failed, and what was found."""
    from catchment_lab.datasets.sources import find

    form = None
    try:
        place = find(name, directory=data)
        if place is None:
            return {"name": name, "form": None, "state": "missing", "what": "not on this machine"}
        form = place.form
        return {"name": name, "form": form, "state": "ok", "what": _summary(place, data)}
    except (CatchmentError, ValueError, OSError) as error:
        return {"name": name, "form": form, "state": "failed", "what": str(error)}


def _summary(place: Place, data: Path | None) -> str:
    """Load a set, and say what is in it."""
    from catchment_lab import datasets as loaders

    dataset = loaders.load(place.source.name, directory=data)
    n_clients = len(dataset.clients)
    of = "" if n_clients == 1 else f" of {n_clients} clients"
    return f"{dataset.n_sequences:,} {'recording' if n_clients == 1 else 'recordings'}{of}"

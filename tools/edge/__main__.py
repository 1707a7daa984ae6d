"""`python -m tools.edge run`: a federation of emulated boards, compared with one process."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from catchment.errors import CatchmentError
from tools.edge.federation import Outcome
from tools.edge.needs import missing
from tools.edge.population import Population, trained
from tools.edge.recipes import RECIPES

app = typer.Typer(name="tools.edge", pretty_exceptions_enable=False)


@app.command("needs")
def requirements() -> None:
    """Say what is missing, and how to get it."""
    if missing():
        sys.exit(missing())


@app.command("run")
def run(
    devices: Annotated[int, typer.Option(metavar="N", help="How many boards.")] = 21,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with UCI HAR, packed; synthetic people if none."),
    ] = None,
    recipe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One of the recipes; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON that results are added to.")
    ] = None,
) -> None:
    """Train on emulated boards, a person each, and compare with all recordings in one place."""
    requirements()
    population = Population.of(devices, data)
    for name in recipe or RECIPES:
        if name not in RECIPES:
            sys.exit(f"there is no recipe {name!r}; take some of {', '.join(RECIPES)}")
        found = trained(RECIPES[name], population)
        typer.echo(f"{name}: {in_words(found)}")
        if out is not None:
            _add(out, name, found, population.name)


def _add(out: Path, name: str, found: Outcome, population: str) -> None:
    """Add an outcome to the file, which keeps those of other recipes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    results[name] = {"data": population, **asdict(found)}
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def in_words(found: Outcome) -> str:
    """Return an outcome as a line for people."""
    same = "one SHA-256" if found.is_the_same else f"G to {found.gram_error:.1e}"
    return (
        f"{found.devices} devices, {found.rows} windows, {found.features} features; {same}; "
        f"{found.agree} of {found.tested} predictions the same, {found.device_agree} on the "
        f"devices; {found.accuracy:.2%} right, pooled {found.pooled_accuracy:.2%}; "
        f"RAM {found.ram}, flash {found.flash}, upload {found.upload} bytes; {found.seconds:.0f} s"
    )


if __name__ == "__main__":
    try:
        app()
    except CatchmentError as error:
        sys.exit(str(error))

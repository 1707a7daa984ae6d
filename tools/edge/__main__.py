"""`python -m tools.edge run`: a federation of emulated boards, compared with one process."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from catchment.data import synthetic_wearables
from catchment.data.loaders import load
from catchment.errors import CatchmentError
from tools.edge.federation import Outcome, People, Recipe, federated
from tools.edge.needs import missing
from tools.edge.recipes import RECIPES

app = typer.Typer(name="tools.edge", pretty_exceptions_enable=False)


@app.command("needs")
def needs() -> None:
    """Say what is missing, and how to get it."""
    if missing():
        sys.exit(missing())


@app.command("run")
def run(
    devices: Annotated[int, typer.Option(metavar="N", help="How many boards.")] = 21,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with UCI HAR, packed; invented people if none."),
    ] = None,
    recipe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One of the recipes; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Results as JSON.")] = None,
) -> None:
    """Train on emulated boards, a person each, and compare with all recordings in one place."""
    needs()
    people, unseen = population(devices, data)
    found = {}
    for name in recipe or RECIPES:
        if name not in RECIPES:
            sys.exit(f"there is no recipe {name!r}; take some of {', '.join(RECIPES)}")
        found[name] = _one(RECIPES[name], people, unseen)
        typer.echo(f"{name}: {in_words(found[name])}")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        results = {name: asdict(one) for name, one in found.items()}
        out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def population(devices: int, data: Path | None) -> tuple[People, People]:
    """Return people who train, as many as there are devices, and others."""
    if data is not None:
        har = load("uci_har", directory=data)
        return {name: har.train[name] for name in sorted(har.train)[:devices]}, har.test
    people = synthetic_wearables(devices + max(3, devices // 3), windows_per_user=30)
    names = sorted(people)
    return (
        {name: people[name] for name in names[:devices]},
        {name: people[name] for name in names[devices:]},
    )


def in_words(found: Outcome) -> str:
    """Return an outcome as a line for people."""
    same = "one SHA-256" if found.is_the_same else f"G to {found.gram_error:.1e}"
    return (
        f"{found.devices} devices, {found.rows} windows, {found.features} features; {same}; "
        f"{found.agree} of {found.tested} predictions the same, {found.device_agree} on the "
        f"devices; {found.accuracy:.2%} right, pooled {found.pooled_accuracy:.2%}; "
        f"RAM {found.ram}, flash {found.flash}, upload {found.upload} bytes; {found.seconds:.0f} s"
    )


def _one(recipe: Recipe, people: People, unseen: People) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="edge-") as folder:
        return federated(recipe, people, unseen, Path(folder))


if __name__ == "__main__":
    try:
        app()
    except CatchmentError as error:
        sys.exit(str(error))

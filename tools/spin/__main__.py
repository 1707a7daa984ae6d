"""`python -m tools.spin`: check the models of secure aggregation, and write down what it took."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tools.spin.checks import CHECKS, FOLDER, missing, run

app = typer.Typer(name="tools.spin", pretty_exceptions_enable=False)


@app.command()
def check(
    quick: Annotated[bool, typer.Option(help="The small models only.")] = False,
    record: Annotated[bool, typer.Option(help="Write the table to results.md here.")] = False,
) -> None:
    """Try everything the models can do, and say what was found."""
    if why := missing():
        typer.echo(f"the models were not checked: {why}")
        return
    typer.echo(f"{sum(not (quick and one.long) for one in CHECKS)} models of secure aggregation")
    lines = ["| model | expected | states | seconds | found |", "|---|---|---|---|---|"]
    wrong = []
    for one in CHECKS:
        if quick and one.long:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = run(one, Path(folder))
        outcome = "an attack" if found.failed else "nothing wrong"
        if bool(found.failed) != one.finds:
            wrong.append(one.title)
        line = f"| {one.title} | {one.about} | {found.states} | {found.seconds:.1f} | {outcome} |"
        typer.echo(line)
        lines.append(line)
    if record:
        (FOLDER / "results.md").write_text("\n".join(lines) + "\n")
    if wrong:
        typer.echo(f"not as expected: {', '.join(wrong)}", err=True)
        raise typer.Exit(1)


if __name__ == "__main__":
    app()

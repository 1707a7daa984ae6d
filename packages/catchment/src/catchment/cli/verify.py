"""`catchment verify`: whether a run's folder holds what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.predict import UseOption
from catchment.cli.progress import waiting
from catchment.cli.show import DataOption, JsonOption, print_json


def verify(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...", help="Recordings to verify, in place of those the plan names."
        ),
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", metavar="NAME", help="Whose statistics; all clients'.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="PLAN", help="The plan where its files are; the run's."),
    ] = None,
    data: DataOption = None,
    kept: Annotated[
        bool, typer.Option("--kept", help="Only what the folder holds; read no recordings.")
    ] = False,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Compute a run's hashes again and compare them: a line each, and exit code 1 if any differs.

    Weights, map and preparation, every client's statistics, their sum, the readout, and the
    certificate of what was forgotten. With the recordings at hand their statistics too.
    """
    from catchment.features.base import imported
    from catchment.plans.verify import verify_run

    with waiting("verifying", quiet=as_json):
        found = verify_run(
            folder,
            files=files or (),
            client=client,
            plan=plan,
            data=data,
            kept_only=kept,
            use=[imported(name) for name in use or ()],
        )
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(found.text())
    if not found.agrees:
        raise typer.Exit(1)

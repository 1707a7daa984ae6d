"""`python -m reproductions anomaly`, thin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, report


def anomaly(
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version; its figures mean nothing.")
    ] = False,
    sets: Annotated[str, typer.Option(help="Sets, separated by commas.")] = "skab,nab",
    seeds: Annotated[int | None, typer.Option(help="How many reservoirs.", min=1)] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take what the folder's result has already.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Anomalies on SKAB and NAB by their own scoring: one's own sums against everybody's."""
    from catchment.cli import counting
    from reproductions.anomaly import QUICK, SETS, AnomalySettings
    from reproductions.anomaly import anomaly as run
    from reproductions.anomaly_tables import markdown, write
    from reproductions.anomaly_values import load_anomaly

    named = tuple(name.strip() for name in sets.split(","))
    if unknown := set(named) - set(SETS):
        raise ValueError(f"no set is called {min(unknown)!r}; use {', '.join(SETS)}")
    settings = QUICK if quick else AnomalySettings()
    if seeds is not None:
        settings = replace(settings, seeds=tuple(range(seeds)))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))
    path = out / ("anomaly-quick.json" if quick else "anomaly.json")
    with counting("families", 1 if quick else 20) as done:
        result = run(
            settings,
            directory=data,
            sets=named,
            earlier=load_anomaly(path) if resume and path.is_file() else None,
            kept=lambda so_far: so_far.save(path),
            began=lambda text, k, n: done(f"{text} ({k + 1} of {n})"),
            quick=quick,
        )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))

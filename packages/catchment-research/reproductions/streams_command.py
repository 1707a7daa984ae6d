"""`python -m reproductions streams`, thin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reproductions.command import DataOption
from reproductions.options import NO_MEANING, Options, report

if TYPE_CHECKING:
    from reproductions.streams_network import Labels


def streams(
    quick: Annotated[bool, typer.Option(help="A small version, in minutes at most.")] = False,
    only: Annotated[
        str | None, typer.Option(help="Contenders, separated by commas; all if left out.")
    ] = None,
    tasks: Annotated[str, typer.Option(help="Tasks, separated by commas.")] = "changes,gaps",
    seeds: Annotated[int | None, typer.Option(help="How many seeds.", min=1)] = None,
    device: Annotated[
        str, typer.Option(help="Where the recurrent network trains: cpu or cuda.")
    ] = "cpu",
    export: Annotated[
        Path | None, typer.Option(help="Only write the streams, for reproductions.streams_gru.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="What reproductions.streams_gru wrote elsewhere.")
    ] = None,
    synthetic: Annotated[
        bool, typer.Option(help="Synthetic people instead of MotionSense.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    data: DataOption = None,
) -> None:
    """Labels for every step of a stream: reservoirs, lags, windows and a GRU on unseen people.

    Cells that the folder's result has already are taken as they are.
    """
    from reproductions.streams import GRU, QUICK, StreamSettings, folds, load_streams
    from reproductions.streams import streams as run
    from reproductions.streams_contenders import CONTENDERS
    from reproductions.streams_data import TASKS, People, Task, generated, motionsense, spliced
    from reproductions.streams_tables import markdown, write

    named = [name.strip() for name in tasks.split(",")]
    if unknown := set(named) - set(TASKS):
        raise ValueError(f"no task is called {min(unknown)!r}; use {', '.join(TASKS)}")
    known = (*CONTENDERS, GRU)
    chosen = [name.strip() for name in only.split(",")] if only else None
    if unknown := set(chosen or ()) - set(known):
        raise ValueError(f"no contender is called {min(unknown)!r}; use {', '.join(known)}")
    settings = QUICK if quick else StreamSettings()
    if seeds is not None:
        settings = replace(settings, seeds=tuple(range(seeds)))
    people, n_classes = generated(settings.most_people or 12) if synthetic else motionsense(data)
    some = dict(sorted(people.items())[: settings.most_people])

    def make(task: Task, seed: int) -> People:
        size = {"n_streams": settings.n_streams, "steps": settings.steps}
        return spliced(some, n_classes, task=task, seed=seed, **size)

    if export is not None:
        from reproductions.streams_network import export as write_streams

        draws = [(cast(Task, name), seed) for name in named for seed in settings.seeds]
        write_streams(make, draws, folds, n_classes, export)
        return
    path = out / ("streams-quick.json" if quick else "streams.json")
    result = run(
        make,
        n_classes,
        settings,
        contenders=chosen,
        tasks=[cast(Task, name) for name in named],
        device=device,
        labels=None if labels is None else _labels(labels),
        earlier=load_streams(path) if path.is_file() and not quick else None,
        kept=lambda so_far: write(so_far, out),
        began=lambda text: typer.echo(text, err=True),
        quick=quick,
    )
    typer.echo(markdown(result))
    report(write(result, out), Options(quick=quick))
    if quick:
        typer.echo(NO_MEANING.replace("**", ""))


def _labels(path: Path) -> Labels:
    from reproductions.streams_network import read_labels

    return read_labels(path)

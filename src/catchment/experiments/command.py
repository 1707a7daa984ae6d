"""The commands `reproduce` and `search`, thin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory, instead of the usual ones."),
]


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="incfed, fedip, variance, unseen, fedpt or fedresprompt.", metavar="EXPERIMENT"
        ),
    ],
    quick: Annotated[bool, typer.Option(help="A small version, in minutes at most.")] = False,
    sets: Annotated[
        str | None,
        typer.Option(help="Data sets, separated by commas; all that are here if left out."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Configurations searched, instead of the usual number.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Time steps of all subjects together, at most.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    merge: Annotated[
        bool, typer.Option(help="Keep other sets of an earlier result in the folder.")
    ] = False,
    resume: Annotated[
        bool, typer.Option(help="fedpt: take trainings that the folder's result has already.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="fedresprompt: folder or name of a language model.")
    ] = None,
    workers: Annotated[
        int, typer.Option(help="fedpt and fedresprompt: trainings at once.", min=1)
    ] = 1,
    data: DataOption = None,
) -> None:
    """Run a published experiment again, and print its table beside the paper's figures."""
    if study in ("fedpt", "fedresprompt") and (trials is not None or steps is not None):
        raise ValueError(f"{study} has no trials and no steps; leave these options out")
    if study == "fedresprompt":
        _fedresprompt(
            quick=quick, sets=sets, out=out, merge=merge, model=model, workers=workers, data=data
        )
    elif study == "fedpt":
        _fedpt(
            quick=quick,
            parts=sets,
            out=out,
            merge=merge,
            resume=resume,
            workers=workers,
            data=data,
        )
    else:
        _people(
            study,
            quick=quick,
            sets=sets,
            trials=trials,
            steps=steps,
            out=out,
            merge=merge,
            data=data,
        )


def _people(
    study: str,
    *,
    quick: bool,
    sets: str | None,
    trials: int | None,
    steps: int | None,
    out: Path,
    merge: bool,
    data: Path | None,
) -> None:
    from catchment.experiments.people import SYNTHETIC
    from catchment.experiments.reproduce import reproduce as run
    from catchment.experiments.reproduce import write
    from catchment.experiments.tables import markdown

    named = [name.strip() for name in sets.split(",")] if sets else None

    def began(text: str) -> None:
        typer.echo(text, err=True)

    result = run(
        study,
        sets=named,
        quick=quick,
        trials=trials,
        steps=steps,
        directory=data,
        began=began,
    )
    typer.echo(markdown(result))
    if any(one.name == SYNTHETIC for one in result.sets):
        typer.echo(
            "These people are invented: no public set was found, or synthetic was asked for."
        )
    for path in write(result, out, merge=merge):
        typer.echo(f"wrote {path}", err=True)


def _fedpt(
    *,
    quick: bool,
    parts: str | None,
    out: Path,
    merge: bool,
    resume: bool,
    workers: int,
    data: Path | None,
) -> None:
    from catchment.experiments.fedpt import PARTS, fedpt
    from catchment.experiments.fedpt_tables import load, markdown, path_of, write
    from catchment.experiments.fedpt_values import QUICK, FedptSettings

    if quick:
        import torch

        # Steps this small are quicker on one thread than on several that wait for one another.
        torch.set_num_threads(1)
    path = path_of(out, quick=quick)
    result = fedpt(
        QUICK if quick else FedptSettings(),
        parts=[part.strip() for part in parts.split(",")] if parts else PARTS,
        directory=data,
        workers=workers,
        began=lambda text: typer.echo(text, err=True),
        kept=None if quick else lambda so_far: write(so_far, out, merge=merge),
        earlier=load(path) if resume and path.is_file() else None,
        quick=quick,
    )
    typer.echo(markdown(result))
    if any(row.data == "invented" for row in result.rows):
        typer.echo("Some of these data are invented: the public set was not found.")
    for path in write(result, out, merge=merge):
        typer.echo(f"wrote {path}", err=True)


def _fedresprompt(
    *,
    quick: bool,
    sets: str | None,
    out: Path,
    merge: bool,
    model: str | None,
    workers: int,
    data: Path | None,
) -> None:
    from dataclasses import replace

    from catchment.experiments.fedresprompt import available, fedresprompt
    from catchment.experiments.fedresprompt_tables import markdown, write
    from catchment.experiments.fedresprompt_values import (
        ON_STORIES,
        QUICK,
        STORIES,
        PromptSettings,
        load_prompts,
        stem,
    )

    usual = ON_STORIES if model == STORIES else PromptSettings()
    settings = QUICK if quick else usual
    settings = replace(
        settings, model=model or settings.model, directory=str(data) if data else None
    )
    path = out / f"{stem(settings, quick)}.json"
    result = fedresprompt(
        settings,
        [name.strip() for name in sets.split(",")] if sets else available(data),
        workers=workers,
        quick=quick,
        earlier=load_prompts(path) if merge and path.is_file() else None,
        began=lambda text: typer.echo(text, err=True),
        kept=lambda so_far: so_far.save(path),
    )
    typer.echo(markdown(result))
    for written in write(result, out):
        typer.echo(f"wrote {written}", err=True)


def search(
    plan: Annotated[Path, typer.Argument(help="A plan file with a table called search.")],
    storage: Annotated[
        Path | None,
        typer.Option(help="File that keeps the trials; PLAN.trials if left out."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write all trials to this JSON file.")] = None,
    data: DataOption = None,
) -> None:
    """Search a plan's ranges on its training clients; run it again to go on where it stopped."""
    from catchment.experiments.plan_search import advice, search_plan
    from catchment.experiments.search import Trial
    from catchment.plans.file import read_plan

    kept = storage or plan.with_suffix(".trials")

    def watch(trial: Trial) -> None:
        typer.echo(f"trial {trial.number}: {trial.state}, {trial.score:.4f}", err=True)

    result = search_plan(read_plan(plan), data=data, storage=kept, watch=watch)
    finished = sum(trial.state == "complete" for trial in result.trials)
    typer.echo(
        f"best {result.metric} on validation clients: {result.best.score:.4f} "
        f"({len(result.trials)} trials, {finished} of them to the end; kept in {kept})"
    )
    typer.echo("[reservoir]")
    for name, value in advice(result).items():
        typer.echo(f"{name} = {value}")
    if result.adaptation is not None:
        rule = result.adaptation.rule
        typer.echo(
            f"# plasticity: target_std {rule.target_std:.4g}, learning_rate "
            f"{rule.learning_rate:.4g}, epochs {rule.epochs}, rounds {result.adaptation.rounds}"
        )
    if out is not None:
        result.save(out)

"""The studies, thin: each command reads its options, calls a module and prints its tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

STUDIES = {
    "incfed": "Bacciu et al., IJCNN 2021, Tables III to VI.",
    "fedip": "De Caro et al., ESANN 2022, Tables 1 and 2.",
    "variance": "Does plasticity make results depend less on the draw of the reservoir?",
    "unseen": "UCI HAR, the publisher's nine test subjects.",
    "maps": "Feature maps on unseen people: accuracy against bytes, with strong baselines.",
    "fedpt": "Sidahmed et al., 2021, Tables 1 to 5.",
    "fedresprompt": "Prompts for a frozen language model against LoRA.",
}
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Data directory, instead of the usual ones."),
]


def study_command(study: str) -> Callable[..., None]:
    """Return the command that runs a study and prints its table beside the paper's figures."""

    def command(
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
            bool, typer.Option(help="fedpt and maps: take what the folder's result has already.")
        ] = False,
        model: Annotated[
            str | None, typer.Option(help="fedresprompt: folder or name of a language model.")
        ] = None,
        workers: Annotated[
            int, typer.Option(help="fedpt, fedresprompt and maps: processes.", min=1)
        ] = 1,
        data: DataOption = None,
    ) -> None:
        if study in ("fedpt", "fedresprompt", "maps") and (trials is not None or steps is not None):
            raise ValueError(f"{study} has no trials and no steps; leave these options out")
        if study == "fedresprompt":
            _fedresprompt(
                quick=quick,
                sets=sets,
                out=out,
                merge=merge,
                model=model,
                workers=workers,
                data=data,
            )
        elif study == "maps":
            _maps(quick=quick, sets=sets, out=out, resume=resume, workers=workers, data=data)
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

    command.__doc__ = STUDIES[study]
    return command


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
    from reproductions.people import SYNTHETIC
    from reproductions.reproduce import reproduce as run
    from reproductions.reproduce import write
    from reproductions.tables import markdown

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


def _maps(
    *,
    quick: bool,
    sets: str | None,
    out: Path,
    resume: bool,
    workers: int,
    data: Path | None,
) -> None:
    from reproductions.data import ucr
    from reproductions.map_sets import available
    from reproductions.map_tables import markdown, stem_of, write
    from reproductions.map_values import QUICK, QUICK_SETS, MapsSettings, load_maps
    from reproductions.maps import cells_beside, maps

    here = available(data)
    named = [name.strip() for name in sets.split(",")] if sets else None
    if quick and named is None:
        named = [name for name in QUICK_SETS if name in here] or None
    published = ucr.published(directory=data) if ucr.available(data) else None
    path = out / f"{stem_of(quick=quick)}.json"
    result = maps(
        QUICK if quick else MapsSettings(),
        sets=named,
        directory=data,
        earlier=load_maps(path) if resume and path.is_file() else None,
        beside=[] if quick else cells_beside(out),
        workers=workers,
        began=lambda text: typer.echo(text, err=True),
        kept=None if quick else lambda so_far: so_far.save(path),
        quick=quick,
    )
    typer.echo(markdown(result, published))
    for written in write(result, out, published):
        typer.echo(f"wrote {written}", err=True)


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
    from reproductions.fedpt import PARTS, fedpt
    from reproductions.fedpt_tables import load, markdown, path_of, write
    from reproductions.fedpt_values import QUICK, FedptSettings

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

    from reproductions.fedresprompt import available, fedresprompt
    from reproductions.fedresprompt_tables import markdown, write
    from reproductions.fedresprompt_values import (
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

"""The studies, thin: each command reads its options, calls a module and prints its tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from reproductions.options import NO_MEANING, Options, listed

STUDIES = {
    "incfed": "Bacciu et al., IJCNN 2021, Tables III to VI.",
    "fedip": "De Caro et al., ESANN 2022, Tables 1 and 2.",
    "skew": "One set cut so that clients differ more and more: what plasticity gains, and loses.",
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
        quick: Annotated[
            bool, typer.Option("--quick", help="A small version; its figures mean nothing.")
        ] = False,
        paper: Annotated[
            bool,
            typer.Option("--paper", help="The paper's full settings, on its publisher's files."),
        ] = False,
        stand_in: Annotated[
            bool,
            typer.Option("--stand-in", help="Let --paper run on other forms of its sets."),
        ] = False,
        sets: Annotated[
            str | None,
            typer.Option(help="Data sets, separated by commas; all that are here if left out."),
        ] = None,
        folds: Annotated[
            str | None,
            typer.Option(help="Folds of people, such as 0,1; all if left out."),
        ] = None,
        trials: Annotated[
            int | None, typer.Option(help="Configurations searched, instead of the usual number.")
        ] = None,
        steps: Annotated[
            int | None, typer.Option(help="Time steps of all subjects together, at most.")
        ] = None,
        rounds: Annotated[
            int | None, typer.Option(help="Rounds of every training, instead of the usual number.")
        ] = None,
        seeds: Annotated[
            int | None, typer.Option(help="Draws over which a cell is averaged.")
        ] = None,
        noises: Annotated[
            str | None, typer.Option(help="Noise multipliers, separated by commas.")
        ] = None,
        workers: Annotated[int, typer.Option(help="Processes.", min=1)] = 1,
        resume: Annotated[
            bool, typer.Option("--resume", help="Take what the folder's result has already.")
        ] = False,
        merge: Annotated[
            bool, typer.Option("--merge", help="Keep other sets of the folder's result.")
        ] = False,
        model: Annotated[
            str | None, typer.Option(help="fedresprompt: folder or name of a language model.")
        ] = None,
        data: DataOption = None,
        out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("results"),
    ) -> None:
        options = Options(
            quick=quick,
            paper=paper,
            stand_in=stand_in,
            sets=listed(sets),
            folds=_integers(folds),
            trials=trials,
            steps=steps,
            rounds=rounds,
            seeds=seeds,
            noises=_floats(noises),
            workers=workers,
            resume=resume,
            merge=merge,
            model=model,
            data=data,
            out=out,
        )
        _run(study, options)

    command.__doc__ = STUDIES[study]
    return command


def _run(study: str, options: Options) -> None:
    if options.quick:
        typer.echo(NO_MEANING.replace("**", ""))
    match study:
        case "fedresprompt":
            from reproductions.fedresprompt_command import run_fedresprompt

            run_fedresprompt(options)
        case "maps":
            from reproductions.maps_command import run_maps

            run_maps(options)
        case "fedpt":
            from reproductions.fedpt_command import run_fedpt

            run_fedpt(options)
        case _:
            from reproductions.people_command import run_people

            run_people(study, options)
    if options.quick:
        typer.echo(NO_MEANING.replace("**", ""))


def _integers(text: str | None) -> tuple[int, ...] | None:
    try:
        return None if text is None else tuple(int(entry) for entry in listed(text) or ())
    except ValueError as error:
        raise ValueError(f"{text!r} is no list of integers; pass one such as 0,1") from error


def _floats(text: str | None) -> tuple[float, ...] | None:
    found = []
    for entry in listed(text) or ():
        try:
            found.append(float(entry))
        except ValueError:
            found.append(math.nan)
    if not all(0 <= number < math.inf for number in found):
        raise ValueError(f"{text!r} is no list of numbers from 0 on; pass one such as 0,1")
    return None if text is None else tuple(found)

"""The studies, thin: each command reads its options, calls a module and prints its tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from reproductions.options import NO_MEANING, Options, changed, listed, report
from reproductions.places import refuse_stand_ins

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
# What a study on something else than people takes of the options.
COMMON = ("quick", "sets", "seeds", "workers", "resume", "data", "out")
OPTIONS = {
    "maps": COMMON,
    "fedpt": (*COMMON, "paper", "stand_in", "rounds", "noises", "merge"),
    "fedresprompt": (*COMMON, "rounds", "noises", "merge", "model"),
}
# The paper's own sets, by the parts of `fedpt` that they are for.
OWN = {
    "writers": "femnist",
    "cifar": "cifar10",
    "cifar_many": "cifar10",
    "cifar_long": "cifar10",
    "text": "stackoverflow",
    "private": "femnist",
    "hundred": "femnist",
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
    runs = {"fedresprompt": run_fedresprompt, "maps": run_maps, "fedpt": run_fedpt}
    if study in runs:
        options.refuse_others(study, OPTIONS[study])
        runs[study](options)
    else:
        from reproductions.people_command import run_people

        run_people(study, options)
    if options.quick:
        typer.echo(NO_MEANING.replace("**", ""))


def began(text: str) -> None:
    """Say what a study does now."""
    typer.echo(text, err=True)


def run_maps(options: Options) -> None:
    """Run the comparison of feature maps, print its tables, and write them."""
    from reproductions.data import ucr
    from reproductions.map_sets import available
    from reproductions.map_tables import markdown, stem_of, write
    from reproductions.map_values import QUICK, QUICK_SETS, MapsSettings, load_maps
    from reproductions.maps import cells_beside, maps

    here, named = available(options.data), options.sets
    if options.quick and named is None:
        named = tuple(name for name in QUICK_SETS if name in here) or None
    published = ucr.published(directory=options.data) if ucr.available(options.data) else None
    path = options.out / f"{stem_of(quick=options.quick)}.json"
    result = maps(
        changed(QUICK if options.quick else MapsSettings(), **options.numbers),
        sets=named,
        directory=options.data,
        earlier=load_maps(path) if options.resume and path.is_file() else None,
        beside=[] if options.quick else cells_beside(options.out),
        workers=options.workers,
        began=began,
        kept=None if options.quick else lambda so_far: so_far.save(path),
        quick=options.quick,
    )
    typer.echo(markdown(result, published))
    report(write(result, options.out, published), options)


def run_fedpt(options: Options) -> None:
    """Run the tables of partially trainable networks, print them, and write them.

    With `--resume` a training that is stopped goes on from its last file in `.fedpt`.
    """
    from reproductions.fedpt import PARTS, fedpt
    from reproductions.fedpt_tables import load, markdown, path_of, write
    from reproductions.fedpt_values import PAPER, QUICK, FedptSettings

    settings, folder = QUICK if options.quick else FedptSettings(), options.folder
    if options.quick:
        import torch

        # Steps this small are quicker on one thread than on several that wait for one another.
        torch.set_num_threads(1)
    if options.paper:
        settings = PAPER
        if not options.stand_in:
            own = {OWN[part] for part in options.sets or OWN if part in OWN}
            refuse_stand_ins(sorted(own), options.data)
    path = path_of(folder, quick=options.quick)
    result = fedpt(
        changed(settings, **options.numbers),
        parts=options.sets or (tuple(OWN) if options.paper else PARTS),
        directory=options.data,
        workers=options.workers,
        began=began,
        kept=None if options.quick else lambda so_far: write(so_far, folder, merge=options.merge),
        earlier=load(path) if options.resume and path.is_file() else None,
        keep=folder / ".fedpt" if options.resume else None,
        quick=options.quick,
    )
    typer.echo(markdown(result))
    if any(row.data == "synthetic" for row in result.rows):
        typer.echo("Some of these data are synthetic: the public set was not found.")
    report(write(result, folder, merge=options.merge), options)


def run_fedresprompt(options: Options) -> None:
    """Run the prompts for a frozen language model, print their tables, and write them.

    Cells of the folder's result are kept and not run again with `--merge` as with `--resume`.
    """
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

    usual = ON_STORIES if options.model == STORIES else PromptSettings()
    settings = changed(QUICK if options.quick else usual, **options.numbers)
    directory = str(options.data) if options.data else None
    settings = replace(settings, model=options.model or settings.model, directory=directory)
    path = options.out / f"{stem(settings, options.quick)}.json"
    keep = (options.merge or options.resume) and path.is_file()
    result = fedresprompt(
        settings,
        list(options.sets or available(options.data)),
        workers=options.workers,
        quick=options.quick,
        earlier=load_prompts(path) if keep else None,
        began=began,
        kept=lambda so_far: so_far.save(path),
    )
    typer.echo(markdown(result))
    report(write(result, options.out), options)


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

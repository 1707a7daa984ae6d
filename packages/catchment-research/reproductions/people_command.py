"""The command of a study on people: its parts are kept as they end, and joined."""

from __future__ import annotations

import typer

from reproductions.options import Options, report
from reproductions.parts import STUDIES
from reproductions.people import SYNTHETIC
from reproductions.places import refuse_stand_ins
from reproductions.reproduce import beside, path_of, reproduce, settings_of, write
from reproductions.study import StudyResult, load_result
from reproductions.tables import markdown

PAPER_SETS = ("wesad", "hhar")


def options_of(study: str) -> tuple[str, ...]:
    """Return the names of the options that a study on people has.

    >>> "folds" in options_of("unseen")
    False
    """
    known = STUDIES[study]
    own = {
        "incfed": ("trials", "steps", "seeds"),
        "fedip": ("trials", "steps", "rounds", "seeds"),
        "skew": ("trials", "steps", "rounds", "seeds"),
        "variance": ("steps", "rounds", "seeds"),
        "unseen": ("trials", "steps", "seeds"),
    }[study]
    return (
        "quick",
        *(("paper", "stand_in") if known.published else ()),
        "sets",
        *(("folds",) if known.folded else ()),
        *own,
        "workers",
        "resume",
        "merge",
        "data",
        "out",
    )


def run_people(study: str, options: Options) -> None:
    """Run a study on people, print its tables, and write them."""
    options.refuse_others(study, options_of(study))
    sets = sets_of_paper(options) if options.paper else options.sets
    settings = settings_of(study, quick=options.quick, paper=options.paper, **options.numbers)
    path = path_of(study, options.folder, quick=options.quick)

    def kept(so_far: StudyResult) -> None:
        # Without the picture: a part is kept as soon as it ends, and drawing takes a while.
        (beside(so_far, path) if options.merge else so_far).save(path)

    result = reproduce(
        study,
        sets=sets,
        settings=settings,
        quick=options.quick,
        folds=options.folds,
        workers=options.workers,
        directory=options.data,
        earlier=load_result(path) if options.resume and path.is_file() else None,
        began=lambda text: typer.echo(text, err=True),
        kept=kept,
    )
    typer.echo(markdown(result))
    if any(one.name == SYNTHETIC for one in result.sets):
        typer.echo(
            "These people are synthetic: no public set was found, or synthetic was asked for."
        )
    report(write(result, options.folder, merge=options.merge), options)


def sets_of_paper(options: Options) -> tuple[str, ...] | None:
    """Return the sets that a paper's settings are run on, or say which files are missing."""
    if options.stand_in:
        return options.sets
    refuse_stand_ins(options.sets or PAPER_SETS, options.data)
    return options.sets or PAPER_SETS

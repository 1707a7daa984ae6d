"""The command of `fedresprompt`."""

from __future__ import annotations

from dataclasses import replace

import typer

from reproductions import fedresprompt_values
from reproductions.fedresprompt import available, fedresprompt
from reproductions.fedresprompt_tables import markdown, write
from reproductions.fedresprompt_values import (
    ON_STORIES,
    STORIES,
    PromptSettings,
    load_prompts,
    stem,
)
from reproductions.options import Options, changed, report

OPTIONS = (
    "quick",
    "sets",
    "rounds",
    "seeds",
    "noises",
    "workers",
    "resume",
    "merge",
    "model",
    "data",
    "out",
)


def run_fedresprompt(options: Options) -> None:
    """Run the prompts for a frozen language model, print their tables, and write them.

    Cells of the folder's result are kept and not run again with `--merge` as with `--resume`.
    """
    options.refuse_others("fedresprompt", OPTIONS)
    usual = ON_STORIES if options.model == STORIES else PromptSettings()
    settings = changed(fedresprompt_values.QUICK if options.quick else usual, **options.numbers)
    settings = replace(
        settings,
        model=options.model or settings.model,
        directory=str(options.data) if options.data else None,
    )
    path = options.out / f"{stem(settings, options.quick)}.json"
    keep = (options.merge or options.resume) and path.is_file()
    result = fedresprompt(
        settings,
        list(options.sets or available(options.data)),
        workers=options.workers,
        quick=options.quick,
        earlier=load_prompts(path) if keep else None,
        began=lambda text: typer.echo(text, err=True),
        kept=lambda so_far: so_far.save(path),
    )
    typer.echo(markdown(result))
    report(write(result, options.out), options)

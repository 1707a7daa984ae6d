"""The command of `fedpt`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer

from reproductions.fedpt import PARTS, fedpt
from reproductions.fedpt_tables import load, markdown, path_of, write
from reproductions.options import Options, changed, report
from reproductions.own_files import refuse_stand_ins

# The paper's own sets, by the parts that they are for.
OWN = {
    "writers": "femnist",
    "cifar": "cifar10",
    "cifar_many": "cifar10",
    "cifar_long": "cifar10",
    "text": "stackoverflow",
    "private": "femnist",
    "hundred": "femnist",
}
OPTIONS = (
    "quick",
    "paper",
    "stand_in",
    "sets",
    "rounds",
    "seeds",
    "noises",
    "workers",
    "resume",
    "merge",
    "data",
    "out",
)


def run_fedpt(options: Options) -> None:
    """Run the tables of partially trainable networks, print them, and write them.

    With `--resume` a training that is stopped goes on from its last file in `.fedpt`.
    """
    options.refuse_others("fedpt", OPTIONS)
    if options.quick:
        import torch

        # Steps this small are quicker on one thread than on several that wait for one another.
        torch.set_num_threads(1)
    path = path_of(options.folder, quick=options.quick)
    result = fedpt(
        settings_of(options),
        parts=options.sets or (tuple(OWN) if options.paper else PARTS),
        directory=options.data,
        workers=options.workers,
        began=lambda text: typer.echo(text, err=True),
        kept=None
        if options.quick
        else lambda so_far: write(so_far, options.folder, merge=options.merge),
        earlier=load(path) if options.resume and path.is_file() else None,
        keep=options.folder / ".fedpt" if options.resume else None,
        quick=options.quick,
    )
    typer.echo(markdown(result))
    if any(row.data == "synthetic" for row in result.rows):
        typer.echo("Some of these data are synthetic: the public set was not found.")
    report(write(result, options.folder, merge=options.merge), options)


def settings_of(options: Options) -> Any:
    """Return the settings that a user asks for: usual, quick or the paper's, and their numbers."""
    values = import_module("reproductions.fedpt_values")
    usual = values.FedptSettings()
    if options.paper:
        if not options.stand_in:
            own = {OWN[part] for part in options.sets or OWN if part in OWN}
            refuse_stand_ins(sorted(own), options.data)
        usual = values.PAPER
    elif options.quick:
        usual = values.QUICK
    return changed(usual, **options.numbers)

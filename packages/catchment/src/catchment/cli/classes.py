"""`catchment join`: clients, and with them classes, that come after a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.predict import FilesArgument, UseOption, load_predictor
from catchment.cli.progress import each, waiting
from catchment.cli.show import JsonOption, print_json

if TYPE_CHECKING:
    from catchment.data.recording import Recording
    from catchment.readout.predictor import Predictor

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
NewFolder = Annotated[
    Path, typer.Option("--out", "-o", metavar="DIR", help="A new folder; RUN stays as it is.")
]


def join(
    folder: RunArgument,
    files: FilesArgument,
    out: NewFolder,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Add clients to a finished run, also with classes that nobody had; nobody is asked again.

    The model is that of a run with all of them from the start, prepared as the run's was.
    """
    from catchment.features.own import imported
    from catchment.new_classes import join as joined

    before = load_predictor(folder, use)
    clients = _recordings(before, files)
    with waiting("joining", quiet=as_json):
        model = joined(folder, clients, out=out, use=[imported(name) for name in use or ()])
    classes = list(model.classes or ())
    new = [name for name in classes if name not in (before.classes or ())]
    if as_json:
        told = {"folder": str(out), "classes": classes}
        print_json({**told, "joined": sorted(clients), "new_classes": new})
        return
    typer.echo(f"wrote {out}: {len(classes)} classes, {', '.join(classes)}")
    typer.echo(f"joined: {', '.join(sorted(clients))}; nobody else was asked")
    typer.echo(f"new classes: {', '.join(new) or 'none'}")


def _recordings(model: Predictor, files: list[str]) -> dict[str, list[Recording]]:
    from catchment.data.files import find_files
    from catchment.readout.answers import read_for

    if model.classes is None:
        raise ValueError("the run learned numbers; only classes can come and go")
    found: dict[str, list[Recording]] = {}
    for path in each(find_files(files), "reading"):
        for client, held in read_for(model, path, targets=True, new_classes=True).items():
            found.setdefault(client, []).extend(held)
    return found

"""`catchment join`, `retire` and `unknown`: classes that come and go after a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from catchment.new_classes import join as joined

    before = load_predictor(folder, use)
    clients = _recordings(before, files)
    with waiting("joining", quiet=as_json):
        model = joined(folder, clients, out=out, use=_own(use))
    new = [name for name in model.classes or () if name not in (before.classes or ())]
    _told(out, model, as_json, joined=sorted(clients), new_classes=new)
    if not as_json:
        typer.echo(f"joined: {', '.join(sorted(clients))}; nobody else was asked")
        typer.echo(f"new classes: {', '.join(new) or 'none'}")


def retire(
    folder: RunArgument,
    name: Annotated[str, typer.Argument(metavar="CLASS", help="Which class is to go.")],
    out: NewFolder,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILES]...", help="Recordings of those who have the class."),
    ] = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Take a class out of a finished run: the model as if its rows had never been there.

    Without files it works from sums by class (algorithm = "balanced"), and where those who have the
    class have no other. Otherwise pass their files: the sums of its rows are taken off.
    """
    from catchment.new_classes import retire as retired

    before = load_predictor(folder, use)
    clients = _recordings(before, files) if files else None
    with waiting("retiring", quiet=as_json):
        model = retired(folder, name, clients, out=out, use=_own(use))
    _told(out, model, as_json, retired=name)
    if not as_json:
        typer.echo(f"retired: {name}; {folder} itself still holds what was sent of it")


def unknown(
    folder: RunArgument,
    files: FilesArgument,
    rate: Annotated[
        float, typer.Option(help="Share of known recordings that may be taken for unknown.")
    ] = 0.05,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="None of the files' people is in RUN; most runs know."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="RUN/model-open.safetensors."),
    ] = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Make a run's model answer "unknown" where a recording is far from every class.

    The threshold is a quantile of the distances of the recordings in the files, each client's from
    what the others know.
    """
    from catchment.new_classes import tell_unknown

    clients = _recordings(load_predictor(folder, use), files)
    with waiting("comparing", quiet=as_json):
        model = tell_unknown(folder, clients, rate=rate, held_out=held_out, use=_own(use))
    path = model.save(out or folder / "model-open.safetensors")
    if as_json:
        print_json({"model": str(path), "rate": rate, "threshold": model.threshold})
        return
    typer.echo(f"wrote {path}")
    typer.echo(
        f"unknown above a distance of {model.threshold:.4g}, which at most {100 * rate:g} % of "
        "recordings like these exceed"
    )
    typer.echo(f"next: catchment predict {path} FILES")


def _recordings(model: Predictor, files: list[str]) -> dict[str, list[Recording]]:
    from catchment.data.files import find_files
    from catchment.readout.answers import read_for

    if model.classes is None:
        raise ValueError("the run learned numbers; only classes come, go and are unknown")
    found: dict[str, list[Recording]] = {}
    for path in each(find_files(files), "reading"):
        for client, held in read_for(model, path, targets=True, new_classes=True).items():
            found.setdefault(client, []).extend(held)
    return found


def _told(out: Path, model: Predictor, as_json: bool, **said: object) -> None:
    if as_json:
        print_json({"folder": str(out), "classes": list(model.classes or ()), **said})
        return
    typer.echo(f"wrote {out}: {len(model.classes or ())} classes, {', '.join(model.classes or ())}")


def _own(use: list[str] | None) -> list[Callable[..., Any]]:
    from catchment.features.base import imported

    return [imported(name) for name in use or ()]

"""`catchment calibrate`: a saved model learns from raw files how wide its intervals have to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catchment.cli.predict import FilesArgument, ModelArgument, UseOption, load_predictor
from catchment.cli.progress import each, waiting

if TYPE_CHECKING:
    from catchment.data.recording import Recording

CALIBRATED = "calibrated.safetensors"


def calibrate(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help=f"Where to; {CALIBRATED} beside it."),
    ] = None,
    bands: Annotated[
        str, typer.Option(help="Outputs, separated by commas, at which another width begins.")
    ] = "",
    rows: Annotated[
        int | None, typer.Option(help="Rows drawn of each client; all if left out.", min=1)
    ] = None,
    use: UseOption = None,
) -> None:
    """Count a model's errors on files of clients that did not train, for intervals that hold.

    Writes the model with them; `catchment predict` then shows them at any coverage.
    """
    from catchment.calibrating import calibrate as calibrated
    from catchment.data.files import find_files
    from catchment.readout.answers import read_for
    from catchment.readout.model import Model
    from catchment.readout.personal_models import PersonalModels

    model = load_predictor(model_path, use)
    if not isinstance(model, Model | PersonalModels):
        raise ValueError(f"{model_path} has no intervals to calibrate: it predicts no numbers")
    cuts = [float(one) for one in bands.split(",")] if bands else []
    clients: dict[str, list[Recording]] = {}
    for path in each(find_files(files), "reading"):
        for client, recordings in read_for(model, path, targets=True).items():
            clients.setdefault(client, []).extend(recordings)
    with waiting("calibrating"):
        made = calibrated(model, clients, cuts=cuts, rows=rows)
    beside = model_path if model_path.is_dir() else model_path.parent
    path = made.save(out or beside / CALIBRATED)
    said = "" if len(clients) == 1 else "s"
    typer.echo(f"wrote {path}   (errors of {len(clients)} client{said})", err=True)

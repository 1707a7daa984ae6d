"""`catchment predict`, `evaluate` and `calibrate`: what a saved model says of raw files."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from catchment.cli.runs import warn
from catchment.cli.show import (
    DeviceOption,
    JsonOption,
    each,
    flag,
    option,
    print_json,
    print_table,
    waiting,
)

if TYPE_CHECKING:
    from catchment.data.recording import Recording
    from catchment.readout.predictor import Predictor


ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model's file, or the folder of a run.")
]
FilesArgument = Annotated[
    list[str], typer.Argument(metavar="FILES...", help="CSV, Parquet or npz files, or folders.")
]
UseOption = Annotated[
    list[str] | None, option("A feature map or network of your own that it names.", "MODULE:NAME")
]


def predict(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[Path | None, option("Where to; the terminal.", "FILE", "--out", "-o")] = None,
    probabilities: Annotated[bool, flag("--probabilities", "A column for every class.")] = False,
    coverage: Annotated[float, option("Probability that an interval holds the true value.")] = 0.9,
    client: Annotated[
        str | None, option("Whose readout to use; by default the files' own.", "NAME")
    ] = None,
    ahead: Annotated[
        bool, flag("--ahead", "What comes after each recording: a row per horizon.")
    ] = False,
    use: UseOption = None,
    device: DeviceOption = None,
) -> None:
    """Predict from raw files, as CSV: one row per window, recording or step.

    Classes come with their probability, numbers with an interval where the model knows its error.
    """
    from catchment.data.files import find_files
    from catchment.readout.answers import Table

    if out is not None and out.is_dir():
        raise ValueError(f"--out {out} is a folder; name a file, {out / 'predictions.csv'}")
    model = load_predictor(model_path, use)
    table = Table(model, probabilities, coverage, client, device, ahead)
    paths = find_files(files)
    with _written(out) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for k, path in enumerate(each(paths, "predicting")):
            found = list(table.rows(path))  # whole files only: one that does not fit adds no row
            writer.writerows([*([] if k else [table.header()]), *found])


def evaluate(
    model_path: ModelArgument,
    files: FilesArgument,
    as_json: JsonOption = False,
    use: UseOption = None,
    device: DeviceOption = None,
) -> None:
    """Compare a model with the targets in raw files: all together, each client, the worst.

    A model that has something of its own for some clients uses it for theirs.
    """
    from catchment.federation.measure.evaluation import metrics
    from catchment.verbs import evaluate as scored

    model = load_predictor(model_path, use)
    clients = read_clients(model, files)
    with waiting("evaluating"):
        scores = scored(model, clients, device=device)
    assert scores.total is not None
    if not scores.total.errors.n:
        raise ValueError("no row has a target to compare with; fill in the column of targets")
    for name, score in sorted(scores.by_client.items()):
        if not score.errors.n:
            warn(f"{name} is not scored: no row has a target to compare with")
    worst, value = scores.worst()
    named = {"": scores.total} | dict(sorted(scores.by_client.items()))
    if as_json:
        figures = {
            name: {**dict(metrics(score)), "rows": score.errors.n} for name, score in named.items()
        }
        total = figures.pop("")
        print_json({"total": total, "clients": figures, "worst": {"client": worst, "value": value}})
        return
    metric_names = [name for name, _ in metrics(scores.total)]
    differ = len({score.value for score in scores.by_client.values()}) > 1
    rows = [
        (
            name + (" (worst)" if differ and name == worst else "") if name else "all",
            *(f"{figure:.4f}" for _, figure in metrics(score)),
            score.errors.n,
        )
        for name, score in named.items()
    ]
    print_table(("", *metric_names, "rows"), rows, right=(*metric_names, "rows"))


def read_clients(
    model: Predictor, files: list[str], *, new_classes: bool = False
) -> dict[str, list[Recording]]:
    """Return the recordings of files with their targets, by client, as a model reads them."""
    from catchment.data.files import find_files
    from catchment.readout.answers import read_for

    found: dict[str, list[Recording]] = {}
    for path in each(find_files(files), "reading"):
        held = read_for(model, path, targets=True, new_classes=new_classes)
        for client, recordings in held.items():
            found.setdefault(client, []).extend(recordings)
    return found


def load_predictor(path: Path, use: list[str] | None = None) -> Predictor:
    """Return what predicts, of a file or of a run's folder."""
    from catchment.features.base import imported
    from catchment.federation.runs.folder import MODEL
    from catchment.readout.storage import load

    inside = path / MODEL if path.is_dir() else path
    if not inside.is_file():
        raise FileNotFoundError(
            f"there is no model {inside}; pass a model's file or the folder of a finished run"
        )
    sys.path.insert(0, "")  # what --use names may lie in the folder where one is
    return load(inside, use=[imported(name) for name in use or ()])


@contextmanager
def _written(out: Path | None) -> Iterator[TextIO]:
    """Open the terminal, or a file that appears whole or not at all."""
    if out is None:
        yield sys.stdout
        return
    from catchment.files import replace_file

    text = io.StringIO()
    yield text
    replace_file(out, text.getvalue().encode())
    typer.echo(f"wrote {out}", err=True)


CALIBRATED = "calibrated.safetensors"


def calibrate(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[
        Path | None, option(f"Where to; {CALIBRATED} beside it.", "FILE", "--out", "-o")
    ] = None,
    bands: Annotated[
        str, option("Outputs, separated by commas, at which another width begins.")
    ] = "",
    rows: Annotated[
        int | None, option("Rows drawn of each client; all if left out.", min=1)
    ] = None,
    use: UseOption = None,
) -> None:
    """Count a model's errors on files of clients that did not train, for intervals that hold.

    Writes the model with them; `catchment predict` then shows them at any coverage.
    """
    from catchment.readout.model import Model, PersonalModels
    from catchment.verbs import calibrate as calibrated

    model = load_predictor(model_path, use)
    if not isinstance(model, Model | PersonalModels):
        raise ValueError(f"{model_path} has no intervals to calibrate: it predicts no numbers")
    cuts = [float(one) for one in bands.split(",")] if bands else []
    clients = read_clients(model, files)
    with waiting("calibrating"):
        made = calibrated(model, clients, cuts=cuts, rows=rows)
    beside = model_path if model_path.is_dir() else model_path.parent
    path = made.save(out or beside / CALIBRATED)
    said = "" if len(clients) == 1 else "s"
    typer.echo(f"wrote {path}   (errors of {len(clients)} client{said})", err=True)

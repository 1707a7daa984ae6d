"""What is asked of saved models and of runs: a command for each.

Of a model and raw files: `catchment predict`, `evaluate`, `adapt`, `calibrate`. Of a run's folder:
`ledger`, `diagnose`, `verify`, `unlearn`, `add-clients`.
"""

from __future__ import annotations

import csv
import io
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from catchment.cli.runs import warn
from catchment.cli.show import (
    DataOption,
    DeviceOption,
    JsonOption,
    each,
    flag,
    option,
    print_json,
    print_table,
    waiting,
)
from catchment.plugins import plugin

if TYPE_CHECKING:
    from catchment.data.recording import Recording
    from catchment.readout.predictor import Predictor

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model's file, or the folder of a run.")
]
FilesArgument = Annotated[
    list[str], typer.Argument(metavar="FILES...", help="CSV, Parquet or npz files, or folders.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")]
UseOption = Annotated[
    list[str] | None,
    option("A feature map or network of your own that the model uses.", "MODULE:NAME"),
]
ADAPTED = "adapted.safetensors"
CALIBRATED = "calibrated.safetensors"
MOST_MESSAGES = 30
MOST_OF_ONE = 100_000


def predict(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[
        Path | None, option("Output file; the terminal if left out.", "FILE", "--out", "-o")
    ] = None,
    probabilities: Annotated[bool, flag("--probabilities", "One column per class.")] = False,
    coverage: Annotated[float, option("Probability that an interval holds the true value.")] = 0.9,
    client: Annotated[
        str | None, option("Use this client's personal readout; by default the files' own.", "NAME")
    ] = None,
    ahead: Annotated[
        bool, flag("--ahead", "Forecast what follows each recording: one row per horizon.")
    ] = False,
    use: UseOption = None,
    device: DeviceOption = None,
) -> None:
    """Predict from raw files, as CSV.

    One row per window, recording or step: classes with their probability,
    numbers with an interval if the model knows its error.
    """
    from catchment.data.files import find_files
    from catchment.readout.answers import Table

    if out is not None and out.is_dir():
        raise ValueError(f"--out {out} is a folder; name a file, {out / 'predictions.csv'}")
    table = Table(load_predictor(model_path, use), probabilities, coverage, client, device, ahead)
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
    """Score a model on raw files: in total and for each client.

    Clients with a personal readout are scored by theirs.
    """
    from catchment.engine.contenders import naive_scores
    from catchment.federation.measure.evaluation import metrics
    from catchment.verbs import evaluate as scored

    model = load_predictor(model_path, use)
    clients = read_clients(model, files)
    with waiting("evaluating"), warnings.catch_warnings(record=True) as caught:
        scores = scored(model, clients, device=device)
        beside = naive_scores(model, clients)
    for one in caught:
        warn(str(one.message))
    assert scores.total is not None
    for name, score in sorted(scores.by_client.items()):
        if not score.errors.n:
            warn(f"{name} is not scored: no row has a target to compare with")
    worst, value = scores.worst()
    named = {"": scores.total} | dict(sorted(scores.by_client.items()))
    if as_json:
        figures = {
            name: {**dict(metrics(score)), "rows": score.errors.n} for name, score in named.items()
        }
        told: dict[str, object] = {"total": figures.pop(""), "clients": figures}
        told["worst"] = {"client": worst, "value": value}
        naive = {name: dict(metrics(one)) for name, one in beside.items()}
        print_json(told | ({"naive": naive} if naive else {}))
        return
    metric_names = [name for name, _ in metrics(scores.total)]
    differ = len({score.value for score in scores.by_client.values()}) > 1
    rows = [
        (
            name + (" (worst)" if differ and name == worst else "") if name else "all",
            *(f"{figure:.4f}" for _, figure in metrics(score)),
            score.errors.n,
        )
        for name, score in [*named.items(), *beside.items()]
    ]
    print_table(("", *metric_names, "rows"), rows, right=(*metric_names, "rows"))


def adapt(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[
        Path | None, option(f"Output file; {ADAPTED} beside MODEL.", "FILE", "--out", "-o")
    ] = None,
    use: UseOption = None,
) -> None:
    """Adapt a classifier to a new person's files, without labels.

    Nothing is sent. MODEL's plan had adapt = true; what it carries is printed.
    """
    from collections import Counter

    from catchment.readout.adapt import adapted, described, rows_of
    from catchment.readout.model import Model

    model = load_predictor(model_path, use)
    if not isinstance(model, Model):
        raise ValueError(f"{model_path} holds no single readout to adapt; pass a model of classes")
    held = read_clients(model, files, targets=False)
    with waiting("adapting"):
        made, found = adapted(model, rows_of(model, list(chain(*held.values()))))
    beside = model_path if model_path.is_dir() else model_path.parent
    path = made.save(out or beside / ADAPTED)
    names, counts = model.classes or (), Counter(found.label.tolist())
    kept = ", ".join(f"{n} {names[k]}" for k, n in sorted(counts.items()))
    told = f"learned from {kept}; {found.n_renamed} renamed"
    if not kept:
        told = "too few would be renamed to go by; the model stays as it was"
    typer.echo(f"{model_path}: {described(model)}", err=True)
    typer.echo(f"{len(found.before)} rows; {told}", err=True)
    typer.echo(f"wrote {path}", err=True)


def calibrate(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[
        Path | None, option(f"Output file; {CALIBRATED} beside MODEL.", "FILE", "--out", "-o")
    ] = None,
    bands: Annotated[
        str, option("Predicted values, a,b,..., at which another interval width begins.")
    ] = "",
    rows: Annotated[
        int | None, option("Rows drawn of each client; all if left out.", min=1)
    ] = None,
    use: UseOption = None,
) -> None:
    """Calibrate prediction intervals on clients that did not train.

    With the new model, `catchment predict` gives calibrated intervals.
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


def ledger(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    client: Annotated[str | None, option("List every message of one client.", "NAME")] = None,
) -> None:
    """List what left each client, and what can be read from it."""
    from catchment.federation.runs.ledger import in_words
    from catchment.federation.runs.read import messages_of, read_run

    found = read_run(folder)
    limit = MOST_OF_ONE if client else MOST_MESSAGES
    messages = messages_of(folder, client, limit + 1)
    if client and not messages:
        raise ValueError(f"{client!r} sent nothing in {folder}; check the name")
    typer.echo(in_words(found, messages[:limit], more=len(messages) > limit).rstrip())


def diagnose(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    client: Annotated[str, option("The client, who may be new.", "NAME")],
    files: Annotated[
        list[str] | None, option("Recordings of the client; may be repeated.", "FILE")
    ] = None,
    html: Annotated[Path | None, option("Write it as a page, with plots.", "FILE")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Show how well the model serves a client, and what stands out.

    The client is judged by a model that did not train on it.
    """
    lab = plugin("reports", "served", needed_for="reasons why a client is served badly")
    from catchment.features.recipes import imported

    found: Any = lab.how_served(
        folder, client, files=files or [], data=data, use=[imported(name) for name in use or []]
    )
    if html is not None:
        lab.write_served_page(found, html)
    if as_json:
        print_json(found.to_dict())
        return
    typer.echo(lab.served_in_words(found))
    if html is not None:
        typer.echo(f"drawn: {html}")


def verify(
    folder: RunArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILES]...", help="Recordings to verify, in place of those the plan names."
        ),
    ] = None,
    client: Annotated[str | None, option("Whose statistics; all clients'.", "NAME")] = None,
    plan: Annotated[Path | None, option("The plan where its files are; the run's.", "PLAN")] = None,
    data: DataOption = None,
    kept: Annotated[
        bool, flag("--kept", "Only what the folder holds; read no recordings.")
    ] = False,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Recompute a run's hashes and compare them.

    Weights, map, preprocessing, every client's statistics, their sum, the
    readout and the certificate of an unlearning; with the recordings at hand,
    their statistics, too. Exit code 1 if any differs.
    """
    from catchment.features.recipes import imported
    from catchment.plans.verify import verify_run

    with waiting("verifying", quiet=as_json):
        found = verify_run(
            folder,
            files=files or (),
            client=client,
            plan=plan,
            data=data,
            kept_only=kept,
            use=[imported(name) for name in use or ()],
        )
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(found.text())
    if not found.agrees:
        raise typer.Exit(1)


def unlearn(
    folder: RunArgument,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The client to remove.")],
    out: Annotated[Path | None, option("Output folder; the run's own if left out.", "DIR")] = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Remove a client from a finished run, with a certificate.

    The model is that of a run without the client, and nobody is contacted.
    The run's folder itself still holds what the client sent.
    """
    from catchment.federation.runs.verify import CERTIFICATE, file_name, unlearn_from_run
    from catchment.wire.messages import replace_file

    with waiting("forgetting", quiet=as_json):
        found = unlearn_from_run(folder, client, load_predictor(folder, use))
    place = out or folder
    place.mkdir(parents=True, exist_ok=True)
    model = found.model.save(place / f"model-without-{file_name(client)}.safetensors")
    path, certificate = place / CERTIFICATE, found.certificate
    replace_file(path, (certificate.to_json() + "\n").encode())
    if as_json:
        print_json({"model": str(model), "certificate": str(path), "remains": certificate.remains})
        return
    typer.echo(f"wrote {model} and {path.name}")
    typer.echo(f"{certificate.n_rows} rows of {client} are out of the sum")
    typer.echo(f"before   {certificate.before}")
    if certificate.how == "equality":
        typer.echo(f"removed  {certificate.removed}")
    typer.echo(f"after    {certificate.after}")
    alike = " that scales and adapts as this one did" if certificate.remains else ""
    if certificate.how == "equality":
        typer.echo("after = before - removed, in integers, to the last bit:")
        typer.echo(f"the sum of a run without {client}{alike}")
        typer.echo(f"anyone can check it: {shlex.join(['catchment', 'verify', str(folder)])}")
    if certificate.how == "summed-anew":
        typer.echo(f"a run without {client}{alike} has the second of these sums, to the bit")
    if certificate.remains:
        typer.echo(f"still fitted with {client}: {certificate.remains}")
    typer.echo(f"{folder} itself still holds what {client} sent; delete it when it is not needed")


def add_clients(
    folder: RunArgument,
    files: FilesArgument,
    out: Annotated[Path, option("A new folder; RUN stays as it is.", "DIR", "--out", "-o")],
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Add clients and new classes to a finished run.

    The existing clients are not contacted. The model is that of a run with
    all clients from the start, and with the run's preprocessing.
    """
    from catchment.features.recipes import imported
    from catchment.new_classes import add_clients as added

    before = load_predictor(folder, use)
    if before.classes is None:
        raise ValueError("the run learned numbers; only classes can come and go")
    clients = read_clients(before, files, new_classes=True)
    with waiting("joining", quiet=as_json):
        model = added(folder, clients, out=out, use=[imported(name) for name in use or ()])
    classes = list(model.classes or ())
    new = [name for name in classes if name not in (before.classes or ())]
    if as_json:
        grown = {"folder": str(out), "classes": classes}
        print_json({**grown, "joined": sorted(clients), "new_classes": new})
        return
    typer.echo(f"wrote {out}: {len(classes)} classes, {', '.join(classes)}")
    typer.echo(f"joined: {', '.join(sorted(clients))}; nobody else was asked")
    typer.echo(f"new classes: {', '.join(new) or 'none'}")


def read_clients(
    model: Predictor, files: list[str], *, targets: bool = True, new_classes: bool = False
) -> dict[str, list[Recording]]:
    """Return the recordings of files by client, with their targets, as a model reads them."""
    from catchment.data.files import find_files
    from catchment.readout.answers import read_for

    found: dict[str, list[Recording]] = {}
    for path in each(find_files(files), "reading"):
        held = read_for(model, path, targets=targets, new_classes=new_classes)
        for client, recordings in held.items():
            found.setdefault(client, []).extend(recordings)
    return found


def load_predictor(path: Path, use: list[str] | None = None) -> Predictor:
    """Return what predicts, of a file or of a run's folder."""
    from catchment.features.recipes import imported
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
    from catchment.wire.messages import replace_file

    text = io.StringIO()
    yield sys.stdout if out is None else text
    if out is not None:
        replace_file(out, text.getvalue().encode())
        typer.echo(f"wrote {out}", err=True)

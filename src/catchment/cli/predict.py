"""`catchment predict` and `catchment evaluate`: what a saved model says of raw files."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from catchment.cli.show import JsonOption, print_json, print_table

if TYPE_CHECKING:
    from catchment.federation.measure.evaluation import Scores
    from catchment.readout.model import Model

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model's file, or the folder of a run.")
]
FilesArgument = Annotated[
    list[str], typer.Argument(metavar="FILES...", help="CSV, Parquet or npz files, or folders.")
]
UseOption = Annotated[
    list[str] | None,
    typer.Option("--use", metavar="MODULE:CLASS", help="A feature map of your own to load."),
]


def predict(
    model_path: ModelArgument,
    files: FilesArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to; the terminal.")
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column for every class.")
    ] = False,
    coverage: Annotated[
        float, typer.Option(help="Probability that an interval holds the true value.")
    ] = 0.9,
    use: UseOption = None,
) -> None:
    """Predict from raw files, as CSV: one row per window, recording or step.

    Classes come with their probability, numbers with an interval where the model knows its error.
    """
    from catchment.data.files import find_files

    model = load_model(model_path, use)
    table = _table(model, [str(p) for p in find_files(files)], probabilities, coverage)
    with _written(out) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows(table)


def _table(
    model: Model, files: list[str], probabilities: bool, coverage: float
) -> Iterator[list[object]]:
    """Yield the header, then the rows."""
    from catchment.readout.answers import answers, output_names, read_for, rounded

    names, several = output_names(model), "client" in model.columns
    who = ["file", *(["client"] if several else []), "recording", "start"]
    if model.classes:
        extra = [f"p_{name}" for name in names] if probabilities else []
        yield [*who, "prediction", "probability", *extra]
    else:
        ends = ("low", "high") if model.deviation is not None else ()
        yield [*who, *(f"{n}_{end}" if end else n for n in names for end in ("", *ends))]
    for file in files:
        for client, recordings in read_for(model, file).items():
            for answer in answers(model, recordings):
                place = [answer.recording, rounded(answer.start)]
                row: list[object] = [file, *([client] if several else []), *place]
                if model.classes:
                    p = model.probabilities(answer.outputs[None])[0]
                    best = int(answer.outputs.argmax())
                    row += [model.classes[best], round(float(p[best]), 4)]
                    row += [round(float(one), 4) for one in p] if probabilities else []
                elif model.deviation is not None:
                    low, high = model.interval(answer.outputs, coverage)
                    triples = zip(answer.outputs, low, high, strict=True)
                    row += [rounded(float(value)) for triple in triples for value in triple]
                else:
                    row += [rounded(float(value)) for value in answer.outputs]
                yield row


def evaluate(
    model_path: ModelArgument,
    files: FilesArgument,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Compare a model with the targets in raw files: all together, each client, the worst."""
    from catchment.data.files import find_files
    from catchment.plans.results import metrics
    from catchment.readout.answers import read_for
    from catchment.verbs import evaluate as scored

    model = load_model(model_path, use)
    clients: dict[str, list[object]] = {}
    for path in find_files(files):
        for client, recordings in read_for(model, path, targets=True).items():
            clients.setdefault(client, []).extend(recordings)
    scores = scored(model, clients)
    assert scores.total is not None
    worst, value = scores.worst()
    named = {"": scores.total} | dict(sorted(scores.by_client.items()))
    figures = {name: dict(metrics(score)) for name, score in named.items()}
    if as_json:
        total = figures.pop("")
        print_json({"total": total, "clients": figures, "worst": {"client": worst, "value": value}})
        return
    _print(scores, figures, worst)


def _print(scores: Scores, figures: dict[str, dict[str, float]], worst: str) -> None:
    total = figures[""]
    rows = []
    for name, values in figures.items():
        score = scores.total if name == "" else scores.by_client[name]
        assert score is not None
        label = "all" if name == "" else f"{name} (worst)" if name == worst else name
        rows.append((label, *(f"{value:.4f}" for value in values.values()), score.errors.n))
    print_table(("", *total, "rows"), rows, right=(*total, "rows"))


def load_model(path: Path, use: list[str] | None = None) -> Model:
    """Return the model of a file or of a run's folder."""
    from catchment.features.own import imported
    from catchment.federation.runs.write import MODEL
    from catchment.readout.storage import load

    inside = path / MODEL if path.is_dir() else path
    if not inside.is_file():
        raise FileNotFoundError(
            f"there is no model {inside}; pass a model's file or the folder of a finished run"
        )
    return load(inside, use=[imported(name) for name in use or ()])


@contextmanager
def _written(out: Path | None) -> Iterator[TextIO]:
    """Open the terminal, or a file that appears whole or not at all."""
    if out is None:
        yield sys.stdout
        return
    import io

    from catchment.files import replace_file

    text = io.StringIO()
    yield text
    replace_file(out, text.getvalue().encode())
    typer.echo(f"wrote {out}", err=True)

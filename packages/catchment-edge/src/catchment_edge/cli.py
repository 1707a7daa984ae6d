"""`catchment export`: a model, or the training of a plan, outside Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from catchment.cli import JsonOption, UseOption, load_predictor, print_json

if TYPE_CHECKING:
    from catchment.data import Recording
    from catchment.readout import Predictor
    from catchment_edge.c.map_code import Number
    from catchment_edge.c.plan import DevicePlan
    from catchment_edge.onnx.export import OnnxFile, Precision
    from catchment_edge.training.write import TrainingDevice

TARGETS = ("onnx", "c")


def export(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A model's file, or the folder of a run; with --train a plan's file.",
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="onnx|c", help="What to write.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PATH", help="A file (onnx) or a folder (c)."),
    ] = None,
    number: Annotated[
        str | None,
        typer.Option(
            "--number",
            metavar="whole|q15|float32",
            help="C: how numbers are held; whole in fixed point.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="C: what its files and functions are called.")
    ] = "model",
    rate: Annotated[
        float | None,
        typer.Option("--rate", metavar="HZ", help="Samples a second, for windows in seconds."),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Length of recordings, for maps that need all of it."),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            "--check", metavar="FILE", help="C: files to compare a rounded model on; repeatable."
        ),
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", metavar="float64|float32", help="ONNX: its numbers.")
    ] = "float64",
    streaming: Annotated[
        bool, typer.Option("--streaming", help="ONNX: one step, with the state in and out.")
    ] = False,
    train: Annotated[
        bool, typer.Option("--train", help="C: a device that trains by a plan.")
    ] = False,
    rows: Annotated[
        int | None, typer.Option("--rows", help="With --train: most rows that a device adds up.")
    ] = None,
    port: Annotated[
        str | None, typer.Option("--port", metavar="NAME", help="With --train: host or mps2_an386.")
    ] = None,
    masks: Annotated[
        int,
        typer.Option(
            "--masks", metavar="N", help="With --train: mask on the device, beside N others."
        ),
    ] = 0,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="NAME", help="Whose readout, of models by client."),
    ] = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Export a model to ONNX or C, or a plan to a device that trains.

    C comes with a plan of its RAM, its flash and its operations, printed before it is written.
    """
    folder = Path() if out is None else out
    if to not in TARGETS:
        raise ValueError(f"--to is {to!r}; choose one of {', '.join(TARGETS)}")
    if train:
        if to == "onnx":
            raise ValueError("--train is for --to c; an ONNX file only predicts")
        if number not in (None, "whole"):
            raise ValueError(f"--number is {number!r}; a device that trains adds up integers")
        from catchment_edge.ports import port_files
        from catchment_edge.training.layout import ROWS
        from catchment_edge.training.write import device_of

        if port is not None:
            port_files(port)  # one that is not there is refused before anything is printed
        most = ROWS if rows is None else rows
        made = device_of(model, rows=most, steps=steps, name=name, masks=masks)
        _show(made, as_json)
        paths = made.write(folder, port=port)
    elif to == "onnx":
        from catchment_edge.onnx import to_onnx

        file = to_onnx(
            _loaded(model, use, client),
            out or Path("model.onnx"),
            precision=cast("Precision", precision),
            streaming=streaming,
            steps=steps,
            rate=rate,
        )
        _show(file, as_json)
        paths = [file.path]
    else:
        from catchment_edge.c.code import c_code

        predictor, form = _loaded(model, use, client), cast("Number | None", number)
        checks = _recordings(predictor, check)
        code = c_code(predictor, name=name, number=form, rate=rate, steps=steps, check=checks)
        _show(code.plan, as_json)
        paths = code.write(folder)
    for path in paths:
        typer.echo(f"wrote {path}", err=True)


def _show(made: DevicePlan | OnnxFile | TrainingDevice, as_json: bool) -> None:
    if as_json:
        print_json(made.facts())
    else:
        typer.echo(made.text())


def _loaded(path: Path, use: list[str] | None, client: str | None) -> Predictor:
    """Return what a file predicts with; of models by client that of one."""
    from catchment.readout import PersonalModels

    found = load_predictor(path, use)
    if client is None:
        return found
    if not isinstance(found, PersonalModels):
        raise ValueError(f"--client is {client!r}, and {path} has one model for all; leave it out")
    if client not in found.clients:
        raise ValueError(
            f"{path} has no model of {client!r}; there are {', '.join(found.clients[:8])}"
        )
    return found.of(client)


def _recordings(model: Predictor, names: list[str] | None) -> list[Recording] | None:
    from catchment.data import find_files
    from catchment.readout import read_for

    if names is None:
        return None
    return [
        recording
        for path in find_files(names)
        for recordings in read_for(model, path).values()
        for recording in recordings
    ]

"""`catchment export`: a model, or the training of a plan, outside Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catchment.cli import JsonOption, UseOption, load_predictor, print_json

if TYPE_CHECKING:
    from catchment.readout import Predictor
    from catchment_edge.c.code import DevicePlan
    from catchment_edge.onnx.export import OnnxFile
    from catchment_edge.training.write import LagsDevice, TrainingDevice

TARGETS = ("onnx", "c", "arduino", "zephyr", "esp-idf", "platformio", "micropython")

ModelArgument = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="A model's file, or the folder of a run; with --train a plan's file."
    ),
]
ToOption = Annotated[
    str, typer.Option("--to", metavar="FORM", help=f"What to write: {', '.join(TARGETS)}.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="PATH", help="A file (onnx) or a folder (all others)."),
]
NameOption = Annotated[str, typer.Option(help="C: what its files and functions are called.")]
RateOption = Annotated[
    float | None, typer.Option(metavar="HZ", help="Samples a second, for windows in seconds.")
]
StepsOption = Annotated[
    int | None, typer.Option(help="Length of recordings, for maps that need all of it.")
]
PrecisionOption = Annotated[str, typer.Option(metavar="float64|float32", help="ONNX: its numbers.")]
TrainOption = Annotated[
    bool,
    typer.Option("--train", help="A device that trains by a plan: C, or a board's tree of lags."),
]
RowsOption = Annotated[
    int | None, typer.Option(help="With --train: most rows that a device adds up.")
]
PortOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="With --train: host or mps2_an386.")
]
MasksOption = Annotated[
    int, typer.Option(metavar="N", help="With --train: mask on the device, beside N others.")
]
ClientOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Whose readout, of models by client.")
]


def export(
    model: ModelArgument,
    to: ToOption,
    out: OutOption = None,
    name: NameOption = "model",
    rate: RateOption = None,
    steps: StepsOption = None,
    precision: PrecisionOption = "float64",
    train: TrainOption = False,
    rows: RowsOption = None,
    port: PortOption = None,
    masks: MasksOption = 0,
    client: ClientOption = None,
    as_json: JsonOption = False,
    use: UseOption = None,
) -> None:
    """Export a model, or a client that trains, to ONNX, C or a board.

    C comes with a plan of its RAM, flash and operations, printed beforehand.
    """
    if to not in TARGETS:
        raise ValueError(f"--to is {to!r}; choose one of {', '.join(TARGETS)}")
    if train and to == "onnx":
        raise ValueError("--train is for --to c; an ONNX file only predicts")
    told: dict[str, Any] = {"rate": rate, "steps": steps}
    if train and to != "c":
        if name != "model" or port or rows or masks:
            raise ValueError("--name, --rows, --port and --masks are for --train --to c; drop them")
        paths = _write(_lags(model, to), out or Path("lags"))
    elif train:
        device = _device(model, port, rows=rows, steps=steps, name=name, masks=masks)
        _show(device, as_json)
        paths = device.write(out or Path(), port=port)
    elif to == "onnx":
        from catchment_edge.onnx import to_onnx

        told["precision"] = precision
        file = to_onnx(_loaded(model, use, client), out or Path("model.onnx"), **told)
        _show(file, as_json)
        paths = [file.path]
    else:
        from catchment_edge.c.code import c_code

        code = c_code(_loaded(model, use, client), name=name, **told)
        _show(code.plan, as_json)
        if to == "c":
            paths = code.write(out or Path())
        else:
            paths = _write(code.firmware(to), out or Path(name))
    for path in paths:
        typer.echo(f"wrote {path}", err=True)


def _write(files: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files of a tree into a folder, which must be empty or not there yet."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already; name an empty folder with --out")
    from catchment.wire import replace_file

    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / path, text.encode())
    return [folder]


def _lags(path: Path, board: str) -> Mapping[str, str]:
    """Return a board's tree of a client of a plan of autocovariances."""
    from catchment.features import NVAR
    from catchment.plans import read_plan
    from catchment_edge.training.write import lags_c_code

    plan = read_plan(path)
    lags, horizons = plan.maps[0], plan.preprocessing.horizons
    if plan.algorithm != "yule_walker" or not isinstance(lags, NVAR):
        raise ValueError(
            f"{path} learns by {plan.algorithm!r}; a board's tree that trains is one of lags, "
            'algorithm = "yule_walker": export --train --to c for any other plan'
        )
    return lags_c_code(lags.delays, max(horizons), board=board)


def _device(
    plan: Path, port: str | None, *, rows: int | None, steps: int | None, name: str, masks: int
) -> TrainingDevice | LagsDevice:
    """Return a plan's client as C; a port that is not there is refused before it is shown."""
    from catchment_edge.ports import port_files
    from catchment_edge.training.layout import ROWS
    from catchment_edge.training.write import device_of, lags_device

    if port is not None:
        port_files(port)
    if lags := lags_device(plan, name=name):
        return lags
    most = ROWS if rows is None else rows
    return device_of(plan, rows=most, steps=steps, name=name, masks=masks)


def _show(made: DevicePlan | OnnxFile | TrainingDevice | LagsDevice, as_json: bool) -> None:
    if as_json:
        print_json(made.facts())
    else:
        typer.echo(made.text())


def _loaded(path: Path, use: list[str] | None, client: str | None) -> Predictor:
    """Return what a file predicts with; of models by client that of one."""
    from catchment.errors import nearest
    from catchment.readout import PersonalModels

    found = load_predictor(path, use)
    if client is None:
        return found
    if not isinstance(found, PersonalModels):
        raise ValueError(f"--client is {client!r}, and {path} has one model for all; leave it out")
    if client not in found.clients:
        raise ValueError(f"{path} has no model of {client!r}; {nearest(client, found.clients)}")
    return found.of(client)

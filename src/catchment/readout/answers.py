"""What a model says of files: one row per window, recording or step, ready for a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catchment.arrays import Array
from catchment.data.prepare import Prepared
from catchment.data.recording import Recording
from catchment.readout.model import Model


@dataclass(frozen=True, eq=False)
class Answer:
    """The outputs (K,) for one row of features: a step, a window or a whole recording.

    `start` is the time of its first step where times are known, else the step's number.
    """

    recording: int
    start: float
    outputs: Array


def answers(model: Model, recordings: Sequence[Recording]) -> Iterator[Answer]:
    """Yield what a model says of one client's raw recordings, in their order.

    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labelled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> model = fit(EchoState(30), data)
    >>> [model.classes[a.outputs.argmax()] for a in answers(model, [Recording(waves[1])])]
    ['slow']
    """
    for piece, outputs in model.pieces(recordings):
        for k, row in enumerate(outputs):
            yield Answer(piece.source, _start(piece, k, model), row)


def output_names(model: Model) -> tuple[str, ...]:
    """Return what the columns of outputs are called.

    >>> from catchment import EchoState, Prepare, Pipeline, Recording, fit
    >>> series = Recording(np.sin(np.arange(99.0)), channels=("load",))
    >>> output_names(fit(Pipeline(Prepare(horizon=1), EchoState(10)), [series]))
    ('load',)
    """
    if model.classes is not None:
        return model.classes
    named = tuple(name for name in model.columns.get("target", "").split("\n") if name)
    ahead = model.channels if model.prepare.horizon is not None else None
    for names in (named, ahead):
        if names and len(names) == model.n_outputs:
            return names
    return tuple(f"output_{k}" for k in range(model.n_outputs))


def read_for(
    model: Model, path: str | Path, *, targets: bool = False
) -> dict[str, list[Recording]]:
    """Return the recordings of a file by client, with the columns that the model was trained on.

    Without a column of clients the file is one client, called by its name.

    Parameters
    ----------
    targets
        Whether to read targets too, to compare with.
    """
    from catchment.data.frames import from_frame
    from catchment.data.tables import read_columns

    path = Path(path)
    frame = read_columns(path)
    if model.channels is None:
        raise ValueError("the model does not know the names of its channels; train it from files")
    missing = [name for name in model.channels if name not in frame]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing))}; the model was trained on "
            f"{', '.join(model.channels)}, the file has {', '.join(frame)}"
        )
    named = {name: column for name, column in model.columns.items() if column in frame}
    target = [name for name in model.columns.get("target", "").split("\n") if name]
    if targets and model.prepare.horizon is None and not set(target) <= set(frame):
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, target)) or 'of targets'} to compare with; "
            "evaluation needs files that have it"
        )
    wanted = targets and bool(target)
    client = named.get("client")
    found = from_frame(
        frame,
        inputs=model.channels,
        target=target if wanted else None,
        client=client,
        recording=named.get("recording"),
        time=named.get("time"),
        classes=model.classes if wanted else None,
        per_step=_per_step(model) if wanted else None,
    )
    return found if client else {path.stem: [one for held in found.values() for one in held]}


def _per_step(model: Model) -> bool:
    """Whether files have a target for every step: where the map does, or windows take theirs."""
    return model.features.per_step or model.columns.get("per_step") == "yes"


def _start(piece: Prepared, row: int, model: Model) -> float:
    if not model.features.per_step:
        return float(piece.start) if piece.seconds is None else piece.seconds
    step = model.features.washout + row
    times = piece.recording.times
    return float(piece.start + step) if times is None else float(times[step])


def rounded(value: float) -> float:
    """Return a number as a table shows it: six significant digits.

    >>> rounded(0.123456789)
    0.123457
    """
    return float(f"{value:.6g}") if np.isfinite(value) else value

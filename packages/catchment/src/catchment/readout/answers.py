"""What a model says of files: a row per window, recording, step or horizon, ready for a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catchment.arrays import Array, Probability, check_fields
from catchment.data.files import client_of, label_texts
from catchment.data.frames import from_frame, missing_values
from catchment.data.recording import Recording
from catchment.readout.forecasting import check_ahead, forecasts
from catchment.readout.heads import united
from catchment.readout.predictor import Predictor, rounded

Cell = str | int | float


def output_names(model: Predictor) -> tuple[str, ...]:
    """Return what the columns of outputs are called.

    >>> from catchment import EchoState, Preprocessing, Pipeline, Recording, fit
    >>> series = Recording(np.sin(np.arange(99.0)), channels=("load",))
    >>> output_names(fit(Pipeline(Preprocessing(horizon=1), EchoState(10)), [series]))
    ('load',)
    """
    if model.classes is not None:
        return model.classes
    for names in (_targets(model), _ahead(model)):
        if names and len(names) == model.n_outputs:
            return tuple(names)
    return tuple(f"output_{k}" for k in range(model.n_outputs))


@dataclass(frozen=True)
class Table:
    """How predictions are written as rows of a table.

    Parameters
    ----------
    probabilities
        Whether every class has a column of its own.
    coverage
        Probability that an interval holds the true value.
    client
        Whose part of the model to use, for all files; each client's own if not given.
    device
        Where to predict, as `Model.predict` has it.
    ahead
        Whether to write the time after files, one row per recording and horizon.

    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> Table(fit(EchoState(30), data)).header()
    ['file', 'recording', 'start', 'prediction', 'probability']
    """

    model: Predictor
    probabilities: bool = False
    coverage: Probability = 0.9
    client: str | None = None
    device: str | None = None
    ahead: bool = False

    def __post_init__(self) -> None:
        if self.ahead:
            check_ahead(self.model)
        check_fields(self)
        if self.client is not None and self.client not in self.model.clients:
            known = ", ".join(self.model.clients[:8])
            raise ValueError(
                f"the model has nothing of its own for {self.client!r}; "
                + (f"it has for {known}" if known else "it is the same for every client")
            )

    @property
    def names_clients(self) -> bool:
        """Whether a column says whose recording it is: files have one, or models differ."""
        return "client" in self.model.columns or bool(self.model.clients)

    @property
    def knows_intervals(self) -> bool:
        """Whether predicted numbers come with an interval."""
        return self.model.intervals is not None or self.model.deviation is not None

    @property
    def every(self) -> bool:
        """Whether every class has a column of its probability."""
        return self.probabilities and "probability" in self.model.judged_by

    def header(self) -> list[str]:
        """Return the names of the columns."""
        model = self.model
        who = ["file", *(["client"] if self.names_clients else []), "recording"]
        ends = ("", "_low", "_high") if self.knows_intervals else ("",)
        if self.ahead:
            assert model.channels is not None  # `read_for` refuses models without them
            names = [model.channels[k] for k in model.preprocessing.predicted_of(model.channels)]
            return [*who, "ahead", "time", *(name + end for name in names for end in ends)]
        outputs = output_names(model)
        if model.classes is not None:
            extra = [f"p_{name}" for name in outputs] if self.every else []
            return [*who, "start", "prediction", *model.judged_by, *extra]
        return [*who, "start", *(name + end for name in outputs for end in ends)]

    def rows(self, path: str | Path) -> Iterator[list[Cell]]:
        """Yield the rows of one file; what is wrong with a recording is told with its name."""
        for name, recordings in read_for(self.model, path).items():
            client = name if self.client is None else self.client
            who = [str(path), *([name] if self.names_clients else [])]
            rows = self._ahead if self.ahead else self._answers
            try:
                for row in rows(recordings, client):
                    yield [*who, *row]
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error

    def _answers(self, recordings: Sequence[Recording], client: str) -> Iterator[list[Cell]]:
        """Yield recording, start and what is said, of every row."""
        model = self.model
        for segment, outputs in model.segments(recordings, client, device=self.device):
            times = segment.recording.times
            for k, row in enumerate(outputs):
                step = model.washout + k
                start = float(segment.start + step) if times is None else float(times[step])
                if not model.per_step:
                    start = float(segment.start) if segment.seconds is None else segment.seconds
                # Seconds since 1970 have more digits before the point than others need after it.
                at = rounded(start) if abs(start) < 1e6 else round(start, 3)
                yield [segment.source, at, *self._said(row)]

    def _ahead(self, recordings: Sequence[Recording], client: str) -> Iterator[list[Cell]]:
        """Yield recording, horizon, time and what is said, of every horizon."""
        settings: dict[str, Any] = {"coverage": self.coverage, "device": self.device}
        for one in forecasts(self.model, recordings, client, **settings):
            columns = [each for each in (one.values, one.lower, one.upper) if each is not None]
            for k, (horizon, moment) in enumerate(zip(one.horizons, one.moments(), strict=True)):
                cells = np.stack([column[k] for column in columns], axis=1).ravel()
                yield [one.recording, horizon, moment, *map(rounded, cells.tolist())]

    def _said(self, outputs: Array) -> list[Cell]:
        model = self.model
        if model.classes is not None:
            p = model.probabilities(outputs[None])[0] if self.every else ()
            name = model.classes[int(outputs.argmax())]
            return [name, *model.judged(outputs), *(round(float(one), 4) for one in p)]
        columns = [outputs]
        if self.knows_intervals:
            columns.extend(end[0] for end in model.interval(outputs[None], self.coverage))
        return list(map(rounded, np.stack(columns, axis=1).ravel().tolist()))


def read_for(
    model: Predictor, path: str | Path, *, targets: bool = False, new_classes: bool = False
) -> dict[str, list[Recording]]:
    """Return the recordings of a file by client, with the columns that the model was trained on.

    Without a column of clients the file is one client, called by its name.

    Parameters
    ----------
    targets
        Whether to read targets too, to compare with.
    new_classes
        Whether a file may name classes that the model does not have; they come after its own.
    """
    from catchment.data.tables import read_columns

    path = Path(path)
    frame, target, classes = read_columns(path), _targets(model), model.classes
    named = {name: column for name, column in model.columns.items() if column in frame}
    channels = _checked_channels(model, path, frame, targets=targets)
    wanted = targets and bool(target)
    if wanted and classes is not None:
        frame = {**frame, target[0]: label_texts(frame[target[0]])}
        if new_classes:
            said = frame[target[0]]
            classes = united(classes, sorted(set(said[~missing_values(said)])))
        elif model.other_class is not None:
            known = [one is None or one in classes for one in frame[target[0]]]
            frame[target[0]] = np.where(known, frame[target[0]], model.other_class)
    # Files have a target for every step where rows do, or where windows take theirs.
    per_step = model.per_step or model.columns.get("per_step") == "yes"
    how: dict[str, Any] = {name: named.get(name) for name in ("client", "recording", "time")}
    how |= {"target": target, "classes": classes, "per_step": per_step} if wanted else {}
    try:
        found = from_frame(frame, inputs=channels, **how)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if "client" in named:
        return found
    name = client_of(path, model.columns.get("client_by") == "folder")
    return {name: [one for held in found.values() for one in held]}


def _checked_channels(
    model: Predictor, path: Path, frame: Mapping[str, Any], *, targets: bool
) -> tuple[str, ...]:
    """Return the model's channels; ValueError if a file lacks them, or others that it needs."""
    if model.channels is None:
        raise ValueError(
            "the model does not know the names of its channels; train it on recordings that have "
            "them, as those from files do"
        )
    missing, has = [name for name in model.channels if name not in frame], ", ".join(frame)
    if missing:
        columns = ("columns " if missing[1:] else "column ") + ", ".join(map(repr, missing))
        trained = ", ".join(model.channels)
        raise ValueError(
            f"{path} has no {columns}; the model was trained on {trained}, the file has {has}"
        )
    if not len(frame[model.channels[0]]):
        raise ValueError(f"{path} has no rows; leave it out")
    rate, time, target = model.preprocessing.rate, model.columns.get("time"), _targets(model)
    if rate is not None and time is not None and time not in frame:
        raise ValueError(
            f"{path} has no column {time!r} of times, by which recordings are brought to {rate:g} "
            f"steps per second; the file has {has}"
        )
    # What has no labels is normal to a detector that was trained without.
    needed = targets and model.preprocessing.horizon is None and (model.needs_labels or target)
    if needed and not (target and set(target) <= set(frame)):
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, target)) or 'of targets'} to compare with; "
            "evaluation needs files that have it"
        )
    return model.channels


def _targets(model: Predictor) -> list[str]:
    return [name for name in model.columns.get("target", "").split("\n") if name]


def _ahead(model: Predictor) -> list[str]:
    """Return what a forecast of inputs is called: the channel, and the horizon if there are more.

    Without names of the channels there is none.
    """
    preprocessing, channels = model.preprocessing, model.channels
    if preprocessing.horizon is None or channels is None:
        return []
    names = [channels[k] for k in preprocessing.predicted_of(channels)]
    if isinstance(preprocessing.horizon, int):
        return names
    return [f"{name}+{h}" for h in preprocessing.horizon for name in names]

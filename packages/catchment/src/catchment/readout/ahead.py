"""What a model of several horizons says of the time after a recording, one row per horizon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from catchment.arrays import Array
from catchment.data.prepare import Prepared
from catchment.data.recording import Recording
from catchment.data.steps import resample
from catchment.readout.answers import Cell, Table, read_for, rounded
from catchment.readout.intervals import WithIntervals
from catchment.readout.predictor import Predictor, interval_around, pieces_of


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes after a raw recording, at each of H horizons.

    Parameters
    ----------
    recording
        Number of the raw recording.
    horizons
        (H,) steps ahead.
    values
        (H, K) of the channels that are predicted.
    lower, upper
        (H, K) ends of the intervals; None where the model does not know its error.
    times
        (H,) seconds as the recording counts them, or steps where it has no times.
    epoch
        What its time 0 is, in seconds since 1 January 1970, where dates are known.
    """

    recording: int
    horizons: tuple[int, ...]
    values: Array
    lower: Array | None
    upper: Array | None
    times: Array
    epoch: float | None = None

    def moments(self) -> list[str]:
        """Return the times as text: dates where they are known, else the numbers."""
        if self.epoch is None:
            return [f"{time:g}" for time in self.times]
        first = datetime(1970, 1, 1) + timedelta(seconds=self.epoch)
        return [(first + timedelta(seconds=float(t))).isoformat() for t in self.times]


def forecasts(
    model: Predictor,
    recordings: Sequence[Recording],
    client: str = "",
    *,
    coverage: float = 0.9,
    device: str | None = None,
) -> list[Forecast]:
    """Return what a model says of the time after each raw recording, from its last step.

    Parameters
    ----------
    model
        Trained with a horizon, or several.
    recordings
        Up to now. Of channels that are known ahead they go on for as many rows as the largest
        horizon, with nothing in the other channels.
    coverage
        Probability that an interval holds the true value.

    >>> from catchment import NVAR, Pipeline, Prepare, fit
    >>> hours = np.arange(500.0)
    >>> load = Recording(np.sin(hours * np.pi / 12), times=3600 * hours, epoch=0.0)
    >>> lags = NVAR(2, order=1, washout=2)
    >>> model = fit(Pipeline(Prepare(horizon=(1, 6)), lags), [load])
    >>> (soon,) = forecasts(model, [load])
    >>> truth = np.sin(np.array([500.0, 505.0]) * np.pi / 12)
    >>> soon.moments(), bool(np.abs(soon.values.ravel() - truth).max() < 0.01)
    (['1970-01-21T20:00:00', '1970-01-22T01:00:00'], True)
    """
    check_ahead(model)
    prepare, K = model.prepare, model.n_outputs // len(model.prepare.horizons)
    for number, recording in enumerate(recordings):
        _check_future(model, recording, number)
    found: dict[int, Forecast] = {}
    for piece, outputs in pieces_of(model, recordings, client, device=device):
        if not len(outputs):
            continue
        ends = _ends(model, outputs[-1:], coverage)
        rows = [one.reshape(len(prepare.horizons), K) for one in (outputs[-1], *ends)]
        lower, upper = (rows[1], rows[2]) if ends else (None, None)
        times = _times(model, piece)
        # The last piece of a recording is the one that ends now.
        found[piece.source] = Forecast(
            piece.source, prepare.horizons, rows[0], lower, upper, times, piece.recording.epoch
        )
    return [found[number] for number in sorted(found)]


def check_ahead(model: Predictor) -> None:
    """Raise ValueError if a model does not look ahead in time."""
    if model.prepare.horizon is None:
        raise ValueError(
            "the model predicts targets, not what comes after a recording; train it with a "
            "horizon, Prepare(horizon=(1, 6, 24))"
        )
    if model.prepare.window is not None and model.prepare.label == "mean":
        raise ValueError(
            'the model predicts means over windows, label="mean", and no single step ahead; train '
            'with label="last"'
        )


@dataclass(frozen=True)
class AheadTable:
    """How the time after files is written: one row per recording and horizon.

    `table` says of which model, at which coverage and for whom.
    """

    table: Table

    def __post_init__(self) -> None:
        check_ahead(self.table.model)

    def header(self) -> list[str]:
        """Return the names of the columns."""
        table = self.table
        ends = ("", "_low", "_high") if table.knows_intervals else ("",)
        who = ["file", *(["client"] if table.names_clients else []), "recording"]
        return [*who, "ahead", "time", *(name + end for name in self._names() for end in ends)]

    def rows(self, path: str | Path) -> Iterator[list[Cell]]:
        """Yield the rows of one file."""
        table = self.table
        for name, recordings in read_for(table.model, path).items():
            client = name if table.client is None else table.client
            try:
                found = forecasts(
                    table.model, recordings, client, coverage=table.coverage, device=table.device
                )
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
            for one in found:
                yield from self._rows(str(path), [name] if table.names_clients else [], one)

    def _rows(self, path: str, who: list[str], one: Forecast) -> Iterator[list[Cell]]:
        columns = [each for each in (one.values, one.lower, one.upper) if each is not None]
        for k, (horizon, moment) in enumerate(zip(one.horizons, one.moments(), strict=True)):
            cells = np.stack([column[k] for column in columns], axis=1).ravel()
            said = [rounded(float(value)) for value in cells]
            yield [path, *who, one.recording, horizon, moment, *said]

    def _names(self) -> list[str]:
        model = self.table.model
        assert model.channels is not None  # `read_for` has refused models without them
        return [model.channels[k] for k in model.prepare.ahead.predicted_of(model.channels)]


def _ends(model: Predictor, outputs: Array, coverage: float) -> tuple[Array, ...]:
    """Return the lower and the upper end (K,) of the interval of one row; nothing if unknown."""
    known = model.intervals if isinstance(model, WithIntervals) else None
    if known is not None:
        return tuple(end[0] for end in known.around(outputs, coverage))
    if model.deviation is None:
        return ()
    return tuple(end[0] for end in interval_around(outputs, model.deviation, coverage))


def _times(model: Predictor, piece: Prepared) -> Array:
    prepare, times = model.prepare, piece.recording.times
    steps = np.array(prepare.horizons, dtype=np.float64)
    if times is None:
        return piece.start + piece.recording.n_steps - 1 + steps
    interval = 1 / prepare.rate if prepare.rate is not None else 0.0
    if not interval and len(times) > 1:
        interval = float(np.median(np.diff(times)))
    return np.asarray(times[-1] + steps * interval)


def _check_future(model: Predictor, recording: Recording, number: int) -> None:
    """Raise ValueError if rows after the last step lack what is known of them."""
    prepare = model.prepare
    if not prepare.known:
        return
    steady = recording if prepare.rate is None else resample(recording, prepare.rate)
    left = steady.n_steps - prepare.ahead.n_present(steady)
    if left < max(prepare.horizons):
        names = ", ".join(map(str, prepare.known))
        raise ValueError(
            f"the model looks at {names} up to {max(prepare.horizons)} steps ahead, and recording "
            f"{number} has {left} rows after its last step; add rows with these and nothing else"
        )

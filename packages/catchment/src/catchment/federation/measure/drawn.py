"""Some of one client's signals with what a model said of them, small enough to be kept and drawn.

Recordings are put one after the other, so that a client with many short ones is seen as well as one
with a single long one. Time begins at 0. Signals are raw; of more points than a picture can show
the least and the largest of each segment are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from catchment.arrays import Array
from catchment.data.preprocessing import Prepared
from catchment.data.recording import Recording
from catchment.readout.answers import output_names
from catchment.readout.detector import Detector
from catchment.readout.predictor import Predictor

MOST_POINTS = 600  # per channel
MOST_SPANS = 300
MOST_RECORDINGS = 12
MOST_LOOKED_AT = 400  # recordings, evenly spread, among which mistakes are looked for
MOST_CHANNELS = 12
ENOUGH_STEPS = 6000  # beyond this, further recordings are not added

Said = str | float


class Segment(NamedTuple):
    """From one time to another: the truth where it is known, and what was predicted.

    >>> Segment(0.0, 2.5, "walk", "run", 0.6).is_wrong
    True
    """

    start: float
    end: float
    truth: Said | None
    predicted: Said
    probability: float | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether it is another class than the true one; of numbers nobody can say that."""
        return isinstance(self.truth, str) and self.truth != self.predicted


@dataclass(frozen=True, eq=False)
class DrawnRecording:
    """Signals (T, I) of one client at times (T,), and segments with truth and prediction.

    Parameters
    ----------
    channels
        I names.
    signals
        Raw values; a row of NaN parts two recordings.
    output
        What the predicted number is called, where it is one.
    unit
        What time is counted in: "second" or "step".
    scores, threshold
        Of a detector: times and scores (n, 2), and the score above which there is an alarm.

    >>> segments = (Segment(0.0, 1.0, "a", "b"),)
    >>> one = DrawnRecording("ann", ("x",), np.arange(2.0), np.zeros((2, 1)), segments)
    >>> DrawnRecording.from_dict(one.to_dict()).segments
    (Segment(start=0.0, end=1.0, truth='a', predicted='b', probability=None),)
    """

    client: str
    channels: tuple[str, ...]
    times: Array
    signals: Array
    segments: tuple[Segment, ...]
    output: str = ""
    unit: str = "step"
    scores: Array = field(default_factory=lambda: np.empty((0, 2)))
    threshold: float | None = None

    @property
    def names_classes(self) -> bool:
        """Whether it is classes that were predicted."""
        return any(isinstance(segment.predicted, str) for segment in self.segments)

    @property
    def n_wrong(self) -> int:
        """Segments whose class is not the true one."""
        return sum(segment.is_wrong for segment in self.segments)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it: numbers of seven digits, None for missing ones."""
        named = {"segments": "spans"}  # as files of the first release have them
        told = {
            named.get(one.name, one.name): _plain(getattr(self, one.name)) for one in fields(self)
        }
        return told if self.threshold is not None else {**told, "scores": []}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> DrawnRecording:
        """Return what `to_dict` made a dictionary of."""
        channels = tuple(map(str, found["channels"]))
        return cls(
            str(found["client"]),
            channels,
            np.array(found["times"], dtype=np.float64),
            np.array(found["signals"], dtype=np.float64).reshape(-1, len(channels)),
            tuple(Segment(float(start), float(end), *rest) for start, end, *rest in found["spans"]),
            str(found.get("output", "")),
            str(found.get("unit", "step")),
            np.array(found.get("scores", []), dtype=np.float64).reshape(-1, 2),
            found.get("threshold"),
        )


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    match value:
        case np.ndarray():
            return _plain(value.tolist())
        case list() | tuple():
            return [_plain(one) for one in value]
        case float():
            return float(f"{value:.7g}") if math.isfinite(value) else None
    return value


def draw(
    model: Predictor,
    recordings: Sequence[Recording],
    client: str = "",
    *,
    output: int = 0,
    channels: Sequence[str] | None = None,
) -> DrawnRecording:
    """Return some of a client's raw recordings with what a model says of them.

    Parameters
    ----------
    recordings
        All of the client's, since some scales are of all of them. About a dozen are drawn, evenly
        spread, or fewer where they are long; up to half are ones with a mistake.
    client
        Whose they are, and whose part of the model is used.
    output
        Which number is drawn where several are predicted.
    channels
        What the channels are called, where neither recordings nor model know it.

    >>> from catchment import EchoState, Recording, fit
    >>> waves = [np.sin(np.arange(60) / (3 + k % 2)) for k in range(10)]
    >>> data = [Recording.labeled(u, k % 2, ("fast", "slow")) for k, u in enumerate(waves)]
    >>> drawn = draw(fit(EchoState(30), data), data[:3], "ann")
    >>> [(segment.start, segment.end, segment.truth) for segment in drawn.segments]
    [(0.0, 60.0, 'fast'), (61.0, 121.0, 'slow'), (122.0, 182.0, 'fast')]
    """
    raw = list(recordings)
    if not raw:
        raise ValueError("there are no recordings to draw; pass at least one")
    looked_at = _spread(range(len(raw)), MOST_LOOKED_AT)
    unit = "second" if all(raw[k].times is not None for k in looked_at) else "step"
    segments, points = _said(model, raw, client, set(looked_at), unit, output)
    chosen = _chosen(raw, looked_at, segments)
    starts, times, signals = _joined([raw[k] for k in chosen], unit)
    moved = [
        segment._replace(start=start + segment.start, end=start + segment.end)
        for k, start in zip(chosen, starts, strict=True)
        for segment in segments.get(k, ())
    ][:MOST_SPANS]
    if moved:
        kept = times <= moved[-1].end
        times, signals = times[kept], signals[kept]
    times, signals = thinned(times, signals[:, :MOST_CHANNELS])
    names = raw[0].channels or model.channels or tuple(channels or ())
    names = names or tuple(f"channel {k + 1}" for k in range(raw[0].n_inputs))
    named = "" if model.classes is not None else output_names(model)[output]
    drawn = DrawnRecording(client, names[:MOST_CHANNELS], times, signals, tuple(moved), named, unit)
    if not isinstance(model, Detector):
        return drawn
    begins = zip(chosen, starts, strict=True)
    every = [(start + end, score) for k, start in begins for end, score in points.get(k, ())]
    found = np.array(every).reshape(-1, 2)
    scores = np.column_stack(thinned(found[:, 0], found[:, 1:]))
    return replace(drawn, scores=scores, threshold=model.threshold)


def thinned(times: Array, signals: Array, most: int = MOST_POINTS) -> tuple[Array, Array]:
    """Return at most about this many times (T,) and signals (T, I) that look as all of them do.

    Of each segment the least and the largest value of every channel stay, in their order.

    >>> times, signals = thinned(np.arange(10_000.0), np.eye(10_000)[:, [77]], 100)
    >>> len(times) <= 100, signals.max()
    (True, np.float64(1.0))
    """
    if len(times) <= most:
        return times, signals
    edges = np.linspace(0, len(times), most // 2 + 1).astype(int)
    rows = []
    for start, stop in pairwise(edges):
        part = signals[start:stop]
        # A segment with a break in it is a break: the line must not lead over it.
        broken = np.isnan(part).all(axis=1).any()
        lost = np.full(part.shape[1], np.nan)
        low = lost if broken else np.min(np.nan_to_num(part, nan=np.inf), axis=0)
        high = lost if broken else np.max(np.nan_to_num(part, nan=-np.inf), axis=0)
        low, high = (np.where(np.isfinite(one), one, np.nan) for one in (low, high))
        first = np.nan_to_num(part[-1] - part[0]) >= 0
        rows += [np.where(first, low, high), np.where(first, high, low)]
    middles = (edges[:-1] + edges[1:]) // 2
    return times[np.stack([edges[:-1], middles], axis=1).ravel()], np.array(rows)


def _spread(numbers: Sequence[int], n: int) -> list[int]:
    """Return at most n of these, evenly spread.

    >>> _spread(range(10), 3)
    [0, 4, 9]
    """
    places = np.linspace(0, len(numbers) - 1, min(n, len(numbers))).round().astype(int)
    return [numbers[k] for k in places]


def _chosen(
    raw: Sequence[Recording], looked_at: Sequence[int], segments: Mapping[int, Sequence[Segment]]
) -> list[int]:
    """Return which recordings are drawn: fewer where they are long, up to half with a mistake."""
    length = int(np.median([raw[k].n_steps for k in looked_at]))
    least = 1 if any(raw[k].per_step for k in looked_at) else 3
    n = max(least, min(MOST_RECORDINGS, ENOUGH_STEPS // max(1, length)))
    wrong = [k for k in looked_at if any(segment.is_wrong for segment in segments.get(k, ()))]
    first = _spread(wrong, max(1, n // 2)) if wrong else []
    others = [k for k in looked_at if k not in wrong]
    chosen = [*first, *(_spread(others, n - len(first)) if others else [])]
    rest = [k for k in wrong if k not in first]
    return sorted([*chosen, *_spread(rest, n - len(chosen))] if rest else chosen)


def _joined(recordings: Sequence[Recording], unit: str) -> tuple[list[float], Array, Array]:
    """Return where each recording starts, the times and the signals of all, parted by NaN."""
    starts: list[float] = []
    times: list[Array] = []
    signals: list[Array] = []
    now = 0.0
    for one in recordings:
        own = _times(one, unit)
        interval = float(np.median(np.diff(own))) if len(own) > 1 else 1.0
        starts.append(now)
        times += [now + own, np.array([now + own[-1] + interval])]
        signals += [one.u, np.full((1, one.n_inputs), np.nan)]
        now += float(own[-1]) + 2 * interval
    return starts, np.concatenate(times)[:-1], np.concatenate(signals)[:-1]


def _times(recording: Recording, unit: str) -> Array:
    """Return the times of a recording, from 0 on."""
    if unit == "step" or recording.times is None:
        return np.arange(float(recording.n_steps))
    times: Array = recording.times - recording.times[0]
    return times


def _said(
    model: Predictor,
    raw: list[Recording],
    client: str,
    chosen: Set[int],
    unit: str,
    output: int,
) -> tuple[dict[int, list[Segment]], dict[int, list[tuple[float, float]]]]:
    """Return what the model says of chosen recordings, by their number; each begins at 0.

    Beside it, of a detector, are its scores, each with the end of its row.
    """
    # Prepared twice: once with their targets, once with their places. Both cut the same pieces.
    every = zip(model.preprocessing.inputs(raw), model.preprocessing.apply(raw), strict=True)
    pieces = [(piece, whole) for piece, whole in every if piece.source in chosen]
    outputs = model.outputs_of([whole for _, whole in pieces], client)
    found: dict[int, list[Segment]] = {}
    scores: dict[int, list[tuple[float, float]]] = {}
    for (piece, whole), rows in zip(pieces, outputs, strict=True):
        begin = raw[piece.source].times
        first = 0.0 if unit == "step" or begin is None else float(begin[0])
        places, truths = _places(piece, len(rows), model, unit), _truths(whole, model, len(rows))
        for (start, end), row, y in zip(places, rows, truths, strict=True):
            segment = Segment(start - first, end - first, *_said_of(model, output, row, y))
            _add(found.setdefault(piece.source, []), segment)
            if isinstance(model, Detector):
                score = model.judged(row)[0]
                scores.setdefault(piece.source, []).append((end - first, score))
    return found, scores


def _places(piece: Prepared, n_rows: int, model: Predictor, unit: str) -> list[tuple[float, float]]:
    """Return from when to when each row of a piece is, as its raw recording counts time."""
    times = piece.recording.times
    if unit == "step" or times is None:
        times = piece.start + np.arange(float(piece.recording.n_steps))
    interval = float(np.median(np.diff(times))) if len(times) > 1 else 1.0
    ends = np.append(times[1:], times[-1] + interval)
    if not model.per_step:
        return [(float(times[0]), float(ends[-1]))] * n_rows
    first = len(times) - n_rows
    return [(float(a), float(b)) for a, b in zip(times[first:], ends[first:], strict=True)]


def _truths(whole: Recording, model: Predictor, n_rows: int) -> Sequence[Array | None]:
    """Return the target (K,) of each row, None where there is none."""
    if whole.y is None:
        return [None] * n_rows
    y = (whole if model.classes is None else whole.among(model.classes)).y
    assert y is not None
    rows = y[len(y) - n_rows :] if y.ndim == 2 else [y] * n_rows
    return [None if np.isnan(row).any() else row for row in rows]


def _said_of(
    model: Predictor, output: int, row: Array, y: Array | None
) -> tuple[Said | None, Said, float | None]:
    """Return the truth, the prediction and its probability."""
    if model.classes is None:
        return None if y is None else float(y[output]), float(row[output]), None
    best = int(row.argmax())
    truth = None if y is None else model.classes[int(y.argmax())]
    return truth, model.classes[best], float(model.probabilities(row[None])[0, best])


def _add(found: list[Segment], segment: Segment) -> None:
    """Add a segment; one that overlaps the next ends there, and one that goes on is one."""
    if found and found[-1].end > segment.start:
        found[-1] = found[-1]._replace(end=segment.start)
    last = found[-1] if found else segment
    alike = (last.truth, last.predicted) == (segment.truth, segment.predicted)
    follows = math.isclose(last.end, segment.start, abs_tol=1e-9)
    if found and alike and follows and isinstance(segment.predicted, str):
        lengths = (last.end - last.start, segment.end - segment.start)
        mean = np.average([last.probability or 0, segment.probability or 0], weights=lengths)
        found[-1] = last._replace(end=segment.end, probability=float(mean))
    else:
        found.append(segment)
